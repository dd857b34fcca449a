"""Who made a call, and waits for its answer."""

from __future__ import annotations

from starlette.types import Send

from pgbudget.http import Headers


class Client:
    """What is sent to it goes nowhere once it is ``gone``. ``headers``: of its request. ``answered``: an answer has begun."""

    def __init__(self, headers: Headers, send: Send) -> None:
        self.headers = headers
        self.gone = False
        self.answered = False
        self._send = send

    @property
    def waits_for_cost(self) -> bool:
        """Whether it wants to be told what the call cost."""
        return any(name == b"x-pgbudget-cost" and value.strip() == b"wait" for name, value in self.headers)

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
