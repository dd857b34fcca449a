"""Open reservations of this process, kept alive while their calls run."""

from __future__ import annotations

import asyncio
import logging
import time

import psycopg
from psycopg_pool import PoolTimeout

from pgbudget.db import Database

log = logging.getLogger("pgbudget.heartbeats")


class Heartbeats:
    """One call an interval for all reservations that are older than it. Has a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def open(self) -> int:
        """How many reservations are open."""
        return len(self._open)

    def add(self, reservation_id: str) -> None:
        """A call has begun."""
        self._open[reservation_id] = time.monotonic()

    def remove(self, reservation_id: str) -> None:
        """Its reservation has ended."""
        self._open.pop(reservation_id, None)

    def start(self) -> None:
        """Start beating."""
        self._task = asyncio.create_task(self._beat(), name="heartbeats")

    def stop(self) -> None:
        """Stop beating."""
        if self._task is not None:
            self._task.cancel()

    async def _beat(self) -> None:
        interval = 1.0
        while True:
            await asyncio.sleep(interval)
            try:
                settings = (await self._database.fetch("select * from budget.gateway_settings()"))[0]
                # Three beats must fit in the window, or one lost beat makes a call stale.
                interval = min(settings["heartbeat_seconds"], settings["stale_seconds"] / 4)
                before = time.monotonic() - interval
                due = [reservation for reservation, since in self._open.items() if since < before]
                if due:
                    for reservation, alive in (await self._database.heartbeat(due)).items():
                        if not alive and reservation in self._open:
                            log.error("reservation %s went stale while its call runs; it is trued up at its end", reservation)
            except (psycopg.Error, PoolTimeout) as error:
                log.warning("no heartbeat (%s)", type(error).__name__)
                interval = 1.0
