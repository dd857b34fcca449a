"""The dialect of OpenAI's chat completions."""

from __future__ import annotations

import json
import time
from functools import lru_cache
from typing import Any, Final

from pgbudget.simulator.behaviour import Behaviour
from pgbudget.simulator.dialect import Ask, Refused
from pgbudget.simulator.tally import RATES, Call

_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_MAX_CHOICES: Final = 128


class Chat:
    """``POST /v1/chat/completions``."""

    path = "/v1/chat/completions"

    def read(self, body: dict[str, Any]) -> Ask:
        """Refuse what OpenAI refuses, as far as it matters to money."""
        model, stream, options = body.get("model"), body.get("stream"), body.get("stream_options")
        if not isinstance(model, str) or not model:
            raise self._bad("you must provide a model parameter")
        if not isinstance(body.get("messages"), list):
            raise self._bad("Missing required parameter: 'messages'.", "messages")
        if not isinstance(stream, bool | None):
            raise self._bad("Invalid type for 'stream': expected a boolean.", "stream")
        if options is not None and not stream:
            raise self._bad("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
        if not isinstance(options, dict | None):
            raise self._bad("Invalid type for 'stream_options': expected an object.", "stream_options")
        caps = {name: body[name] for name in ("max_tokens", "max_completion_tokens") if body.get(name) is not None}
        if len(caps) > 1:
            raise self._bad("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.", "max_tokens")
        known = RATES.get(model)
        if known is not None and known.price.output is None:
            raise Refused(404, self.error(404, "This is not a chat model.", "model_not_found", "model"))
        for name, cap in caps.items():
            self._whole(name, cap, known.max_output if known else 2**63 - 1)
        choices = body.get("n")
        if choices is not None:
            self._whole("n", choices, _MAX_CHOICES)
        return Ask(
            model=model,
            stream=bool(stream),
            choices=choices or 1,
            cap=next(iter(caps.values()), None),
            usage=bool((options or {}).get("include_usage")),
        )

    def render(self, ask: Ask, behaviour: Behaviour, answer_id: Any) -> ChatRendering:
        """Begin an answer."""
        return ChatRendering(ask, behaviour, answer_id)

    def error(self, status: int, message: str, code: str | None = None, param: str | None = None) -> Any:
        """An error in OpenAI's form."""
        kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        return {"error": {"message": message, "type": kind, "param": param, "code": code}}

    def _whole(self, name: str, value: Any, most: int) -> None:
        if type(value) is not int:
            raise self._bad(f"Invalid type for '{name}': expected an integer.", name)
        if not 1 <= value <= most:
            raise self._bad(f"Invalid value for '{name}': expected from 1 to {most}, got {value}.", name)

    def _bad(self, message: str, param: str | None = None) -> Refused:
        return Refused(400, self.error(400, message, param=param))


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
        for name in behaviour.omit or ():
            members.pop(name, None)
        self._head = members
        self._prefix = b"data: " + _dumps(members)[:-1] + (b',"choices":[' if members else b'"choices":[')
        # As OpenAI: once usage is asked for, every event has the member.
        asked = ask.usage and not behaviour.no_usage
        self._suffix = b'],"usage":null}\n\n' if asked else b"]}\n\n"

    def piece(self, index: int, tokens: int) -> bytes:
        """One event a choice."""
        behaviour = self._behaviour
        if behaviour.usages is not None:
            report = behaviour.usages[index] if index < len(behaviour.usages) else None
            return self._events(index == 0, tokens, b'],"usage":' + _dumps(report) + b"}\n\n")
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
            self._prefix + _dumps({"index": i, "delta": {}, "logprobs": None, "finish_reason": reason}) + self._suffix
            for i in range(self._ask.choices)
        ]
        behaviour = self._behaviour
        if self._ask.usage and not behaviour.no_usage and behaviour.usages is None:
            events.append(self._prefix + b'],"usage":' + _dumps(self._usage(call)) + b"}\n\n")
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
        return _dumps(answer)

    def error(self, body: Any) -> bytes:
        """An event with nothing but the error."""
        return b"data: " + _dumps(body) + b"\n\n"

    def _finish_reason(self, tokens: int) -> str:
        if tokens < self._behaviour.completion:
            return "length"
        return "tool_calls" if self._behaviour.deltas == "tool_calls" else "stop"

    def _usage(self, call: Call) -> Any:
        if self._behaviour.usage is not None:
            return self._behaviour.usage
        return {
            "prompt_tokens": call.prompt_tokens,
            "completion_tokens": call.completion_tokens,
            "total_tokens": call.prompt_tokens + call.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": call.cached_tokens, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": call.reasoning_tokens, "audio_tokens": 0},
        }


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
    return _dumps({"index": choice, "delta": delta, "logprobs": _logprobs(padding), "finish_reason": None})


def _logprobs(padding: int) -> Any:
    if not padding:
        return None
    other = {"token": "p" * padding, "logprob": -9.5, "bytes": None}
    return {"content": [{"token": "word", "logprob": -0.1, "bytes": None, "top_logprobs": [other]}], "refusal": None}


def _dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
