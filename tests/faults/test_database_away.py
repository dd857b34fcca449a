"""Postgres goes away, stalls or crashes: nothing goes out unmetered and nothing acknowledged is lost (HOLD-08)."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Lock
from typing import Any, Literal

import httpx
import psycopg
import pytest

from pgbudget import migrate
from pgbudget.devstack import make_login
from pgbudget.embedded import Cluster
from pgbudget.seed import seed_simulator
from tests.support import servers
from tests.support.processes import Gateway, Simulator, chat_request, wait_until
from tests.support.world import World, with_database

PASSWORD = "gateway-password-of-the-private-cluster"
STANDARD = 900  # 100 input + 200 x 4 output, in micro-dollars
_databases = itertools.count()


@dataclass
class PrivateServer:
    """A server that a test may stop, and a database on it."""

    cluster: Cluster
    world: World

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Take Postgres away; ``immediate`` is a crash."""
        self.cluster.stop(mode)

    def start(self) -> None:
        """Bring it back, on the same port; connections of before are gone."""
        self.cluster.start()
        self.world.connection.close()
        self.world.connection = self.world.connect()

    def limit_gateway(self, **settings: str) -> None:
        """Settings of the gateway's login from its next connection on."""
        for name, value in settings.items():
            self.world.execute(f"alter role test_gateway set {name} = '{value}'")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of this file's own, of the same programs as the session's."""
    with servers.private_cluster(servers.binaries()) as running:
        yield running


@pytest.fixture
def private(cluster: Cluster) -> Iterator[PrivateServer]:
    """A migrated, seeded database on a server that may be stopped."""
    if not cluster.is_running():
        cluster.start()
    name = f"away_{next(_databases)}"
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        connection.execute(f"create database {name}")
    with psycopg.connect(cluster.dsn(name), autocommit=True) as connection:
        migrate.up(connection)
        make_login(connection, "test_gateway", PASSWORD, "budget_gateway", "budget_reconciler")
        seed_simulator(connection)
    dsn = with_database(cluster.dsn(), name, "test_gateway", PASSWORD)
    with World(cluster.dsn(name), dsn) as world:
        yield PrivateServer(cluster, world)


@contextlib.contextmanager
def stopped(private: PrivateServer) -> Iterator[None]:
    """Postgres is down."""
    private.stop()
    try:
        yield
    finally:
        private.start()


@contextlib.contextmanager
def period_locked(private: PrivateServer) -> Iterator[None]:
    """Another session holds the advisory lock of every budget period and does not let go."""
    with private.world.connect() as other, other.transaction():
        other.execute(
            "select pg_advisory_xact_lock(budget_internal.period_lock_key(budget_id, starts_at)) from budget_internal.periods"
        )
        yield


@contextlib.contextmanager
def table_locked(private: PrivateServer) -> Iterator[None]:
    """Another session holds the table of periods and does not let go."""
    with private.world.connect() as other, other.transaction():
        other.execute("lock table budget_internal.periods in access exclusive mode")
        yield


Away = Callable[[PrivateServer], contextlib.AbstractContextManager[None]]
#: How it goes away, settings of the gateway's login, what the gateway's log then names.
AWAY: dict[str, tuple[Away, dict[str, str], str]] = {
    "stopped": (stopped, {}, "PoolTimeout"),
    "lock timeout": (period_locked, {"lock_timeout": "300ms", "statement_timeout": "60s"}, "LockNotAvailable"),
    # lock_timeout 0 is none: what ends the wait is then the statement's time.
    "statement timeout": (table_locked, {"lock_timeout": "0", "statement_timeout": "300ms"}, "QueryCanceled"),
}


@pytest.mark.parametrize("away", AWAY)
def test_hold_08a_without_a_hold_nothing_is_sent(private: PrivateServer, simulator: Simulator, away: str) -> None:
    take_away, settings, named = AWAY[away]
    world = private.world
    private.limit_gateway(**{"lock_timeout": "5s", "statement_timeout": "10s", **settings})
    key = world.key(1_000_000)
    with Gateway(world.gateway_dsn, simulator.url, reconcile_seconds="0") as gateway, ThreadPoolExecutor(10) as pool:
        # The period exists, so that its lock can be held.
        assert gateway.chat(key).status_code == 200
        wait_until(lambda: world.spent() == STANDARD)
        simulator.reset()
        with take_away(private):
            for answer in pool.map(lambda i: gateway.chat(key, stream=i % 2 == 0), range(10)):
                assert answer.status_code == 503
                assert answer.json()["error"]["code"] == "enforcement_unavailable"
                assert int(answer.headers["retry-after"]) >= 1
                # Neither SQL nor names of the database's own reach a client.
                assert not {"budget_internal", "psycopg", "lock", "127.0.0.1"} & set(answer.text.split())
                # One wait for its own batch, one for the batch before: never a hang.
                assert answer.elapsed.total_seconds() < 15
            assert httpx.get(f"{gateway.url}/healthz").status_code == 200
        assert simulator.calls() == 0
        assert named in gateway.log()
        if away != "stopped":
            # A time-out that is tried again makes callers wait for a multiple of it.
            assert "trying again" not in gateway.log()
        # The same process, no restart.
        wait_until(lambda: gateway.chat(key).status_code == 200, 15, "recovery")
        wait_until(lambda: world.held() == 0)
        assert world.spent() == STANDARD * (1 + simulator.calls())
        assert world.verify() == []


def test_hold_08a_an_exhausted_pool_lets_nothing_through(private: PrivateServer, simulator: Simulator) -> None:
    world = private.world
    private.limit_gateway(lock_timeout="60s", statement_timeout="60s")
    key = world.key(1_000_000)
    settings: dict[str, Any] = {"pool_size": "1", "reconcile_seconds": "0"}
    with Gateway(world.gateway_dsn, simulator.url, **settings) as gateway, ThreadPoolExecutor(11) as pool:
        first = pool.submit(gateway.chat, key, {"barrier": "first"})
        wait_until(lambda: simulator.waiting("first") == 1)
        with period_locked(private):
            simulator.open("first")
            assert first.result().status_code == 200
            waiting = (
                "select 1 from pg_stat_activity where datname = current_database() and usename = 'test_gateway'"
                " and wait_event_type = 'Lock'"
            )
            # Its settlement has the only connection, and waits.
            wait_until(lambda: world.rows(waiting))
            for answer in pool.map(lambda _: gateway.chat(key), range(10)):
                assert (answer.status_code, answer.json()["error"]["code"]) == (503, "enforcement_unavailable")
                assert answer.elapsed.total_seconds() < 15
            assert simulator.calls() == 1
        wait_until(lambda: gateway.chat(key).status_code == 200, 15, "recovery")
        wait_until(lambda: world.held() == 0)
        assert world.spent() == STANDARD * simulator.calls()
        assert world.verify() == []


def test_hold_08b_a_charge_is_tried_until_it_is_booked(private: PrivateServer, simulator: Simulator) -> None:
    world = private.world
    private.limit_gateway(lock_timeout="5s", statement_timeout="10s")
    key = world.key(1_000_000)
    with Gateway(world.gateway_dsn, simulator.url) as gateway:
        request = chat_request(key, {"chunk_ms": 5}, stream=True)
        with httpx.stream("POST", f"{gateway.url}/v1/chat/completions", timeout=60, **request) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("data: {")
            private.stop()
            rest = list(lines)
        assert answer.status_code == 200
        assert rest[-2:] == ["data: [DONE]", ""]
        # About a quarter of a minute: several failures in a row.
        wait_until(lambda: gateway.log().count("1 settlements wait") >= 3, 60, "failed tries")
        private.start()
        # Soon after: the wait between two tries does not grow with the time away.
        wait_until(lambda: world.spent() == STANDARD, 10, "the booking")
        (entry,) = world.ledger()
        assert (entry["kind"], entry["source"]) == ("settled", "usage")
        assert str(entry["reservation_id"]) == answer.headers["x-pgbudget-reservation"]
        assert world.counters() == [{"spent": STANDARD, "held": 0}]
        assert gateway.chat(key).status_code == 200
        wait_until(lambda: world.counters() == [{"spent": 2 * STANDARD, "held": 0}])
        assert world.verify() == []


@pytest.mark.parametrize("outage", [False, True], ids=["database there", "database back in time"])
def test_hold_08c_a_gateway_told_to_stop_ends_its_streams_and_books_them(
    private: PrivateServer, simulator: Simulator, outage: bool
) -> None:
    world = private.world
    private.limit_gateway(lock_timeout="5s", statement_timeout="10s")
    key = world.key(1_000_000)
    begun: list[int] = []

    def call(gateway: Gateway, number: int) -> list[str]:
        # They end one after the other, around the signal.
        request = chat_request(key, {"chunk_ms": 20 + number, "chunks": 50}, stream=True)
        with httpx.stream("POST", f"{gateway.url}/v1/chat/completions", timeout=60, **request) as answer:
            assert answer.status_code == 200
            lines = answer.iter_lines()
            first = next(lines)
            begun.append(number)
            return [first, *lines]

    with Gateway(world.gateway_dsn, simulator.url) as gateway, ThreadPoolExecutor(20) as pool:
        calls = [pool.submit(call, gateway, number) for number in range(20)]
        wait_until(lambda: len(begun) == 20, what="the begin of all streams")
        if outage:
            private.stop("immediate")
        gateway.signal_stop()
        for lines in [c.result() for c in calls]:
            assert lines[-2:] == ["data: [DONE]", ""]
            assert sum(line.startswith("data: {") for line in lines) == 51
        if outage:
            private.start()
        assert gateway.stop() == 0, gateway.log()
    assert len(world.ledger()) == 20
    assert {e["kind"] for e in world.ledger()} == {"settled"}
    assert world.counters() == [{"spent": 20 * STANDARD, "held": 0}]
    assert world.verify() == []


def test_a_crash_of_postgres_under_load_loses_nothing_acknowledged(private: PrivateServer, simulator: Simulator) -> None:
    world = private.world
    private.limit_gateway(lock_timeout="5s", statement_timeout="10s")
    world.execute("""select budget.set_policy(null, '{"stale_seconds": 4, "heartbeat_seconds": 1}')""")
    key = world.key(10**9)
    finish = Event()
    mutex = Lock()
    acknowledged: list[str] = []
    refused: list[str] = []

    def load(gateway: Gateway, stream: bool) -> None:
        while not finish.is_set():
            answer = gateway.chat(key, {"chunk_ms": 4, "chunks": 25, "latency_ms": 20}, stream=stream)
            with mutex:
                if answer.status_code == 200:
                    assert answer.text.endswith("data: [DONE]\n\n") or not stream
                    acknowledged.append(answer.headers["x-pgbudget-reservation"])
                else:
                    assert answer.status_code == 503, answer.text
                    refused.append(answer.json()["error"]["code"])

    def wait_for_more(answers: list[str], count: int) -> None:
        seen = len(answers)
        wait_until(lambda: len(answers) >= seen + count, 30, f"{count} more answers")

    with Gateway(world.gateway_dsn, simulator.url, reconcile_seconds="0.5") as gateway, ThreadPoolExecutor(8) as pool:
        loads = [pool.submit(load, gateway, number % 2 == 0) for number in range(8)]
        try:
            for _ in range(2):
                wait_for_more(acknowledged, 30)
                private.stop("immediate")
                wait_for_more(refused, 1)
                private.start()
            wait_for_more(acknowledged, 30)
        finally:
            finish.set()
        for done in loads:
            done.result()

        wait_until(lambda: world.rows("select 1 from budget_internal.reservations") == [], 40, "the end of all holds")
        assert world.held() == 0

        def booked() -> dict[str, int]:
            rows = world.rows(
                "select reservation_id, sum(amount_nano_usd)::int8 as amount from budget_internal.ledger_entries group by 1"
            )
            return {str(row["reservation_id"]): row["amount"] for row in rows}

        # Each acknowledged call ends at exactly what it cost, also where its hold was charged in full meanwhile.
        assert len(acknowledged) == len(set(acknowledged))
        expected = dict.fromkeys(acknowledged, STANDARD * 1000)
        wait_until(lambda: booked().items() >= expected.items(), what="the real cost of every acknowledged call")
        finished = [c["billed_nano_usd"] for c in simulator.tally()["generated"] if c["finished"]]
        assert sum(booked().values()) >= sum(finished) > 0
        assert set(refused) == {"enforcement_unavailable"}
        assert world.verify() == []
