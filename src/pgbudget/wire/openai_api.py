"""What the dialects of OpenAI's older routes share: chat, completions and embeddings ask for usage and report it in one way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from pgbudget.errors import InvalidRequest
from pgbudget.wire.dialect import Meter, ModelRequest, dumps
from pgbudget.wire.providers import Provider
from pgbudget.wire.sse import Event
from pgbudget.wire.usage import charge_kinds, is_empty, merge

#: Fields that change what a call costs in a way that is not priced. OpenRouter: other models and providers, plug-ins that
#: search and read files, presets of all these. xAI: searches, and answers that are fetched later. Azure: data that is searched
#: for. Groq: tools of its compound models. Gemini: a cache that is input too. Together: a model that checks the answer. vLLM:
#: more choices than are shown.
UNPRICED = (
    "models", "route", "provider", "plugins", "transforms", "preset", "search_parameters", "deferred", "data_sources",
    "compound_custom", "cached_content", "safety_model",
)  # fmt: skip
#: Features that can be asked for in no body of these APIs.
NEVER_ASKED = frozenset({"file_search", "code_execution", "audio_seconds", "pages"})

#: What every chunk but the last carries where usage was asked for. Not in a string: its quotes would have backslashes.
_NO_USAGE = re.compile(rb',\s*"usage"\s*:\s*null')
#: What all chunks of a stream have in common.
_HEAD = ("id", "object", "created", "model", "system_fingerprint")


class OpenAIMeter(Meter):
    """Watches answers that carry ``usage`` and ``choices``."""

    usage: dict[str, Any] | None = None
    #: The rest of a choice that only ends.
    nothing: ClassVar[Mapping[str, Any]] = {"delta": {}}

    def __init__(self, request: ModelRequest, provider: Provider) -> None:
        super().__init__(request, provider)
        self._head: dict[str, Any] = {}
        self._ended: set[int] = set()

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
        if usage := data.get("usage"):
            self.used(usage)
        groq = data.get("x_groq")
        if isinstance(groq, dict):
            self.used(groq.get("usage"))
        if tier := data.get("service_tier"):
            self.tier(tier)
        if data.get("error") or name == b"error":
            self.fail(data.get("error") or data)
        self.name("response_model", data.get("model"))
        self.name("provider_request_id", data.get("id"))
        choices = data.get("choices")
        if choices and not self._head:
            self._head = {name: data[name] for name in _HEAD if name in data}
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                if choice.get("finish_reason"):
                    self.done()
                    self._ended.add(choice.get("index") or 0)
                self.choice(choice)

    def cut(self) -> bytes:
        """See :class:`Meter`."""
        head = {"model": self.request.model, **self._head}
        going_on = [index for index in range(self.request.choices) if index not in self._ended]
        chunks: list[dict[str, Any]] = [
            {**head, "choices": [{"index": i, **self.nothing, "finish_reason": "length"} for i in going_on]}
        ]
        if self.request.usage_asked:
            seen = self.bound()
            usage = {
                "prompt_tokens": seen["input"],
                "completion_tokens": seen["output"],
                "total_tokens": seen["input"] + seen["output"],
            }
            chunks.append({**head, "choices": [], "usage": usage})
        return b"".join(b"data: " + dumps(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"

    def choice(self, choice: dict[str, Any]) -> None:
        """Count what was generated of a choice."""

    def used(self, usage: Any) -> None:
        """A report of usage; what it says of the cost goes with it."""
        self.usage = merge(self.usage, usage)
        if isinstance(usage, dict) and self.usage is not None:
            self.tier(usage.get("service_tier"))
            self.provider_cost_usd = self.provider.stated_cost(self.usage)

    def passed_on(self, event: Event, data: dict[str, Any]) -> bytes:
        """See :class:`Meter`."""
        if "usage" not in data:
            return event.raw
        usage = data.pop("usage")
        if usage is None:
            rest, found = _NO_USAGE.subn(b"", event.raw)
            # Only one, and no name that is written in escapes: it was that of the chunk itself.
            if found == 1 and b'"usage"' not in rest and b"\\u" not in rest:
                return rest
        if usage and data.get("choices") == []:
            return b""
        return b"data: " + dumps(data) + b"\n\n"

    def kinds(self) -> dict[str, Any] | None:
        """See :class:`Meter`."""
        if is_empty(self.usage):
            return None
        assert self.usage is not None
        kinds, self.clamped = charge_kinds(self.usage, self.provider.reasoning_apart)
        return kinds


def usage_asked(body: dict[str, Any]) -> bool:
    """Whether a body asks for the usage of its stream; raises :class:`InvalidRequest`."""
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise InvalidRequest("stream_options must be an object", "stream_options")
    return bool(options and options.get("include_usage") is True)


def ask_usage(body: dict[str, Any], request: ModelRequest, provider: Provider) -> None:
    """Have the usage of a stream reported; who does not take the question reports it without."""
    if not provider.stream_options:
        body.pop("stream_options", None)
    elif request.stream:
        body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
