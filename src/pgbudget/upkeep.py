"""The schedule, where no pg_cron runs it: stale reservations, burn rates, the daily upkeep. All of it is SQL; one of any number
of gateways acts at a time, and none while pg_cron has the schedule."""

from __future__ import annotations

import asyncio
import logging
import time

import psycopg
from psycopg_pool import PoolTimeout

from pgbudget.db import Database

log = logging.getLogger("pgbudget.upkeep")

_STEP = "select acted, runner, charged, failed, quarantined, more from budget.run_schedule()"


class Upkeep:
    """Calls ``budget.run_schedule`` every ``seconds``, and again at once while there is more; 0: never."""

    def __init__(self, database: Database, seconds: float) -> None:
        self._database = database
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start looking."""
        if self._seconds:
            self._task = asyncio.create_task(self._run(), name="upkeep")

    def stop(self) -> None:
        """Stop; a step under way is rolled back."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            try:
                more = True
                while more:
                    begun = time.monotonic()
                    more = await self._step()
                    # Calls that wait for the same budgets get their turn.
                    await asyncio.sleep(min(time.monotonic() - begun, 0.02))
            except psycopg.errors.InsufficientPrivilege:
                log.warning("this login may not reconcile; leave it to pg_cron or grant it budget_reconciler")
                return
            except (psycopg.Error, PoolTimeout) as error:
                log.warning("not reconciled (%s)", type(error).__name__)

    async def _step(self) -> bool:
        row = (await self._database.fetch(_STEP))[0]
        if row["charged"] or row["failed"]:
            log.warning("reconciled: %(charged)d charged, %(failed)d failed, %(quarantined)d quarantined", row)
        return bool(row["more"])
