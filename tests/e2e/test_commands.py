"""The commands, as they are typed."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from pgbudget.cli import app
from tests.support.world import World, with_database

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


def run(*arguments: str, folder: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """One command; settings of the one who runs the tests do not matter."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PGBUDGET_")}
    command = [sys.executable, "-m", "pgbudget.cli", *arguments]
    return subprocess.run(
        command, cwd=folder, env={**env, **environment}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )


def commands(group: Any = None, name: str = "") -> dict[str, Any]:
    """All commands by their full names."""
    group = group or typer.main.get_command(app)
    found: dict[str, Any] = {}
    for part, command in group.commands.items():
        full = f"{name} {part}".strip()
        found |= commands(command, full) if hasattr(command, "commands") else {full: command}
    return found


@pytest.fixture(scope="session")
def with_a_key(shared_world: World) -> World:
    """Org o with project p and key k1."""
    shared_world.execute("select budget.create_scope(null, 'org', 'o'), budget.create_scope('o', 'project', 'p')")
    shared_world.execute("select budget.create_key('o', 'p', 'k1')")
    return shared_world


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("budget set o k1 5 day", "write the scope as kind/name, for example key/k1, not 'k1'"),
        ("budget set o key/ 5 day", "write the scope as kind/name, for example key/ci, not 'key/'"),
        ("budget set o /k1 5 day", "write the scope as kind/name, for example key/k1, not '/k1'"),
        ("budget set o key/k1 -5 day", "the amount is negative: -5;"),
        ("budget set o key/k1 -0.5 day --name x", "the amount is negative: -0.5;"),
        ("budget set o key/k1 5,00 day", "5,00 is not an amount in USD"),
        ("budget set o key/k1 nan day", "nan is not an amount in USD"),
        ("budget set o key/k1 inf day", "inf is not an amount in USD"),
        ("budget set o key/k1 1e-10 day", "limit_usd has more than nine decimals"),
        ("budget set o key/k1 5 fortnight", "period must be one of 1d, 7d"),
        ("budget set o key/k1 5 day --time-zone Mars", "is not an IANA time zone (For example: UTC"),
        ("budget set o kye/k1 5 day", "kind must be one of"),
        ("budget set o key/k2 5 day", 'there is no key "k2" in this org'),
        ("budget set o2 key/k1 5 day", 'there is no org "o2"'),
        ("key create o p k1", 'there is already a key "k1" in this org'),
        ("key create o p k@1\t", "key name must"),
        ("key create o\t p k", "there is no org"),
        ("key create o p\t k", "there is no project"),
        ("simulate --defaults nonsense", "--defaults is not a behaviour (docs/simulator.md"),
        ("simulate --defaults [1]", "--defaults is not a behaviour"),
        ('simulate --defaults {"latency":1}', "unknown members: latency"),
        ("migrate up --gateway-login g", "PGBUDGET_GATEWAY_PASSWORD is not set"),
        (f"status --dsn {NOWHERE}", "the database cannot be reached"),
        ("status --dsn hurz=3", 'invalid connection option "hurz"'),
        ("psql --dsn hurz=3", 'invalid connection option "hurz"'),
    ],
)
def test_what_is_wrong_is_said_in_one_line(with_a_key: World, line: str, says: str) -> None:
    done = run(*line.split(" "), PGBUDGET_DSN=with_a_key.dsn)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("pgbudget: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("line", ["status", "key create o p k", "budget set o key/k 5 day", "migrate status", "psql", "serve"])
def test_without_a_database_the_setting_is_named(tmp_path: Path, line: str) -> None:
    done = run(*line.split(), *(["--folder", str(tmp_path)] if line == "psql" else []))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "PGBUDGET_DSN" in done.stderr


def test_a_key_with_a_budget_is_made_and_shown(world: World) -> None:
    made = run("key", "create", "acme", "web", "ci", "--model", "t-mini", PGBUDGET_DSN=world.dsn)
    assert made.stdout.startswith("pgb_")
    assert run("key", "create", "acme", "web", "other", PGBUDGET_DSN=world.dsn).returncode == 0
    done = run("budget", "set", "acme", "key/ci", "0.25", "day", PGBUDGET_DSN=world.dsn)
    assert done.stdout == "key/ci: 0.25 USD a day\n"
    assert world.reserve(made.stdout.strip())["status"] == "granted"
    shown = run("status", PGBUDGET_DSN=world.dsn).stdout
    assert "key/ci" in shown
    # A hold of 100 input and 200 output tokens.
    assert {"0.25", "0.0009", "0.2491"} <= set(shown.split())
    assert shown.endswith("books agree\n")


def test_who_may_administer_needs_no_more_for_keys_budgets_and_their_status(world: World) -> None:
    world.execute("create role some_admin login password 'secret' in role budget_admin")
    try:
        dsn = with_database(world.dsn, world.dsn.rpartition("/")[2], "some_admin", "secret")
        for name in ("first", "second"):
            made = run("key", "create", "acme", "web", name, PGBUDGET_DSN=dsn)
            assert (made.returncode, made.stderr) == (0, "")
            assert run("budget", "set", "acme", f"key/{name}", "5", "day", PGBUDGET_DSN=dsn).returncode == 0
            assert world.reserve(made.stdout.strip())["status"] == "granted"
        shown = run("status", PGBUDGET_DSN=dsn)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert {"key/first", "key/second"} <= set(shown.stdout.split())
    finally:
        world.execute("drop role some_admin")


def test_who_may_not_is_told_who_may(world: World) -> None:
    world.execute("create role some_gateway login password 'secret' in role budget_gateway")
    try:
        dsn = with_database(world.dsn, world.dsn.rpartition("/")[2], "some_gateway", "secret")
        for line in ("status", "key list", "migrate status", "migrate up", "budget set o key/k 5 day"):
            done = run(*line.split(), PGBUDGET_DSN=dsn)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), line
            assert all(word in done.stderr for word in ("budget_admin", "budget_reader", "migrate as a superuser")), line
    finally:
        world.execute("drop role some_gateway")


def test_what_a_database_that_is_not_migrated_lacks_is_told(world: World) -> None:
    world.execute("create database not_migrated")
    try:
        dsn = with_database(world.dsn, "not_migrated")
        lines = ("status", "key list", "key create o p k", "budget set o key/k 5 day", "prices seed", "alerts list")
        for line in lines:
            done = run(*line.split(), PGBUDGET_DSN=dsn)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), line
            assert "pgbudget migrate up brings it up to date" in done.stderr, line
    finally:
        world.execute("drop database not_migrated with (force)")


def test_names_and_amounts_are_never_cut_in_a_narrow_terminal(world: World) -> None:
    run("key", "create", "q" * 50, "p", "x" * 60, PGBUDGET_DSN=world.dsn)
    amount = "777777.777777777"
    line = ["budget", "set", "q" * 50, "key/" + "x" * 60, amount, "total", "--name", "a budget " + "z" * 40]
    assert run(*line, PGBUDGET_DSN=world.dsn).returncode == 0
    table = run("status", PGBUDGET_DSN=world.dsn, COLUMNS="80").stdout
    assert max(map(len, table.splitlines())) <= 80
    # Nothing else has these letters and digits; limit and available are the amount.
    assert [table.count(c) for c in "qxz7"] == [50, 60, 40, 2 * 15]
    assert run("status", PGBUDGET_DSN=world.dsn, COLUMNS="300").stdout.count(amount) == 2


def test_a_line_of_80_columns_has_usual_names_and_amounts_whole(world: World) -> None:
    secret = run("key", "create", "acme", "web", "demo-1a2b3c", PGBUDGET_DSN=world.dsn).stdout.strip()
    run("budget", "set", "acme", "key/demo-1a2b3c", "250.50", "month", PGBUDGET_DSN=world.dsn)
    world.settle(world.reserve(secret)["reservation_id"], {"input": 87, "output": 81, "cache_read": 9})
    world.reserve(secret)
    lines = run("status", PGBUDGET_DSN=world.dsn, COLUMNS="80").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    (row,) = (line.split() for line in lines if "acme" in line)
    # 87 + 81 x 4 + 9 x 0.25 micro-dollars.
    assert row[:7] == ["acme", "key/demo-1a2b3c", "month", "250.5", "0.00041325", "0.0009", "250.49868675"]
    listed = run("key", "list", PGBUDGET_DSN=world.dsn, COLUMNS="80").stdout.splitlines()
    assert [line.split()[:5] for line in listed if "acme" in line] == [["acme", "web", "demo-1a2b3c", "active", secret[-4:]]]


def test_keys_are_listed_with_their_state_and_never_their_secret(world: World) -> None:
    dsn = world.dsn
    secrets = {n: run("key", "create", "acme", "web", n, PGBUDGET_DSN=dsn).stdout.strip() for n in ("on", "off", "old", "new")}
    run("key", "create", "other", "web", "theirs", PGBUDGET_DSN=dsn)
    world.execute(
        """select budget.disable_key('acme', 'off'), budget.set_key('acme', 'old', '{"expires_at": "2026-01-01T00:00:00Z"}')"""
    )
    rotated = world.value("select budget.rotate_key('acme', 'new', '1 hour')")
    shown = run("key", "list", "acme", PGBUDGET_DSN=dsn).stdout
    rows = {line.split()[2]: line for line in shown.splitlines() if " web " in line}
    assert {name: line.split()[3] for name, line in rows.items()} == {
        "on": "active", "off": "disabled", "old": "expired", "new": "active"
    }  # fmt: skip
    assert f"{secrets['new'][-4:]}, {rotated[-4:]}" in rows["new"]
    assert "2026-01-01" in rows["old"]
    assert not any(secret[:-4] in shown for secret in (*secrets.values(), rotated))
    assert "theirs" in run("key", "list", PGBUDGET_DSN=dsn).stdout
    assert "there are no keys in org 'acne'" in run("key", "list", "acne", PGBUDGET_DSN=dsn).stderr


def test_the_status_tells_of_stale_holds_and_how_they_end(world: World) -> None:
    key = world.key(10_000)
    world.reserve(key)
    assert "stale" not in run("status", PGBUDGET_DSN=world.dsn).stdout
    for _ in range(2):
        world.reserve(key)
    world.execute("update budget_internal.reservations set stale_at = now() - interval '1 second' where choices = 1")
    shown = run("status", PGBUDGET_DSN=world.dsn)
    assert shown.returncode == 0
    assert "stale holds: 3, of 0.0027 USD" in shown.stdout
    arguments = shlex.split(shown.stdout.rpartition("at once: pgbudget ")[2].splitlines()[0])
    assert run(*arguments, PGBUDGET_DSN=world.dsn).returncode == 0
    assert "stale" not in run("status", PGBUDGET_DSN=world.dsn).stdout
    assert [row["kind"] for row in world.ledger()] == ["charged"] * 3


def test_the_status_tells_of_quarantined_holds_and_where_to_read_on(world: World) -> None:
    key = world.key(10_000)
    for _ in range(3):
        world.reserve(key)
    assert "quarantine" not in run("status", PGBUDGET_DSN=world.dsn).stdout
    world.execute("""select budget.set_policy(null, '{"reconcile_max_attempts": 1}')""")
    world.execute(
        "update budget_internal.reservations set price_ids = '{-1}', stale_at = now() - interval '1 second'"
        " where reservation_id in (select reservation_id from budget_internal.reservations limit 2)"
    )
    world.execute("call budget.run_reconciler()")
    shown = run("status", PGBUDGET_DSN=world.dsn)
    assert (shown.returncode, shown.stderr) == (0, "")
    (line,) = (line for line in shown.stdout.splitlines() if line.startswith("quarantined: "))
    assert line.startswith("quarantined: 2, of 0.0018 USD: ")
    # No gateway charges these by itself.
    assert "stale" not in shown.stdout
    assert shown.stdout.endswith("books agree\n")
    page, _, heading = line.rpartition("see budget.quarantine and ")[2].partition("#")
    assert f"\n## {heading.replace('-', ' ').capitalize()}\n" in (Path(__file__).parents[2] / page).read_text()


def test_psql_gets_its_arguments_and_its_password_where_others_cannot_see_it(world: World, tmp_path: Path) -> None:
    fake = tmp_path / "psql"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "$PGPASSWORD"\n')
    fake.chmod(fake.stat().st_mode | stat.S_IEXEC)
    path = f"{tmp_path}:{os.environ['PATH']}"
    arguments = ["-At", "-c", "select 1", "--csv", "-v", "a=b"]
    dsn = "postgresql://me:se%20cret@127.0.0.1:5555/mine"
    shown = run("psql", "--folder", str(tmp_path), *arguments, PATH=path, PGBUDGET_DSN=dsn).stdout.splitlines()
    assert shown == ["--dbname=user=me dbname=mine host=127.0.0.1 port=5555", *arguments, "se cret"]
    # Of what runs in a folder, unless the environment names another.
    (tmp_path / "dev.env").write_text(f"PGBUDGET_DSN={world.dsn}\n")
    shown = run("psql", "--folder", str(tmp_path), PATH=path).stdout.splitlines()
    assert f"dbname={world.dsn.rpartition('/')[2]} " in shown[0]
    shown = run("psql", "--folder", str(tmp_path), PATH=path, PGBUDGET_DSN=NOWHERE, PGPASSWORD="mine").stdout.splitlines()
    assert shown == ["--dbname=user=nobody dbname=none host=127.0.0.1 port=1", "mine"]


@pytest.mark.parametrize("line", ["psql", "status", "key list", "prices review", "alerts list", "migrate status"])
def test_where_make_up_does_not_run_any_more_that_is_said(tmp_path: Path, line: str) -> None:
    (tmp_path / ".pgbudget").mkdir()
    (tmp_path / ".pgbudget" / "dev.env").write_text(f"PGBUDGET_DSN={NOWHERE}\n")
    # As somebody has it who has read dev.env into the shell.
    done = run(*line.split(), folder=tmp_path, PGBUDGET_DSN=NOWHERE)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "is not running: type make up" in done.stderr
    if line == "psql":
        assert run("psql", folder=tmp_path).stderr == done.stderr


def test_psql_opens_the_database(world: World) -> None:
    done = run("psql", "-XAtc", "select count(*) from budget.verify()", PGBUDGET_DSN=world.dsn)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert run("psql", "-XAtc", "select", "-d", "none", PGBUDGET_DSN=with_database(world.dsn, "gone")).returncode == 2


def test_help_leads_to_pages_not_to_modules() -> None:
    root = Path(__file__).parents[2]
    texts = [app.info.help, *(command.help for command in commands().values())]
    for command in commands().values():
        texts += [parameter.help for parameter in command.params]
    for text in filter(None, texts):
        assert "pgbudget." not in text, text
        for word in text.replace(";", " ").replace(",", " ").split():
            if "docs/" in word:
                assert (root / word.strip("().")).is_file(), word
