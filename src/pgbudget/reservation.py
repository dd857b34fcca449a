"""A hold that was granted, and the one report that ends it."""

from __future__ import annotations

import asyncio

from pgbudget.data_plane import DataPlane
from pgbudget.db import ReserveResult, SettleResult
from pgbudget.endings import Ending
from pgbudget.growing import GrowingHold
from pgbudget.http import Headers, usd

#: How long an answer waits for its own settlement, where the caller asked for it.
_COST_SECONDS = 5


class Reservation:
    """A granted hold, kept alive until its end is booked. Its end is reported exactly once, however often it is told.

    ``growing``: where it may grow, what lets it. ``spent``: an earlier attempt of its plan may have been charged.
    ``goes_on``: its end is waited for apart from the request. ``outcome``: as it was reported.
    """

    def __init__(self, plane: DataPlane, grant: ReserveResult, choices: int) -> None:
        self.id = str(grant.reservation_id)
        self.spent = False
        self.goes_on = False
        self.outcome = ""
        self.growing: GrowingHold | None = None
        self._plane = plane
        self._grant = grant
        self._report: asyncio.Future[SettleResult] | None = None
        cap = grant.cap_output_tokens
        if cap is not None and self.granted_tokens < cap:
            self.growing = GrowingHold(plane.extend, self.id, self.granted_tokens, cap, choices)
        plane.heartbeats.add(self.id)

    @property
    def granted_tokens(self) -> int:
        """The output tokens for each choice that the grant holds."""
        return self._grant.granted_output_tokens or 0

    @property
    def ended(self) -> bool:
        """Whether its end was reported."""
        return self._report is not None

    @property
    def headers(self) -> Headers:
        """What an answer says of the call itself."""
        headers = [(b"x-pgbudget-reservation", self.id.encode())]
        if self._grant.rung is not None:
            headers.append((b"x-pgbudget-rung", self._grant.rung.encode()))
        if self._grant.warning is not None:
            headers.append((b"x-pgbudget-budget-warning", self._grant.warning.encode()))
        return headers

    def end(self, ending: Ending) -> None:
        """Report an end; the first report counts. Without an await, so that no cancellation can come between."""
        if self._report is not None:
            return
        # An attempt before this one was made and charged: the request id stays taken.
        self.outcome = "released" if ending.outcome == "unsent" and self.spent else ending.outcome
        self._report = self._plane.settlements.add({"reservation_id": self.id, "outcome": self.outcome, **ending.report})

    async def cost(self) -> str:
        """What was charged once it has :attr:`ended`, in USD; ``pending`` where that is not known soon."""
        assert self._report is not None
        self._plane.settlements.hurry()
        try:
            result = await asyncio.wait_for(asyncio.shield(self._report), _COST_SECONDS)
        except TimeoutError:
            return "pending"
        return "pending" if result.charged_nano_usd is None else f"{usd(result.charged_nano_usd):f}"
