"""The dialect of OpenAI's responses."""

from __future__ import annotations

import time
from typing import Any, Final

from starlette.datastructures import Headers

from pgbudget.simulator.behaviour import Behaviour
from pgbudget.simulator.dialect import Ask, dumps, event, tool_name, tool_text
from pgbudget.simulator.openai_api import OpenAI, bad, generator_of, stream_of, whole_number
from pgbudget.simulator.tally import Call

_MIN_OUTPUT: Final = 16
#: What an answer repeats of its request, and what it says where the request says nothing.
_ECHOED: Final[dict[str, Any]] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "store": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
    "metadata": {},
}


class Responses(OpenAI):
    """``POST /v1/responses``."""

    path = "/v1/responses"
    id_prefix = "resp_"

    def read(self, body: dict[str, Any], headers: Headers) -> Ask:
        """Refuse what OpenAI refuses, as far as it matters to money."""
        model, max_output = generator_of(body)
        given = body.get("input")
        if given is None and not any(body.get(name) for name in ("prompt", "previous_response_id", "conversation")):
            raise bad("Missing required parameter: 'input'.", "input", "missing_required_parameter")
        if not isinstance(given, str | list | None):
            raise bad("Invalid type for 'input': expected a string or an array.", "input", "invalid_type")
        stream, _ = stream_of(body)
        background = body.get("background")
        if not isinstance(background, bool | None):
            raise bad("Invalid type for 'background': expected a boolean.", "background", "invalid_type")
        if background and body.get("store") is False:
            raise bad("Background mode requires 'store' to be true.", "background")
        return Ask(
            model=model,
            stream=stream,
            choices=1,
            cap=whole_number(body, "max_output_tokens", max_output, least=_MIN_OUTPUT),
            background=bool(background),
            body=body,
        )

    def render(self, ask: Ask, behaviour: Behaviour, answer_id: Any) -> ResponseRendering:
        """Begin an answer."""
        return ResponseRendering(ask, behaviour, answer_id)


class ResponseRendering:
    """One response: reasoning that is not shown, web searches, then the item that has the text."""

    def __init__(self, ask: Ask, behaviour: Behaviour, answer_id: Any) -> None:
        self._ask = ask
        self._behaviour = behaviour
        self._id = answer_id
        self._created = int(time.time())
        self._events = 0
        self._starts: dict[int, bytes] = {}
        before: list[dict[str, Any]] = []
        if behaviour.reasoning_tokens:
            before.append({"id": f"rs_{answer_id}_0", "type": "reasoning", "summary": []})
        for number in range(behaviour.web_searches):
            search = {"id": f"ws_{answer_id}_{number}", "type": "web_search_call", "status": "completed"}
            before.append({**search, "action": {"type": "search", "query": "a page", "queries": ["a page"]}})
        self._before = before
        kind = {"tool_calls": "fc", "reasoning": "rs"}.get(behaviour.deltas, "msg")
        self._item_id = f"{kind}_{answer_id}"
        #: Where the text is, in the events of the item that has it.
        self._place: dict[str, Any] = {"item_id": self._item_id, "output_index": len(before)}

    def begin(self, call: Call) -> bytes:
        """The response as it begins, the items before the text, and the beginning of that."""
        events = [self._event("created", response=self._response("in_progress"))]
        events.append(self._event("in_progress", response=self._response("in_progress")))
        for index, item in enumerate(self._before):
            events += self._item_events(index, item)
        item = {**self._item("", "in_progress"), **({} if self._behaviour.deltas == "tool_calls" else self._empty())}
        events.append(self._event("output_item.added", output_index=len(self._before), item=item))
        if (part := self._part("")) is not None:
            name, place, content = part
            events.append(self._event(f"{name}.added", **self._place, **place, part=content))
        return b"".join(events)

    def piece(self, index: int, tokens: int) -> bytes:
        """One delta."""
        behaviour = self._behaviour
        # Pieces of a size are alike, but for the first of a tool's and the sequence number at the end of each.
        alike = -1 if index == 0 else tokens
        start = self._starts.get(alike)
        if start is None:
            start = self._starts[alike] = self._delta(behaviour.text * tokens, index == 0)
        delta = start + b"%d}\n\n" % self._next()
        if behaviour.usages is not None and index < len(behaviour.usages):
            response = {**self._response("in_progress"), "usage": behaviour.usages[index]}
            return delta + self._event("in_progress", response=response)
        return delta

    def end(self, call: Call, tokens: int) -> bytes:
        """The item's end, and the response with all that it is."""
        behaviour, status = self._behaviour, self._status(tokens)
        text = self._text(tokens)
        events = []
        if behaviour.deltas == "tool_calls":
            rest = tool_text("", begin=not text)
            events.append(self._event("function_call_arguments.delta", **self._place, delta=rest))
            events.append(self._event("function_call_arguments.done", **self._place, arguments=tool_text(text)))
        elif (part := self._part(text)) is not None:
            name, place, content = part
            kind = "reasoning_summary_text" if behaviour.deltas == "reasoning" else "output_text"
            logprobs: dict[str, Any] = {} if behaviour.deltas == "reasoning" else {"logprobs": []}
            events.append(self._event(f"{kind}.done", **self._place, **place, **logprobs, text=text))
            events.append(self._event(f"{name}.done", **self._place, **place, part=content))
        item = self._item(text, status)
        events.append(self._event("output_item.done", output_index=len(self._before), item=item))
        events.append(self._event(status, response=self._ended(call, tokens)))
        return b"".join(events)

    def whole(self, call: Call, tokens: int) -> bytes:
        """A response."""
        return dumps(self._ended(call, tokens)) + b" " * self._behaviour.padding

    def pending(self, status: str) -> bytes:
        """A response without output."""
        return dumps(self._response(status))

    def failed(self, body: Any) -> bytes:
        """A response that says what went wrong."""
        return dumps(self._failed(body))

    def error(self, body: Any) -> bytes:
        """The error and the failed response, or that alone."""
        if not self._ask.stream:
            return self.failed(body)
        members = body if isinstance(body, dict) else {"error": body}
        first = event({"type": "error", **members, "sequence_number": self._next()})
        return first + self._event("failed", response=self._failed(body))

    def _failed(self, body: Any) -> dict[str, Any]:
        error = body.get("error") if isinstance(body, dict) else None
        code, message = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, None)
        return {
            **self._response("failed"),
            "error": {"code": code or "server_error", "message": message or "The answer could not be made."},
        }

    def _next(self) -> int:
        number, self._events = self._events, self._events + 1
        return number

    def _event(self, name: str, **members: Any) -> bytes:
        return event({"type": f"response.{name}", **members, "sequence_number": self._next()})

    def _delta(self, text: str, first: bool) -> bytes:
        """A delta up to its sequence number."""
        deltas, padding = self._behaviour.deltas, self._behaviour.padding
        members: dict[str, Any]
        if deltas == "tool_calls":
            name, members = "function_call_arguments", {"delta": tool_text(text, begin=first, end=False)}
        elif deltas == "reasoning":
            name, members = "reasoning_summary_text", {"summary_index": 0, "delta": text}
        else:
            name, members = "output_text", {"content_index": 0, "delta": text, "logprobs": []}
        if padding:
            members["obfuscation"] = "p" * padding
        kind = f"response.{name}.delta"
        whole = dumps({"type": kind, **self._place, **members, "sequence_number": 0})
        return b"event: %b\ndata: %b" % (kind.encode(), whole.removesuffix(b"0}"))

    def _item_events(self, index: int, item: dict[str, Any]) -> list[bytes]:
        """The events of an item that comes at once."""
        begun = {name: value for name, value in item.items() if name != "action"}
        steps = []
        if item["type"] == "web_search_call":
            begun["status"] = "in_progress"
            steps = [f"web_search_call.{step}" for step in ("in_progress", "searching", "completed")]
        added = self._event("output_item.added", output_index=index, item=begun)
        done = [self._event(step, output_index=index, item_id=item["id"]) for step in steps]
        return [added, *done, self._event("output_item.done", output_index=index, item=item)]

    def _text(self, tokens: int) -> str:
        return self._behaviour.text * max(0, tokens - self._behaviour.reasoning_tokens)

    def _part(self, text: str) -> tuple[str, dict[str, int], dict[str, Any]] | None:
        """The part that has the text: what its events are called, its place in the item, and itself."""
        if self._behaviour.deltas == "tool_calls":
            return None
        if self._behaviour.deltas == "reasoning":
            return "reasoning_summary_part", {"summary_index": 0}, {"type": "summary_text", "text": text}
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
        return "content_part", {"content_index": 0}, part

    def _empty(self) -> dict[str, Any]:
        """What an item has before its parts come."""
        return {"summary": []} if self._behaviour.deltas == "reasoning" else {"content": []}

    def _item(self, text: str, status: str) -> dict[str, Any]:
        """The item that has the text."""
        deltas = self._behaviour.deltas
        if deltas == "tool_calls":
            arguments = "" if status == "in_progress" else tool_text(text)
            call = {"call_id": f"call_{self._id}", "name": tool_name(self._ask.body.get("tools"))}
            return {"id": self._item_id, "type": "function_call", "status": status, "arguments": arguments, **call}
        if deltas == "reasoning":
            return {"id": self._item_id, "type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
        return {"id": self._item_id, "type": "message", "status": status, "content": [part], "role": "assistant"}

    def _status(self, tokens: int) -> str:
        return "incomplete" if tokens < self._behaviour.completion else "completed"

    def _response(self, status: str) -> dict[str, Any]:
        """A response without output and usage."""
        behaviour, body = self._behaviour, self._ask.body
        # A tier is named when the work is done.
        served = status in ("completed", "incomplete")
        response = {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": self._ask.background,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "model": behaviour.model or self._ask.model,
            "output": [],
            **{name: default if body.get(name) is None else body[name] for name, default in _ECHOED.items()},
            "reasoning": {"effort": None, "summary": None, **(body.get("reasoning") or {})},
            "service_tier": (behaviour.service_tier or "default") if served else "auto",
            "text": {"format": {"type": "text"}, "verbosity": "medium", **(body.get("text") or {})},
            "usage": None,
        }
        for name in behaviour.omit or ():
            response.pop(name, None)
        return response

    def _ended(self, call: Call, tokens: int) -> dict[str, Any]:
        """The response when nothing more will come."""
        behaviour, status = self._behaviour, self._status(tokens)
        reason = {"reason": "max_output_tokens"} if status == "incomplete" else None
        end = {
            "completed_at": int(time.time()) if status == "completed" else None,
            "incomplete_details": reason,
            "output": [*self._before, self._item(self._text(tokens), status)],
            "tool_usage": {"web_search": {"num_requests": call.web_searches}},
            "usage": None if behaviour.no_usage or behaviour.usages is not None else self._usage(call),
        }
        hidden = behaviour.omit or ()
        return {**self._response(status), **{name: value for name, value in end.items() if name not in hidden}}

    def _usage(self, call: Call) -> Any:
        if self._behaviour.usage is not None:
            return self._behaviour.usage
        writes = call.cache_write_5m_tokens + call.cache_write_1h_tokens
        return {
            "input_tokens": call.prompt_tokens,
            "input_tokens_details": {"cache_write_tokens": writes, "cached_tokens": call.cached_tokens},
            "output_tokens": call.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": call.reasoning_tokens},
            "total_tokens": call.prompt_tokens + call.completion_tokens,
        }
