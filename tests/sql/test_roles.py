"""The roles themselves: no more powerful than they must be, and no way from one to another."""

from __future__ import annotations

import pytest
from psycopg import errors

from tests.support.world import World


@pytest.mark.parametrize(
    "statement",
    [
        "set role budget_owner",
        "set role budget_admin",
        "create temporary table mine (a int)",
        "create table budget.mine (a int)",
        "create function public.mine() returns int language sql as 'select 1'",
        "select budget.create_scope(null, 'org', 'mine')",
        "select budget_internal.clock()",
    ],
)
def test_the_gateway_cannot_become_more(world: World, statement: str) -> None:
    with world.connect_gateway() as gateway, pytest.raises(errors.InsufficientPrivilege):
        gateway.execute(statement.encode())


def test_no_role_has_an_attribute_that_opens_more(world: World) -> None:
    opened = world.rows(
        "select rolname from pg_roles where rolname like 'budget%'"
        " and (rolsuper or rolcreaterole or rolcreatedb or rolbypassrls or rolreplication or rolcanlogin)"
    )
    assert opened == []


def test_only_the_migrator_may_act_as_the_owner(world: World) -> None:
    memberships = world.rows(
        "select r.rolname as role, m.rolname as member from pg_auth_members a join pg_roles r on r.oid = a.roleid"
        " join pg_roles m on m.oid = a.member where r.rolname like 'budget%' and m.rolname like 'budget%'"
    )
    assert memberships == [{"role": "budget_owner", "member": "budget_migrator"}]


@pytest.mark.parametrize("role", ["budget_admin", "budget_reader", "budget_gateway", "budget_reconciler", "public"])
def test_nobody_but_the_owner_writes_a_table_or_one_of_its_columns(world: World, role: str) -> None:
    granted = world.rows(
        "select distinct c.oid::regclass::text as name, a.privilege_type as privilege"
        " from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " left join pg_attribute t on t.attrelid = c.oid and t.attacl is not null"
        " cross join lateral (select * from aclexplode(c.relacl) union all select * from aclexplode(t.attacl)) a"
        " where n.nspname in ('budget', 'budget_internal')"
        " and a.grantee in (0, (select r.oid from pg_roles r where r.rolname = %s))",
        role,
    )
    assert [row for row in granted if row["privilege"] != "SELECT" or not row["name"].startswith("budget.")] == []


def test_a_gateway_login_waits_for_nothing_for_ever(world: World) -> None:
    with world.connect_gateway() as gateway:
        row = gateway.execute(
            "select current_setting('lock_timeout') as lock, current_setting('statement_timeout') as statement"
        ).fetchone()
    assert row == {"lock": "5s", "statement": "10s"}
