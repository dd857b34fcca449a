"""The views at 100,000 budgets: one key or one scope is read in milliseconds, and no view locks more than a reader must."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.support.servers import Server
from tests.support.world import World, with_database

KEYS = 100_000

_FILL = f"""
  with org as (
    select o.scope_id as org_id, p.scope_id as project_id, u.scope_id as unit_id
    from budget_internal.scopes o
    join budget_internal.scopes p on p.org_id = o.scope_id and p.kind = 'project'
    join budget_internal.scopes u on u.org_id = o.scope_id and u.kind = 'unit'
    where o.name = 'big'
  ), scope as (
    insert into budget_internal.scopes (org_id, kind, name, parent_id)
    select o.org_id, 'key', 'key' || n, o.project_id from org o, generate_series(1, {KEYS}) n
    returning org_id, scope_id, name
  ), key as (
    insert into budget_internal.keys (org_id, key_id, project_id, unit_id, chain)
    select s.org_id, s.scope_id, o.project_id, o.unit_id, array[s.scope_id, o.unit_id, o.project_id, o.org_id]
    from scope s, org o
  ), secret as (
    insert into budget_internal.key_secrets (org_id, key_id, secret_hash, last_four)
    select s.org_id, s.scope_id, sha256(convert_to('pgb_' || s.name, 'UTF8')), 'last' from scope s
  ), budget as (
    insert into budget_internal.budgets (org_id, scope_id, name, limit_nano_usd, period, anchor_at, time_zone)
    select s.org_id, s.scope_id, 'month', 1000000000, 'month', '2026-01-01', 'UTC' from scope s
    returning org_id, budget_id
  )
  insert into budget_internal.periods (org_id, budget_id, starts_at, ends_at, spent_nano_usd, lock_key)
  select b.org_id, b.budget_id, '2026-11-01 00:00:00+00', '2026-12-01 00:00:00+00', 250000000, b.budget_id from budget b;
"""

#: A thousand other orgs, with a budget each.
_MORE = """
  with org as (
    insert into budget_internal.scopes (org_id, scope_id, kind, name)
    select n, n, 'org', 'org' || n from generate_series(10000001, 10001000) n
    returning org_id
  )
  insert into budget_internal.budgets (org_id, scope_id, name, limit_nano_usd, period, anchor_at, time_zone)
  select o.org_id, o.org_id, 'month', 1000000000, 'month', '2026-01-01', 'UTC' from org o
"""


@pytest.fixture(scope="module")
def big(server: Server, template: str) -> Iterator[World]:
    """An org ``big`` with a budget for each of 100,000 keys, its unit, project and itself; and a small org beside it."""
    name = f"{template}_big"
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f'create database "{name}" template "{template}"'.encode())
    with World(with_database(server.dsn, name), "") as world:
        world.set_clock("2026-11-16 00:00:00+00")
        world.execute("select budget.create_scope(null, 'org', 'big'), budget.create_scope('big', 'project', 'p')")
        world.execute("select budget.create_scope('big', 'unit', 'u', 'project', 'p')")
        for kind, scope in (("org", "big"), ("project", "p"), ("unit", "u")):
            world.budget("big", kind, scope, 10**9, "month")
        # What is made in bulk is not what the audit log is about.
        world.execute("set session_replication_role = replica")
        world.execute(_FILL)
        world.execute(_MORE)
        world.execute("set session_replication_role = origin")
        world.execute("select budget.create_scope(null, 'org', 'small'), budget.create_scope('small', 'project', 'p')")
        secret = world.key(1000, org="small")
        world.reserve(secret, run={"id": "r"})
        world.execute("analyze")
        yield world
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f'drop database "{name}" with (force)'.encode())


READS = {
    "one key's chain": ("select * from budget.key_chain where org = 'big' and key_name = 'key77777'", 4),
    "one key's state": ("select * from budget.key_status where org = 'big' and key_name = 'key77777'", 1),
    "one key's own chain": ("select * from budget.key_budgets('pgb_key77777')", 4),
    "one scope's budgets": (
        "select * from budget.budget_status where org = 'big' and scope_kind = 'key' and scope_name = 'key77777'", 1
    ),
    "a small org's budgets": ("select * from budget.budget_status where org = 'small'", 2),
    "one scope's pressure": (
        "select * from budget.pressure where org = 'big' and scope_kind = 'key' and scope_name = 'key77777'", 1
    ),
    "an org's units": ("select * from budget.unit_spend where org = 'big'", 1),
    "one unit": ("select * from budget.unit_spend where org = 'big' and unit_name = 'u'", 1),
    "one key's runs": ("select * from budget.run_status where org = 'small' and key_name = 'key0'", 1),
    "the last hour's refusals": ("select * from budget.refusal_count where minute_at > '2026-11-15 23:00:00+00'", 0),
}  # fmt: skip


@pytest.mark.parametrize("what", READS)
def test_one_key_or_scope_is_read_in_milliseconds(big: World, what: str) -> None:
    query, rows = READS[what]
    took: list[float] = []
    # The best of some: other tests share the machine.
    while len(took) < 20 and min(took, default=1) > 0.05:
        began = time.perf_counter()
        assert len(big.rows(query)) == rows
        took.append(time.perf_counter() - began)
    assert min(took) < 0.05, took


@pytest.mark.parametrize("what", READS)
def test_no_plan_reads_a_whole_table_of_many(big: World, what: str) -> None:
    plan = "\n".join(next(iter(row.values())) for row in big.rows(f"explain {READS[what][0]}"))
    for table in ("scopes", "keys", "budgets", "periods"):
        assert f"Seq Scan on {table}" not in plan, plan


def test_reading_takes_no_lock_that_stops_a_writer(big: World) -> None:
    views = [row["name"] for row in big.rows("select viewname as name from pg_views where schemaname = 'budget'")]
    assert {"audit", "budget_status", "key_chain", "pressure", "refusal_count", "run_status", "unit_spend"} <= set(views)
    locks = (
        "select coalesce(c.relname, l.locktype) as name, l.mode from pg_locks l left join pg_class c on c.oid = l.relation"
        " where l.pid = pg_backend_pid() and l.mode <> 'AccessShareLock' and l.locktype <> 'virtualxid'"
    )
    with big.connection.transaction():
        big.execute("set transaction read only")
        for view in views:
            big.execute(f"select * from budget.{view} limit 10")
        for query, _ in READS.values():
            big.execute(query)
        assert big.rows(locks) == []


def test_a_chain_names_the_budget_with_least_left(big: World) -> None:
    chain = big.rows("select * from budget.key_chain where org = 'big' and key_name = 'key5' order by place")
    assert [row["scope_kind"] for row in chain] == ["key", "unit", "project", "org"]
    assert [row["binding"] for row in chain] == [True, False, False, False]
    assert [str(row["available_usd"]) for row in chain] == ["0.75", "1000", "1000", "1000"]
