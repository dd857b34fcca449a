"""The migration runner: each file once, whatever runs beside it, and refusals that say what is wrong."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from pgbudget import migrate
from tests.support.servers import Server, private_cluster
from tests.support.world import with_database

SOURCES = migrate.Sources.load()
NEXT = f"{len(SOURCES.migrations) + 1:04d}_next.sql"
#: What landed, so what there may be databases of.
RELEASED = sorted((Path(__file__).parent / "released").glob("*.sql"))
#: Its use by the functions of the first release.
USE = """
select budget.create_org('o'), budget.create_project('o', 'p');
select budget.set_model('x', 'm', 1000, 1000);
select budget.review_price(budget.add_price('x', 'm', '[{"kind": "input", "usd": 1}, {"kind": "output", "usd": 4}]'), 'me');
select budget.set_route(null, 'm', 'x', 'x')
"""
Connection = psycopg.Connection[Any]


@pytest.fixture
def empty(server: Server) -> Iterator[Callable[[], str]]:
    """Makes empty databases; returns their DSNs."""
    made: list[str] = []
    with psycopg.connect(server.dsn, autocommit=True) as admin:

        def make() -> str:
            name = f"migrate_{admin.info.backend_pid}_{len(made)}"
            admin.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
            made.append(name)
            return with_database(server.dsn, name)

        yield make
        for name in made:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def up(dsn: str, sources: migrate.Sources = SOURCES) -> tuple[str, ...]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return migrate.up(connection, sources)


def run(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)


def schema(server: Server, dsn: str) -> str:
    program = str(server.binaries / "pg_dump") if server.binaries else shutil.which("pg_dump")
    if program is None:
        pytest.skip("there is no pg_dump for this server")
    done = subprocess.run([program, "--schema-only", dsn], capture_output=True, text=True, check=True)
    data = subprocess.run(
        [program, "--data-only", "--inserts", "--exclude-table=budget_internal.migrations", dsn],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    text = done.stdout + re.sub(r"'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.\d]*\+00'", "'<moment>'", data.stdout)
    # A random word against tampering, in newer versions.
    return re.sub(r"^\\(un)?restrict .*$", "", text, flags=re.MULTILINE)


def changed(number: int, text: str) -> migrate.Sources:
    """The sources with another text in one migration."""
    migrations = tuple(dataclasses.replace(m, text=text) if m.version == number else m for m in SOURCES.migrations)
    return dataclasses.replace(SOURCES, migrations=migrations)


def with_next(text: str) -> migrate.Sources:
    """The sources with one more migration."""
    number = len(SOURCES.migrations) + 1
    return dataclasses.replace(
        SOURCES, migrations=(*SOURCES.migrations, migrate.Migration(number, f"{number:04d}_next.sql", text))
    )


def test_an_upgraded_database_is_the_same_as_a_fresh_one(server: Server, empty: Callable[[], str]) -> None:
    fresh, upgraded = empty(), empty()
    up(fresh)
    for count in range(1, len(SOURCES.migrations)):
        up(upgraded, dataclasses.replace(SOURCES, migrations=SOURCES.migrations[:count], repeatable=()))
    up(upgraded)
    again = dataclasses.replace(SOURCES, repeatable=(*SOURCES.repeatable, ("zz.sql", "select 1")))
    assert up(upgraded, again) == ("sql",)
    assert "CREATE TABLE budget_internal.keys" in schema(server, fresh)
    assert schema(server, upgraded) == schema(server, fresh)


def test_the_dumped_script_makes_the_same_database(server: Server, empty: Callable[[], str]) -> None:
    fresh, scripted = empty(), empty()
    up(fresh)
    psql = str(server.binaries / "psql") if server.binaries else "psql"
    subprocess.run(
        [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", scripted],
        input=migrate.dump(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert schema(server, scripted) == schema(server, fresh)
    assert up(scripted) == ()


@pytest.mark.parametrize("released", RELEASED, ids=lambda path: path.stem)
def test_a_released_database_is_upgraded_with_all_that_is_in_it(
    server: Server, empty: Callable[[], str], released: Path
) -> None:
    """What ``migrate dump`` printed when those files landed, with its own functions; then calls, open and ended, and ``up``."""
    fresh, old, used = empty(), empty(), empty()
    up(fresh)
    psql = str(server.binaries / "psql") if server.binaries else "psql"
    for dsn in (old, used):
        subprocess.run(
            [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(released), dsn], capture_output=True, text=True, check=True
        )
    up(old)
    assert schema(server, old) == schema(server, fresh)

    with psycopg.connect(used, autocommit=True) as connection:

        def one(query: str, *parameters: object) -> Any:
            row = connection.execute(query.encode(), parameters).fetchone()
            return row and row[0]

        for statement in USE.split(";"):
            connection.execute(statement.encode())
        secret = one("select secret from budget.create_key('o', 'p', 'k')")
        one("select budget.set_budget('o', 'key', 'k', 5, 'day'), budget.set_budget('o', 'project', 'p', 200, 'month')")
        calls = [one("select reservation_id from budget.reserve(%s, 'm', 100, 200)", secret) for _ in range(4)]
        one("""select budget.settle(%s, '{"input": 100, "output": 10}')""", calls[0])
        one("select budget.settle(%s, null, 'unknown')", calls[1])
        migrate.up(connection)
        assert connection.execute("select * from budget.verify()").fetchall() == []
        late = """select status || ' ' || charged_nano_usd from budget.settle(%s, '{"input": 10}')"""
        assert one(late, calls[1]) == "trued_up 10000"
        assert one(late, calls[2]) == "settled 10000"
        assert one("select status from budget.reserve(%s, 'm', 100, 200)", secret) == "granted"
        assert connection.execute("select * from budget.verify()").fetchall() == []
        assert one("select string_agg(spent_usd || ' ' || reserved_usd, ', ') from budget.budget_status") == (
            "0.00016 0.0018, 0.00016 0.0018"
        )


def test_a_second_run_has_nothing_to_do(empty: Callable[[], str]) -> None:
    dsn = empty()
    assert up(dsn) == (*(m.name for m in SOURCES.migrations), "sql")
    assert up(dsn) == ()
    with psycopg.connect(dsn) as connection:
        state = migrate.status(connection, SOURCES)
    assert (len(state.applied), state.pending, state.repeatable_current) == (len(SOURCES.migrations), (), True)


def test_status_of_an_empty_database_is_that_all_is_pending(empty: Callable[[], str]) -> None:
    with psycopg.connect(empty()) as connection:
        state = migrate.status(connection, SOURCES)
    assert (state.applied, len(state.pending), state.repeatable_current) == ((), len(SOURCES.migrations), False)


def test_twenty_runners_at_once_apply_each_file_once(empty: Callable[[], str]) -> None:
    dsn = empty()
    with ThreadPoolExecutor(20) as pool:
        applied = list(pool.map(lambda _: up(dsn), range(20)))
    assert sorted(applied, key=len)[-1] == (*(m.name for m in SOURCES.migrations), "sql")
    assert sorted(applied, key=len)[:-1] == [()] * 19


def test_runners_on_several_databases_of_a_new_cluster_agree_on_its_roles(server: Server) -> None:
    if server.binaries is None:
        pytest.skip("needs a cluster without roles")
    with private_cluster(server.binaries) as cluster:
        for number in range(8):
            run(cluster.dsn(), f"create database d{number}")
        with ThreadPoolExecutor(8) as pool:
            applied = list(pool.map(lambda number: up(cluster.dsn(f"d{number}")), range(8)))
    assert applied == [(*(m.name for m in SOURCES.migrations), "sql")] * 8


def test_a_migrator_needs_no_superuser_once_the_roles_are_there(server: Server, empty: Callable[[], str]) -> None:
    dsn = empty()
    up(dsn)
    run(dsn, "create role test_migrator login password 'migrator' in role budget_migrator")
    try:
        migrator = with_database(server.dsn, dsn.rpartition("/")[2], "test_migrator", "migrator")
        assert up(migrator) == ()
        assert up(migrator, with_next("create table budget_internal.extra (a int)")) == (NEXT, "sql")
    finally:
        run(dsn, "drop role test_migrator")


def test_everything_belongs_to_the_owner(empty: Callable[[], str]) -> None:
    dsn = empty()
    up(dsn)
    with psycopg.connect(dsn) as connection:
        foreign = connection.execute("""
          select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
          where n.nspname in ('budget', 'budget_internal') and c.relowner <> 'budget_owner'::regrole
          union all
          select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace
          where n.nspname in ('budget', 'budget_internal') and p.proowner <> 'budget_owner'::regrole
          union all
          select nspname from pg_namespace
          where nspname in ('budget', 'budget_internal') and nspowner <> 'budget_owner'::regrole
        """).fetchall()
    assert foreign == []


def test_an_edited_file_is_refused(empty: Callable[[], str]) -> None:
    dsn = empty()
    up(dsn)
    edited = changed(2, SOURCES.migrations[1].text + "\n-- one more line")
    with pytest.raises(migrate.EditedMigration, match=r"0002_prices\.sql was edited after it had been applied"):
        up(dsn, edited)


def test_a_newer_database_is_refused(empty: Callable[[], str]) -> None:
    dsn = empty()
    up(dsn, with_next("select 1"))
    with pytest.raises(migrate.NewerDatabase, match="upgrade pgbudget"):
        up(dsn)


def test_a_hole_among_the_files_is_refused(tmp_path: Path) -> None:
    for name in ("roles.sql", "0001_a.sql", "0003_c.sql"):
        (tmp_path / name).write_text("select 1")
    with pytest.raises(migrate.MigrationGap, match=r"expected migration 0002, found 0003_c\.sql"):
        migrate.Sources.load(tmp_path, tmp_path)


def test_a_hole_in_the_database_is_refused(empty: Callable[[], str]) -> None:
    dsn = empty()
    up(dsn)
    run(dsn, "delete from budget_internal.migrations where version = 2")
    with pytest.raises(migrate.MigrationGap, match="the database skipped migration 0002"):
        up(dsn)


def test_a_migration_that_fails_leaves_nothing_and_is_tried_again(empty: Callable[[], str]) -> None:
    dsn = empty()
    with pytest.raises(migrate.MigrationError, match=rf"{NEXT}: .*division by zero"):
        up(dsn, with_next("create table budget_internal.half (a int); select 1 / 0"))
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select to_regclass('budget_internal.half')").fetchone() == (None,)
        assert migrate.status(connection, SOURCES).pending == ()
    assert up(dsn, with_next("create table budget_internal.half (a int)")) == (NEXT, "sql")


def test_functions_that_fail_leave_the_old_ones(empty: Callable[[], str]) -> None:
    dsn = empty()
    up(dsn)
    broken = dataclasses.replace(
        SOURCES, repeatable=(*SOURCES.repeatable, ("zz.sql", "create view budget.broken as select nothing"))
    )
    with pytest.raises(migrate.MigrationError, match=r"sql/zz\.sql: column"):
        up(dsn, broken)
    assert up(dsn) == ()


@pytest.mark.parametrize(
    ("drift", "function"),
    [
        ("alter function budget.disable_key(text, text) security invoker", "budget.disable_key"),
        ("alter function budget.disable_key(text, text) reset all", "budget.disable_key"),
        ("create function budget.disable_key(text) returns int language sql as 'select 1'", "budget.disable_key"),
        ("create function budget_internal.stray() returns int language sql as 'select 1'", "budget_internal.stray"),
        ("drop function budget_internal.uuid_v7 cascade", "budget_internal.uuid_v7"),
    ],
    ids=["definer dropped", "setting dropped", "overload left over", "function of nobody", "function gone"],
)
def test_functions_other_than_the_files_are_refused(empty: Callable[[], str], drift: str, function: str) -> None:
    dsn = empty()
    up(dsn)
    run(dsn, drift)
    with pytest.raises(migrate.FunctionMismatch, match=re.escape(function)):
        up(dsn)


def test_a_function_whose_file_went_needs_a_migration(empty: Callable[[], str]) -> None:
    dsn = empty()
    extra = "create or replace function budget_internal.extra() returns integer\nlanguage sql\nas $$ select 1 $$;"
    up(dsn, dataclasses.replace(SOURCES, repeatable=(*SOURCES.repeatable, ("99_privilege/extra.sql", extra))))
    with pytest.raises(migrate.FunctionMismatch, match="needs a migration that drops the old one"):
        up(dsn)
    assert up(dsn, with_next("drop function budget_internal.extra()")) == (NEXT, "sql")
