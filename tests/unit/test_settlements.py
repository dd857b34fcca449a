"""Reports gather while nobody waits for them, and who is in need of one gets it at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from pgbudget import settlements
from pgbudget.config import Config
from pgbudget.data_plane import DataPlane
from pgbudget.db import Database, ReserveResult, SettleResult
from pgbudget.endings import Ending
from pgbudget.errors import Refused
from pgbudget.reservation import Reservation
from pgbudget.settlements import Settlements
from pgbudget.upstream import Upstream

BUDGET = 7


class Books:
    """A database that books everything, and has one budget with room for one hold."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.held: str | None = None

    async def reserve_batch(self, requests: Sequence[dict[str, Any]]) -> list[ReserveResult]:
        (request,) = requests
        result: dict[str, Any] = dict.fromkeys(ReserveResult._fields)
        if self.held is not None:
            return [ReserveResult(**result | {"status": "denied", "code": "budget_busy", "budget_id": BUDGET})]
        self.held = request["request_id"]
        return [ReserveResult(**result | {"status": "granted", "reservation_id": self.held, "budget_ids": [BUDGET]})]

    async def extend_batch(self, _: Sequence[dict[str, Any]]) -> list[ReserveResult]:
        raise AssertionError("no hold grows here")

    async def settle_batch(self, reports: Sequence[dict[str, Any]]) -> list[SettleResult]:
        self.batches.append([report["reservation_id"] for report in reports])
        if self.held in self.batches[-1]:
            self.held = None
        return [SettleResult("settled", None, None, r["reservation_id"], 1, 1, False, "usage", []) for r in reports]


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch) -> Books:
    """With a moment that no test sits out."""
    monkeypatch.setattr(settlements, "_GATHER_SECONDS", 1000)
    return Books()


async def _begun(books: Books) -> Settlements:
    """A worker that lets reports gather, with two queued."""
    queue = Settlements(cast(Database, books), lambda _: None)
    queue.start()
    for name in ("first", "second"):
        queue.add({"reservation_id": name})
    for _ in range(5):
        await asyncio.sleep(0)
    assert books.batches == []
    return queue


def test_who_needs_one_booked_has_all_booked(books: Books) -> None:
    async def run() -> None:
        queue = await _begun(books)
        assert await queue.booked(lambda name: name == "second", 1000)
        assert books.batches == [["first", "second"]]
        await queue.stop(1000)

    asyncio.run(run())


def test_what_concerns_nobody_is_not_waited_for(books: Books) -> None:
    async def run() -> None:
        queue = await _begun(books)
        assert not await queue.booked(lambda name: name == "other", 1000)
        assert books.batches == []
        await queue.stop(1000)

    asyncio.run(run())


def test_who_stops_does_not_wait_for_more(books: Books) -> None:
    async def run() -> None:
        queue = await _begun(books)
        await queue.stop(1000)
        assert books.batches == [["first", "second"]]

    asyncio.run(run())


def test_what_has_ended_is_in_nobodys_way(books: Books) -> None:
    async def run() -> None:
        database = cast(Database, books)
        plane = DataPlane(Config(""), database, database, cast(Upstream, None))
        plane.settlements.start()
        stays = asyncio.get_running_loop().create_future()

        def request(name: str) -> dict[str, Any]:
            return {"key": "k", "model": "m", "request_id": name, "options": {}}

        await plane.reserve(request("a"), stays)
        with pytest.raises(Refused) as refused:
            await plane.reserve(request("b"), stays)
        assert refused.value.code == "budget_busy"
        plane.settlements.add({"reservation_id": "a"})
        granted = await plane.reserve(request("c"), stays)
        assert granted.reservation_id == "c"
        await plane.settlements.stop(1000)

    asyncio.run(run())


def test_who_waits_for_a_cost_is_not_kept_waiting_for_more(books: Books) -> None:
    async def run() -> None:
        database = cast(Database, books)
        plane = DataPlane(Config(""), database, database, cast(Upstream, None))
        plane.settlements.start()
        result: dict[str, Any] = dict.fromkeys(ReserveResult._fields)
        grant = ReserveResult(**result | {"reservation_id": "a"})
        reservation = Reservation(plane, grant, 1)
        reservation.end(Ending("finished", {}))
        assert await reservation.cost() == "0.000000001"
        await plane.settlements.stop(1000)

    asyncio.run(run())
