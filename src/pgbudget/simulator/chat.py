"""The dialect of OpenAI's chat completions."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any, Final

from starlette.datastructures import Headers

from pgbudget.simulator.behaviour import Behaviour
from pgbudget.simulator.dialect import Ask, dumps
from pgbudget.simulator.openai_api import OpenAI, bad, generator_of, stream_of, usage_of, whole_number
from pgbudget.simulator.tally import Call

_MAX_CHOICES: Final = 128


class Chat(OpenAI):
    """``POST /v1/chat/completions``."""

    path = "/v1/chat/completions"
    id_prefix = "chatcmpl-"

    def read(self, body: dict[str, Any], headers: Headers) -> Ask:
        """Refuse what OpenAI refuses, as far as it matters to money."""
        model, max_output = generator_of(body)
        if not isinstance(body.get("messages"), list):
            raise bad("Missing required parameter: 'messages'.", "messages")
        stream, options = stream_of(body)
        caps = [whole_number(body, name, max_output) for name in ("max_tokens", "max_completion_tokens")]
        if None not in caps:
            raise bad("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.", "max_tokens")
        return Ask(
            model=model,
            stream=stream,
            choices=whole_number(body, "n", _MAX_CHOICES) or 1,
            cap=next((cap for cap in caps if cap is not None), None),
            usage=bool(options.get("include_usage")),
            body=body,
        )

    def render(self, ask: Ask, behaviour: Behaviour, answer_id: Any) -> ChatRendering:
        """Begin an answer."""
        return ChatRendering(ask, behaviour, answer_id)


class ChatRendering:
    """One answer. What its pieces share is rendered once."""

    def __init__(self, ask: Ask, behaviour: Behaviour, answer_id: Any) -> None:
        self._ask = ask
        self._behaviour = behaviour
        self._pieces: dict[tuple[bool, int], bytes] = {}
        members = {
            "id": answer_id,
            "object": "chat.completion.chunk" if ask.stream else "chat.completion",
            "created": int(time.time()),
            "model": behaviour.model or ask.model,
            "system_fingerprint": "fp_simulated",
        }
        if behaviour.service_tier is not None:
            members["service_tier"] = behaviour.service_tier
        for name in behaviour.omit or ():
            members.pop(name, None)
        self._head = members
        self._prefix = b"data: " + dumps(members)[:-1] + (b',"choices":[' if members else b'"choices":[')
        # As OpenAI: once usage is asked for, every event has the member.
        asked = ask.usage and not behaviour.no_usage
        self._suffix = b'],"usage":null}\n\n' if asked else b"]}\n\n"

    def begin(self, call: Call) -> bytes:
        """Nothing."""
        return b""

    def piece(self, index: int, tokens: int) -> bytes:
        """One event a choice."""
        behaviour = self._behaviour
        if behaviour.usages is not None:
            report = behaviour.usages[index] if index < len(behaviour.usages) else None
            return self._events(index == 0, tokens, b'],"usage":' + dumps(report) + b"}\n\n")
        # Pieces of a size are alike, but for the first.
        alike = (index == 0, tokens)
        known = self._pieces.get(alike)
        if known is None:
            known = self._pieces[alike] = self._events(*alike, self._suffix)
        return known

    def _events(self, first: bool, tokens: int, suffix: bytes) -> bytes:
        behaviour = self._behaviour
        text = behaviour.text * tokens
        return b"".join(
            self._prefix + _delta(choice, behaviour.deltas, text, first, behaviour.padding) + suffix
            for choice in range(self._ask.choices)
        )

    def end(self, call: Call, tokens: int) -> bytes:
        """Finish of every choice, usage if asked for, ``[DONE]``."""
        reason = self._finish_reason(tokens)
        events = [
            self._prefix + dumps({"index": i, "delta": {}, "logprobs": None, "finish_reason": reason}) + self._suffix
            for i in range(self._ask.choices)
        ]
        behaviour = self._behaviour
        if self._ask.usage and not behaviour.no_usage and behaviour.usages is None:
            events.append(self._prefix + b'],"usage":' + dumps(self._usage(call)) + b"}\n\n")
        return b"".join(events) + b"data: [DONE]\n\n"

    def whole(self, call: Call, tokens: int) -> bytes:
        """A chat completion."""
        behaviour, reason = self._behaviour, self._finish_reason(tokens)
        message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        text = behaviour.text * max(0, tokens - behaviour.reasoning_tokens)
        if behaviour.deltas == "tool_calls":
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": text}}]
        elif behaviour.deltas == "reasoning":
            message["reasoning_content"] = text
        else:
            message["content"] = text
        logprobs = _logprobs(behaviour.padding)
        answer: dict[str, Any] = {
            **self._head,
            "choices": [
                {"index": i, "message": message, "logprobs": logprobs, "finish_reason": reason}
                for i in range(self._ask.choices)
            ],
        }
        if not behaviour.no_usage:
            answer["usage"] = self._usage(call)
        return dumps(answer)

    def error(self, body: Any) -> bytes:
        """Nothing but the error."""
        return b"data: " + dumps(body) + b"\n\n" if self._ask.stream else dumps(body)

    def _finish_reason(self, tokens: int) -> str:
        if tokens < self._behaviour.completion:
            return "length"
        return "tool_calls" if self._behaviour.deltas == "tool_calls" else "stop"

    def _usage(self, call: Call) -> Any:
        if self._behaviour.usage is not None:
            return self._behaviour.usage
        return usage_of(call)


@lru_cache(maxsize=512)
def _delta(choice: int, deltas: str, text: str, first: bool, padding: int) -> bytes:
    """A choice of a piece; the same few come again and again."""
    delta: dict[str, Any] = {"role": "assistant"} if first else {}
    if deltas == "reasoning":
        delta["reasoning_content"] = text
    elif deltas == "tool_calls":
        begin = {"id": "call_1", "type": "function"} if first else {}
        function = {"name": "f", "arguments": text} if first else {"arguments": text}
        delta["tool_calls"] = [{"index": 0, **begin, "function": function}]
    else:
        delta["content"] = text
    return dumps({"index": choice, "delta": delta, "logprobs": _logprobs(padding), "finish_reason": None})


def _logprobs(padding: int) -> Any:
    if not padding:
        return None
    other = {"token": "p" * padding, "logprob": -9.5, "bytes": None}
    return {"content": [{"token": "word", "logprob": -0.1, "bytes": None, "top_logprobs": [other]}], "refusal": None}
