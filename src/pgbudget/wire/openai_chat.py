"""The dialect of ``/v1/chat/completions``: read the request, rewrite it, meter the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from pgbudget.errors import InvalidRequest
from pgbudget.wire import strict_json
from pgbudget.wire.bounds import input_bound
from pgbudget.wire.providers import provider
from pgbudget.wire.sse import Event, EventParser
from pgbudget.wire.usage import charge_kinds, is_empty, merge

PATH = "/chat/completions"

_MAX_CAP = 2**63 - 1
_MAX_CHOICES = 128
# A body must not choose where it goes or with which key.
_FORBIDDEN = ("api_key", "api_base", "base_url", "api_version", "organization", "extra_headers")
# Nor which models or paid extras beside the one that was priced.
_UNPRICED = ("models", "route", "provider", "plugins", "transforms", "search_parameters")
_TIERS = (None, "auto", "default")
# What no body of this dialect can ask for.
_NEVER_ASKED = frozenset({"file_search", "code_execution", "audio_seconds", "pages"})
# What is in the messages themselves: without it they are not what was asked.
_IN_MESSAGES = frozenset({"image_in", "audio_in"})


class CannotTurnOff(Exception):
    """A feature that a grant leaves out cannot be taken out of this request; the message is its name."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What admission needs to know of a request. ``cap``: output tokens for each of ``choices``, None if not given.

    ``input_bounds``: estimates beside the bound, for keys that go by one. ``searches``: the model does so by itself.
    """

    body: dict[str, Any]
    model: str
    cap: int | None
    choices: int
    stream: bool
    usage_asked: bool
    input_tokens: int
    features: tuple[str, ...]
    input_bounds: dict[str, int]
    searches: bool


def read(body: Any) -> ChatRequest:
    """Read a parsed body; raises :class:`InvalidRequest` that names the field."""
    if not isinstance(body, dict):
        raise InvalidRequest("the body must be a JSON object")
    for name in _FORBIDDEN:
        if name in body:
            raise InvalidRequest(f"{name} is not accepted: keys and hosts are the gateway's", name)
    for name in _UNPRICED:
        if name in body:
            raise InvalidRequest(f"{name} is not accepted: it can change what the call costs", name)
    model = body.get("model")
    if not isinstance(model, str) or not 1 <= len(model) <= 200 or not model.isprintable():
        raise InvalidRequest("model must be a name of 1 to 200 printable characters", "model")
    if not isinstance(body.get("messages"), list):
        raise InvalidRequest("messages must be an array", "messages")
    caps = {n: _count(body, n, _MAX_CAP) for n in ("max_completion_tokens", "max_tokens")}
    given = {cap for cap in caps.values() if cap is not None}
    if len(given) > 1:
        raise InvalidRequest("max_tokens and max_completion_tokens differ; give one of them", "max_completion_tokens")
    stream = body.get("stream")
    if stream not in (None, True, False) or (isinstance(stream, int) and not isinstance(stream, bool)):
        raise InvalidRequest("stream must be true or false", "stream")
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise InvalidRequest("stream_options must be an object", "stream_options")
    if body.get("service_tier") not in _TIERS:
        raise InvalidRequest("service_tier must be auto or default: other tiers have prices of their own", "service_tier")
    bound = input_bound(body)
    features = bound.features
    searches = _searches(model)
    modalities = body.get("modalities")
    if isinstance(modalities, list) and "audio" in modalities:
        features.add("audio_out")
    if "web_search_options" in body or searches:
        # What a search finds comes back as input: no bound but the context window.
        features.add("web_search")
        bound.unbounded()
    return ChatRequest(
        body=body,
        model=model,
        cap=next(iter(given), None),
        choices=_count(body, "n", _MAX_CHOICES) or 1,
        stream=bool(stream),
        usage_asked=bool(options and options.get("include_usage") is True),
        input_tokens=bound.tokens,
        features=tuple(sorted(features)),
        input_bounds=bound.estimates(),
        searches=searches,
    )


def as_granted(request: ChatRequest, upstream_model: str, changes: dict[str, Any]) -> ChatRequest:
    """The request as a rung of a ladder has it: another model, and without the features that the hold does not pay for.

    ``changes``: see ``budget.reserve_result``. Raises :class:`CannotTurnOff`; such a request must not be sent.
    """
    searches = _searches(changes.get("model") or request.model) or _searches(upstream_model)
    off = changes.get("features_off") or []
    if not off and searches == request.searches:
        return request
    body = dict(request.body)
    for feature in off:
        _turn_off(feature, request, body, searches)
    return replace(request, body=body, features=tuple(f for f in request.features if f not in off), searches=searches)


def _turn_off(feature: str, request: ChatRequest, body: dict[str, Any], searches: bool) -> None:
    if feature == "web_search":
        tools = body.get("tools") or []
        # A tool that is no function of the caller's may be a search of the provider's.
        if searches or not (isinstance(tools, list) and all(map(_is_function, tools))):
            raise CannotTurnOff(feature)
        body.pop("web_search_options", None)
    elif feature == "audio_out":
        if "audio_out" in request.features:
            body["modalities"] = [m for m in body["modalities"] if m != "audio"] or ["text"]
            body.pop("audio", None)
    elif feature in request.features or feature not in _NEVER_ASKED | _IN_MESSAGES:
        raise CannotTurnOff(feature)


def _is_function(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") in ("function", "custom")


def rewrite(request: ChatRequest, provider_name: str, upstream_model: str, cap: int) -> bytes:
    """The body that is forwarded: routed model, the cap that was priced, usage reporting on."""
    body = dict(request.body)
    body["model"] = upstream_model
    body.pop("max_tokens", None)
    body.pop("max_completion_tokens", None)
    body[provider(provider_name).cap_field] = cap
    if request.stream:
        body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
    return strict_json.dumps(body)


class Meter:
    """Watches an answer go by: its usage, its text, its errors. Feed it a JSON body or a stream, not both."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._parser = EventParser()
        self.usage: dict[str, Any] | None = None
        self.output_bytes = 0
        self.finished = False
        self.failed = False
        self.note: dict[str, str] = {}

    @property
    def hides_usage(self) -> bool:
        """Whether usage that the client did not ask for must be taken out of the stream."""
        return self._request.stream and not self._request.usage_asked

    def whole(self, body: bytes) -> bool:
        """Meter a body that is not streamed; returns whether it could be read."""
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            return False
        if not isinstance(answer, dict):
            return False
        self._object(answer)
        self.finished = isinstance(answer.get("choices"), list) and not self.failed
        return self.finished or self.failed

    def stream(self, chunk: bytes) -> bytes:
        """Meter bytes of a stream; returns the bytes to send on."""
        events = self._parser.feed(chunk)
        if not self.hides_usage:
            for event in events:
                self._event(event)
            return chunk
        return b"".join([self._event(event) for event in events])

    def close(self) -> bytes:
        """The end of the stream; returns what is left to send on."""
        rest = b"".join([self._event(event) for event in self._parser.close()])
        return rest if self.hides_usage else b""

    def kinds(self) -> dict[str, Any] | None:
        """The usage reported, by charge kind; None when there is none."""
        if is_empty(self.usage):
            return None
        assert self.usage is not None
        kinds = charge_kinds(self.usage)
        if self._request.searches:
            kinds.setdefault("web_search", 1)
        return kinds

    def bound(self) -> dict[str, Any]:
        """What was seen, as a bound: the whole input, and a token for each byte of text."""
        kinds = {"input": self._request.input_tokens, "output": self.output_bytes}
        if "web_search" in self._request.features:
            kinds["web_search"] = 1
        return kinds

    def _event(self, event: Event) -> bytes:
        if event.oversized:
            self.output_bytes += len(event.raw)
            return event.raw
        if event.data is None:
            return event.raw
        if event.data == b"[DONE]":
            self.finished = not self.failed
            return event.raw
        try:
            chunk = json.loads(event.data)
        except (ValueError, RecursionError):
            self.output_bytes += len(event.data)
            return event.raw
        if not isinstance(chunk, dict):
            return event.raw
        self._object(chunk)
        if event.name == b"error":
            self.failed = True
        if self.hides_usage and "usage" in chunk:
            usage = chunk.pop("usage")
            if usage and chunk.get("choices") == []:
                return b""
            return b"data: " + _dumps(chunk) + b"\n\n"
        return event.raw

    def _object(self, answer: dict[str, Any]) -> None:
        self.usage = merge(self.usage, answer.get("usage"))
        groq = answer.get("x_groq")
        if isinstance(groq, dict):
            self.usage = merge(self.usage, groq.get("usage"))
        if answer.get("error"):
            self.failed = True
            self.note["error"] = json.dumps(answer["error"])[:200]
        for name, field in (("response_model", "model"), ("provider_request_id", "id")):
            if isinstance(answer.get(field), str):
                # Kept short and harmless: the database takes neither NUL nor half a surrogate pair.
                self.note.setdefault(name, answer[field][:200].encode("ascii", "replace").decode().replace("\0", "?"))
        choices = answer.get("choices")
        if not isinstance(choices, list):
            return
        for choice in choices:
            if not isinstance(choice, dict):
                continue
            if choice.get("finish_reason"):
                self.finished = not self.failed
            message = choice.get("delta") or choice.get("message")
            if isinstance(message, dict):
                self.output_bytes += _text_bytes({k: v for k, v in message.items() if k not in ("role", "annotations")})


def _dumps(chunk: dict[str, Any]) -> bytes:
    """A provider's chunk as JSON, whatever it is made of: what came in as escapes goes out as escapes."""
    try:
        return strict_json.dumps(chunk)
    except ValueError:
        return json.dumps(chunk, separators=(",", ":")).encode("ascii")


def _text_bytes(value: Any) -> int:
    """Bytes of all text in a message: content, reasoning, refusals, names and arguments of tool calls."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, dict):
        return sum(_text_bytes(v) for k, v in value.items() if k not in ("id", "type", "index"))
    if isinstance(value, list):
        return sum(_text_bytes(v) for v in value)
    return 0


def _count(body: dict[str, Any], name: str, most: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not int or not 1 <= value <= most:
        raise InvalidRequest(f"{name} must be a whole number from 1 to {most}", name)
    return value


def _searches(model: str) -> bool:
    return model.endswith("-search-preview")
