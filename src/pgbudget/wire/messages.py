"""The dialect of Anthropic's ``/v1/messages``, and of ``/v1/messages/count_tokens`` beside it, which costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pgbudget.errors import BudgetError, InvalidRequest
from pgbudget.wire import strict_json
from pgbudget.wire.anthropic_usage import charge_kinds, is_empty
from pgbudget.wire.bounds import input_bound
from pgbudget.wire.dialect import (
    CannotTurnOff,
    Dialect,
    Meter,
    ModelRequest,
    check_body,
    count,
    flag,
    named_event,
    text_bytes,
)
from pgbudget.wire.prompt_cache import CACHE_WRITES, cache_writes, turn_off_cache
from pgbudget.wire.providers import Provider
from pgbudget.wire.usage import merge

#: Fields that make a request cost what no price list tells, and why.
_REFUSED: Final = {
    "billing_policy": "it says who pays the provider",
    "compaction": "a compaction is billed apart, and nothing bounds it",
    "container": "time in a container is billed apart, and no answer tells it",
    "fallback_credit_token": "it changes what the call costs",
    "fallbacks": "it can have another model answer than the one that was priced",
    "mcp_servers": "what their tools answer comes back as input, as often as the model likes",
}
#: Tools that the caller runs itself.
_CALLERS_TOOLS: Final = ("bash_", "browser_toolset_", "computer_", "custom", "memory_", "text_editor_")
#: Tools that the provider runs: each round sends the conversation, and all that was found, as input again.
_SEARCH: Final = "web_search_"
_SERVERS_TOOLS: Final = (_SEARCH, "web_fetch_", "tool_search_tool_")
#: Searches that a request may make unless it says how many; the database takes no more than the most.
_USUAL_SEARCHES: Final = 10
_MOST_SEARCHES: Final = 100
#: Edits that only take something out of the conversation.
_EDITS: Final = ("clear_thinking_", "clear_tool_uses_")
#: The least that thinking can be given.
_LEAST_THINKING: Final = 1024
_TIERS: Final = ("standard", "priority", "batch")

_ERROR_TYPES: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


class Messages(Dialect):
    """Anthropic's messages."""

    path = "/messages"
    api = "anthropic"

    def read(self, body: dict[str, Any]) -> ModelRequest:
        """See :class:`Dialect`."""
        _check(body)
        cap = count(body, "max_tokens")
        if cap is None:
            raise InvalidRequest("max_tokens is required: the most output tokens that the answer may have", "max_tokens")
        for name, reason in _REFUSED.items():
            if body.get(name) not in (None, []):
                raise InvalidRequest(f"{name} is not accepted: {reason}", name)
        if body.get("inference_geo") not in (None, "global"):
            raise InvalidRequest("inference_geo must be global: elsewhere tokens have another price", "inference_geo")
        if body.get("service_tier") not in (None, "auto", "standard_only"):
            raise InvalidRequest("service_tier must be auto or standard_only", "service_tier")
        if body.get("speed") not in (None, "standard", "fast"):
            raise InvalidRequest("speed must be standard or fast", "speed")
        _check_edits(body.get("context_management"))
        tools, searches = _read_tools(body.get("tools"))
        bound = input_bound(body)
        features = bound.features | cache_writes(body)
        if searches:
            features.add("web_search")
        # What tools find, or what is kept there, comes as input: no bound but the context window.
        if body.get("thread") is not None:
            bound.unbind("thread")
        if (place := _servers_tool(body)) is not None:
            bound.unbind(f"tools[{place}]")
        return ModelRequest(
            body=body if tools is None else {**body, "tools": tools},
            model=body["model"],
            cap=cap,
            stream=flag(body, "stream"),
            input_tokens=bound.tokens,
            features=tuple(sorted(features)),
            input_bounds=bound.estimates(),
            text_tokens=bound.text,
            uses={"web_search": searches} if searches else {},
            service_tier="fast" if body.get("speed") == "fast" else None,
            unbounded=bound.unbounded,
        )

    def grows(self, request: ModelRequest) -> bool:
        """See :class:`Dialect`. The words around a tool's call are billed, but not shown; they are more than its bytes."""
        thinking = request.body.get("thinking")
        return (
            request.stream
            and not request.body.get("tools")
            and (not thinking or (isinstance(thinking, dict) and thinking.get("type") == "disabled"))
            and set(request.features) <= {"image_in", "audio_in", *CACHE_WRITES}
        )

    def turn_off(self, feature: str, request: ModelRequest, body: dict[str, Any]) -> None:
        """See :class:`Dialect`."""
        if feature not in request.features:
            return
        if feature == "web_search":
            body["tools"] = [tool for tool in body["tools"] if not _is(tool, _SEARCH)]
            choice = body.get("tool_choice")
            if not body["tools"] or (isinstance(choice, dict) and choice.get("name") == "web_search"):
                body.pop("tool_choice", None)
        elif feature in CACHE_WRITES:
            turn_off_cache(body, feature)
        else:
            raise CannotTurnOff(feature)

    def rewrite(self, request: ModelRequest, provider: Provider, upstream_model: str, cap: int) -> bytes:
        """See :class:`Dialect`. Thinking is given less where the cap that was priced leaves less than was asked for."""
        body = {**request.body, "model": upstream_model, "max_tokens": cap}
        thinking = body.get("thinking")
        if isinstance(thinking, dict) and request.cap is not None and cap < request.cap:
            budget = thinking.get("budget_tokens")
            if type(budget) is int and budget >= cap:
                lower = {**thinking, "budget_tokens": cap - 1}
                body["thinking"] = lower if cap > _LEAST_THINKING else {"type": "disabled"}
        return strict_json.dumps(body)

    def meter(self, request: ModelRequest, provider: Provider) -> Meter:
        """See :class:`Dialect`."""
        return MessagesMeter(request, provider)

    def error(self, error: BudgetError) -> dict[str, Any]:
        """See :class:`Dialect`."""
        return error_body(error)


class CountTokens(Dialect):
    """Anthropic's count of a request's tokens: held and charged as nothing, but a request of its minute."""

    path = "/messages/count_tokens"
    api = "anthropic"
    free = True

    def read(self, body: dict[str, Any]) -> ModelRequest:
        """See :class:`Dialect`."""
        _check(body)
        return ModelRequest(body=body, model=body["model"], cap=0, input_tokens=0, input_bounds={"chars3": 0, "bytes4": 0})

    def turn_off(self, feature: str, request: ModelRequest, body: dict[str, Any]) -> None:
        """See :class:`Dialect`. A feature that is counted costs nothing."""

    def rewrite(self, request: ModelRequest, provider: Provider, upstream_model: str, cap: int) -> bytes:
        """See :class:`Dialect`."""
        return strict_json.dumps({**request.body, "model": upstream_model})

    def meter(self, request: ModelRequest, provider: Provider) -> Meter:
        """See :class:`Dialect`."""
        return CountMeter(request, provider)

    def error(self, error: BudgetError) -> dict[str, Any]:
        """See :class:`Dialect`."""
        return error_body(error)


class MessagesMeter(Meter):
    """Watches messages. A stream tells its usage at its beginning and again, whole or in part, at its end."""

    usage: dict[str, Any] | None = None
    _model: str | None = None
    #: Whether the usage of the end was seen: that of the beginning knows nothing of the output.
    _told = False
    #: Bytes of thought that the thinking block has shown; None outside of such a block.
    _thought: int | None = None
    #: The block that a client has the beginning of, and not yet the end.
    _open: int | None = None

    def answer(self, answer: dict[str, Any]) -> None:
        """See :class:`Meter`."""
        if answer.get("type") == "error" or answer.get("error"):
            self.fail(answer.get("error") or answer)
            return
        self._message(answer)
        content = answer.get("content")
        for block in content if isinstance(content, list) else ():
            self._block(block)
        self._told = True
        self.finished = isinstance(content, list)

    def event(self, name: bytes, data: dict[str, Any]) -> None:
        """See :class:`Meter`."""
        kind = data.get("type") or name.decode("ascii", "replace")
        if kind == "error" or data.get("error"):
            self.fail(data.get("error") or data)
        elif kind == "message_start":
            message = data.get("message")
            if isinstance(message, dict):
                self._message(message)
        elif kind == "content_block_start":
            self._block(data.get("content_block"))
        elif kind == "content_block_delta":
            self._delta(data.get("delta"))
        elif kind == "content_block_stop":
            self._thought = None
        elif kind == "message_delta":
            usage = data.get("usage")
            self.usage = merge(self.usage, usage)
            self._told |= isinstance(usage, dict) and usage.get("output_tokens") is not None
            delta = data.get("delta")
            if isinstance(delta, dict) and delta.get("stop_reason"):
                self.name("stop_reason", delta["stop_reason"])
                self.done()
        elif kind == "message_stop":
            self.done()

    def shown(self, data: dict[str, Any]) -> None:
        """See :class:`Meter`."""
        kind, index = data.get("type"), data.get("index")
        if kind == "content_block_start" and isinstance(index, int):
            self._open = index
        elif kind == "content_block_stop":
            self._open = None

    def cut(self) -> bytes:
        """See :class:`Meter`."""
        events: list[dict[str, Any]] = [] if self._open is None else [{"type": "content_block_stop", "index": self._open}]
        stop = {"stop_reason": "max_tokens", "stop_sequence": None}
        events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": self.bound()["output"]}})
        return b"".join(map(named_event, [*events, {"type": "message_stop"}]))

    def kinds(self) -> dict[str, Any] | None:
        """See :class:`Meter`."""
        if is_empty(self.usage) or (self.finished and not self._told):
            return None
        assert self.usage is not None
        self._price_by(self.usage)
        kinds, self.clamped = charge_kinds(self.usage, self._model)
        return kinds

    def bound(self) -> dict[str, Any]:
        """What was seen, as a bound. The beginning of a stream tells its input, unless the provider runs tools for it."""
        bound = super().bound()
        if self._thought == 0 and self.request.cap is not None:
            # Thought that is not shown is billed all the same; it comes sealed, at the end of its block.
            bound["output"] += self.request.cap
        if is_empty(self.usage) or _servers_tool(self.request.body) is not None:
            return bound
        assert self.usage is not None
        seen, _ = charge_kinds(self.usage, self._model)
        if any(type(quantity) is not int for quantity in seen.values()):
            return bound
        return bound | seen | {"output": max(bound["output"], seen["output"])}

    def _message(self, message: dict[str, Any]) -> None:
        self.usage = merge(self.usage, message.get("usage"))
        model = message.get("model")
        self._model = model if isinstance(model, str) else None
        self.name("response_model", model)
        self.name("provider_request_id", message.get("id"))
        self.name("stop_reason", message.get("stop_reason"))

    def _block(self, block: Any) -> None:
        """A block as it stands. What tools have found was not generated; neither is what is cited."""
        self._thought = None
        if not isinstance(block, dict) or str(block.get("type")).endswith("_tool_result"):
            return
        size = text_bytes(block, ("id", "type", "caller", "citations", "signature"))
        self.output_bytes += size
        self.tool_calls += str(block.get("type")).endswith("tool_use")
        if block.get("type") == "thinking":
            self._thought = size
            self._sealed(block.get("signature"))

    def _delta(self, delta: Any) -> None:
        if not isinstance(delta, dict) or delta.get("type") == "citations_delta":
            return
        if delta.get("type") == "signature_delta":
            self._sealed(delta.get("signature"))
            return
        size = text_bytes(delta)
        self.output_bytes += size
        if self._thought is not None:
            self._thought += size
        elif delta.keys() == {"type", "text"} and isinstance(delta["text"], str):
            self.text = delta["text"]

    def _sealed(self, signature: Any) -> None:
        """The thoughts of a block, encrypted: as long as they are, where less of them or nothing was shown."""
        if self._thought is not None and isinstance(signature, str) and signature:
            size = text_bytes(signature)
            self.output_bytes += max(0, size - self._thought)
            self._thought = max(self._thought, size)

    def _price_by(self, usage: dict[str, Any]) -> None:
        """Take note of what the provider says that it served the call as."""
        if usage.get("speed") == "fast":
            self.service_tier = "fast"
        elif usage.get("service_tier") in _TIERS and (usage.get("speed") or self.request.service_tier != "fast"):
            self.service_tier = usage["service_tier"]
        if usage.get("inference_geo") not in ("global", "not_available"):
            self.name("inference_geo", usage.get("inference_geo"))


class CountMeter(Meter):
    """A count is no usage: whatever comes, nothing is charged."""

    def answer(self, answer: dict[str, Any]) -> None:
        """See :class:`Meter`."""
        self.finished = True

    def event(self, name: bytes, data: dict[str, Any]) -> None:
        """See :class:`Meter`."""

    def kinds(self) -> dict[str, Any] | None:
        """See :class:`Meter`."""
        return {"input": 0, "output": 0}

    def bound(self) -> dict[str, Any]:
        """See :class:`Meter`."""
        return {"input": 0, "output": 0}


def error_body(error: BudgetError) -> dict[str, Any]:
    """An error as Anthropic's clients know it, with our code, field and numbers beside the type and the message."""
    kind = _ERROR_TYPES.get(error.kind, "invalid_request_error" if error.kind < 500 else "api_error")
    said = {"type": kind, "message": error.message, "param": error.param, "code": error.code}
    return {"type": "error", "error": {**said, **({"pgbudget": error.detail} if error.detail else {})}, "request_id": None}


def _check(body: Any) -> None:
    check_body(body)
    if not isinstance(body.get("messages"), list):
        raise InvalidRequest("messages must be an array", "messages")
    for block in _blocks(body["messages"]):
        if block.get("type") == "tool_addition":
            raise InvalidRequest("messages may not have a tool_addition: declare all tools in tools", "messages")


def _blocks(messages: list[Any]) -> Iterator[dict[str, Any]]:
    """The content blocks of all messages."""
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        yield from (block for block in (content if isinstance(content, list) else ()) if isinstance(block, dict))


def _check_edits(management: Any) -> None:
    edits = management.get("edits") if isinstance(management, dict) else management
    if edits is None:
        return
    if not isinstance(edits, list) or not all(_is(edit, *_EDITS) for edit in edits):
        raise InvalidRequest(
            "context_management may only have edits that clear thinking or tool uses: what another one costs has no bound",
            "context_management",
        )


def _read_tools(tools: Any) -> tuple[list[Any] | None, int]:
    """The tools with a limit for every search, and how often the web may be searched; raises :class:`InvalidRequest`."""
    if tools is None:
        return None, 0
    if not isinstance(tools, list):
        raise InvalidRequest("tools must be an array", "tools")
    limited = []
    searches = 0
    for place, tool in enumerate(tools):
        if not isinstance(tool, dict):
            raise InvalidRequest(f"tools[{place}] must be an object", "tools")
        if tool.get("type") is not None and not _is(tool, *_CALLERS_TOOLS, *_SERVERS_TOOLS):
            raise InvalidRequest(
                f"tools[{place}].type is not accepted: the provider runs such a tool, or may, and what that costs is not known "
                "beforehand; use web_search, web_fetch, or tools that you run yourself",
                f"tools[{place}].type",
            )
        if _is(tool, _SEARCH):
            try:
                tool = {**tool, "max_uses": count(tool, "max_uses", _MOST_SEARCHES) or _USUAL_SEARCHES}
            except InvalidRequest as error:
                raise InvalidRequest(f"tools[{place}].{error.message}", f"tools[{place}].max_uses") from None
            searches += tool["max_uses"]
        limited.append(tool)
    if searches > _MOST_SEARCHES:
        raise InvalidRequest(f"the max_uses of all tools together must be at most {_MOST_SEARCHES}", "tools")
    return limited, searches


def _servers_tool(body: dict[str, Any]) -> int | None:
    """The place of a tool that the provider itself runs, in rounds that its first word of usage knows nothing of."""
    tools = body.get("tools")
    return next((place for place, tool in enumerate(tools or ()) if _is(tool, *_SERVERS_TOOLS)), None)


def _is(value: Any, *types: str) -> bool:
    return isinstance(value, dict) and str(value.get("type")).startswith(types)
