"""Counts of refusals: bounded, and kept while the database is away."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, cast

import psycopg
import pytest

from pgbudget.db import Database
from pgbudget.refusals import Refusals


class Counting:
    """A database that adds up what it is told, or fails with an error."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[Any, ...]] = Counter()
        self.error: Exception | None = None
        self.largest = 0

    async def fetch(self, query: str, parameter: Any) -> list[Any]:
        if self.error is not None:
            raise self.error
        rows = parameter.obj
        self.largest = max(self.largest, len(rows))
        for row in rows:
            self.counts[row["key"], row["scope_kind"], row["scope_name"], row["code"]] += row["count"]
        return []


def counting(max_entries: int = 100) -> tuple[Counting, Refusals]:
    database = Counting()
    return database, Refusals(cast(Database, database), max_entries=max_entries)


def test_the_same_refusal_is_one_entry() -> None:
    database, refusals = counting()
    for _ in range(3):
        refusals.add("sha256:1", "project", "web", "budget_exceeded")
    refusals.add("sha256:1", None, None, "model_not_found")
    asyncio.run(refusals.flush())
    asyncio.run(refusals.flush())
    assert database.counts == {
        ("sha256:1", "project", "web", "budget_exceeded"): 3,
        ("sha256:1", None, None, "model_not_found"): 1,
    }


def test_more_than_fits_is_counted_by_code_alone() -> None:
    database, refusals = counting(max_entries=10)
    for i in range(1_000):
        refusals.add(f"sha256:{i}", "key", f"k{i}", "budget_exceeded" if i % 2 else "budget_busy")
    assert len(refusals._counts) == 12
    asyncio.run(refusals.flush())
    assert database.counts.total() == 1_000
    assert database.counts[None, None, None, "budget_exceeded"] == 495
    # Room again.
    refusals.add("sha256:0", "key", "k0", "budget_busy")
    asyncio.run(refusals.flush())
    assert database.counts["sha256:0", "key", "k0", "budget_busy"] == 2


def test_keys_that_nobody_has_are_one_entry() -> None:
    database, refusals = counting()
    for i in range(50):
        refusals.add(f"sha256:{i}", None, None, "invalid_key")
    asyncio.run(refusals.flush())
    assert database.counts == {(None, None, None, "invalid_key"): 50}


@pytest.mark.parametrize("error", [psycopg.OperationalError("gone"), psycopg.errors.UndefinedFunction("not migrated")])
def test_a_database_that_is_away_gets_them_later(error: Exception) -> None:
    database, refusals = counting(max_entries=10)
    database.error = error
    for i in range(30):
        refusals.add(f"sha256:{i}", None, None, "key_expired")
        with pytest.raises(psycopg.Error):
            asyncio.run(refusals.flush())
    assert len(refusals._counts) == 11
    database.error = None
    asyncio.run(refusals.stop(1))
    assert database.counts.total() == 30


def test_what_the_database_cannot_take_does_not_stay_in_the_way() -> None:
    database, refusals = counting()
    refusals.add("sha256:1", None, None, "key_expired")
    database.error = psycopg.DatabaseError("LB101")
    asyncio.run(refusals.flush())
    database.error = None
    refusals.add("sha256:2", None, None, "key_expired")
    asyncio.run(refusals.flush())
    assert database.counts == {("sha256:2", None, None, "key_expired"): 1}


def test_many_go_in_pieces() -> None:
    database, refusals = counting(max_entries=4_000)
    for i in range(2_000):
        refusals.add(f"sha256:{i}", None, None, "key_expired")
    asyncio.run(refusals.flush())
    assert database.counts.total() == 2_000
    assert database.largest == 500
