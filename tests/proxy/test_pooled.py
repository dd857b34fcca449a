"""Gateways behind PgBouncer in transaction mode: no connection is theirs for longer than a statement."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest

from tests.proxy.calls import STANDARD, settled
from tests.support import servers
from tests.support.pooler import SIZE, Pooler
from tests.support.processes import Gateway, Simulator, wait_until
from tests.support.world import LOGINS, World

pytestmark = pytest.mark.debian15

#: What a session has beside what its login and the server give it: of each, there must be nothing.
LEFT_BEHIND = """
select 'setting ' || name from pg_settings where source = 'session'
union all select 'prepared ' || statement from pg_prepared_statements
union all select 'cursor ' || statement from pg_cursors
union all select 'channel ' || channel from pg_listening_channels() channel
union all select 'temporary ' || relname from pg_class where relpersistence = 't' and relkind <> 't'
union all select 'lock ' || objid from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
"""


@pytest.fixture(scope="module")
def pooler(server: servers.Server) -> Iterator[Pooler]:
    """A pooler of this file's own, which may be stopped."""
    with Pooler(server.dsn, LOGINS) as running:
        yield running


@pytest.fixture
def pooled(world: World, gateways_dsn: str, server: servers.Server, pooler: Pooler) -> World:
    """The test's database, which gateways see through the pooler."""
    if gateways_dsn == server.dsn:
        world.gateway_dsn = pooler.dsn(world.gateway_dsn)
    return world


def test_many_calls_of_two_gateways_share_a_few_connections(pooled: World, simulator: Simulator) -> None:
    limit = 20 * STANDARD
    key = pooled.key(limit, first_output_tokens=50)
    with ExitStack() as stack:
        gateways = [stack.enter_context(Gateway(pooled.gateway_dsn, simulator.url)) for _ in range(2)]
        pool = stack.enter_context(ThreadPoolExecutor(16))

        def call(number: int) -> int:
            ask = (Gateway.chat, Gateway.messages, Gateway.respond)[number % 3]
            how = {"completion_tokens": 200, "prompt_tokens": 100, "chunk_ms": 5}
            return ask(gateways[number % 2], key, how, stream=number % 4 < 2, model="t-mini").status_code

        statuses = list(pool.map(call, range(60)))
        wait_until(lambda: pooled.held() == 0)
    assert set(statuses) <= {200, 402, 429}, statuses
    assert statuses.count(200) == simulator.calls()
    assert simulator.tally()["cost_nano_usd"] <= pooled.spent() * 1000
    assert 0 < pooled.spent() <= limit
    assert pooled.verify() == []


def test_a_gateway_leaves_nothing_behind_in_a_session(pooled: World, simulator: Simulator) -> None:
    key = pooled.key(10**6, first_output_tokens=50)
    with Gateway(pooled.gateway_dsn, simulator.url, reconcile_seconds="0.1") as gateway, ExitStack() as stack:
        for stream in (False, True):
            assert gateway.chat(key, stream=stream).status_code == 200
        assert len(settled(pooled, key, 2)) == 2
        # All that there are, one after the other: none is given to another while it is in a transaction.
        sessions = [stack.enter_context(psycopg.connect(pooled.gateway_dsn)) for _ in range(SIZE)]
        backends = {session.execute("select pg_backend_pid()").fetchone() for session in sessions}
        assert len(backends) == SIZE
        found = [row for session in sessions for row in session.execute(LEFT_BEHIND, prepare=False).fetchall()]
    assert found == []


def test_a_pooler_that_goes_away_is_a_database_that_goes_away(pooled: World, pooler: Pooler, simulator: Simulator) -> None:
    pooled.gateway_dsn = pooler.dsn(pooled.gateway_dsn)
    key = pooled.key(10**6)
    with Gateway(pooled.gateway_dsn, simulator.url) as gateway, ThreadPoolExecutor(1) as pool:
        streams = pool.submit(gateway.chat, key, {"barrier": "away", "prompt_tokens": 100}, stream=True)
        wait_until(lambda: simulator.waiting("away") == 1)
        pooler.stop()
        try:
            refused = gateway.chat(key)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "enforcement_unavailable")
            simulator.open("away")
            assert streams.result().status_code == 200
            assert pooled.spent() == 0
        finally:
            pooler.start()
        wait_until(lambda: pooled.held() == 0, what="the settlement of what ended meanwhile")
        wait_until(lambda: gateway.chat(key).status_code == 200, 15, "recovery")
        assert [row["amount"] for row in settled(pooled, key, 2)] == [STANDARD] * 2
    assert simulator.calls() == 2
    assert pooled.verify() == []
