"""The dialect of ``/v1/responses``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from pgbudget.errors import InvalidRequest
from pgbudget.wire import strict_json
from pgbudget.wire.bounds import input_bound
from pgbudget.wire.dialect import (
    MAX_COUNT,
    CannotTurnOff,
    Dialect,
    Meter,
    ModelRequest,
    check_body,
    count,
    dumps,
    flag,
    named_event,
    service_tier,
    text_bytes,
)
from pgbudget.wire.providers import Provider
from pgbudget.wire.usage import charge_kinds, is_empty, merge

# Other models and paid extras; a stored prompt brings tools of its own; a compaction is a call that nobody asked for.
_UNPRICED = (
    "models", "route", "provider", "plugins", "transforms", "preset", "search_parameters", "context_management", "prompt",
)  # fmt: skip
# What the caller runs.
_OWN_TOOLS = frozenset({"function", "custom", "local_shell", "apply_patch"})
# What the provider runs for a fee, by how the tool's name begins: the feature that it is priced as.
_PAID_TOOLS = {"web_search": "web_search", "file_search": "file_search", "code_interpreter": "code_execution"}
_CALLS = {f"{tool}_call": feature for tool, feature in _PAID_TOOLS.items()}
#: How often tools with a fee may be used where the request does not say.
TOOL_CALLS = 10
_MAX_TOOL_CALLS = 100
# Names of its parts, and what is not made by the model: all else in an item is output.
_NOT_OUTPUT = (
    "id", "type", "index", "status", "role", "annotations", "logprobs", "call_id", "item_id", "container_id", "results",
    "outputs", "sources", "phase",
)  # fmt: skip
_NEVER_ASKED = frozenset({"audio_out", "image_out", "audio_seconds", "pages"})
# The members of ``done`` events that repeat what their deltas said.
_WHOLE_TEXTS = ("text", "arguments", "refusal", "input", "code")

#: Where an event is about.
_PLACE = ("item_id", "output_index", "content_index", "summary_index")
#: Texts that come in pieces, by what their events are called: the member that they make.
_TEXTS = {
    "output_text": "text", "refusal": "refusal", "reasoning_text": "text", "reasoning_summary_text": "text",
    "function_call_arguments": "arguments", "custom_tool_call_input": "input",
}  # fmt: skip
#: Parts by what their events are called: the list of their item, and their place in it.
_PARTS = {"content_part": ("content", "content_index"), "reasoning_summary_part": ("summary", "summary_index")}


class Responses(Dialect):
    """OpenAI's responses."""

    path = "/responses"
    api = "responses"

    def read(self, body: dict[str, Any]) -> ModelRequest:
        """See :class:`Dialect`."""
        check_body(body, _UNPRICED)
        given = body.get("input")
        if not isinstance(given, str | list) and not (given is None and body.get("previous_response_id")):
            raise InvalidRequest("input must be a string or an array of items", "input")
        stream = flag(body, "stream")
        if flag(body, "background") and stream:
            raise InvalidRequest(
                "background is not served as a stream: leave stream out and look with GET /v1/responses/{id}", "background"
            )
        bound = input_bound(body)
        tools = [_paid(place, tool) for place, tool in enumerate(_list(body, "tools"))]
        paid = {feature for feature in tools if feature}
        most = count(body, "max_tool_calls", _MAX_TOOL_CALLS if paid else MAX_COUNT)
        if stored := _stored(body):
            bound.unbind(stored)
        for place, feature in enumerate(tools):
            if feature:
                # What it finds comes as input.
                bound.unbind(f"tools[{place}]")
        return ModelRequest(
            body=body,
            model=body["model"],
            cap=count(body, "max_output_tokens"),
            stream=stream,
            input_tokens=bound.tokens,
            features=tuple(sorted(bound.features | paid)),
            uses=dict.fromkeys(paid, most or TOOL_CALLS),
            input_bounds=bound.estimates(),
            text_tokens=bound.text,
            service_tier=service_tier(body),
            unbounded=bound.unbounded,
        )

    def grows(self, request: ModelRequest) -> bool:
        """See :class:`Dialect`."""
        return request.stream and set(request.features) <= {"image_in", "audio_in"} and not request.body.get("reasoning")

    def turn_off(self, feature: str, request: ModelRequest, body: dict[str, Any]) -> None:
        """See :class:`Dialect`."""
        if feature in _PAID_TOOLS.values():
            if feature not in request.features:
                return
            choice = body.get("tool_choice")
            if isinstance(choice, dict):
                # It may name the tool that is to go.
                raise CannotTurnOff(feature)
            body["tools"] = [tool for place, tool in enumerate(body["tools"]) if _paid(place, tool) != feature]
        elif feature in request.features or feature not in _NEVER_ASKED | {"image_in", "audio_in"}:
            raise CannotTurnOff(feature)

    def rewrite(self, request: ModelRequest, provider: Provider, upstream_model: str, cap: int) -> bytes:
        """See :class:`Dialect`."""
        body = {**request.body, "model": upstream_model, "max_output_tokens": cap}
        if request.uses:
            body.setdefault("max_tool_calls", TOOL_CALLS)
            if body["max_tool_calls"] is None:
                body["max_tool_calls"] = TOOL_CALLS
        return strict_json.dumps(body)

    def meter(self, request: ModelRequest, provider: Provider) -> Meter:
        """See :class:`Dialect`."""
        return ResponsesMeter(request, provider)


class ResponsesMeter(Meter):
    """Watches a response: what it generates comes as deltas, again as whole texts, as whole items and as the whole response."""

    def __init__(self, request: ModelRequest, provider: Provider) -> None:
        super().__init__(request, provider)
        self.usage: dict[str, Any] | None = None
        self.status: str | None = None
        self.id: str | None = None
        #: Of each item that is being made: the bytes that were counted, and those of them that came as whole texts.
        self._items: dict[Any, tuple[int, int]] = {}
        self._tools: set[str] = set()
        self._calls: dict[str, set[str]] = {}
        self._shown = _Shown()

    @property
    def goes_on(self) -> str | None:
        """See :class:`Meter`."""
        return self.id if self.status in ("queued", "in_progress") and not self.streamed else None

    def answer(self, answer: dict[str, Any]) -> None:
        """See :class:`Meter`."""
        self._response(answer)
        if self.status is None and isinstance(answer.get("output"), list):
            # Not all say how it stands; what comes whole has ended.
            self.done()

    def event(self, name: bytes, data: dict[str, Any]) -> None:
        """See :class:`Meter`."""
        kind = data.get("type")
        kind = kind if isinstance(kind, str) else name.decode("ascii", "replace")
        if isinstance(data.get("response"), dict):
            self._response(data["response"])
        if kind == "error" or (kind == "" and data.get("error")):
            self.fail(data.get("error") or data)
        place = data.get("output_index")
        place = place if isinstance(place, int) else None
        if kind == "response.output_item.added":
            self.begun = True
            self._call(data.get("item"))
        elif kind == "response.output_item.done":
            self._item(data.get("item"), self._items.pop(place, (0, 0))[0])
        elif kind.endswith(".delta"):
            counted, whole = self._items.get(place, (0, 0))
            size = text_bytes(data.get("delta"))
            self.output_bytes += size
            self._items[place] = (counted + size, whole)
        elif kind.endswith(".done"):
            counted, whole = self._items.get(place, (0, 0))
            whole += sum(text_bytes(data.get(text)) for text in _WHOLE_TEXTS)
            self.output_bytes += max(whole - counted, 0)
            self._items[place] = (max(counted, whole), whole)

    def shown(self, data: dict[str, Any]) -> None:
        """See :class:`Meter`."""
        self._shown.take(data)

    def cut(self) -> bytes:
        """See :class:`Meter`."""
        seen = self.bound()
        usage = {
            "input_tokens": seen["input"],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": seen["output"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": seen["input"] + seen["output"],
        }
        return b"".join(deepcopy(self._shown).end({"id": self.id, "object": "response", "model": self.request.model}, usage))

    def kinds(self) -> dict[str, Any] | None:
        """See :class:`Meter`."""
        if self.usage is None:
            return None
        told = {
            "prompt_tokens": self.usage.get("input_tokens"),
            "completion_tokens": self.usage.get("output_tokens"),
            "total_tokens": self.usage.get("total_tokens"),
            "prompt_tokens_details": self.usage.get("input_tokens_details"),
            "completion_tokens_details": self.usage.get("output_tokens_details"),
        }
        usage = merge(None, told)
        if usage is None or is_empty(usage):
            return None
        kinds, self.clamped = charge_kinds(usage)
        return {**kinds, **self._used()}

    def bound(self) -> dict[str, Any]:
        """See :class:`Meter`."""
        # What has a fee shows as an item when it begins.
        kinds = {kind: quantity for kind, quantity in super().bound().items() if kind not in self.request.uses}
        return {**kinds, **self._used()}

    def _response(self, response: dict[str, Any]) -> None:
        """A response as it stands."""
        usage = response.get("usage")
        self.usage = merge(self.usage, usage)
        if isinstance(usage, dict) and self.usage is not None:
            self.provider_cost_usd = self.provider.stated_cost(self.usage)
        self.name("response_model", response.get("model"))
        self.name("provider_request_id", response.get("id"))
        if isinstance(response.get("id"), str):
            self.id = response["id"]
        status = response.get("status")
        self.status = status if isinstance(status, str) else None
        if self.status in ("queued", "in_progress"):
            return
        # Before its end the tier is that which was asked for.
        self.tier(response.get("service_tier"))
        counted, self.output_bytes = self.output_bytes, 0
        output = response.get("output")
        if output and isinstance(output, list):
            self._calls.clear()
            for item in output:
                self._item(item, 0)
        self.output_bytes = max(self.output_bytes, counted)
        if self.status in ("completed", "incomplete"):
            self.done()
        if self.status == "failed" or response.get("error"):
            self.fail(response.get("error") or self.status)

    def _item(self, item: Any, counted: int) -> None:
        """An item as it stays, of which so many bytes were counted."""
        if not isinstance(item, dict):
            return
        self.begun = True
        self.output_bytes += max(text_bytes(item, _NOT_OUTPUT) - counted, 0)
        self._call(item)

    def _call(self, item: Any) -> None:
        """An item that may be the use of a tool, or of something with a fee."""
        kind = item.get("type") if isinstance(item, dict) else None
        kind = kind if isinstance(kind, str) else ""
        if kind.endswith("_call"):
            self._tools.add(str(item.get("id") or item.get("call_id")))
            self.tool_calls = len(self._tools)
        feature = _CALLS.get(kind)
        if feature is None:
            return
        calls = self._calls.setdefault(feature, set())
        action = item.get("action")
        if feature == "web_search" and isinstance(action, dict) and action.get("type") != "search":
            # A page that is opened or searched in has no fee.
            calls.discard(str(item.get("id")))
        else:
            # Code runs in a container, which has the fee, however often.
            calls.add(str(item.get("container_id") or item.get("id") or len(calls)))

    def _used(self) -> dict[str, int]:
        """How often what has a fee was used."""
        return {feature: len(calls) for feature, calls in self._calls.items() if calls}


@dataclass(slots=True)
class _Text:
    """A text that comes in pieces. ``name``: what its events are called; ``place``: what they say of where it is."""

    name: str
    place: dict[str, Any]
    pieces: list[str] = field(default_factory=list)
    done: bool = False

    def joined(self) -> dict[str, str]:
        """The member of its part, or of its item, that it is."""
        return {_TEXTS[self.name]: "".join(self.pieces)}


class _Shown:
    """What a client has of a stream, to close it as its provider would. As large as the text that was shown."""

    def __init__(self) -> None:
        self._response = b"{}"
        #: The last event's number; None where they have none.
        self._sequence: int | None = None
        self._items: dict[int, dict[str, Any]] = {}
        self._begun: set[int] = set()
        #: Of the items that go on, by what they are: their parts as they began, and their texts.
        self._parts: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._texts: dict[tuple[Any, ...], _Text] = {}

    def take(self, data: dict[str, Any]) -> None:
        """An event that went on."""
        if isinstance(data.get("sequence_number"), int):
            self._sequence = data["sequence_number"]
        kind, item, part = data.get("type"), data.get("item"), data.get("part")
        if isinstance(data.get("response"), dict):
            self._response = dumps(data["response"])
        place = {name: data[name] for name in _PLACE if isinstance(data.get(name), int | str)}
        index = place.get("output_index")
        if not isinstance(kind, str) or not isinstance(index, int):
            return
        name, _, step = kind.removeprefix("response.").rpartition(".")
        if name == "output_item" and isinstance(item, dict):
            self._items[index] = item
            self._begun.add(index)
            if step == "done":
                self._begun.discard(index)
                self._parts = {key: value for key, value in self._parts.items() if key[0] != index}
                self._texts = {key: value for key, value in self._texts.items() if key[0] != index}
        elif name in _PARTS and isinstance(part, dict) and isinstance(place.get(_PARTS[name][1]), int):
            self._parts[_key(place)] = {"name": name, "place": place, "part": part, "done": step == "done"}
        elif name in _TEXTS:
            text = self._texts.setdefault(_key(place), _Text(name, place))
            text.done = step == "done"
            if isinstance(data.get("delta"), str):
                text.pieces.append(data["delta"])

    def end(self, response: dict[str, Any], usage: dict[str, Any]) -> Iterator[bytes]:
        """The events that close what is open, and say that the output limit was reached."""
        for index in sorted(self._begun):
            yield from self._close(index, self._items[index])
        yield self._event(
            "response.incomplete",
            response={
                **response,
                **json.loads(self._response),
                "status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
                "output": [item for _, item in sorted(self._items.items())],
                "usage": usage,
            },
        )

    def _close(self, index: int, item: dict[str, Any]) -> Iterator[bytes]:
        """The events that end an item; it is left as it ends."""
        for key, text in self._texts.items():
            if key[0] == index:
                part = self._parts.get(key)
                (part["part"] if part else item).update(text.joined())
                if not text.done:
                    logprobs: dict[str, Any] = {"logprobs": []} if text.name == "output_text" else {}
                    yield self._event(f"response.{text.name}.done", **text.place, **text.joined(), **logprobs)
        for key, part in sorted(self._parts.items()):
            if key[0] == index:
                name = part["name"]
                item.setdefault(_PARTS[name][0], []).append(part["part"])
                if not part["done"]:
                    yield self._event(f"response.{name}.done", **part["place"], part=part["part"])
        if "status" in item:
            item["status"] = "incomplete"
        yield self._event("response.output_item.done", output_index=index, item=item)

    def _event(self, kind: str, **members: Any) -> bytes:
        if self._sequence is not None:
            self._sequence += 1
            members["sequence_number"] = self._sequence
        return named_event({"type": kind, **members})


def _key(place: dict[str, Any]) -> tuple[Any, ...]:
    """What is in one place: of an item, and in that of a part of a list, where it is one."""
    return place["output_index"], place.get("content_index", -1), place.get("summary_index", -1)


def _stored(body: dict[str, Any]) -> str | None:
    """The field that brings in what the provider has stored."""
    for name in ("previous_response_id", "conversation"):
        if body.get(name) is not None:
            return name
    items = body.get("input")
    for place, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict) and (item.get("type") == "item_reference" or set(item) == {"id"}):
            return f"input[{place}]"
    return None


def _list(body: dict[str, Any], name: str) -> list[Any]:
    value = body.get(name)
    if value is not None and not isinstance(value, list):
        raise InvalidRequest(f"{name} must be an array", name)
    return value or []


def _paid(place: int, tool: Any) -> str | None:
    """The feature that a tool is priced as, None if the caller runs it; raises :class:`InvalidRequest` for all others."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    if not isinstance(kind, str):
        raise InvalidRequest("a tool must be an object with a type", f"tools[{place}]")
    if kind in _OWN_TOOLS:
        return None
    for name, feature in _PAID_TOOLS.items():
        if kind == name or kind.startswith((f"{name}_preview", f"{name}_20")):
            return feature
    raise InvalidRequest(
        f"the tool {kind[:60]} is not accepted: what its use costs is not known; tools of your own "
        f"({', '.join(sorted(_OWN_TOOLS))}) and {', '.join(_PAID_TOOLS)} are",
        f"tools[{place}].type",
    )
