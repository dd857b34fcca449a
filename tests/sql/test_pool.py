"""The gateway's pool: a connection that ended while it was idle is never given out."""

from __future__ import annotations

import asyncio

from pgbudget.db import Database
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
