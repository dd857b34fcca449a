"""What a dialect must be able to do; the life of a call around it is the same for all (see ``endpoint``).

To add one: a module with a class that keeps :class:`Dialect`, and its name in ``app.DIALECTS``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from pgbudget.simulator.behaviour import Behaviour
from pgbudget.simulator.tally import Call


class Refused(Exception):
    """The request is answered with an error, and nothing is generated."""

    def __init__(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers or {}


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request asks for, as far as it decides what is generated."""

    model: str
    stream: bool
    choices: int
    #: Most output tokens a choice; None if the request sets none.
    cap: int | None
    #: Whether a stream is to report its usage.
    usage: bool


class Rendering(Protocol):
    """One answer, in bytes."""

    def piece(self, index: int, tokens: int) -> bytes:
        """The events of a piece: so many tokens of every choice."""

    def end(self, call: Call, tokens: int) -> bytes:
        """The events after the last piece: finish, usage, end mark."""

    def whole(self, call: Call, tokens: int) -> bytes:
        """The answer that is not streamed."""

    def error(self, body: Any) -> bytes:
        """An event that carries an error."""


class Dialect(Protocol):
    """One route of one API."""

    path: str

    def read(self, body: dict[str, Any]) -> Ask:
        """Check a request as the provider would; raises :class:`Refused`."""

    def render(self, ask: Ask, behaviour: Behaviour, answer_id: Any) -> Rendering:
        """Begin an answer."""

    def error(self, status: int, message: str, code: str | None = None, param: str | None = None) -> Any:
        """The body of an error."""
