"""What every command of ``pgbudget`` needs: its database, and how it prints and fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

import psycopg
import typer
from rich.console import Console
from rich.text import Text

from pgbudget.http import plain

out = Console()

Dsn = Annotated[str, typer.Option("--dsn", envvar="PGBUDGET_DSN", help="Postgres, as an admin.", show_envvar=True)]


class Failed(Exception):
    """An expected failure, to be told in one line."""


@contextmanager
def database(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection, each statement a transaction."""
    if not dsn:
        raise Failed("no database: set PGBUDGET_DSN or give --dsn (of pgbudget up: set -a; . .pgbudget/dev.env; set +a)")
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def cell(value: object) -> Text:
    """A value in a table: amounts exact, times short."""
    if isinstance(value, Decimal):
        return Text(f"{plain(value):f}")
    if isinstance(value, datetime):
        return Text(value.isoformat(" ", "minutes"))
    return Text("" if value is None else str(value))
