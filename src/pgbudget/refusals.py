"""Refusals, counted in memory and told to the database every few seconds: a refused call itself writes nothing there.

The counts are for people to look at. Nobody waits for them, and they take bounded memory: of more different ones than that,
only the codes are counted on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import psycopg
from psycopg.types.json import Jsonb
from psycopg_pool import PoolTimeout

from pgbudget.db import Database

log = logging.getLogger("pgbudget.refusals")

_SECONDS = 2.0
_MAX_SECONDS = 30.0
_MAX_ENTRIES = 4_000
_MAX_BATCH = 500


class Refusal(NamedTuple):
    """What is counted together. ``key``: ``sha256:<hex>``; ``minute_at``: ISO 8601, UTC. None: of whichever."""

    key: str | None
    scope_kind: str | None
    scope_name: str | None
    code: str
    minute_at: str


class Refusals:
    """The counts, and the task that flushes them."""

    def __init__(self, database: Database, *, max_entries: int = _MAX_ENTRIES, seconds: float = _SECONDS) -> None:
        self._database = database
        self._max_entries = max_entries
        self._seconds = seconds
        self._counts: dict[Refusal, int] = {}
        # Past the bound: by code, with the minute in which it was reached.
        self._folded: dict[str, Refusal] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, key: str, scope_kind: str | None, scope_name: str | None, code: str) -> None:
        """Count one refusal, now; never waits."""
        # A key that is not known stands for nobody, and there is no end of them.
        known = None if code == "invalid_key" else key
        minute = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:00Z")
        self._count(Refusal(known, scope_kind, scope_name, code, minute), 1)

    def start(self) -> None:
        """Start flushing."""
        self._task = asyncio.create_task(self._work(), name="refusals")

    async def stop(self, seconds: float) -> None:
        """Flush what there is, for so long at most."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        try:
            await asyncio.wait_for(self.flush(), seconds)
        except (psycopg.Error, PoolTimeout, TimeoutError):
            log.warning("%d refusals are not counted", sum(self._counts.values()))

    async def flush(self) -> None:
        """Tell the database. What it did not take is kept; where its answer was lost, that much may be counted twice."""
        counts, self._counts, self._folded = self._counts, {}, {}
        try:
            for batch in _batches(counts):
                await self._send(batch)
                for refusal, _ in batch:
                    del counts[refusal]
        finally:
            for refusal, count in counts.items():
                self._count(refusal, count)

    async def _send(self, batch: list[tuple[Refusal, int]]) -> None:
        rows: list[dict[str, Any]] = [{**refusal._asdict(), "count": count} for refusal, count in batch]
        try:
            await self._database.fetch("select budget.count_refusals(%s)", Jsonb(rows))
        except (psycopg.OperationalError, psycopg.ProgrammingError):
            # Away, or not migrated yet.
            raise
        except psycopg.Error as error:
            # It would be refused for ever, and all others behind it.
            log.error("%d counts of refusals cannot be booked: %s", len(rows), error)

    def _count(self, refusal: Refusal, count: int) -> None:
        if refusal not in self._counts and len(self._counts) >= self._max_entries:
            code_only = Refusal(None, None, None, refusal.code, refusal.minute_at)
            refusal = self._folded.setdefault(refusal.code, code_only)
        self._counts[refusal] = self._counts.get(refusal, 0) + count

    async def _work(self) -> None:
        wait = self._seconds
        while True:
            await asyncio.sleep(wait)
            try:
                await self.flush()
                wait = self._seconds
            except (psycopg.Error, PoolTimeout) as error:
                wait = min(wait * 2, _MAX_SECONDS)
                log.warning("refusals are not counted yet (%s)", type(error).__name__)


def _batches(counts: dict[Refusal, int]) -> Iterator[list[tuple[Refusal, int]]]:
    entries = list(counts.items())
    for start in range(0, len(entries), _MAX_BATCH):
        yield entries[start : start + _MAX_BATCH]
