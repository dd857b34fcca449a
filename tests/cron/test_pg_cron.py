"""pg_cron can run the reconciler, as a role that may do only that."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from tests.support.processes import wait_until
from tests.support.servers import CRON_DATABASE, Server
from tests.support.world import World, with_database


@pytest.fixture
def scheduled(server: Server, template: str) -> Iterator[World]:
    """A database like all others, but the one that pg_cron looks at."""
    name = sql.Identifier(CRON_DATABASE)
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {} template {}").format(name, sql.Identifier(template)))
        dsn = with_database(server.dsn, CRON_DATABASE)
        try:
            with World(dsn, dsn) as world:
                world.execute("create extension pg_cron")
                yield world
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(name))


@pytest.mark.debian15
def test_a_stale_hold_is_charged_by_the_schedule(scheduled: World) -> None:
    key = scheduled.key(1_000_000)
    hold = scheduled.reserve(key)
    scheduled.set_clock("2099-01-01 00:00:00+00")
    scheduled.execute("create role test_cron login in role budget_reconciler")
    try:
        scheduled.execute("insert into cron.job (schedule, command, username) values (%s, %s, 'test_cron')",
                          "* * * * *", "select budget.reconcile()")  # fmt: skip
        # Its grain is a minute, so this waits for the next one.
        entry = wait_until(scheduled.ledger, 100, "the entry of the schedule's run")[0]
        assert entry["amount_nano_usd"] == hold["reserved_nano_usd"]
        assert scheduled.held() == 0
        run = scheduled.one("select status, username from cron.job_run_details")
        assert run["username"] == "test_cron"
        scheduled.execute("delete from cron.job")
    finally:
        scheduled.execute("drop role test_cron")
