"""The reconciler and the schedule beside live traffic: small transactions, short waits, one at a time."""

from __future__ import annotations

import threading

import psycopg
import pytest

from tests.support.processes import wait_until
from tests.support.world import World


def stale(world: World, key: str, count: int) -> None:
    """So many reservations, and a clock at which they are stale."""
    world.set_clock("2027-01-15T12:00:00Z")
    for _ in range(count):
        assert world.reserve(key)["status"] == "granted"
    world.set_clock("2027-01-15T12:10:00Z")


def test_each_batch_is_a_transaction_of_its_own(world: World) -> None:
    stale(world, world.key(10**6), 25)
    with world.connect_gateway() as reconciler:
        notices: list[str] = []
        reconciler.add_notice_handler(lambda diag: notices.append(diag.message_primary or ""))
        reconciler.execute("call budget.run_reconciler(10)")
        assert notices == ["reconciled: 25 charged, 0 failed"]
        reconciler.execute("call budget.run_reconciler()")
        assert len(notices) == 1
        with pytest.raises(psycopg.errors.InvalidTransactionTermination), reconciler.transaction():
            reconciler.execute("call budget.run_reconciler()")
    assert world.value("select count(distinct xmin::text) from budget_internal.ledger_entries") == 3
    assert world.verify() == []


def test_a_budget_that_is_locked_holds_up_no_other(world: World) -> None:
    stuck, free = world.key(10**6), world.key(10**6)
    # The stuck ones are older, and more than a batch.
    stale(world, stuck, 15)
    stale(world, free, 15)
    with world.connect() as other, other.transaction():
        other.execute("select pg_advisory_xact_lock(lock_key) from budget_internal.periods order by period_id limit 1")
        with world.connect_gateway() as reconciler:
            reconciler.execute("call budget.run_reconciler(10)")
        assert world.counters() == [{"spent": 0, "held": 15 * 900}, {"spent": 15 * 900, "held": 0}]
    world.execute("call budget.run_reconciler(10)")
    assert world.held() == 0
    assert world.verify() == []


def test_a_batch_without_its_locks_is_skipped_and_nothing_fails(world: World) -> None:
    stale(world, world.key(10**6), 5)
    with world.connect() as other, other.transaction(), world.connect_gateway() as reconciler:
        other.execute("select 1 from budget_internal.reservations for update")
        notices: list[str] = []
        reconciler.add_notice_handler(lambda diag: notices.append(diag.message_primary or ""))
        reconciler.execute("call budget.run_reconciler(10)")
        assert notices == ["reconciled: 0 charged, 0 failed, the rest is locked"]
        assert reconciler.execute("show lock_timeout").fetchone() == {"lock_timeout": "5s"}
    assert world.held() == 5 * 900


def test_of_many_schedules_one_acts_at_a_time(world: World) -> None:
    stale(world, world.key(10**6), 3)
    with world.connect_gateway() as first, world.connect_gateway() as second:
        with first.transaction():
            assert first.execute("select acted, charged from budget.run_schedule()").fetchone() == {"acted": True, "charged": 3}
            row = second.execute("select acted, runner, charged, more from budget.run_schedule()").fetchone()
            assert row == {"acted": False, "runner": None, "charged": None, "more": False}
        row = second.execute("select acted, charged from budget.run_schedule()").fetchone()
        assert row == {"acted": True, "charged": 0}


def test_the_switch_to_cron_waits_for_a_step_that_is_under_way(world: World) -> None:
    stale(world, world.key(10**6), 3)
    with world.connect_gateway() as proxy, world.connect() as admin:
        # Any switch goes through this; enable_cron itself needs pg_cron, and tests/cron has it.
        switch = threading.Thread(target=admin.execute, args=("select budget_internal.set_runner('cron')",))
        with proxy.transaction():
            assert proxy.execute("select acted from budget.run_schedule()").fetchone() == {"acted": True}
            switch.start()
            waiting = "select 1 from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
            wait_until(lambda: world.rows(waiting, admin.info.backend_pid))
            assert world.value("select runner from budget_internal.schedule") == "proxy"
        switch.join()
        assert proxy.execute("select acted, runner from budget.run_schedule()").fetchone() == {"acted": False, "runner": "cron"}


def test_retention_waits_for_nobody_and_tries_again(world: World) -> None:
    world.set_clock("2031-01-15T12:00:00Z")
    world.execute("select budget.upkeep_step()")
    key = world.key(10**6)
    world.settle(world.reserve(key)["reservation_id"], {"output": 100})
    world.execute("""select budget.set_policy(null, '{"ledger_retention_days": 30}')""")
    world.set_clock("2031-06-15T12:00:00Z")
    with world.connect() as reader:
        with reader.transaction():
            reader.execute("select count(*) from budget.ledger")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                world.execute("select budget.apply_retention()")
            assert len(world.ledger()) == 1
            # A step of the schedule goes on without it.
            assert world.one("select acted, more from budget.run_schedule()") == {"acted": True, "more": False}
        world.execute("call budget.run_upkeep()")
    assert world.ledger() == []
    assert world.spent() == 400
    assert world.verify() == []
