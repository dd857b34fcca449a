"""What every command of ``pgbudget`` needs: its database, and how it prints and fails."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pgbudget.http import plain

out = Console()

FOLDER = Path(".pgbudget")

Dsn = Annotated[str, typer.Option("--dsn", envvar="PGBUDGET_DSN", help="Postgres, as an admin.", show_envvar=True)]

_DATE = len("2027-01-31")


class Failed(Exception):
    """An expected failure, to be told in one line."""


@contextmanager
def database(dsn: str, folder: Path = FOLDER) -> Iterator[psycopg.Connection[Any]]:
    """A connection, each statement a transaction. ``folder``: of a ``pgbudget up`` whose database it may be."""
    if not dsn:
        raise Failed("no database: set PGBUDGET_DSN or give --dsn (of pgbudget up: set -a; . .pgbudget/dev.env; set +a)")
    try:
        connection = psycopg.connect(dsn, autocommit=True)
    except psycopg.OperationalError as error:
        from pgbudget.devstack import read_env

        if "Connection refused" in str(error) and dsn == read_env(folder).get("PGBUDGET_DSN"):
            raise Failed("the server of pgbudget up is not running: type make up, and leave it running") from error
        raise
    with connection:
        yield connection


def table(
    names: Sequence[str], rows: Sequence[Sequence[object]], *, amounts: Collection[str] = (), title: str | None = None
) -> Table:
    """A table of values. Where it is narrow, times are folded first, then names, then amounts; nothing is ever cut."""
    lines = [[cell(value) for value in row] for row in rows]
    widths = {name: max([len(name), *(text.cell_len for text in column)]) for name, *column in zip(names, *lines, strict=True)}
    times = {name for row in rows for name, value in zip(names, row, strict=True) if isinstance(value, datetime)}
    is_narrow = sum(widths.values()) + 2 * len(names) > out.width
    # The rest of the line is for the names.
    keeps_amounts = sum(widths[name] for name in amounts) <= out.width * 3 // 4
    padding = (0, 0 if is_narrow else 1, 0, 0)
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=padding, pad_edge=False)
    for name in names:
        shown.add_column(
            name,
            overflow="fold",
            justify="right" if name in amounts else "left",
            no_wrap=keeps_amounts and name in amounts,
            max_width=_DATE if is_narrow and name in times else None,
        )
    for line in lines:
        shown.add_row(*line)
    return shown


def cell(value: object) -> Text:
    """A value in a table: amounts exact, times short."""
    if isinstance(value, Decimal):
        return Text(f"{plain(value):f}")
    if isinstance(value, datetime):
        return Text(value.isoformat(" ", "minutes").replace("+00:00", "Z"))
    return Text("" if value is None else str(value))
