"""``pgbudget costs import``: what a provider says that its days cost, from a CSV file into ``budget.import_provider_costs``."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Annotated

import typer

from pgbudget.terminal import Dsn, Failed, database

app = typer.Typer(no_args_is_help=True, help="What providers say that a day cost.")

_COLUMNS = {"day", "model", "cost_usd"}


def read_costs(path: Path) -> list[dict[str, str]]:
    """The rows of a file with the columns ``day`` (UTC, 2027-01-31), ``cost_usd`` and, if it has one, ``model``.

    Other columns are passed over. Values stay as they are written: the database reads them. Raises :class:`Failed`.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            missing = {"day", "cost_usd"} - set(reader.fieldnames or ())
            if missing:
                raise Failed(f"{path} has no column {' and no column '.join(sorted(missing))}")
            return [{name: value for name, value in row.items() if name in _COLUMNS and value} for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Failed(f"{path} cannot be read: {error}") from error


@app.callback()
def _costs() -> None:
    """A group, so that its one command has a name."""


@app.command("import")
def costs_import(
    file: Annotated[Path, typer.Argument(help="CSV with the columns day (UTC), cost_usd and, if known, model.")],
    account: Annotated[str, typer.Option(help="The provider account that it is of, as routes name it.")],
    dsn: Dsn = "",
) -> None:
    """Import what a provider account cost by day, and show the days that differ from the ledger by more than the tolerance.

    Importing a day again replaces it."""
    costs = read_costs(file)
    with database(dsn) as connection:
        row = connection.execute(
            "select budget.import_provider_costs(%s, %s, %s)", (account, json.dumps(costs), file.name[:200])
        ).fetchone()
        assert row is not None
        print(f"{len(costs)} costs read, {row[0]} new or changed")
        for day, ledger, provider, percent in connection.execute(
            "select day, ledger_usd, provider_usd, difference_percent from budget.drift"
            " where account = %s and over_tolerance order by day",
            (account,),
        ):
            share = "" if percent is None else f" ({percent:+} percent)"
            print(f"{day}: the provider says {provider:f} USD, the ledger {ledger:f} USD{share}")
