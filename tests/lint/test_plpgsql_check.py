"""plpgsql_check over every PL/pgSQL function: what it warns of fails, but for what is listed here with its reason."""

from __future__ import annotations

import psycopg
import pytest

from tests.support import servers
from tests.support.world import World

#: (function, beginning of the message): reason
ALLOWED: dict[tuple[str, str], str] = {}


@pytest.mark.debian15
def test_every_function_passes_plpgsql_check(world: World, server: servers.Server) -> None:
    assert server.version == 15
    try:
        world.execute("create extension plpgsql_check")
    except psycopg.Error as error:
        pytest.fail(f"plpgsql_check is missing: {error}")
    found = world.rows("""
      select p.oid::regprocedure::text as function, c.level, c.message, c.detail, c.lineno
      from pg_proc p
      join pg_namespace n on n.oid = p.pronamespace
      join pg_language l on l.oid = p.prolang
      left join pg_trigger t on t.tgfoid = p.oid and t.tgparentid = 0
      cross join lateral plpgsql_check_function_tb(
        p.oid, coalesce(t.tgrelid, 0), fatal_errors => false, extra_warnings => true, performance_warnings => false,
        security_warnings => true, newtable => t.tgnewtable, oldtable => t.tgoldtable
      ) c
      where n.nspname in ('budget', 'budget_internal') and l.lanname = 'plpgsql'
    """)
    unexplained = [
        row for row in found if not any(row["function"].startswith(f) and row["message"].startswith(m) for f, m in ALLOWED)
    ]
    assert unexplained == [], "\n".join(f"{r['function']}:{r['lineno']} {r['level']}: {r['message']}" for r in unexplained)


def test_every_function_is_described_and_closed_to_the_public(world: World) -> None:
    rows = world.rows("""
      select p.oid::regprocedure::text as function
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      where n.nspname in ('budget', 'budget_internal')
        and (obj_description(p.oid, 'pg_proc') is null or has_function_privilege('public', p.oid, 'execute'))
    """)
    assert rows == []


def test_every_public_function_pins_its_search_path(world: World) -> None:
    rows = world.rows("""
      select p.oid::regprocedure::text as function
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      -- A procedure that commits can have neither; its caller brings rights and path. Only a superuser may make pg_cron's jobs.
      where n.nspname = 'budget' and p.proname not in ('usd', 'enable_cron', 'disable_cron') and p.prokind = 'f' and (
        not coalesce('search_path=pg_catalog, pg_temp' = any (p.proconfig), false) or not p.prosecdef
      )
    """)
    assert rows == []
