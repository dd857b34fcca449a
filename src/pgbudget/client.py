"""Who made a call, and waits for its answer."""

from __future__ import annotations

from starlette.types import Send

from pgbudget.errors import InvalidRequest
from pgbudget.http import Headers, header

_COST = "x-pgbudget-cost"


def waits_for_cost(headers: Headers) -> bool:
    """Whether who calls wants to be told what the call cost; raises :class:`InvalidRequest`."""
    asked = header(headers, _COST.encode())
    if asked not in (None, "wait"):
        raise InvalidRequest(f"{_COST} can only be wait: then the answer waits until its cost is known; or leave it out", _COST)
    return asked is not None


class Client:
    """What is sent to it goes nowhere once it is ``gone``. ``answered``: an answer has begun.

    ``waits_for_cost``: whether it wants to be told what the call cost.
    """

    def __init__(self, headers: Headers, send: Send) -> None:
        self.waits_for_cost = waits_for_cost(headers)
        self.gone = False
        self.answered = False
        self._send = send

    async def start(self, status: int, headers: Headers) -> None:
        """Begin the answer."""
        self.answered = True
        if not self.gone:
            await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, body: bytes, *, more: bool = True) -> None:
        """Send a piece of the answer, the last one without ``more``; returns when there is room for the next."""
        if self.gone:
            return
        try:
            await self._send({"type": "http.response.body", "body": body, "more_body": more})
        except OSError:
            self.gone = True
