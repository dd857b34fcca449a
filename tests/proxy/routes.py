"""The routes as the handed cases see them: how each says the same thing in its own words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]

TEXT = "word " * 120


@dataclass(frozen=True)
class Route:
    """One route. What it says by default is what OpenAI's older routes share.

    ``model``, ``dear``: models of the same prices everywhere, but for output on a route that has none. ``cap``: the field of
    the output limit; ``default_cap``: what is granted without one. ``counts``: what usage calls input and output. ``asks``:
    whether the usage of a stream must be asked for. ``tail``: what comes after the last event of a stream.
    """

    name: str
    path: str
    model: str = "t-mini"
    dear: str = "t-pro"
    cap: str | None = "max_tokens"
    default_cap: int | None = 8_192
    least_cap: int = 1
    counts: tuple[str, str] = ("prompt_tokens", "completion_tokens")
    asks: bool = False
    tail: str = "data: [DONE]\n\n"

    def __str__(self) -> str:
        return self.name

    def headers(self, key: str) -> dict[str, str]:
        """How a client of this route sends its key."""
        return {"authorization": f"Bearer {key}"}

    def body(self, words: str = TEXT, cap: int = 200, stream: bool = False, **changes: Any) -> Body:
        """A request; a change that is ``...`` leaves the member out."""
        body = {"model": self.model, **self.says(words), **({self.cap: cap} if self.cap else {}), "stream": stream, **changes}
        return {name: value for name, value in body.items() if value is not ...}

    def says(self, text: str) -> Body:
        """The members that carry the input."""
        raise NotImplementedError

    def cost(self, prompt: int, completion: int) -> int:
        """Micro-dollars of so many tokens of ``model``."""
        return prompt + completion * (4 if self.cap else 0)

    def usage(self, prompt: Any, completion: Any, cached: int | None = None) -> Body:
        """A report of usage, with ``cached`` of the prompt from the cache."""
        total = {"total_tokens": prompt + completion} if type(prompt) is type(completion) is int else {}
        details = {} if cached is None else {f"{self.counts[0]}_details": {"cached_tokens": cached}}
        return {self.counts[0]: prompt, self.counts[1]: completion, **total, **details}

    def choice(self, text: str, finish: str | None, whole: bool) -> Body:
        """What carries a text in an answer."""
        raise NotImplementedError

    def whole(self, text: str, usage: Any) -> Body:
        """An answer that is not streamed."""
        return {"id": "a", "choices": [self.choice(text, "stop", True)], "usage": usage}

    def events(self, text: str, usage: Any) -> list[Body]:
        """The events of a stream."""
        return [
            {"id": "a", "choices": [self.choice(text, None, False)], "usage": None},
            {"id": "a", "choices": [self.choice("", "stop", False)], "usage": None},
            {"id": "a", "choices": [], "usage": usage},
        ]

    def frame(self, event: Body) -> str:
        """An event on the wire."""
        named = f"event: {event['type']}\n" if "type" in event else ""
        return f"{named}data: {json.dumps(event, ensure_ascii=False)}\n\n"

    def raw(self, text: str, usage: Any, stream: bool) -> Body:
        """Has the simulator answer with this text and this usage."""
        if stream:
            return {"raw_sse": "".join(map(self.frame, self.events(text, usage))) + self.tail}
        return {"raw_body": json.dumps(self.whole(text, usage), ensure_ascii=False)}


class Chat(Route):
    """``/v1/chat/completions``."""

    def says(self, text: str) -> Body:
        """See :class:`Route`."""
        return {"messages": [{"role": "user", "content": text}]}

    def choice(self, text: str, finish: str | None, whole: bool) -> Body:
        """See :class:`Route`."""
        return {"index": 0, "message" if whole else "delta": {"content": text} if text else {}, "finish_reason": finish}


class Completions(Route):
    """``/v1/completions``."""

    def says(self, text: str) -> Body:
        """See :class:`Route`."""
        return {"prompt": text}

    def choice(self, text: str, finish: str | None, whole: bool) -> Body:
        """See :class:`Route`."""
        return {"index": 0, "text": text, "finish_reason": finish}


class Responses(Route):
    """``/v1/responses``."""

    def says(self, text: str) -> Body:
        """See :class:`Route`."""
        return {"input": text}

    def whole(self, text: str, usage: Any) -> Body:
        """See :class:`Route`."""
        content = [{"type": "output_text", "text": text}] if text else []
        message = {"id": "m", "type": "message", "status": "completed", "content": content}
        return {"id": "a", "object": "response", "status": "completed", "output": [message], "usage": usage}

    def events(self, text: str, usage: Any) -> list[Body]:
        """See :class:`Route`."""
        begun: Body = {"id": "a", "object": "response", "status": "in_progress", "output": [], "usage": None}
        delta = {"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": text}
        return [
            {"type": "response.created", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": {"id": "m", "type": "message", "content": []}},
            *([delta] if text else []),
            {"type": "response.completed", "response": self.whole(text, usage)},
        ]


class Messages(Route):
    """``/v1/messages``."""

    def headers(self, key: str) -> dict[str, str]:
        """See :class:`Route`."""
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}

    def says(self, text: str) -> Body:
        """See :class:`Route`."""
        return {"messages": [{"role": "user", "content": text}]}

    def usage(self, prompt: Any, completion: Any, cached: int | None = None) -> Body:
        """See :class:`Route`. What came from the cache is beside the rest, not of it."""
        read = {} if cached is None else {"cache_read_input_tokens": cached}
        return {"input_tokens": prompt - cached if cached else prompt, "output_tokens": completion, **read}

    def whole(self, text: str, usage: Any) -> Body:
        """See :class:`Route`."""
        content = [{"type": "text", "text": text}] if text else []
        return {"id": "a", "type": "message", "content": content, "stop_reason": "end_turn", "usage": usage}

    def events(self, text: str, usage: Any, start: Any = ...) -> list[Body]:
        """See :class:`Route`; ``start``: the usage at the beginning, if it is another one."""
        message = {"id": "a", "type": "message", "content": [], "usage": usage if start is ... else start}
        return [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        ]


class Embeddings(Route):
    """``/v1/embeddings``: nothing is generated, and so nothing is said."""

    def says(self, text: str) -> Body:
        """See :class:`Route`."""
        return {"input": text}

    def usage(self, prompt: Any, completion: Any, cached: int | None = None) -> Body:
        """See :class:`Route`."""
        return {"prompt_tokens": prompt, "total_tokens": prompt}

    def whole(self, text: str, usage: Any) -> Body:
        """See :class:`Route`."""
        return {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [1.0]}], "usage": usage}


CHAT = Chat("chat", "/v1/chat/completions", asks=True)
COMPLETIONS = Completions("completions", "/v1/completions", default_cap=16, asks=True)
RESPONSES = Responses(
    "responses", "/v1/responses", cap="max_output_tokens", least_cap=16, counts=("input_tokens", "output_tokens"), tail=""
)
MESSAGES = Messages(
    "messages", "/v1/messages", default_cap=None, counts=("input_tokens", "output_tokens"),
    tail='event: message_stop\ndata: {"type": "message_stop"}\n\n',
)  # fmt: skip
EMBEDDINGS = Embeddings("embeddings", "/v1/embeddings", "e-mini", "e-pro", cap=None, default_cap=None, tail="")

ROUTES: tuple[Route, ...] = (CHAT, COMPLETIONS, RESPONSES, MESSAGES, EMBEDDINGS)
