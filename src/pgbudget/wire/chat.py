"""The dialect of ``/v1/chat/completions``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pgbudget.errors import InvalidRequest
from pgbudget.wire import strict_json
from pgbudget.wire.bounds import input_bound
from pgbudget.wire.dialect import CannotTurnOff, Dialect, Meter, ModelRequest, check_body, count, dumps, flag, text_bytes
from pgbudget.wire.providers import Provider
from pgbudget.wire.sse import Event
from pgbudget.wire.usage import charge_kinds, is_empty, merge

_MAX_CHOICES = 128
# Models and paid extras beside the one that was priced.
_UNPRICED = ("models", "route", "provider", "plugins", "transforms", "search_parameters")
_TIERS = (None, "auto", "default")
# What no body of this dialect can ask for.
_NEVER_ASKED = frozenset({"file_search", "code_execution", "audio_seconds", "pages"})
# What is in the messages themselves: without it they are not what was asked.
_IN_MESSAGES = frozenset({"image_in", "audio_in"})


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
        stream = flag(body, "stream")
        options = body.get("stream_options")
        if options is not None and not isinstance(options, dict):
            raise InvalidRequest("stream_options must be an object", "stream_options")
        if body.get("service_tier") not in _TIERS:
            raise InvalidRequest("service_tier must be auto or default: other tiers have prices of their own", "service_tier")
        bound = input_bound(body)
        features = bound.features
        searches = _searches(body["model"])
        modalities = body.get("modalities")
        if isinstance(modalities, list) and "audio" in modalities:
            features.add("audio_out")
        if "web_search_options" in body or searches:
            # What a search finds comes back as input: no bound but the context window.
            features.add("web_search")
            bound.unbounded()
        return ModelRequest(
            body=body,
            model=body["model"],
            cap=next(iter(given), None),
            choices=count(body, "n", _MAX_CHOICES) or 1,
            stream=stream,
            usage_asked=bool(options and options.get("include_usage") is True),
            input_tokens=bound.tokens,
            features=tuple(sorted(features)),
            input_bounds=bound.estimates(),
            searches=searches,
        )

    def as_granted(self, request: ModelRequest, upstream_model: str, changes: dict[str, Any]) -> ModelRequest:
        """See :class:`Dialect`."""
        searches = _searches(changes.get("model") or request.model) or _searches(upstream_model)
        return super().as_granted(replace(request, searches=searches), upstream_model, changes)

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
        elif feature in request.features or feature not in _NEVER_ASKED | _IN_MESSAGES:
            raise CannotTurnOff(feature)

    def rewrite(self, request: ModelRequest, provider: Provider, upstream_model: str, cap: int) -> bytes:
        """See :class:`Dialect`."""
        body = dict(request.body)
        body["model"] = upstream_model
        body.pop("max_tokens", None)
        body.pop("max_completion_tokens", None)
        body[provider.cap_field] = cap
        if request.stream:
            body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
        return strict_json.dumps(body)

    def meter(self, request: ModelRequest, provider: Provider) -> Meter:
        """See :class:`Dialect`."""
        return ChatMeter(request, provider)


class ChatMeter(Meter):
    """Watches chat completions."""

    usage: dict[str, Any] | None = None

    @property
    def rewrites(self) -> bool:
        """Usage that the client did not ask for is taken out of the stream."""
        return self.request.stream and not self.request.usage_asked

    def answer(self, answer: dict[str, Any]) -> None:
        """See :class:`Meter`."""
        self.event(b"", answer)
        self.finished = isinstance(answer.get("choices"), list) and not self.failed

    def event(self, name: bytes, data: dict[str, Any]) -> None:
        """See :class:`Meter`."""
        self.usage = merge(self.usage, data.get("usage"))
        groq = data.get("x_groq")
        if isinstance(groq, dict):
            self.usage = merge(self.usage, groq.get("usage"))
        if data.get("error") or name == b"error":
            self.fail(data.get("error") or data)
        self.name("response_model", data.get("model"))
        self.name("provider_request_id", data.get("id"))
        choices = data.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            if choice.get("finish_reason"):
                self.done()
            message = choice.get("delta") or choice.get("message")
            if isinstance(message, dict):
                self.output_bytes += text_bytes({k: v for k, v in message.items() if k not in ("role", "annotations")})

    def passed_on(self, event: Event, data: dict[str, Any]) -> bytes:
        """See :class:`Meter`."""
        if "usage" not in data:
            return event.raw
        usage = data.pop("usage")
        if usage and data.get("choices") == []:
            return b""
        return b"data: " + dumps(data) + b"\n\n"

    def kinds(self) -> dict[str, Any] | None:
        """See :class:`Meter`."""
        if is_empty(self.usage):
            return None
        assert self.usage is not None
        kinds = charge_kinds(self.usage)
        if self.request.searches:
            kinds.setdefault("web_search", 1)
        return kinds


def _is_function(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") in ("function", "custom")


def _searches(model: str) -> bool:
    return model.endswith("-search-preview")
