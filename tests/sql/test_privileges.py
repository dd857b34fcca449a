"""Who may do what: nothing without a grant, and with one no more than its functions."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.support.world import World, with_database

GATEWAY = {
    "explain", "gateway_settings", "heartbeat", "key_budgets", "key_models", "quote", "release", "reserve", "reserve_batch",
    "settle", "settle_batch", "usd",
}  # fmt: skip
RECONCILER = {"reconcile", "reconcile_one", "usd", "verify"}
READER = {"explain", "quote", "usd", "verify"}


def executable(world: World, role: str) -> set[str]:
    return {
        f"{row['schema']}.{row['name']}".removeprefix("budget.")
        for row in world.rows(
            "select n.nspname as schema, p.proname as name from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
            " where n.nspname in ('budget', 'budget_internal') and has_function_privilege(%s, p.oid, 'execute')",
            role,
        )
    }


def granted(world: World, role: str) -> set[tuple[str, str]]:
    """What a role (or everybody) was granted on tables, views, sequences and their columns."""
    rows = world.rows(
        "select distinct c.oid::regclass::text as name, a.privilege_type as privilege"
        " from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " left join pg_attribute t on t.attrelid = c.oid and t.attacl is not null"
        " cross join lateral (select * from aclexplode(c.relacl) union all select * from aclexplode(t.attacl)) a"
        " where n.nspname in ('budget', 'budget_internal')"
        " and a.grantee in (0, (select r.oid from pg_roles r where r.rolname = %s))",
        role,
    )
    return {(row["name"], row["privilege"]) for row in rows}


@pytest.fixture
def stranger(world: World) -> Iterator[psycopg.Connection]:
    """A login that was granted nothing."""
    world.execute("create role test_stranger login password 'stranger'")
    try:
        database = world.value("select current_database()")
        with psycopg.connect(with_database(world.dsn, database, "test_stranger", "stranger"), autocommit=True) as connection:
            yield connection
    finally:
        world.execute("drop role test_stranger")


@pytest.mark.parametrize(
    "statement",
    [
        "select * from budget.reserve('k', 'm', 1)",
        "select * from budget.budget_status",
        "select * from budget_internal.scopes",
        "select budget_internal.clock()",
        "create table budget.mine (a int)",
        "create table public.mine (a int)",
        "create temporary table mine (a int)",
        "create schema mine",
        "set role budget_gateway",
        "set role budget_owner",
    ],
)
def test_a_role_without_grants_can_do_nothing(stranger: psycopg.Connection, statement: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        stranger.execute(statement.encode())


def test_public_has_nothing(world: World) -> None:
    assert executable(world, "public") == set()
    assert granted(world, "public") == set()


@pytest.mark.parametrize(
    ("role", "functions"),
    [("budget_gateway", GATEWAY), ("budget_reconciler", RECONCILER), ("budget_reader", READER)],
)
def test_a_role_may_execute_its_functions_and_no_other(world: World, role: str, functions: set[str]) -> None:
    assert executable(world, role) == functions


@pytest.mark.parametrize("role", ["budget_gateway", "budget_reconciler"])
def test_services_reach_no_table_and_no_view(world: World, role: str) -> None:
    assert granted(world, role) == set()


@pytest.mark.parametrize("role", ["budget_reader", "budget_admin"])
def test_people_read_views_and_write_nothing(world: World, role: str) -> None:
    grants = granted(world, role)
    assert ("budget.budget_status", "SELECT") in grants
    assert {privilege for _, privilege in grants} == {"SELECT"}
    assert all(name.startswith("budget.") for name, _ in grants)


def test_the_gateway_cannot_become_more(world: World) -> None:
    with world.connect_gateway() as gateway:
        for statement in (
            "set role budget_owner", "set role budget_admin", "select * from budget_internal.keys",
            "update budget_internal.periods set spent_nano_usd = 0", "create temporary table mine (a int)",
            "create function public.mine() returns int language sql as 'select 1'", "select budget.create_org('mine')",
        ):  # fmt: skip
            with pytest.raises(errors.InsufficientPrivilege):
                gateway.execute(statement.encode())


def test_no_role_is_more_than_it_must_be(world: World) -> None:
    assert world.rows(
        "select rolname from pg_roles where rolname like 'budget_%'"
        " and (rolsuper or rolcreaterole or rolcreatedb or rolbypassrls or rolreplication or rolcanlogin)"
    ) == []  # fmt: skip
    memberships = world.rows(
        "select r.rolname as role, m.rolname as member from pg_auth_members a join pg_roles r on r.oid = a.roleid"
        " join pg_roles m on m.oid = a.member where r.rolname like 'budget_%' and m.rolname like 'budget_%'"
    )
    assert memberships == [{"role": "budget_owner", "member": "budget_migrator"}]


def test_the_gateway_login_waits_for_no_lock_for_ever(world: World) -> None:
    with world.connect_gateway() as gateway:
        row = gateway.execute(
            "select current_setting('lock_timeout') as lock, current_setting('statement_timeout') as statement"
        ).fetchone()
    assert row == {"lock": "5s", "statement": "10s"}
