"""Answers that are made in the background: looked at until they have ended, whether or not the client stays."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

import psycopg
from psycopg_pool import PoolTimeout

from pgbudget.data_plane import DataPlane
from pgbudget.endings import ending_of, unknown
from pgbudget.errors import UpstreamFailed
from pgbudget.reservation import Reservation
from pgbudget.upstream import Broken, NotSent, read
from pgbudget.wire.dialect import Dialect, ModelRequest
from pgbudget.wire.providers import provider
from pgbudget.wire.skim import skimmed

log = logging.getLogger("pgbudget.calls")

#: How long an answer in the background waits until all gateways know of it.
_KEPT_SECONDS = 5
#: How often it is looked at, at the least.
_LOOK_SECONDS = 10


class BackgroundAnswer:
    """One answer that goes on after its call, and the reservation that its end is charged to."""

    def __init__(
        self,
        plane: DataPlane,
        dialect: Dialect,
        request: ModelRequest,
        route: dict[str, str],
        reservation: Reservation,
        answer_id: str,
    ) -> None:
        self._plane = plane
        self._dialect = dialect
        self._request = request
        self._route = route
        self._reservation = reservation
        self._id = answer_id
        self._kept = asyncio.Event()

    async def follow(self) -> None:
        """Have its end waited for from here on; returns when its caller can ask for it."""
        self._reservation.goes_on = True
        self._plane.spawn(self._until_ended())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._kept.wait(), _KEPT_SECONDS)

    async def _until_ended(self) -> None:
        """Look at it until it has ended, and report it.

        Cancelled when the gateway stops: the hold then goes stale and is charged, and a later look at the answer corrects it.
        """
        deadline = time.monotonic() + self._plane.config.background_seconds
        wait = 0.25
        while time.monotonic() < deadline:
            if not self._kept.is_set():
                await self._keep()
            await asyncio.sleep(wait)
            wait = min(wait * 1.5, _LOOK_SECONDS)
            try:
                status, body = await look(self._plane, "GET", self._route, self._dialect, self._id)
            except UpstreamFailed:
                continue
            if status == 404:
                self._reservation.end(unknown("answer deleted before its end"))
                return
            if not 200 <= status < 300:
                continue
            meter = self._dialect.meter(self._request, provider(self._route["provider"]))
            if meter.whole(await skimmed([body])) or meter.goes_on is None:
                self._reservation.end(ending_of(meter, broken=not meter.finished))
                return
        self._reservation.end(unknown("no end of an answer in the background"))

    async def _keep(self) -> None:
        try:
            await self._plane.keep_answer(self._reservation.id, self._id, self._route)
            self._kept.set()
        except (psycopg.Error, PoolTimeout) as error:
            log.warning("call %s: its answer is not kept yet (%s)", self._reservation.id, type(error).__name__)


async def look(
    plane: DataPlane, method: str, route: dict[str, str], dialect: Dialect, answer_id: str, rest: str = ""
) -> tuple[int, bytes]:
    """Ask a provider about an answer in the background; returns status and body. Raises :class:`UpstreamFailed`."""
    ways = provider(route["provider"])
    account = plane.config.account(route["account"], route["provider"])
    if account is None:
        raise UpstreamFailed(f"the provider account {route['account']} has no URL or key in the gateway's environment")
    try:
        response = await plane.upstream.send(method, account, ways, f"{dialect.path}/{answer_id}{rest}")
    except (NotSent, Broken) as error:
        raise UpstreamFailed(str(error)) from None
    try:
        return response.status_code, b"".join(await read(response, plane.config.idle_seconds))
    finally:
        await response.aclose()
