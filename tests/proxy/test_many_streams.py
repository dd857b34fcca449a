"""A short form of ``bench/streams.py``: what many slow streams cost a gateway, with large events beside them."""

from __future__ import annotations

import asyncio
import json
import multiprocessing

from bench import streams

from tests.support.processes import Gateway, Simulator, wait_until
from tests.support.world import World

STREAMS, SECONDS = 200, 4


def test_slow_streams_beside_large_events(world: World, gateway: Gateway, simulator: Simulator) -> None:
    policy = {"heartbeat_seconds": 1, "stale_seconds": 8}
    world.execute("select budget.set_policy(null, %s)", json.dumps(policy))
    key = world.key(10**9)
    beside = multiprocessing.get_context("spawn").Process(target=streams.read_big, args=(gateway.url, key, 4, SECONDS))
    with streams.Watch(world.dsn, gateway.pid) as watch:
        beside.start()
        answers = asyncio.run(streams.read_all(gateway.url, key, "t-mini", [0] * STREAMS, SECONDS))
        beside.join(60)
    assert beside.exitcode == 0
    assert all(answers)
    assert 0 < watch.memory_mb < 200
    # Beaten again and again: far from stale, though a machine that is busy may be late by a beat or two.
    assert 0 < watch.heartbeat_seconds < 6
    assert simulator.tally()["states"]["finished"] == STREAMS + 4
    wait_until(lambda: world.value("select count(*) from budget_internal.reservations") == 0)
    assert world.value("select count(*) from budget_internal.ledger_entries where source = 'usage'") == STREAMS + 4
    assert world.verify() == []
