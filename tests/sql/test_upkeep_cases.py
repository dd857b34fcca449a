"""Cases of the handed list on the side of the database: /work/shared/cases, in micro-dollars."""

from __future__ import annotations

import threading

import pytest

from tests.sql.test_upkeep import stale
from tests.support.world import World

HOLD = 900


def test_est_10_a_cache_write_is_held_at_its_own_rate(world: World) -> None:
    key = world.key(400_000)
    # 100,000 tokens that may be written for an hour at 6, and 10 of output at 15: not at 3, nor at the sum of all rates.
    refused = world.reserve(key, "c-son", 100_000, 10, features=["cache_write_1h"])
    assert (refused["status"], refused["code"]) == ("denied", "request_over_limit")
    assert refused["worst_case_nano_usd"] == 600_150_000
    key = world.key(600_150)
    granted = world.reserve(key, "c-son", 100_000, 10, features=["cache_write_1h"])
    assert granted["status"] == "granted"
    world.settle(granted["reservation_id"], {"cache_write_1h": 100_000, "output": 10})
    assert world.spent() == 600_150
    assert [e["overrun"] for e in world.ledger()] == [False]


@pytest.mark.parametrize(("limit", "code"), [(10_000, None), (5_000, "budget_exceeded")])
def test_hold_07_what_is_above_the_hold_is_charged_in_full(world: World, limit: int, code: str | None) -> None:
    key = world.key(limit)
    world.settle(world.reserve(key, output=100)["reservation_id"], {"input": 100, "output": 2000})
    assert world.counters() == [{"spent": 8_100, "held": 0}]
    assert [e["overrun"] for e in world.ledger()] == [True]
    row = world.one("select available_usd from budget.budget_status")
    assert row["available_usd"] * 1_000_000 == limit - 8_100
    assert world.reserve(key)["code"] == code


def test_hold_01_and_04_no_reader_sees_a_gap_while_the_reconciler_works(world: World) -> None:
    stale(world, world.key(60 * HOLD), 60)
    seen: set[int] = set()
    done = threading.Event()

    def look() -> None:
        with world.connect() as reader:
            while not done.is_set():
                row = reader.execute("select sum(spent_nano_usd + held_nano_usd) / 1000 as total from budget_internal.periods")
                seen.add(int(row.fetchone()["total"]))  # type: ignore[index]
                differences = reader.execute("select * from budget.verify()").fetchall()
                assert differences == []

    reader = threading.Thread(target=look)
    reader.start()
    try:
        world.execute("call budget.run_reconciler(10)")
    finally:
        done.set()
        reader.join()
    assert seen <= {60 * HOLD}
    assert world.counters() == [{"spent": 60 * HOLD, "held": 0}]
    assert world.value("select count(*) from budget.reservation_status where state = 'charged'") == 60


def test_ledger_01_the_key_of_a_row_is_ours(world: World) -> None:
    secrets = [world.key(10**6) for _ in range(2)]
    # The same id of two callers, none, and an empty or endless one, which is no id.
    for secret in secrets:
        for request_id in ("chatcmpl-1", None, None):
            granted = world.reserve(secret, request_id=request_id)
            world.settle(granted["reservation_id"], {"input": 100, "output": 200})
    assert len({e["reservation_id"] for e in world.ledger()}) == 6
    assert world.spent() == 5_400
    for request_id in ("", "x" * 10_000):
        assert world.reserve(secrets[0], request_id=request_id)["code"] == "invalid_request"
    assert world.verify() == []


def test_hold_04_a_hold_whose_period_is_gone_is_still_booked_by_hand(world: World) -> None:
    key = world.key(HOLD + 100)
    reservation = world.reserve(key)["reservation_id"]
    world.execute("set session_replication_role = replica; delete from budget_internal.periods; reset session_replication_role")
    assert world.settle(reservation, {"input": 100, "output": 200})["status"] == "deferred"
    row = world.one("select * from budget.resolve(%s, 'charge', %s)", reservation, '{"input": 100, "output": 200}')
    assert (row["status"], row["charged_nano_usd"]) == ("settled", 900_000)
    (entry,) = world.ledger()
    assert entry["flags"] == ["resolved", "missing_period"]
    assert world.verify() == []
