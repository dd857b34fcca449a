"""Faults put into resolve, the schedule, retention and drift on purpose; see test_mutants.py."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.sql.test_mutants import HOLD, Mutant, mutant
from tests.sql.test_upkeep import stale
from tests.support.world import World

OLD = "2031-01-15T12:00:00Z"


def _resolve(world: World, reservation: Any, action: str, usage: Any = None) -> str:
    usage = None if usage is None else json.dumps(usage)
    try:
        row = world.one("select * from budget.resolve(%s, %s, %s)", reservation, action, usage)
    except psycopg.Error as error:
        return error.sqlstate or "connection lost"
    return f"{row['status']} {row['charged_nano_usd']}"


def decides_about_what_cannot_be_settled(world: World) -> None:
    """The living are left alone; of what is broken all that is left is booked, once, and audited."""
    world.set_clock("2027-01-15T12:00:00Z")
    key = world.key(10 * HOLD)
    names = ("living", "priceless", "lost", "impossible", "provisional")
    ids = {name: world.reserve(key)["reservation_id"] for name in names}
    assert _resolve(world, ids["living"], "charge") == "LB304"
    change = "update budget_internal.reservations set {} where reservation_id = %s"
    world.execute(change.format("price_ids = '{-1}'"), ids["priceless"])
    world.execute(change.format("held_period_ids = held_period_ids || -1::bigint"), ids["lost"])
    world.execute(change.format("reserved_nano_usd = 10::bigint ^ 15"), ids["impossible"])
    world.settle(ids["provisional"], None, "unknown")
    world.set_clock("2027-01-15T12:10:00Z")
    usage = {"output": 100}
    assert _resolve(world, ids["priceless"], "charge", usage) == "LB103"
    assert _resolve(world, ids["priceless"], "charge") == "charged 900000"
    assert _resolve(world, ids["lost"], "charge", usage) == "settled 400000"
    assert _resolve(world, ids["impossible"], "charge") == "charged 900000"
    assert [_resolve(world, ids["provisional"], "charge", usage) for _ in range(2)] == ["trued_up 400000", "repeated 400000"]
    assert _resolve(world, ids["provisional"], "release") == "LB302"
    assert world.counters() == [{"spent": 2 * HOLD + 800, "held": HOLD}]
    assert world.value("select count(*) from budget.audit where subject like 'reservation %%'") == 5
    assert world.verify() == []


def retires_what_it_drops(world: World) -> None:
    """What is older than the setting goes, nothing newer, and counters of budgets and units still have their explanation."""
    world.set_clock(OLD)
    world.execute("select budget.upkeep_step()")
    org = world.org()
    world.execute("select budget.create_scope(%s, 'unit', 'u', 'project', 'p')", org)
    key = world.key(10 * HOLD, org=org, period="total", unit="u")
    world.settle(world.reserve(key)["reservation_id"], {"output": 100})
    world.execute("""select budget.set_policy(null, '{"ledger_retention_days": 60}')""")
    for moment, kept in (("2031-04-01T23:59:59Z", 1), ("2031-04-02T00:00:00Z", 0)):
        world.set_clock(moment)
        while world.value("select more from budget.apply_retention()"):
            pass
        assert len(world.ledger()) == kept
        assert world.spent() == 400
        assert world.verify() == []


def keeps_answers_as_long_as_ids(world: World) -> None:
    """No setting makes the ledger forget a call whose request id is still to be answered."""
    world.execute("""select budget.set_policy(null, '{"ledger_retention_days": 30}')""")
    seen = []
    for days in (31, 30):
        try:
            world.execute("select budget.set_policy(%s, %s)", world.org(), json.dumps({"idempotency_days": days}))
            seen.append("kept")
        except psycopg.Error as error:
            seen.append(error.sqlstate or "connection lost")
    assert seen == ["LB101", "kept"]


def moves_every_row(world: World) -> None:
    """What was booked without a partition gets one; what is booked while that is under way, too."""
    world.set_clock(OLD)
    key = world.key(100 * HOLD)

    def use() -> None:
        world.settle(world.reserve(key)["reservation_id"], {"output": 100})

    for _ in range(3):
        use()
    assert world.value("select budget.upkeep_step(2)")
    # A number from before one that was copied, as of a transaction that took longer.
    world.execute("""
      insert into budget_internal.ledger_entries
      select (jsonb_populate_record(l, jsonb_build_object(
        'entry_id', 0, 'kind', 'released', 'amount_nano_usd', 0, 'reservation_id', gen_random_uuid()
      ))).* from budget_internal.ledger_entries l order by entry_id limit 1
    """)
    while world.value("select budget.upkeep_step(2)"):
        assert len(world.ledger()) == 4
    assert len(world.ledger()) == 4
    assert world.value("select count(*) from budget_internal.ledger_entries_default") == 0
    assert world.verify() == []


def one_runner(world: World) -> None:
    """One proxy acts at a time, and none while pg_cron has the schedule."""
    stale(world, world.key(10 * HOLD), 1)
    world.execute("select budget.upkeep_step()")
    with world.connect_gateway() as first, world.connect_gateway() as second:
        world.execute("select budget_internal.set_runner('cron')")
        assert first.execute("select acted from budget.run_schedule()").fetchone() == {"acted": False}
        assert world.held() == HOLD
        world.execute("select budget_internal.set_runner('proxy')")
        with first.transaction():
            assert first.execute("select acted from budget.run_schedule()").fetchone() == {"acted": True}
            assert second.execute("select acted from budget.run_schedule()").fetchone() == {"acted": False}
    assert world.held() == 0


def locked_budgets_hold_up_no_others(world: World) -> None:
    """More than a batch of rows whose budget is locked, and a younger one that is not."""
    stale(world, world.key(100 * HOLD), 3)
    stale(world, world.key(100 * HOLD), 1)
    with world.connect() as other, other.transaction():
        other.execute("select pg_advisory_xact_lock(lock_key) from budget_internal.periods order by period_id limit 1")
        world.execute("call budget.run_reconciler(2)")
    assert world.counters() == [{"spent": 0, "held": 3 * HOLD}, {"spent": HOLD, "held": 0}]


def sees_drift(world: World) -> None:
    """A call is of the day it was admitted; at the tolerance nothing is told, above it once."""
    world.set_clock("2031-01-15T23:59:00Z")
    world.execute("select budget.upkeep_step()")
    reservation = world.reserve(world.key(10 * HOLD))["reservation_id"]
    world.set_clock("2031-01-16T00:00:30Z")
    world.settle(reservation, {"output": 98})
    account = world.value(
        "select name from budget_internal.scopes s join budget_internal.routes r on r.account_id = s.scope_id limit 1"
    )
    # 392 micro-dollars against 400: 2 percent.
    for cost, alerts in (("0.0004", 0), ("0.00040001", 1), ("0.0005", 1)):
        costs = json.dumps([{"day": "2031-01-15", "cost_usd": cost}])
        world.execute("select budget.import_provider_costs(%s, %s, 'test')", account, costs)
        assert world.value("select over_tolerance from budget.drift") is (alerts == 1)
        assert world.value("select count(*) from budget_internal.alerts where kind = 'drift'") == alerts
    assert world.value("select count(*) from budget.audit where subject like 'provider cost%%'") == 2


RESOLVE = "75_quarantine/resolve.sql"
OPEN = "75_quarantine/resolve_open.sql"
REPAIR = "75_quarantine/repair_reservation.sql"
ENDED = "75_quarantine/resolve_ended.sql"
RETIRE = "85_retention/retire_entries.sql"
RETENTION = "85_retention/apply_retention.sql"
SCHEDULE = "95_cron/run_schedule.sql"

MUTANTS = [
    mutant(
        "the living are resolved",
        decides_about_what_cannot_be_settled,
        (RESOLVE, "v_reservation.stale_at >= v_now then", "false then"),
    ),
    mutant(
        "nobody audits",
        decides_about_what_cannot_be_settled,
        (RESOLVE, "    v_org_id, 'reservation ' ||", "    v_org_id, 'something ' ||"),
    ),
    mutant(
        "usage without a price is charged as unknown",
        decides_about_what_cannot_be_settled,
        (OPEN, "if p_report -> 'usage' <> 'null' and", "if false and"),
    ),
    mutant(
        "what is broken is not repaired",
        decides_about_what_cannot_be_settled,
        (OPEN, "perform budget_internal.repair_reservation(", "perform length(p_report::text), ("),
    ),
    mutant(
        "an impossible amount becomes nothing",
        decides_about_what_cannot_be_settled,
        (REPAIR, "greatest(0, min(p.held_nano_usd - o.held - c.carved))", "0"),
    ),
    mutant(
        "an impossible amount takes the holds of others",
        decides_about_what_cannot_be_settled,
        (REPAIR, "p.held_nano_usd - o.held - c.carved", "p.held_nano_usd"),
    ),
    mutant(
        "a charge that was trued up is trued up again",
        decides_about_what_cannot_be_settled,
        (
            "55_settle/settle_ended.sql",
            "if v_correction.reservation_id is null and v_entry.kind = 'charged' then",
            "if v_entry.kind = 'charged' then",
        ),
    ),
    mutant(
        "periods do not know what was dropped",
        retires_what_it_drops,
        (RETIRE, "set retired_nano_usd = p.retired_nano_usd + l.amount", "set retired_nano_usd = p.retired_nano_usd"),
    ),
    mutant(
        "units do not know what was dropped",
        retires_what_it_drops,
        (RETIRE, "set retired_nano_usd = u.retired_nano_usd + l.amount", "set retired_nano_usd = u.retired_nano_usd"),
    ),
    mutant(
        "a month goes whose last rows are younger",
        retires_what_it_drops,
        (RETENTION, "where p.ends_at <= budget_internal.clock()", "where p.starts_at <= budget_internal.clock()"),
    ),
    mutant(
        "a month stays an instant longer",
        retires_what_it_drops,
        (RETENTION, "where p.ends_at <= budget_internal.clock()", "where p.ends_at < budget_internal.clock()"),
    ),
    mutant(
        "retention may be shorter than idempotency",
        keeps_answers_as_long_as_ids,
        ("30_scope/check_retention.sql", "if v_days < v_most then", "if false then"),
    ),
    mutant(
        "retention must be longer than idempotency",
        keeps_answers_as_long_as_ids,
        ("30_scope/check_retention.sql", "if v_days < v_most then", "if v_days <= v_most then"),
    ),
    mutant(
        "what is booked meanwhile is lost",
        moves_every_row,
        ("85_retention/empty_default_partition.sql", "  perform budget_internal.copy_default_rows(null, true);\n", ""),
    ),
    mutant("pg_cron and the proxies both act", one_runner, (SCHEDULE, "acted := runner = 'proxy';", "acted := true;")),
    mutant(
        "all proxies act",
        one_runner,
        (SCHEDULE, "pg_try_advisory_xact_lock(hashtextextended('pgbudget schedule', 0))", "true"),
    ),
    mutant(
        "what is locked is picked again",
        locked_budgets_hold_up_no_others,
        (
            "70_reconcile/reconcile.sql",
            "budget_internal.due_reservations(p_limit, v_now, true)",
            "budget_internal.due_reservations(p_limit, v_now, false)",
        ),
    ),
    mutant(
        "drift is told at the tolerance",
        sees_drift,
        ("90_view/drift.sql", "* 100 > c.provider *", "* 100 >= c.provider *"),
    ),
    mutant(
        "a call is of the day it was booked",
        sees_drift,
        (
            "90_view/drift.sql",
            "    (l.reserved_at at time zone 'UTC')::date as day_on,",
            "    (l.booked_at at time zone 'UTC')::date as day_on,",
        ),
        (
            "90_view/drift.sql",
            "group by r.account_id, (l.reserved_at at time zone 'UTC')::date",
            "group by r.account_id, (l.booked_at at time zone 'UTC')::date",
        ),
    ),
    mutant(
        "an import that replaces another is not audited",
        sees_drift,
        (
            "25_audit/audit_change.sql",
            "after update or delete on budget_internal.provider_costs",
            "after delete on budget_internal.provider_costs",
        ),
    ),
]

PROBES = sorted({m.probe for m in MUTANTS}, key=lambda probe: probe.__name__)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__)
def test_probe_is_green(world: World, probe: Any) -> None:
    probe(world)


@pytest.mark.tests_of_tests
@pytest.mark.parametrize("fault", MUTANTS, ids=lambda fault: fault.name)
def test_mutant_turns_its_probe_red(world: World, fault: Mutant) -> None:
    fault.apply(world)
    # Only what a probe asserts counts: a mutant that cannot run at all would prove nothing.
    with pytest.raises(AssertionError) as seen:
        fault.probe(world)
    assert not any(f"'{sqlstate}" in str(seen.value) for sqlstate in ("42", "XX")), seen.value
