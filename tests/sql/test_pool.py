"""The gateway's pool: a connection that ended while it was idle is never given out, and no statement is cancelled."""

from __future__ import annotations

import asyncio

import pytest
from psycopg.conninfo import make_conninfo

from pgbudget.db import Database
from tests.support.processes import wait_until
from tests.support.world import World

TERMINATE = """
select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity
where usename = 'test_gateway' and datname = current_database()
"""


def test_connections_that_ended_while_idle_are_not_given_out(world: World) -> None:
    async def use() -> None:
        database = Database(world.gateway_dsn)
        await database.open()
        try:
            for _ in range(3):
                await asyncio.gather(*(database.fetch("select pg_sleep(0.05)") for _ in range(4)))
                assert world.value(TERMINATE) > 0
                # No statement is tried twice here: each of them must get a living connection.
                await asyncio.gather(*(database.fetch("select pg_sleep(0.05)") for _ in range(4)))
        finally:
            await database.close()

    asyncio.run(use())


def test_who_is_cancelled_leaves_its_statement_running(world: World) -> None:
    running = "select count(*) from pg_stat_activity where state = 'active' and query = 'select pg_sleep(1)' and datname = %s"
    name = world.value("select current_database()")

    async def leave() -> None:
        database = Database(world.gateway_dsn)
        await database.open()
        asked = asyncio.create_task(database.fetch("select pg_sleep(1)"))
        await asyncio.to_thread(wait_until, lambda: world.value(running, name) == 1)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert world.value(running, name) == 1
        # It is waited for, at the end.
        await database.close()
        assert world.value(running, name) == 0

    asyncio.run(leave())


def test_a_session_makes_its_plans_before_it_is_asked(world: World) -> None:
    last = "select string_agg(query, '') from pg_stat_activity where usename = 'test_gateway' and datname = current_database()"

    async def open_one() -> None:
        database = Database(world.gateway_dsn)
        await database.open()
        try:
            await asyncio.to_thread(wait_until, lambda: "reserve_batch('[]') union all" in str(world.value(last)))
        finally:
            await database.close()

    asyncio.run(open_one())


def test_a_database_that_is_not_migrated_is_no_reason_to_have_no_connection(world: World) -> None:
    async def ask() -> None:
        # The same server's own database has none of our functions.
        database = Database(make_conninfo(world.dsn, dbname="postgres"))
        await database.open()
        try:
            assert await database.fetch("select 1 as one") == [{"one": 1}]
        finally:
            await database.close()

    asyncio.run(ask())
