"""Ways to hold and settle: pgbudget's, and the peers it is measured against.

A way is an async context manager that yields ``pair(caller)``: one reserve and one settle, both durable when it returns. When
it is left, it checks that its counters add up to the pairs that were made, so that no way is fast by doing less. Every pair
holds :data:`bench.support.HOLD` and costs :data:`bench.support.COST`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import shutil
import subprocess
import tempfile
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from redis.asyncio import Connection as RedisConnection

from bench.support import COST, HOLD, LEVELS, LIMIT_USD, USAGE, report, request
from pgbudget.coalescer import Coalescer
from pgbudget.db import Database, ReserveResult
from pgbudget.embedded import free_port
from pgbudget.settlements import Settlements

LIMIT = LIMIT_USD * 10**9
#: So that every session of the gateway's pool is asked some times.
WARM_ROUNDS = 10
Pair = Callable[[int], Awaitable[None]]
Row = tuple[Any, ...]


@dataclass
class Place:
    """Where a way runs: ``chains[caller]`` is the number of the caller's chain, ``keys[chain]`` the key to it."""

    gateway_dsn: str
    dsn: str
    keys: list[str]
    chains: list[int]
    batches: list[int]

    @property
    def used(self) -> list[int]:
        """The chains of these callers."""
        return sorted(set(self.chains))


# pgbudget.


@asynccontextmanager
async def coalesced(place: Place) -> AsyncIterator[Pair]:
    """As the gateway does it, but each caller waits for its settlement."""
    database = Database(place.gateway_dsn)
    await database.open()

    async def send(requests: Sequence[dict[str, Any]]) -> list[ReserveResult | Exception]:
        place.batches.append(len(requests))
        return await database.reserve_batch(requests)

    reserve = Coalescer(send)
    settlements = Settlements(database, lambda _: None)
    settlements.start()

    async def pair(caller: int) -> None:
        grant = await reserve(request(place.keys[place.chains[caller]]))
        assert grant.status == "granted", grant
        booking = settlements.add(report(grant.reservation_id))
        settlements.hurry()
        settled = await booking
        assert settled.charged_nano_usd == COST, settled

    try:
        # Each session of the pool makes its plans at its first calls: no part of what a pair costs.
        for _ in range(WARM_ROUNDS):
            await asyncio.gather(*map(pair, range(len(place.chains))))
        yield pair
    finally:
        await settlements.stop(10)
        await database.close()


@asynccontextmanager
async def one_by_one(place: Place) -> AsyncIterator[Pair]:
    """Each caller on a connection of its own, a call a transaction."""
    async with connections(place.gateway_dsn, len(place.chains)) as connection:

        async def pair(caller: int) -> None:
            asked = request(place.keys[place.chains[caller]])
            cursor = await connection[caller].execute(
                "select status, reservation_id from budget.reserve(%s, %s, %s, %s, %s, %s)",
                (*(asked[name] for name in ("key", "model", "input_tokens", "max_output_tokens", "request_id")),
                 json.dumps(asked["options"])),
            )  # fmt: skip
            status, reservation_id = await one(cursor)
            assert status == "granted", status
            cursor = await connection[caller].execute(
                "select charged_nano_usd from budget.settle(%s, %s)", (reservation_id, json.dumps(USAGE))
            )
            assert await one(cursor) == (COST,)

        # The first call of a session makes its plans, a quarter of a second of work: no part of what a pair costs.
        await asyncio.gather(*map(pair, range(len(place.chains))))
        yield pair


# The ways of the textbooks, on one budget each: the shared row that the chain's slowest budget would be.


@asynccontextmanager
async def update_returning(place: Place) -> AsyncIterator[Pair]:
    """One ``UPDATE ... RETURNING`` a reserve and one a settle, on the row of the budget."""
    pairs = 0
    with peer(
        place,
        "create table peer.budgets (budget_id int primary key, max_nano int8, held int8, spent int8) with (fillfactor = 50)",
    ):
        with psycopg.connect(place.dsn, autocommit=True) as setup:
            for chain in place.used:
                setup.execute("insert into peer.budgets values (%s, %s, 0, 0)", (chain, LIMIT))
        async with connections(place.dsn, len(place.chains)) as connection:

            async def pair(caller: int) -> None:
                nonlocal pairs
                cursor = await connection[caller].execute(
                    "update peer.budgets set held = held + %s"
                    " where budget_id = %s and held + spent + %s <= max_nano returning max_nano - held - spent",
                    (HOLD, place.chains[caller], HOLD),
                )
                assert await cursor.fetchone() is not None
                cursor = await connection[caller].execute(
                    "update peer.budgets set held = held - %s, spent = spent + %s where budget_id = %s returning spent",
                    (HOLD, COST, place.chains[caller]),
                )
                assert await cursor.fetchone() is not None
                pairs += 1

            yield pair
        with psycopg.connect(place.dsn) as check:
            row = check.execute("select sum(held), sum(spent) from peer.budgets").fetchone()
            assert row == (0, pairs * COST), row


@asynccontextmanager
async def insert_then_sum(place: Place) -> AsyncIterator[Pair]:
    """Lock the budget's row, insert a hold, add up all live holds, commit. Without the lock it would overspend."""
    pairs = 0
    with peer(
        place,
        "create table peer.budgets (budget_id int primary key, max_nano int8, spent int8) with (fillfactor = 50)",
        "create table peer.holds (hold_id int8 generated always as identity primary key, budget_id int, nano int8)",
        "create index on peer.holds (budget_id)",
    ):
        with psycopg.connect(place.dsn, autocommit=True) as setup:
            for chain in place.used:
                setup.execute("insert into peer.budgets values (%s, %s, 0)", (chain, LIMIT))
        async with connections(place.dsn, len(place.chains)) as connection:

            async def pair(caller: int) -> None:
                nonlocal pairs
                session, chain = connection[caller], place.chains[caller]
                async with session.transaction():
                    cursor = await session.execute(
                        "select max_nano, spent from peer.budgets where budget_id = %s for update", (chain,)
                    )
                    limit, spent = await one(cursor)
                    cursor = await session.execute(
                        "insert into peer.holds (budget_id, nano) values (%s, %s) returning hold_id", (chain, HOLD)
                    )
                    (hold,) = await one(cursor)
                    cursor = await session.execute("select sum(nano) from peer.holds where budget_id = %s", (chain,))
                    (held,) = await one(cursor)
                    assert spent + held <= limit
                await session.execute(
                    "with gone as (delete from peer.holds where hold_id = %s returning budget_id)"
                    " update peer.budgets b set spent = spent + %s from gone g where b.budget_id = g.budget_id",
                    (hold, COST),
                )
                pairs += 1

            yield pair
        with psycopg.connect(place.dsn) as check:
            row = check.execute("select sum(spent), (select count(*) from peer.holds) from peer.budgets").fetchone()
            assert row == (pairs * COST, 0), row


# The floor.


@asynccontextmanager
async def floor(place: Place) -> AsyncIterator[Pair]:
    """The rows that pgbudget writes, by bare SQL, one statement a batch: no key looked up, nothing priced, nothing decided."""
    pairs = 0
    hold, spend = make_floor(place)
    pool = Database(place.dsn)
    await pool.open()

    def counted(callers: Sequence[int]) -> tuple[list[int], list[int]]:
        counts = Counter(place.chains[caller] for caller in callers)
        return list(counts), list(counts.values())

    async def reserve(items: Sequence[tuple[int, uuid.UUID]]) -> Sequence[uuid.UUID | Exception]:
        place.batches.append(len(items))
        callers, ids = zip(*items, strict=True)
        chains, counts = counted(callers)
        return [
            row["reservation_id"]
            for row in await pool.fetch(hold, chains, counts, [place.chains[c] for c in callers], list(ids))
        ]

    async def settle(items: Sequence[tuple[int, uuid.UUID]]) -> Sequence[uuid.UUID | Exception]:
        callers, ids = zip(*items, strict=True)
        chains, counts = counted(callers)
        return [row["reservation_id"] for row in await pool.fetch(spend, list(ids), chains, counts)]

    reserves, settles = Coalescer(reserve), Coalescer(settle)

    async def pair(caller: int) -> None:
        nonlocal pairs
        item = (caller, uuid.uuid4())
        await reserves(item)
        await settles(item)
        pairs += 1

    try:
        yield pair
    finally:
        await pool.close()
    with psycopg.connect(place.dsn, autocommit=True) as check:
        row = check.execute(
            "select sum(held_nano_usd), sum(spent_nano_usd), (select count(*) from peer.ledger_entries),"
            " (select count(*) from peer.reservations) from peer.periods"
        ).fetchone()
        assert row == (0, pairs * COST * LEVELS, pairs, 0), row
        check.execute("drop schema peer cascade")


def make_floor(place: Place) -> tuple[str, str]:
    """Tables like ours without triggers and foreign keys, a sample of each row, and the statements that copy them."""
    with psycopg.connect(place.dsn, autocommit=True) as setup:
        setup.execute("drop schema if exists peer cascade; create schema peer")
        for table in ("reservations", "ledger_entries", "periods"):
            setup.execute(f"create table peer.{table} (like budget_internal.{table} including all)")
        setup.execute(
            "alter table peer.periods set"
            " (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.01)"
        )
        setup.execute(
            "alter table peer.reservations set"
            " (fillfactor = 80, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.02)"
        )
        asked = request(place.keys[place.used[0]])
        (reservation,) = (
            setup.execute("select reservation_id from budget.reserve_batch(%s)", (json.dumps([asked]),)).fetchone() or ()
        )
        setup.execute(
            "create table peer.hold as select * from budget_internal.reservations where reservation_id = %s", (reservation,)
        )
        setup.execute("select budget.settle(%s, %s)", (reservation, json.dumps(USAGE)))
        setup.execute(
            "create table peer.entry as select * from budget_internal.ledger_entries where reservation_id = %s", (reservation,)
        )
        for chain in place.used:
            # budget_id stands for chain and level, starts_at for nothing.
            setup.execute(
                "insert into peer.periods (org_id, budget_id, starts_at, ends_at, lock_key)"
                " select %s, %s * %s + level, '-infinity', 'infinity', 0 from generate_series(0, %s) level",
                (chain, chain, LEVELS, LEVELS - 1),
            )
        hold_columns, entry_columns = (
            [name for (name,) in setup.execute(
                "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and attname <> all (%s)",
                (table, apart),
            )]
            for table, apart in (
                ("peer.hold", ["reservation_id", "key_id", "request_id"]),
                ("peer.entry", ["entry_id", "reservation_id", "key_id", "request_id"]),
            )
        )  # fmt: skip
    copied = ", ".join(f"h.{name}" for name in hold_columns)
    hold = f"""
        with held as (
          update peer.periods p
          set held_nano_usd = p.held_nano_usd + {HOLD} * c.calls, grants = p.grants + c.calls,
            open_holds = p.open_holds + c.calls
          from unnest(%s::int8[], %s::int8[]) c (chain, calls)
          where p.budget_id in (c.chain * {LEVELS}, c.chain * {LEVELS} + 1, c.chain * {LEVELS} + 2)
        )
        insert into peer.reservations (reservation_id, key_id, request_id, {", ".join(hold_columns)})
        select i.id, i.chain, 'gw-' || i.id, {copied}
        from peer.hold h cross join unnest(%s::int8[], %s::uuid[]) i (chain, id)
        returning reservation_id"""
    copied = ", ".join(f"e.{name}" for name in entry_columns)
    spend = f"""
        with gone as (
          delete from peer.reservations where reservation_id = any (%s::uuid[]) returning reservation_id, key_id, request_id
        ), spent as (
          update peer.periods p
          set held_nano_usd = p.held_nano_usd - {HOLD} * c.calls, spent_nano_usd = p.spent_nano_usd + {COST} * c.calls,
            open_holds = p.open_holds - c.calls
          from unnest(%s::int8[], %s::int8[]) c (chain, calls)
          where p.budget_id in (c.chain * {LEVELS}, c.chain * {LEVELS} + 1, c.chain * {LEVELS} + 2)
        )
        insert into peer.ledger_entries (reservation_id, key_id, request_id, {", ".join(entry_columns)})
        select g.reservation_id, g.key_id, g.request_id, {copied} from gone g cross join peer.entry e
        returning reservation_id"""
    return hold, spend


# Redis.

_RESERVE = """
local cost = tonumber(ARGV[1])
for i = 2, #KEYS do
  local b = redis.call('HMGET', KEYS[i], 'limit', 'spent', 'held')
  if tonumber(b[1]) - tonumber(b[2]) - tonumber(b[3]) < cost then return i end
end
for i = 2, #KEYS do redis.call('HINCRBY', KEYS[i], 'held', cost) end
redis.call('SET', KEYS[1], cost)
return 0
"""
_SETTLE = """
local hold = redis.call('GETDEL', KEYS[1])
if not hold then return 1 end
for i = 2, #KEYS do
  redis.call('HINCRBY', KEYS[i], 'held', -tonumber(hold))
  redis.call('HINCRBY', KEYS[i], 'spent', ARGV[1])
end
return 0
"""


@asynccontextmanager
async def redis(place: Place, *options: str) -> AsyncIterator[Pair]:
    """Two scripts on three hashes, each caller on a connection of its own. It keeps counters and holds; there is no ledger."""
    pairs = 0
    with redis_server(*options) as port:
        sessions = [RedisConnection(host="127.0.0.1", port=port) for _ in place.chains]

        async def call(session: RedisConnection, *command: str | int) -> Any:
            await session.send_command(*command)
            return await session.read_response()

        scripts = [await call(sessions[0], "SCRIPT", "LOAD", text) for text in (_RESERVE, _SETTLE)]
        reserve, settle = (script.decode() for script in scripts)
        budgets = {chain: [f"budget:{chain}:{level}" for level in range(LEVELS)] for chain in place.used}
        for name in itertools.chain(*budgets.values()):
            await call(sessions[0], "HSET", name, "limit", LIMIT, "spent", 0, "held", 0)

        async def pair(caller: int) -> None:
            nonlocal pairs
            names = budgets[place.chains[caller]]
            hold = f"hold:{uuid.uuid4()}"
            assert await call(sessions[caller], "EVALSHA", reserve, 1 + LEVELS, hold, *names, HOLD) == 0
            assert await call(sessions[caller], "EVALSHA", settle, 1 + LEVELS, hold, *names, COST) == 0
            pairs += 1

        yield pair
        spent = 0
        for names in budgets.values():
            for name in names:
                _, total, held = await call(sessions[0], "HMGET", name, "limit", "spent", "held")
                assert held == b"0"
                spent += int(total)
        assert spent == pairs * COST * LEVELS
        for session in sessions:
            await session.disconnect()


@asynccontextmanager
async def redis_durable(place: Place) -> AsyncIterator[Pair]:
    """Every write flushed before it is answered, as a Postgres commit is."""
    async with redis(place, "--appendonly", "yes", "--appendfsync", "always") as pair:
        yield pair


@asynccontextmanager
async def redis_volatile(place: Place) -> AsyncIterator[Pair]:
    """Nothing is kept: a restart forgets all that was spent and held."""
    async with redis(place, "--appendonly", "no") as pair:
        yield pair


@contextmanager
def redis_server(*options: str) -> Iterator[int]:
    """A server of one's own. Yields its port."""
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("redis-server is missing: apt-get install redis-server")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="pgbudget-bench-") as folder:
        server = subprocess.Popen(
            [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", "", *options],
            stdout=(Path(folder) / "log").open("w"),
        )
        try:
            deadline = 100
            while subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True).stdout != b"PONG\n":
                deadline -= 1
                assert deadline, "redis-server does not answer"
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(0.1)
            yield port
        finally:
            server.terminate()
            server.wait(10)


# Helpers.


@asynccontextmanager
async def connections(dsn: str, count: int) -> AsyncIterator[list[psycopg.AsyncConnection[Row]]]:
    """So many of them."""
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(await psycopg.AsyncConnection.connect(dsn, autocommit=True)) for _ in range(count)
        ]


async def one(cursor: psycopg.AsyncCursor[Row]) -> Row:
    """The row that there must be."""
    row = await cursor.fetchone()
    assert row is not None
    return row


@contextmanager
def peer(place: Place, *statements: str) -> Iterator[None]:
    """The tables of a peer, in a schema that is gone afterwards."""
    with psycopg.connect(place.dsn, autocommit=True) as connection:
        connection.execute("drop schema if exists peer cascade; create schema peer")
        for statement in statements:
            connection.execute(statement.encode())
    yield
    with psycopg.connect(place.dsn, autocommit=True) as connection:
        connection.execute("drop schema peer cascade")


async def drive(pair: Pair, callers: int, seconds: float, warm: float) -> tuple[float, list[float]]:
    """Pairs a second of so many callers, each making one after the other, and how long each pair took, once they are warm."""
    loop = asyncio.get_running_loop()
    begin = loop.time() + warm
    end = begin + seconds
    took: list[float] = []

    async def call(caller: int) -> None:
        while (start := loop.time()) < end:
            await pair(caller)
            if begin <= (now := loop.time()) < end:
                took.append(now - start)

    async with asyncio.TaskGroup() as group:
        for caller in range(callers):
            group.create_task(call(caller))
    return len(took) / seconds, took
