"""pg_cron can run the schedule, as a role that may do only that; then the proxies do not."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from tests.support.processes import Gateway, Simulator, wait_until
from tests.support.servers import CRON_DATABASE, Server
from tests.support.world import World, with_database


@pytest.fixture
def scheduled(server: Server, template: str) -> Iterator[World]:
    """A database like all others, but the one that pg_cron looks at, and a login for its jobs."""
    name = sql.Identifier(CRON_DATABASE)
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {} template {}").format(name, sql.Identifier(template)))
        dsn = with_database(server.dsn, CRON_DATABASE)
        gateway = with_database(server.dsn, CRON_DATABASE, "test_gateway", "gateway-password-for-tests")
        try:
            with World(dsn, gateway) as world:
                world.execute("create extension pg_cron")
                world.execute("create role test_cron login in role budget_reconciler")
                yield world
                world.execute("delete from cron.job")
                world.execute("drop role test_cron")
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(name))


def jobs(world: World) -> list[tuple[str, str, str]]:
    """Schedule, command and user of every job."""
    rows = world.rows("select schedule, command, username, database from cron.job order by jobname")
    assert {row["database"] for row in rows} <= {CRON_DATABASE}
    return [(row["schedule"], row["command"], row["username"]) for row in rows]


@pytest.mark.debian15
def test_the_schedule_of_pg_cron_does_all_and_the_proxies_then_do_nothing(scheduled: World, simulator: Simulator) -> None:
    key = scheduled.key(1_000_000)
    holds = [scheduled.reserve(key) for _ in range(120)]
    scheduled.set_clock("2099-01-01 00:00:00+00")
    with pytest.raises(psycopg.Error, match="budget_reconciler may not log in") as refused:
        scheduled.execute("select budget.enable_cron()")
    assert refused.value.sqlstate == "LB101"
    scheduled.execute("select budget.enable_cron('test_cron')")
    # Again: no job twice. One of somebody else stays.
    scheduled.execute("select cron.schedule('other', '0 0 1 1 *', 'select 1')")
    scheduled.execute("select budget.enable_cron('test_cron')")
    wanted = {
        ("* * * * *", "call budget.run_reconciler()", "test_cron"),
        ("* * * * *", "select budget.check_alerts()", "test_cron"),
        ("17 3 * * *", "call budget.run_upkeep()", "test_cron"),
    }
    assert wanted <= set(jobs(scheduled))
    assert len(jobs(scheduled)) == len(set(jobs(scheduled)))

    with scheduled.connect_gateway() as proxy:
        row = proxy.execute("select acted, runner from budget.run_schedule()").fetchone()
        assert row == {"acted": False, "runner": "cron"}
    with Gateway(scheduled.gateway_dsn, simulator.url, reconcile_seconds="0.1") as gateway:
        # Their grain is a minute, so this waits for the next one. The upkeep, once a day, is asked for in the next as well.
        scheduled.execute("update cron.job set schedule = '* * * * *' where jobname = 'pgbudget upkeep'")
        wait_until(lambda: len(scheduled.ledger()) == len(holds), 100, "the entries of the schedule's run")
        done = "select command, status, username from cron.job_run_details where status = 'succeeded' order by 1"
        wait_until(lambda: {r["command"] for r in scheduled.rows(done)} >= {c for _, c, _ in wanted}, 30, "the end of the jobs")
        assert {row["username"] for row in scheduled.rows(done)} == {"test_cron"}
        assert "reconciled" not in gateway.log()
        assert {e["amount_nano_usd"] for e in scheduled.ledger()} == {holds[0]["reserved_nano_usd"]}
        assert scheduled.held() == 0
        assert scheduled.value("select last_run_at::text from budget_internal.schedule").startswith("2099-01-01")
        # The upkeep has made the month that they were booked without.
        assert scheduled.value("select count(*) from budget_internal.ledger_entries_2099_01") == len(holds)

        # Given back: the same gateway acts, without a restart.
        scheduled.execute("select budget.disable_cron()")
        assert jobs(scheduled) == [("0 0 1 1 *", "select 1", "postgres")]
        scheduled.reserve(key)
        scheduled.set_clock("2099-01-02 00:00:00+00")
        wait_until(lambda: len(scheduled.ledger()) == len(holds) + 1, 20, "the entry of the gateway's run")
        wait_until(lambda: "1 charged" in gateway.log())
    assert scheduled.verify() == []
    changes = scheduled.rows("select before ->> 'runner' as before, after ->> 'runner' as after from budget.audit"
                             " where subject = 'schedule' order by audit_id")  # fmt: skip
    assert changes == [{"before": "proxy", "after": "cron"}, {"before": "cron", "after": "proxy"}]
