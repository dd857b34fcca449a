"""Promise one: at any concurrency, spent + held never passes the limit, and what fits is granted."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from tests.support.world import World

CONNECTIONS = 32
ROOM = 10


def test_of_32_at_once_exactly_the_ten_that_fit_are_granted(world: World) -> None:
    """Must show 3, single calls: ten rounds, each on a fresh key."""
    for _ in range(10):
        # 100 x 1 + 200 x 4 = 900 micro-dollars a request.
        key = world.key(ROOM * 900)
        start = Barrier(CONNECTIONS)

        def reserve(key: str = key, start: Barrier = start) -> str:
            with world.connect_gateway() as connection:
                start.wait()
                row = connection.execute("select status, code from budget.reserve(%s, 't-mini', 100, 200)", (key,)).fetchone()
                assert row is not None
                return str(row["code"] or row["status"])

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            outcomes = [f.result() for f in [pool.submit(reserve) for _ in range(CONNECTIONS)]]
        assert sorted(outcomes) == ["budget_busy"] * (CONNECTIONS - ROOM) + ["granted"] * ROOM
    assert world.verify() == []


def test_batches_that_race_grant_exactly_what_fits(world: World) -> None:
    key = world.key(25 * 900)
    start = Barrier(8)
    request = {"key": key, "model": "t-mini", "input_tokens": 100, "max_output_tokens": 200}

    def reserve() -> list[str]:
        with world.connect_gateway() as connection:
            start.wait()
            rows = connection.execute("select status from budget.reserve_batch(%s)", (json.dumps([request] * 10),))
            return [row["status"] for row in rows]

    with ThreadPoolExecutor(8) as pool:
        outcomes = [s for f in [pool.submit(reserve) for _ in range(8)] for s in f.result()]
    assert outcomes.count("granted") == 25
    assert world.held() == 25 * 900
    assert world.verify() == []
