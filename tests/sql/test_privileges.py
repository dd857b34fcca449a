"""Who may do what: nobody anything, the gateway its functions."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.world import World

GATEWAY = {
    "count_refusals", "end_run", "explain", "extend", "extend_batch", "find_answer", "gateway_settings", "heartbeat",
    "keep_answer", "key_budgets", "key_models", "next_attempt", "quote", "release", "reserve", "reserve_batch",
    "settle", "settle_batch", "start_run", "usd",
}  # fmt: skip


def _functions(world: World, role: str) -> set[str]:
    rows = world.rows(
        "select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
        " where n.nspname in ('budget', 'budget_internal') and has_function_privilege(%s, p.oid, 'execute')",
        role,
    )
    return {row["proname"] for row in rows}


def _relations(world: World, role: str) -> set[str]:
    rows = world.rows(
        "select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname in ('budget', 'budget_internal') and c.relkind in ('r', 'p', 'v') and ("
        " has_table_privilege(%s, c.oid, 'select, insert, update, delete, truncate, references, trigger'))",
        role,
    )
    return {row["name"] for row in rows}


def test_a_role_without_grants_can_do_nothing(world: World) -> None:
    world.execute("create role nobody_special")
    try:
        assert _functions(world, "nobody_special") == set()
        assert _relations(world, "nobody_special") == set()
        world.execute("set role nobody_special")
        for statement in (
            "select * from budget.reserve('k', 'm', 1)",
            "select * from budget.budget_status",
            "select * from budget_internal.periods",
            "create temporary table t ()",
            "create table public.t ()",
            "create schema s",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                world.execute(statement)
    finally:
        world.execute("reset role; drop role nobody_special")


def test_the_gateway_can_only_execute_its_functions(world: World) -> None:
    assert _functions(world, "budget_gateway") == GATEWAY
    assert _relations(world, "budget_gateway") == set()
    key = world.key(10**6)
    with world.connect_gateway() as gateway:
        row = gateway.execute("select status from budget.reserve(%s, 't-mini', 1, 1)", (key,)).fetchone()
        assert row == {"status": "granted"}
        for statement in ("select * from budget_internal.keys", "update budget_internal.periods set spent_nano_usd = 0"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                gateway.execute(statement)


@pytest.mark.parametrize(
    ("role", "functions", "views"),
    [
        (
            "budget_reconciler",
            {
                *("alert_destinations", "check_alerts", "claim_alerts", "finish_alert", "redrive_alert"),
                *("reconcile", "reconcile_one", "set_alert_destinations", "usd", "verify"),
                *("apply_retention", "run_reconciler", "run_schedule", "run_upkeep", "upkeep_step"),
            },
            {"budget.alert_outbox"},
        ),
        (
            "budget_reader",
            # The last two are what views are made with: a reader may execute them, and not look into their schema.
            {"explain", "exposure_for", "quote", "usd", "verify", "carried_now", "period_now", "alert_destinations"},
            {
                *(
                    "budget.alert_outbox",
                    "budget.audit",
                    "budget.budget_status",
                    "budget.crossing",
                    "budget.drift",
                    "budget.exposure",
                    "budget.key_chain",
                    "budget.key_status",
                    "budget.ledger",
                ),
                *("budget.pressure", "budget.schedule_status", "budget.price_list", "budget.model_alias"),
                *("budget.quarantine", "budget.refusal_count", "budget.reservation_status", "budget.run_status"),
                "budget.unit_spend",
            },
        ),
    ],
)
def test_ops_and_readers(world: World, role: str, functions: set[str], views: set[str]) -> None:
    assert _functions(world, role) == functions
    assert _relations(world, role) == views


def test_everything_belongs_to_the_owner_who_cannot_log_in(world: World) -> None:
    rows = world.rows(
        "select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname in ('budget', 'budget_internal') and pg_get_userbyid(c.relowner) <> 'budget_owner'"
        " union all select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
        " where n.nspname in ('budget', 'budget_internal') and pg_get_userbyid(p.proowner) <> 'budget_owner'"
    )
    assert rows == []
    owner = world.one("select rolcanlogin, rolsuper from pg_roles where rolname = 'budget_owner'")
    assert owner == {"rolcanlogin": False, "rolsuper": False}


def test_types_of_the_callers_temporary_schema_are_never_used(world: World) -> None:
    """A caller's own ``bigint`` must not run as the owner."""
    key = world.key(10**6)
    world.execute("create type pg_temp.nano_usd as (x int); create type pg_temp.bigint as (x int)")
    world.execute("set search_path = pg_temp, public")
    assert world.reserve(key)["status"] == "granted"
    world.execute("reset search_path")
