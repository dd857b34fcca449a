"""The dialect of Anthropic's messages."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from starlette.datastructures import Headers

from pgbudget.simulator.behaviour import Behaviour
from pgbudget.simulator.dialect import Ask, Refused, dumps, event, tool_name, tool_text
from pgbudget.simulator.tally import RATES, Call

_TYPES: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}

#: Who called a tool: the model itself, not a program that it wrote.
_DIRECT: Final = {"type": "direct"}
_NOT_STOPPED: Final = {"stop_reason": None, "stop_sequence": None, "stop_details": None}


class Messages:
    """``POST /v1/messages``."""

    path = "/v1/messages"
    id_prefix = "msg_"
    request_header = "request-id"

    def check_key(self, headers: Headers, key: str | None) -> None:
        """``x-api-key``, or a bearer token."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = headers.get("x-api-key", "").strip() or (token.strip() if scheme.lower() == "bearer" else "")
        if not given:
            raise Refused(401, "x-api-key header is required")
        if key is not None and given != key:
            raise Refused(401, "invalid x-api-key")

    def read(self, body: dict[str, Any], headers: Headers) -> Ask:
        """Refuse what Anthropic refuses, as far as it matters to money."""
        model, max_output = self._check(body, headers)
        stream, cap = body.get("stream"), body.get("max_tokens")
        if not isinstance(stream, bool | None):
            raise _bad("stream: Input should be a valid boolean")
        if cap is None:
            raise _bad("max_tokens: Field required")
        if type(cap) is not int:
            raise _bad("max_tokens: Input should be a valid integer")
        if cap < 1:
            raise _bad("max_tokens: Input should be greater than or equal to 1")
        if cap > max_output:
            raise _bad(f"max_tokens: {cap} > {max_output}, which is the maximum allowed number of output tokens for {model}")
        return Ask(model=model, stream=bool(stream), choices=1, cap=cap, body=body)

    def render(self, ask: Ask, behaviour: Behaviour, answer_id: Any) -> MessageRendering:
        """Begin an answer."""
        return MessageRendering(ask, behaviour, answer_id)

    def error(self, refused: Refused, request_id: str) -> Any:
        """An error in Anthropic's form."""
        kind = _TYPES.get(refused.status, "api_error" if refused.status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": refused.message}, "request_id": request_id}

    def _check(self, body: dict[str, Any], headers: Headers) -> tuple[str, int]:
        """What both routes refuse; returns the model and the most it can generate."""
        if not headers.get("anthropic-version"):
            raise _bad("anthropic-version: header is required")
        model, messages = body.get("model"), body.get("messages")
        if not isinstance(model, str) or not model:
            raise _bad("model: Field required")
        if not isinstance(messages, list):
            raise _bad("messages: Field required" if messages is None else "messages: Input should be a valid list")
        if not messages:
            raise _bad("messages: at least one message is required")
        known = RATES.get(model)
        if known is not None and known.price.output is None:
            raise Refused(404, f"model: {model}")
        return model, known.max_output if known else 2**63 - 1


class CountTokens(Messages):
    """``POST /v1/messages/count_tokens``, which is free."""

    path = "/v1/messages/count_tokens"

    def read(self, body: dict[str, Any], headers: Headers) -> Ask:
        """As for a message, but nothing is generated, so nothing caps it."""
        model, _ = self._check(body, headers)
        return Ask(model=model, stream=False, choices=0, cap=None, billed=False)

    def render(self, ask: Ask, behaviour: Behaviour, answer_id: Any) -> CountRendering:
        """Begin an answer."""
        return CountRendering(ask, behaviour, answer_id)


class MessageRendering:
    """One message: thoughts that are not shown, web searches, then the block that has the text."""

    def __init__(self, ask: Ask, behaviour: Behaviour, answer_id: Any) -> None:
        self._ask = ask
        self._behaviour = behaviour
        self._id = answer_id
        before = [{"type": "thinking", "thinking": "", "signature": "c2ln"}] if behaviour.reasoning_tokens else []
        for number in range(behaviour.web_searches):
            before += _search(f"srvtoolu_{answer_id}_{number}")
        self._before: list[dict[str, Any]] = before

    def begin(self, call: Call) -> bytes:
        """The message without content, the blocks before the text, and the beginning of that."""
        events = [event({"type": "message_start", "message": self._message(self._first_usage(call), [], None)})]
        for index, block in enumerate(self._before):
            events += _block(index, block)
        events.append(event(_start(len(self._before), self._block("", begin=True))))
        events.append(event({"type": "ping"}))
        return b"".join(events)

    def piece(self, index: int, tokens: int) -> bytes:
        """One delta."""
        behaviour = self._behaviour
        text = behaviour.text * tokens
        delta = _delta(len(self._before), behaviour.deltas, text, index == 0, behaviour.padding)
        if behaviour.usages is not None and index < len(behaviour.usages):
            return delta + event({"type": "message_delta", "delta": _NOT_STOPPED, "usage": behaviour.usages[index]})
        return delta

    def end(self, call: Call, tokens: int) -> bytes:
        """The block's end, why it stopped, what it cost."""
        behaviour, index = self._behaviour, len(self._before)
        events = []
        if behaviour.deltas == "tool_calls":
            rest = tool_text("", begin=not self._shown(tokens))
            events.append(event(_change(index, {"type": "input_json_delta", "partial_json": rest})))
        elif behaviour.deltas == "reasoning":
            events.append(event(_change(index, {"type": "signature_delta", "signature": "c2ln"})))
        events.append(event({"type": "content_block_stop", "index": index}))
        stop: dict[str, Any] = {"stop_reason": self._stop_reason(tokens), "stop_sequence": None, "stop_details": None}
        end: dict[str, Any] = {"type": "message_delta", "delta": stop}
        if not behaviour.no_usage and behaviour.usages is None:
            end["usage"] = self._usage(call, last=True)
        return b"".join([*events, event(end), event({"type": "message_stop"})])

    def whole(self, call: Call, tokens: int) -> bytes:
        """A message."""
        content = [*self._before, self._block(self._behaviour.text * self._shown(tokens))]
        message = self._message(self._usage(call), content, self._stop_reason(tokens))
        return dumps(message) + b" " * self._behaviour.padding

    def error(self, body: Any) -> bytes:
        """Nothing but the error."""
        return event(body) if self._ask.stream else dumps(body)

    def _shown(self, tokens: int) -> int:
        return max(0, tokens - self._behaviour.reasoning_tokens)

    def _message(self, usage: Any, content: list[dict[str, Any]], stop_reason: str | None) -> dict[str, Any]:
        behaviour = self._behaviour
        message = {
            "model": behaviour.model or self._ask.model,
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "stop_details": None,
            "usage": usage,
        }
        for name in [*(behaviour.omit or ()), *(("usage",) if behaviour.no_usage else ())]:
            message.pop(name, None)
        return message

    def _block(self, text: str, begin: bool = False) -> dict[str, Any]:
        """The block that has the text."""
        deltas = self._behaviour.deltas
        if deltas == "tool_calls":
            given = {} if begin else {"text": text}
            return {
                "type": "tool_use",
                "id": f"toolu_{self._id}",
                "name": tool_name(self._ask.body.get("tools")),
                "input": given,
                "caller": _DIRECT,
            }
        if deltas == "reasoning":
            return {"type": "thinking", "thinking": text, "signature": "" if begin else "c2ln"}
        return {"type": "text", "text": text}

    def _stop_reason(self, tokens: int) -> str:
        if tokens < self._behaviour.completion:
            return "max_tokens"
        return "tool_use" if self._behaviour.deltas == "tool_calls" else "end_turn"

    def _first_usage(self, call: Call) -> Any:
        """At the start only the first round is known, not what searches will add; of the output, one token."""
        usage = self._usage(call)
        if self._behaviour.usage is None:
            usage.pop("output_tokens_details", None)
            usage.pop("server_tool_use", None)
            usage |= {"input_tokens": usage["input_tokens"] // (call.web_searches + 1), "output_tokens": 1}
        return usage

    def _usage(self, call: Call, last: bool = False) -> Any:
        """``input_tokens`` is what neither came from the cache nor was written to it; the last event tells the totals."""
        behaviour = self._behaviour
        if behaviour.usage is not None:
            return behaviour.usage
        writes = {
            "ephemeral_5m_input_tokens": call.cache_write_5m_tokens,
            "ephemeral_1h_input_tokens": call.cache_write_1h_tokens,
        }
        written = sum(writes.values())
        usage: dict[str, Any] = {
            "input_tokens": call.prompt_tokens - call.cached_tokens - written,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": call.cached_tokens,
            **({} if last else {"cache_creation": writes}),
            "output_tokens": call.completion_tokens,
        }
        if not last:
            usage |= {"service_tier": behaviour.service_tier or "standard", "inference_geo": "not_available"}
        if call.reasoning_tokens:
            usage["output_tokens_details"] = {"thinking_tokens": call.reasoning_tokens}
        if call.web_searches:
            usage["server_tool_use"] = {"web_search_requests": call.web_searches, "web_fetch_requests": 0}
        return usage


class CountRendering(MessageRendering):
    """How many tokens a message has."""

    def whole(self, call: Call, tokens: int) -> bytes:
        """The count alone."""
        return dumps({"input_tokens": self._behaviour.prompt})


def _bad(message: str) -> Refused:
    return Refused(400, message)


def _search(tool_id: str) -> list[dict[str, Any]]:
    result = {"type": "web_search_result", "title": "A page", "url": "https://example.com/", "encrypted_content": "cGFnZQ=="}
    return [
        {"type": "server_tool_use", "id": tool_id, "name": "web_search", "input": {"query": "a page"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": tool_id,
            "content": [{**result, "page_age": None}],
            "caller": _DIRECT,
        },
    ]


def _start(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _change(index: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _block(index: int, block: dict[str, Any]) -> list[bytes]:
    """The events of a block that comes at once."""
    if block["type"] == "thinking":
        changes = [{"type": "signature_delta", "signature": block["signature"]}]
        block = {**block, "signature": ""}
    elif block["type"] == "server_tool_use":
        changes = [{"type": "input_json_delta", "partial_json": dumps(block["input"]).decode()}]
        block = {**block, "input": {}}
    else:
        changes = []
    events = [_start(index, block), *(_change(index, change) for change in changes)]
    return [event(e) for e in [*events, {"type": "content_block_stop", "index": index}]]


@lru_cache(maxsize=512)
def _delta(index: int, deltas: str, text: str, first: bool, padding: int) -> bytes:
    """A piece; the same few come again and again."""
    if deltas == "tool_calls":
        delta = {"type": "input_json_delta", "partial_json": tool_text(text, begin=first, end=False)}
    elif deltas == "reasoning":
        delta = {"type": "thinking_delta", "thinking": text}
    else:
        delta = {"type": "text_delta", "text": text}
    return event(_change(index, delta), padding)
