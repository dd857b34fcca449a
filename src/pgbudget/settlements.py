"""Settlements on their way to the database: none is lost, whatever happens to the request that made it.

A report is queued without waiting, so no cancellation can come between the end of a call and its settlement. The worker
books them in batches and tries until they are booked; until then the hold stands, so nothing is ever uncounted. Few wait for
a settlement, so reports gather for a moment first: fewer and larger batches leave the locks and the processors to the calls
that begin. Who does wait, or is refused because of a hold that is only not booked yet, ends the moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import psycopg

from pgbudget.db import Database, SettleResult

log = logging.getLogger("pgbudget.settlements")

_MAX_BATCH = 100
_MAX_WAIT = 2.0
#: Of a call that takes seconds, nothing; many reserves long.
_GATHER_SECONDS = 0.03

Report = dict[str, Any]


class Settlements:
    """The queue and its worker. ``booked`` is told the id of each reservation that has ended."""

    def __init__(self, database: Database, booked: Callable[[str], None]) -> None:
        self._database = database
        self._booked = booked
        self._queue: deque[tuple[Report, asyncio.Future[SettleResult]]] = deque()
        self._wake = asyncio.Event()
        self._hurry = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._worker: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the worker."""
        self._worker = asyncio.create_task(self._work(), name="settlements")

    def add(self, report: Report) -> asyncio.Future[SettleResult]:
        """Queue a report (see ``budget.settle_batch``); the future is for who wants to know what was charged."""
        future: asyncio.Future[SettleResult] = asyncio.get_running_loop().create_future()
        self._queue.append((report, future))
        self._idle.clear()
        self._wake.set()
        return future

    def hurry(self) -> None:
        """Somebody waits for what is queued."""
        self._hurry.set()

    async def booked(self, concerns: Callable[[str], bool], seconds: float) -> bool:
        """Wait until the queued reports of reservations that this concerns are booked, for so long at most.

        Returns whether there were any.
        """
        waiting = [future for report, future in self._queue if concerns(report["reservation_id"])]
        if waiting:
            self.hurry()
            await asyncio.wait(waiting, timeout=seconds)
        return bool(waiting)

    async def stop(self, seconds: float) -> None:
        """Book what is queued, for so long at most. What is not booked then goes stale and is charged in full."""
        self.hurry()
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            log.error("%d settlements are not booked: their holds will be charged in full", len(self._queue))
        if self._worker is not None:
            self._worker.cancel()

    async def _work(self) -> None:
        wait, size = 0.1, _MAX_BATCH
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._gather()
                batch = [self._queue[i] for i in range(min(size, len(self._queue)))]
                try:
                    await self._book(batch)
                except Exception as error:
                    log.warning("%d settlements wait (%s: %s)", len(self._queue), type(error).__name__, error)
                    if isinstance(error, psycopg.OperationalError):
                        # If one chain is stuck, ever smaller batches let the others by.
                        self._queue.rotate(-len(batch))
                        size = max(1, len(batch) // 2)
                    else:
                        await self._one_by_one(batch)
                    await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311
                    wait = min(wait * 2, _MAX_WAIT)
                else:
                    wait, size = 0.1, min(size * 2, _MAX_BATCH)
            self._idle.set()

    async def _gather(self) -> None:
        if len(self._queue) < _MAX_BATCH:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GATHER_SECONDS):
                    await self._hurry.wait()
        self._hurry.clear()

    async def _one_by_one(self, batch: list[tuple[Report, asyncio.Future[SettleResult]]]) -> None:
        for report, future in batch:
            try:
                await self._book([(report, future)])
            except psycopg.OperationalError:
                self._queue.rotate(-1)
            except Exception as error:
                log.error("reservation %s cannot be settled as reported: %s", report.get("reservation_id"), error)
                # What the database cannot take must not be lost: with nothing known, the whole hold is charged.
                self._queue.popleft()
                self._queue.append(({"reservation_id": report["reservation_id"], "outcome": "unknown"}, future))

    async def _book(self, batch: list[tuple[Report, asyncio.Future[SettleResult]]]) -> None:
        """Book the entries at the head of the queue."""
        results = await self._database.settle_batch([report for report, _ in batch])
        if len(results) != len(batch):
            raise RuntimeError(f"{len(batch)} reports, {len(results)} results")
        for (report, future), result in zip(batch, results, strict=True):
            self._queue.popleft()
            if result.status in ("rejected", "deferred"):
                log.error("reservation %s: %s %s: %s", report["reservation_id"], result.status, result.code, result.message)
            self._booked(report["reservation_id"])
            if not future.done():
                future.set_result(result)
