"""What a dialect must be able to do; the life of a call around it is the same for all (see ``endpoint``).

To add one: a module with a class that keeps :class:`Dialect`, and its name in ``app.DIALECTS``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from starlette.datastructures import Headers

from pgbudget.simulator.behaviour import Behaviour
from pgbudget.simulator.tally import Call


class Refused(Exception):
    """The request is answered with an error, and nothing is generated."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request asks for, as far as it decides what is generated."""

    model: str
    stream: bool
    #: How many are generated; 0 where no text is.
    choices: int
    #: Most output tokens a choice; None if the request sets none.
    cap: int | None
    #: Whether a stream is to report its usage.
    usage: bool = False
    #: Whether it costs anything.
    billed: bool = True
    #: Whether the answer is only a promise, and what is generated is asked for later.
    background: bool = False
    #: The request, for what an answer repeats of it.
    body: dict[str, Any] = field(default_factory=dict)


class Rendering(Protocol):
    """One answer, in bytes."""

    def begin(self, call: Call) -> bytes:
        """The events before the first piece."""

    def piece(self, index: int, tokens: int) -> bytes:
        """The events of a piece: so many tokens of every choice."""

    def end(self, call: Call, tokens: int) -> bytes:
        """The events after the last piece: finish, usage, end mark."""

    def whole(self, call: Call, tokens: int) -> bytes:
        """The answer that is not streamed."""

    def error(self, body: Any) -> bytes:
        """What carries an error after the generation began: events of the stream, or the whole answer."""


@runtime_checkable
class Deferred(Rendering, Protocol):
    """An answer that may be generated in the background."""

    def pending(self, status: str) -> bytes:
        """The answer without an end: ``queued``, ``in_progress`` or ``cancelled``."""

    def failed(self, body: Any) -> bytes:
        """The answer that ended in this error, if one is known."""


class Dialect(Protocol):
    """One route of one API."""

    path: str
    #: How the ids of its answers begin.
    id_prefix: str
    #: The header of an answer that has the request's id.
    request_header: str

    def check_key(self, headers: Headers, key: str | None) -> None:
        """Raises :class:`Refused` unless a provider key is there, and the right one if one is given."""

    def read(self, body: dict[str, Any], headers: Headers) -> Ask:
        """Check a request as the provider would; raises :class:`Refused`."""

    def render(self, ask: Ask, behaviour: Behaviour, answer_id: Any) -> Rendering:
        """Begin an answer."""

    def error(self, refused: Refused, request_id: str) -> Any:
        """The body of an error."""


def dumps(value: Any) -> bytes:
    """JSON as it goes over the wire."""
    return json.dumps(value, separators=(",", ":")).encode()


def event(value: Any, padding: int = 0) -> bytes:
    """A server-sent event that is named by its type, with so many spaces at its end."""
    name = value.get("type", "message") if isinstance(value, dict) else "error"
    return b"event: %b\ndata: %b%b\n\n" % (str(name).encode(), dumps(value), b" " * padding)


def tool_text(text: str, begin: bool = True, end: bool = True) -> str:
    """Arguments of a tool that carry the text: a JSON object, or the part of it that this text is."""
    inner = json.dumps(text)[1:-1]
    return ('{"text": "' if begin else "") + inner + ('"}' if end else "")


def tool_name(tools: Any) -> str:
    """The name of the first tool that a request declares, in whichever form."""
    first = tools[0] if isinstance(tools, list) and tools else None
    name = first.get("name") if isinstance(first, dict) else None
    return name if isinstance(name, str) else "f"
