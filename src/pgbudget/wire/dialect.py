"""What a dialect is: one route of one API. It reads a request, rewrites it, meters the answer and shapes errors.

To add one: a module with a class that keeps :class:`Dialect`, and its name in ``dialects.py``. How calls live is the same for
all of them: see ``pgbudget.call``.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any

import orjson

from pgbudget.errors import BudgetError, InvalidRequest
from pgbudget.wire import skim
from pgbudget.wire.providers import Provider
from pgbudget.wire.repeat import Repeat
from pgbudget.wire.sse import Event, EventParser

MAX_COUNT = 2**63 - 1
#: What a call of a tool costs beyond the bytes that are seen of it, at most: the words around it are billed, and not shown.
#: More than any recorded call is billed in all (Anthropic: one of 22 bytes 40 tokens, two with a text 113; DeepSeek: one of 24
#: bytes 31; Kimi: one of 13 bytes 17), so with room for more parameters, which have words around each.
TOOL_CALL_TOKENS = 64
#: What providers call their service tiers, and the price variant that each is billed by.
TIERS = {
    "auto": "standard",
    "default": "standard",
    "standard": "standard",
    "on_demand": "standard",
    "priority": "priority",
    "flex": "flex",
    "batch": "batch",
}
#: Events of streams that may be cut are read as they are up to this size: what was shown of them must be closed.
_CUT_LIMIT = 1 << 20
_BLANK_LINE = re.compile(rb"\n\r?\n")
_ASKED_TIERS = ("auto", "default", "flex", "priority")
# A body must not choose where it goes or with which key.
_FORBIDDEN = ("api_key", "api_base", "base_url", "api_version", "organization", "extra_headers")


class CannotTurnOff(Exception):
    """A feature that a grant leaves out cannot be taken out of this request; the message is its name."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What admission needs to know of a request. ``cap``: output tokens for each of ``choices``, None if not given.

    ``inputs``: how many inputs ``input_tokens`` are of; each may fill the context window. ``text_tokens``: how many of them are
    for text. ``input_bounds``: estimates beside the bound, for keys that go by one. ``searches``: the model does so by itself.
    ``fee``: the charge kind of a fee that the model has for every request.
    ``usage_asked``: the client wants to see the usage of its stream. ``uses``: how often a feature with a fee may be used.
    ``service_tier``: the price variant that the call may be billed by.
    ``unbounded``: the field that lets the input grow beyond what the request says, None where nothing does; the context window
    is held then, or the request refused.
    """

    body: dict[str, Any]
    model: str
    cap: int | None
    input_tokens: int
    input_bounds: dict[str, int]
    text_tokens: int = 0
    inputs: int = 1
    choices: int = 1
    stream: bool = False
    usage_asked: bool = True
    features: tuple[str, ...] = ()
    uses: dict[str, int] = field(default_factory=dict)
    service_tier: str | None = None
    searches: bool = False
    fee: str | None = None
    unbounded: str | None = None


class Dialect(ABC):
    """One route. ``path``: below ``/v1`` here, and below the base URL of a provider. ``api``: what a provider must speak.

    ``free``: its calls cost nothing, and so are no step of a run.
    """

    path: str
    api: str
    free: bool = False

    @abstractmethod
    def read(self, body: dict[str, Any]) -> ModelRequest:
        """Read a parsed body; raises :class:`InvalidRequest` that names the field."""

    def as_granted(self, request: ModelRequest, upstream_model: str, changes: dict[str, Any]) -> ModelRequest:
        """The request as a rung of a ladder has it: another model, and without the features that the hold does not pay for.

        ``changes``: see ``budget.reserve_result``. Raises :class:`CannotTurnOff`; such a request must not be sent.
        """
        off = changes.get("features_off") or []
        if not off:
            return request
        body = dict(request.body)
        for feature in off:
            self.turn_off(feature, request, body)
        return replace(request, body=body, features=tuple(f for f in request.features if f not in off))

    def grows(self, request: ModelRequest) -> bool:
        """Whether the hold of this request may grow with its stream: the meter sees all output, and can :meth:`Meter.cut` it.

        That the model thinks unseen is another matter: see :meth:`Provider.shows_all`.
        """
        return False

    def turn_off(self, feature: str, request: ModelRequest, body: dict[str, Any]) -> None:
        """Take a feature out of a copy of the body; raises :class:`CannotTurnOff`."""
        raise CannotTurnOff(feature)

    @abstractmethod
    def rewrite(self, request: ModelRequest, provider: Provider, upstream_model: str, cap: int) -> bytes:
        """The body that is forwarded: routed model, the cap that was priced, usage reporting on."""

    @abstractmethod
    def meter(self, request: ModelRequest, provider: Provider) -> Meter:
        """What watches the answer to a request."""

    def error(self, error: BudgetError) -> dict[str, Any]:
        """The body of an error, as the clients of this route know it."""
        return error.body()


class Meter(ABC):
    """Watches an answer go by: its usage, its text, its errors. Feed it a JSON body or a stream, not both.

    A dialect fills in the public members by :meth:`answer` and :meth:`event`. ``output_bytes``: of all that was generated and
    seen (text, reasoning, tool calls). ``tool_calls``: how many of those there are. ``finished``: the provider said that it is
    complete. ``text``: of an event that does no more than add this to the output; events like it are not parsed again.
    ``failed``: it carries an error. ``begun``: something was generated, though it may not be seen. ``service_tier``,
    ``provider_cost_usd``: what the provider says of the price. ``clamped``: of the usage that :meth:`kinds` returned last a
    part was more than the whole.
    """

    def __init__(self, request: ModelRequest, provider: Provider) -> None:
        self.request = request
        self.provider = provider
        self.output_bytes = 0
        self.tool_calls = 0
        self.finished = False
        self.failed = False
        self.begun = False
        self.clamped = False
        self.streamed = False
        self.text: str | None = None
        self.service_tier: str | None = None
        self.provider_cost_usd: Decimal | None = None
        self.note: dict[str, str] = {}
        self._parser = EventParser()
        #: Bytes of an event that is too large to keep, while it goes on.
        self._unread = 0
        self._repeat: Repeat | None = None
        self._piecewise = False
        self._latest: dict[str, Any] | None = None

    @property
    def rewrites(self) -> bool:
        """Whether something must be taken out of the stream; what is not rewritten goes on byte by byte as it came."""
        return False

    @property
    def seen(self) -> int:
        """An upper bound of the tokens of what was seen of the output: one for each byte, and what tool calls have around."""
        return self.output_bytes + self._unread + self.tool_calls * TOOL_CALL_TOKENS

    @property
    def goes_on(self) -> str | None:
        """The id of an answer that is made in the background: the provider bills it when it has ended."""
        return None

    @abstractmethod
    def answer(self, answer: dict[str, Any]) -> None:
        """Meter a whole answer."""

    @abstractmethod
    def event(self, name: bytes, data: dict[str, Any]) -> None:
        """Meter one event of a stream."""

    def passed_on(self, event: Event, data: dict[str, Any]) -> bytes:
        """The bytes that a client gets for an event, where :attr:`rewrites`."""
        return event.raw

    def cut(self) -> bytes:
        """What ends a stream in this dialect's own words when its output limit is reached, with usage as in :meth:`bound`.

        Asked for between two events: all that were :meth:`shown` stand before it, nothing after it. What was begun must be
        closed, so that a client that reads to the end has a whole answer that says it is cut short. Needed where
        :meth:`Dialect.grows`.
        """
        raise NotImplementedError

    def shown(self, data: dict[str, Any]) -> None:  # noqa: B027 - not every dialect has something to close
        """An event has gone to the client, of a stream that may be :meth:`cut`: what must be closed then."""

    @abstractmethod
    def kinds(self) -> dict[str, Any] | None:
        """The usage reported, by charge kind; None when there is none."""

    def bound(self) -> dict[str, Any]:
        """What was seen, as a bound: the whole input, and the output as it was :attr:`seen`."""
        kinds = {"input": self.request.input_tokens, "output": self.seen}
        for feature in ("web_search", "file_search", "code_execution"):
            if feature in self.request.features:
                kinds[feature] = self.request.uses.get(feature, 1)
        return kinds

    def whole(self, body: bytes) -> bool:
        """Meter a body that is not streamed; returns whether it could be read."""
        try:
            answer = self.parse(body)
        except (ValueError, RecursionError):
            return False
        if not isinstance(answer, dict):
            return False
        self.answer(answer)
        return self.finished or self.failed

    def stream(self, chunk: bytes) -> bytes:
        """Meter bytes of a stream; returns the bytes to send on."""
        self.streamed = True
        out: list[bytes] = []
        place = 0
        while place < len(chunk):
            repeat, between = self._repeat, self._parser.between
            if between and repeat is not None and (texts := repeat.texts(chunk, place)):
                size = sum(map(len, texts))
                self.output_bytes += size
                out.append(repeat.passed_on(texts))
                place += len(texts) * repeat.frame + size
            elif between and (event := self._parser.one(chunk, place)) is not None:
                out.append(self._event(event))
                place += len(event.raw)
            else:
                # To where it may end; what follows is plain again.
                blank = _BLANK_LINE.search(chunk, place)
                end = blank.end() if blank else len(chunk)
                out += [self._event(event) for event in self._parser.feed(chunk[place:end])]
                place = end
        return b"".join(out) if self.rewrites else chunk

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """As :meth:`stream`, event by event, for who may end the stream between two.

        Each is metered when it is fetched, and has been passed on when the next one is asked for.
        """
        self.streamed = self._piecewise = True
        self._parser.limit = _CUT_LIMIT
        for event in self._parser.feed(chunk):
            self._latest = None
            yield self._event(event)
            if self._latest is not None:
                self.shown(self._latest)

    def close(self) -> bytes:
        """The end of the stream; returns what is left to send on."""
        rest = b"".join([self._event(event) for event in self._parser.close()])
        return rest if self.rewrites or self._piecewise else b""

    def done(self) -> None:
        """The stream's ``[DONE]``."""
        self.finished = not self.failed

    def fail(self, error: Any) -> None:
        """An error stands where the answer should be."""
        self.failed = True
        self.finished = False
        self.note.setdefault("error", json.dumps(error)[:200])

    def name(self, note: str, value: Any) -> None:
        """Note a name that the provider gave: short and harmless, the database takes neither NUL nor half a surrogate pair."""
        if note not in self.note and isinstance(value, str):
            self.note[note] = value[:200].encode("ascii", "replace").decode().replace("\0", "?")

    def tier(self, value: Any) -> None:
        """The provider says which service tier it served the call by; a word that is not known says nothing."""
        if isinstance(value, str) and value in TIERS:
            self.service_tier = TIERS[value]

    def parse(self, text: bytes) -> Any:
        """Parse what a provider sent; fractions are exact where they can be amounts. Raises ValueError or RecursionError."""
        if self.provider.states_cost:
            return json.loads(text, parse_float=Decimal)
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            # It takes no NaN and no half of a surrogate pair, which providers send.
            return json.loads(text)

    def _event(self, event: Event) -> bytes:
        self._repeat = None
        if event.oversized:
            self._unread += len(event.raw)
        if event.data is None:
            return event.raw
        if event.data == b"[DONE]":
            self.done()
            return event.raw
        try:
            data = self.parse(event.data)
        except (ValueError, RecursionError):
            self.output_bytes += self._unread or len(event.data)
            self._unread = 0
            return event.raw
        self._unread = 0
        if not isinstance(data, dict):
            return event.raw
        before, self.text = self.output_bytes, None
        self.event(event.name, data)
        if event.oversized:
            # It has gone on already, and not all of it is here.
            return event.raw
        self._latest = data
        passed_on = self.passed_on(event, data) if self.rewrites else event.raw
        if self.text and not self._piecewise and self.output_bytes - before == skim.size(self.text):
            self._repeat = Repeat.of(event.raw, self.text, passed_on)
        return passed_on


def check_body(body: Any, unpriced: tuple[str, ...] = ()) -> None:
    """What holds for every route: an object with a model, without keys, hosts or fields that change what a call costs."""
    if not isinstance(body, dict):
        raise InvalidRequest("the body must be a JSON object")
    for name in _FORBIDDEN:
        if name in body:
            raise InvalidRequest(f"{name} is not accepted: keys and hosts are the gateway's", name)
    for name in unpriced:
        if name in body:
            raise InvalidRequest(f"{name} is not accepted: it can change what the call costs", name)
    model = body.get("model")
    if not isinstance(model, str) or not 1 <= len(model) <= 200 or not model.isprintable():
        raise InvalidRequest("model must be a name of 1 to 200 printable characters", "model")


def count(body: dict[str, Any], name: str, most: int = MAX_COUNT, least: int = 1) -> int | None:
    """A whole number of the body, or None; raises :class:`InvalidRequest`."""
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not int or not least <= value <= most:
        raise InvalidRequest(f"{name} must be a whole number from {least} to {most}", name)
    return value


def flag(body: dict[str, Any], name: str) -> bool:
    """A boolean of the body, false if absent; raises :class:`InvalidRequest`."""
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidRequest(f"{name} must be true or false", name)
    return bool(value)


def service_tier(body: dict[str, Any]) -> str | None:
    """The price variant that a body asks for, None if it asks for none; raises :class:`InvalidRequest`."""
    asked = body.get("service_tier")
    if asked is None:
        return None
    if not isinstance(asked, str) or asked not in _ASKED_TIERS:
        raise InvalidRequest(f"service_tier must be one of {', '.join(_ASKED_TIERS)}", "service_tier")
    return TIERS[asked]


def text_bytes(value: Any, without: tuple[str, ...] = ("id", "type", "index")) -> int:
    """Bytes of all text in a piece of an answer: content, reasoning, refusals, names and arguments of tool calls."""
    if value is None:
        return 0
    if isinstance(value, str):
        return skim.size(value)
    if isinstance(value, dict):
        return sum(text_bytes(v, without) for k, v in value.items() if k not in without)
    if isinstance(value, list):
        return sum(text_bytes(v, without) for v in value)
    return 0


def dumps(chunk: dict[str, Any]) -> bytes:
    """A provider's chunk as JSON, whatever it is made of: what came in as escapes goes out as escapes."""
    # What was read exactly goes out as the number that it was.
    encode = partial(json.dumps, separators=(",", ":"), default=float)
    try:
        return encode(chunk, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return encode(chunk).encode("ascii")


def named_event(data: dict[str, Any]) -> bytes:
    """An event that is named by the type of its data."""
    return b"event: %b\ndata: %b\n\n" % (data["type"].encode(), dumps(data))
