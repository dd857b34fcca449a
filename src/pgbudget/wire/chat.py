"""The dialect of ``/v1/chat/completions``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from pgbudget.errors import InvalidRequest
from pgbudget.wire import strict_json
from pgbudget.wire.bounds import AUDIO_BYTES_PER_TOKEN, InputBound, input_bound
from pgbudget.wire.dialect import (
    CannotTurnOff,
    Dialect,
    Meter,
    ModelRequest,
    check_body,
    count,
    flag,
    service_tier,
    text_bytes,
)
from pgbudget.wire.openai_api import NEVER_ASKED, UNPRICED, OpenAIMeter, ask_usage, usage_asked
from pgbudget.wire.prompt_cache import CACHE_WRITES, cache_writes, turn_off_cache
from pgbudget.wire.providers import Provider

_MAX_CHOICES = 128
# vLLM: more choices than are shown.
_UNPRICED = (*UNPRICED, "best_of")
# What is in the messages themselves: without it they are not what was asked.
_IN_MESSAGES = frozenset({"image_in", "audio_in"})
# With these more is generated, and billed, than the stream shows: thinking that is summed up or kept back, predictions that
# were not taken.
_UNSEEN = ("prediction", "reasoning", "reasoning_effort", "reasoning_format", "thinking", "audio", "web_search_options")
# Models that search for every request, by a part of their names.
_SEARCHING = re.compile("-search-preview|-search-api|:online|sonar-deep-research")
# Perplexity's models that search for every request too, for a fee a request: whether its size depends on the search's.
_FEES = {"sonar": True, "sonar-reasoning": True, "sonar-pro": False, "sonar-reasoning-pro": False}
#: What of a message is not generated, or counts apart.
_NOT_OUTPUT = ("id", "type", "index", "role", "annotations", "audio")
#: OpenRouter takes cache_control in messages, for models of Anthropic's.
_FOR_AN_HOUR = "cache_write_1h"
_SIZES = ("low", "medium", "high")


class Chat(Dialect):
    """OpenAI's chat completions, and those of the many providers that speak it."""

    path = "/chat/completions"
    api = "openai"

    def read(self, body: dict[str, Any]) -> ModelRequest:
        """See :class:`Dialect`."""
        check_body(body, _UNPRICED)
        if not isinstance(body.get("messages"), list):
            raise InvalidRequest("messages must be an array", "messages")
        caps = {n: count(body, n) for n in ("max_completion_tokens", "max_tokens")}
        given = {cap for cap in caps.values() if cap is not None}
        if len(given) > 1:
            raise InvalidRequest("max_tokens and max_completion_tokens differ; give one of them", "max_completion_tokens")
        _check_tools(body)
        bound = input_bound(body)
        _ask_features(body, bound)
        return ModelRequest(
            body=body,
            model=body["model"],
            cap=next(iter(given), None),
            choices=count(body, "n", _MAX_CHOICES) or 1,
            stream=flag(body, "stream"),
            usage_asked=usage_asked(body),
            input_tokens=bound.tokens,
            features=tuple(sorted(bound.features)),
            input_bounds=bound.estimates(),
            text_tokens=bound.text,
            service_tier=service_tier(body),
            searches=_searches(body["model"]),
            unbounded=bound.unbounded,
            fee=_fee(body["model"], body),
        )

    def as_granted(self, request: ModelRequest, upstream_model: str, changes: dict[str, Any]) -> ModelRequest:
        """See :class:`Dialect`."""
        model = changes.get("model") or request.model
        searches = _searches(model) or _searches(upstream_model)
        fee = _fee(upstream_model, request.body) or _fee(model, request.body)
        if (searches, fee) != (request.searches, request.fee):
            request = replace(request, searches=searches, fee=fee)
        return super().as_granted(request, upstream_model, changes)

    def grows(self, request: ModelRequest) -> bool:
        """See :class:`Dialect`."""
        seen = not any(request.body.get(n) for n in _UNSEEN)
        return request.stream and seen and set(request.features) <= _IN_MESSAGES | {_FOR_AN_HOUR}

    def turn_off(self, feature: str, request: ModelRequest, body: dict[str, Any]) -> None:
        """See :class:`Dialect`."""
        if feature == "web_search":
            tools = body.get("tools") or []
            # A tool that is no function of the caller's may be a search of the provider's.
            if request.searches or not (isinstance(tools, list) and all(map(_is_function, tools))):
                raise CannotTurnOff(feature)
            body.pop("web_search_options", None)
        elif feature == "audio_out":
            if "audio_out" in request.features:
                body["modalities"] = [m for m in body["modalities"] if m != "audio"] or ["text"]
                body.pop("audio", None)
        elif feature in CACHE_WRITES:
            turn_off_cache(body, feature)
        elif feature in request.features or feature not in NEVER_ASKED | _IN_MESSAGES:
            raise CannotTurnOff(feature)

    def rewrite(self, request: ModelRequest, provider: Provider, upstream_model: str, cap: int) -> bytes:
        """See :class:`Dialect`."""
        body = dict(request.body)
        body["model"] = upstream_model
        body.pop("max_tokens", None)
        body.pop("max_completion_tokens", None)
        # Where there is a prediction the newer name is not taken.
        body["max_tokens" if body.get("prediction") else provider.cap_field] = cap
        ask_usage(body, request, provider)
        return strict_json.dumps(body)

    def meter(self, request: ModelRequest, provider: Provider) -> Meter:
        """See :class:`Dialect`."""
        return ChatMeter(request, provider)


class ChatMeter(OpenAIMeter):
    """Watches chat completions."""

    sound_bytes = 0

    def __init__(self, request: ModelRequest, provider: Provider) -> None:
        super().__init__(request, provider)
        #: By what the calls of each choice were named.
        self._calls: set[tuple[Any, ...]] = set()

    def choice(self, choice: dict[str, Any]) -> None:
        """See :class:`OpenAIMeter`."""
        message = choice.get("delta") or choice.get("message")
        if not isinstance(message, dict):
            return
        said = {name: value for name, value in message.items() if value and name not in _NOT_OUTPUT}
        self.output_bytes += text_bytes(list(said.values()))
        if len(said) == 1 and isinstance(text := next(iter(said.values())), str):
            self.text = text
        calls = said.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            self._call(choice.get("index"), call)
        if message.get("function_call"):
            self._call(choice.get("index"), {"index": "function_call"})
        sound = message.get("audio")
        if isinstance(sound, dict):
            size = text_bytes(sound.get("data")) * 3 // 4
            self.sound_bytes += size
            # Sound alone is output, too.
            self.output_bytes += text_bytes(sound.get("transcript")) + bool(size)

    def _call(self, choice: Any, call: Any) -> None:
        """A call of a tool, or a piece of one: the first has an id, and what goes on has its place."""
        if isinstance(call, dict):
            names = [(str(choice), str(call[name])) for name in ("id", "index") if call.get(name) is not None]
            if not names or names[0] not in self._calls:
                self.tool_calls += 1
            self._calls.update(names)

    def bound(self) -> dict[str, Any]:
        """See :class:`Meter`."""
        kinds = super().bound()
        if self.sound_bytes:
            kinds["audio_out"] = self.sound_bytes // AUDIO_BYTES_PER_TOKEN + 1
        if self.request.fee:
            kinds[self.request.fee] = 1
        return kinds

    def kinds(self) -> dict[str, Any] | None:
        """See :class:`Meter`."""
        kinds = super().kinds()
        if kinds is None or self.usage is None:
            return None
        if _FOR_AN_HOUR in self.request.features and "cache_write" in kinds:
            # Usage does not say for how long each was written.
            kinds[_FOR_AN_HOUR] = kinds.pop("cache_write")
        if self.request.searches:
            kinds.setdefault("web_search", 1)
        if fee := self.request.fee:
            size = self.usage.get("search_context_size")
            kinds[f"request_{size}" if fee != "request" and size in _SIZES else fee] = 1
        return kinds


def _ask_features(body: dict[str, Any], bound: InputBound) -> None:
    """What a body asks for that has a price of its own, beside what its messages carry."""
    modalities = body.get("modalities")
    for modality, feature in (("audio", "audio_out"), ("image", "image_out")):
        if isinstance(modalities, list) and modality in modalities:
            bound.features.add(feature)
    # The default is what lists call cache_write, which needs not be asked for.
    bound.features |= cache_writes(body) & {_FOR_AN_HOUR}
    fee = _fee(body["model"], body)
    if fee is not None:
        # What is found is not billed as input there.
        bound.features |= {fee} - {"request"}
    elif "web_search_options" in body or _searches(body["model"]):
        # What a search finds comes back as input: no bound but the context window.
        bound.features.add("web_search")
        bound.unbind("web_search_options" if "web_search_options" in body else "model")
    extra = body.get("extra_body")
    if extra is not None and not _only_thinks(extra):
        raise InvalidRequest(
            "extra_body may have google.thinking_config only: the rest can change what a call costs", "extra_body"
        )


def _check_tools(body: dict[str, Any]) -> None:
    tools = body.get("tools")
    for place, tool in enumerate(tools if isinstance(tools, list) else ()):
        if isinstance(tool, dict) and isinstance(tool.get("type"), str) and not _is_function(tool):
            raise InvalidRequest(
                "only tools of type function or custom are accepted on this route: what a tool of the provider's costs has no "
                "bound here",
                f"tools[{place}].type",
            )


def _is_function(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") in ("function", "custom")


def _only_thinks(extra: Any) -> bool:
    google = extra.get("google") if isinstance(extra, dict) else None
    return isinstance(google, dict) and set(extra) == {"google"} and set(google) <= {"thinking_config"}


def _searches(model: str) -> bool:
    return _SEARCHING.search(model) is not None


def _fee(model: str, body: dict[str, Any]) -> str | None:
    """The charge kind of the fee that a model has for every request."""
    sized = _FEES.get(model)
    if sized is None:
        return None
    options = body.get("web_search_options")
    size = options.get("search_context_size") if isinstance(options, dict) else None
    return f"request_{size if size in _SIZES else 'low'}" if sized else "request"
