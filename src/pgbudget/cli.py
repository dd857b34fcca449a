"""The ``pgbudget`` command. Its errors are one line and an exit code, never a trace."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sys
import threading
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgbudget import costs, migrate
from pgbudget.alerts.cli import alerts_app
from pgbudget.prices import cli as prices_cli
from pgbudget.terminal import FOLDER, Dsn, Failed, cell, database, out, table

#: What to do about errors that come from where a command runs, not from what it was told.
_ADVICE: dict[type[psycopg.Error] | tuple[type[psycopg.Error], ...], str] = {
    psycopg.errors.InsufficientPrivilege: (
        "log in as a member of budget_admin, to look as one of budget_reader; for pgbudget migrate as a superuser"
    ),
    (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction, psycopg.errors.InvalidSchemaName): (
        "this database is not up to date, or another one: pgbudget migrate up brings it up to date"
    ),
}

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Budgets for LLM calls that hold, enforced inside Postgres. Each command with an example: docs/cli.md.",
)
migrate_app = typer.Typer(no_args_is_help=True, help="Bring a database up to date.")
key_app = typer.Typer(no_args_is_help=True, help="Virtual keys.")
budget_app = typer.Typer(no_args_is_help=True, help="Budgets.")
app.add_typer(migrate_app, name="migrate")
app.add_typer(key_app, name="key")
app.add_typer(budget_app, name="budget")
app.add_typer(prices_cli.app, name="prices")
app.add_typer(alerts_app, name="alerts")
app.add_typer(costs.app, name="costs")

Folder = Annotated[Path, typer.Option("--folder", help="Where data and settings of pgbudget up are kept.")]


@app.command()
def up(
    port: Annotated[int, typer.Option(envvar="PORT", help="Port of the gateway.")] = 8080,
    folder: Folder = FOLDER,
) -> None:
    """Run all of it here: an embedded Postgres, a simulated provider, the gateway, a demo key."""
    from pgbudget.devstack import DevStack

    DevStack(folder, port, out).run()


@app.command()
def down(folder: Folder = FOLDER) -> None:
    """Stop the Postgres of a pgbudget up that was killed. (One that runs is stopped by Ctrl-C.)"""
    from pgbudget.devstack import DevStack

    DevStack(folder, 0, out).stop_leftovers()


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(context: typer.Context, folder: Folder = FOLDER, dsn: Dsn = "") -> None:
    """Open psql on PGBUDGET_DSN, or without it on what pgbudget up runs. All other arguments are psql's own."""
    from pgbudget.devstack import read_env
    from pgbudget.embedded import embedded_binaries

    own = read_env(folder).get("PGBUDGET_DSN", "")
    dsn = dsn or own
    if not dsn:
        raise Failed(f"no database: set PGBUDGET_DSN or give --dsn; {folder / 'dev.env'} is not there, so nothing runs here")
    if dsn == own:
        # For its own words where that server does not run.
        with database(dsn, folder):
            pass
    program = shutil.which("psql") or str(embedded_binaries() / "psql")
    connection: dict[str, Any] = conninfo_to_dict(dsn)
    # Arguments are for all to see; the environment is not.
    password = {"PGPASSWORD": str(connection.pop("password"))} if connection.get("password") else {}
    arguments = [program, f"--dbname={make_conninfo(**connection)}", *context.args]
    os.execve(program, arguments, {**os.environ, **password})  # noqa: S606


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8080,
) -> None:
    """Run the gateway. Its settings come from the environment: PGBUDGET_DSN, PGBUDGET_ADMIN_TOKEN,
    PGBUDGET_ACCOUNT_<NAME>_KEY and more; docs/gateway.md lists them."""
    from pgbudget.app import serve as run
    from pgbudget.config import Config

    log_to_stdout()
    _end_with_stdin()
    run(Config.from_env(), host, port)


@app.command()
def simulate(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8081,
    defaults: Annotated[str, typer.Option(help='How it behaves, as JSON: {"latency_ms": 200}')] = "{}",
) -> None:
    """Run the simulated provider; docs/simulator.md lists how it can behave. PGBUDGET_SIMULATOR_KEY is the only key that it
    lets in; without it, any."""
    from pgbudget.simulator.app import serve as run
    from pgbudget.simulator.behaviour import Behaviours

    try:
        behaviour = json.loads(defaults)
        Behaviours(behaviour)
    except ValueError as error:
        raise Failed(f"--defaults is not a behaviour (docs/simulator.md lists what it can have): {error}") from None
    # The server handles these itself and then passes them on: an orderly end is no death by a signal.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    _end_with_stdin()
    run(host, port, behaviour, os.environ.get("PGBUDGET_SIMULATOR_KEY"))


@migrate_app.command("status")
def migrate_status(dsn: Dsn = "") -> None:
    """Show what is applied and what is pending."""
    with database(dsn) as connection:
        state = migrate.status(connection, migrate.Sources.load())
    for name in state.applied:
        out.print(f"applied  {name}")
    for name in state.pending:
        out.print(f"pending  {name}")
    out.print(f"sql/     {'up to date' if state.repeatable_current else 'to be re-applied'}")


@migrate_app.command("up")
def migrate_up(
    gateway_login: Annotated[
        str | None, typer.Option(help="Also make this login for the gateway, its password from PGBUDGET_GATEWAY_PASSWORD.")
    ] = None,
    dsn: Dsn = "",
) -> None:
    """Apply what is pending."""
    from pgbudget.devstack import make_login

    password = os.environ.get("PGBUDGET_GATEWAY_PASSWORD", "")
    if gateway_login is not None and not password:
        raise Failed("PGBUDGET_GATEWAY_PASSWORD is not set")
    with database(dsn) as connection:
        applied = migrate.up(connection)
        if gateway_login is not None:
            make_login(connection, gateway_login, password, "budget_gateway", "budget_reconciler")
    out.print("\n".join(f"applied  {name}" for name in applied) or "nothing to do")


@migrate_app.command("dump")
def migrate_dump() -> None:
    """Print all of it as one script for psql."""
    sys.stdout.write(migrate.dump())


@key_app.command("create")
def key_create(
    org: str, project: str, name: str, models: Annotated[list[str] | None, typer.Option("--model")] = None, dsn: Dsn = ""
) -> None:
    """Create a key in a project (org and project are made if they are new). The secret is shown this once."""
    options = {"allowed_models": models} if models else {}
    with database(dsn) as connection, connection.transaction():
        _make_if_new(connection, "select budget.create_scope(null, 'org', %s)", org)
        _make_if_new(connection, "select budget.create_scope(%s, 'project', %s)", org, project)
        row = connection.execute(
            "select secret from budget.create_key(%s, %s, %s, %s)", (org, project, name, json.dumps(options))
        ).fetchone()
    assert row is not None
    print(row[0])


@key_app.command("list")
def key_list(org: Annotated[str | None, typer.Argument(help="Only this org.")] = None, dsn: Dsn = "") -> None:
    """Show every key: its project, whether it works, and how its secret ends. The secret itself is kept nowhere."""
    with database(dsn) as connection:
        rows = connection.execute(
            "select org, project, key_name, state, last_four, created_at, expires_at from budget.key_status"
            " where %s::text is null or org = %s order by 1, 2, 3",
            (org, org),
        ).fetchall()
    if not rows:
        raise Failed("there are no keys" + (f" in org {org!r}" if org else ""))
    out.print(table(["org", "project", "key", "state", "ends in", "created", "expires"], rows))


# An unknown option is an argument: so is a negative amount, which then gets a message of its own.
@budget_app.command("set", context_settings={"ignore_unknown_options": True})
def budget_set(
    org: str,
    scope: Annotated[str, typer.Argument(help="kind/name: key/ci, project/web, org/acme")],
    limit_usd: Annotated[str, typer.Argument(help="Amount in USD, or none for no limit.")],
    period: Annotated[str, typer.Argument(help="1d 7d 30d day week month quarter year total")],
    name: Annotated[str | None, typer.Option(help="Name of the budget; its period by default.")] = None,
    time_zone: Annotated[str | None, typer.Option(help="IANA time zone; UTC by default.")] = None,
    dsn: Dsn = "",
) -> None:
    """Set or change a budget. It acts on the next request."""
    kind, slash, label = scope.partition("/")
    if not kind or not label:
        raise Failed(
            f"write the scope as kind/name, for example key/{label or ('ci' if slash else kind) or 'ci'}, not {scope!r}"
        )
    limit = None if limit_usd == "none" else _amount(limit_usd)
    options = {k: v for k, v in (("name", name), ("time_zone", time_zone)) if v is not None}
    with database(dsn) as connection:
        connection.execute(
            "select budget.set_budget(%s, %s, %s, %s, %s, %s)", (org, kind, label, limit, period, json.dumps(options))
        )
    out.print(f"{scope}: {limit_usd} USD a {period}" if limit is not None else f"{scope}: no limit, {period}")


@app.command()
def status(dsn: Dsn = "") -> None:
    """Show every budget with its current period, holds of calls that are not heard of any more or cannot be settled, and
    whether the books agree."""
    with database(dsn) as connection:
        rows = connection.execute(
            "select org, scope_kind || '/' || scope_name, budget_name, limit_usd, spent_usd, reserved_usd,"
            " available_usd, ends_at from budget.budget_status order by 1, 2, 3"
        ).fetchall()
        stale, held = connection.execute(
            "select count(*), coalesce(sum(reserved_usd), 0) from budget.reservation_status"
            " where state = 'open' and stale_at < now()"
        ).fetchall()[0]
        quarantined, kept = connection.execute(
            "select count(*), coalesce(sum(reserved_usd), 0) from budget.quarantine"
        ).fetchall()[0]
        differences = connection.execute("select * from budget.verify()").fetchall()
    amounts = ["limit", "spent", "reserved", "available"]
    out.print(table(["org", "scope", "budget", *amounts, "resets at"], rows, amounts=amounts))
    if stale:
        out.print(
            f"stale holds: {stale}, of {cell(held)} USD: nothing is heard of their calls. A running gateway, or pg_cron,"
            " charges them in full within a minute; at once: pgbudget psql -c 'call budget.run_reconciler()'",
            highlight=False,
            soft_wrap=True,
        )
    if quarantined:
        out.print(
            f"quarantined: {quarantined}, of {cell(kept)} USD: they cannot be settled, and keep their holds until somebody"
            " decides; see budget.quarantine and docs/ops.md#a-quarantine",
            highlight=False,
            soft_wrap=True,
        )
    for check, subject, expected, actual in differences:
        out.print(f"[red]{check}[/] {subject}: expected {expected}, found {actual}")
    out.print("books agree" if not differences else f"{len(differences)} differences")
    if differences:
        raise typer.Exit(1)


def _amount(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("nan")
    if not amount.is_finite():
        raise Failed(f"{text} is not an amount in USD, such as 5 or 0.25; none is no limit")
    if amount < 0:
        raise Failed(f"the amount is negative: {text}; a limit of 0 refuses all that costs money, none is no limit")
    return amount


def _make_if_new(connection: psycopg.Connection[Any], query: str, *names: str) -> None:
    """By the function alone: who may administer cannot look into the tables."""
    try:
        with connection.transaction():
            connection.execute(query.encode(), names)
    except psycopg.DatabaseError as error:
        # It is there already; or its name is bad, and then what comes next finds nothing of that name.
        if error.sqlstate != "LB101":
            raise


def _end_with_stdin() -> None:
    """A child of ``pgbudget up`` ends when its parent does, also when that is killed."""

    def watch() -> None:
        # Not by sys.stdin: a daemon thread that holds its lock makes the interpreter abort at an orderly end.
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    if os.environ.get("PGBUDGET_END_WITH_STDIN"):
        threading.Thread(target=watch, daemon=True).start()


def log_to_stdout() -> None:
    """Log as the commands do."""
    # A line a call: it has nothing of where it was written, and is not to look for that.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s %(message)s")
    # Three lines for every statement.
    logging.getLogger("psycopg.pool").setLevel(logging.WARNING)


def main() -> None:
    """Entry point: every expected error as one line."""
    from pgbudget.config import ConfigError
    from pgbudget.devstack import DevStackError
    from pgbudget.embedded import ClusterError
    from pgbudget.prices.genai import SourceMissing

    try:
        app()
    except (Failed, ConfigError, DevStackError, ClusterError, migrate.MigrationError, SourceMissing) as error:
        _fail(str(error))
    except psycopg.OperationalError as error:
        _fail(f"the database cannot be reached: {' '.join(str(error).split())}")
    except psycopg.Error as error:
        advice = error.diag.message_hint or next((text for kinds, text in _ADVICE.items() if isinstance(error, kinds)), "")
        hint = f" ({advice})" if advice else ""
        _fail(f"{error.diag.message_primary or ' '.join(str(error).split())}{hint}")


def _fail(message: str) -> None:
    print(f"pgbudget: {message}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    main()
