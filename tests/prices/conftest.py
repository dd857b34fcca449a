"""Databases with the shipped price lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from pgbudget.prices import store
from tests.support import servers
from tests.support.world import World, with_database


@pytest.fixture(scope="module")
def priced(server: servers.Server, template: str) -> Iterator[World]:
    """One database for a module's tests that only read, with the shipped lists."""
    name = f"{template}_priced"
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
    dsn = with_database(server.dsn, name)
    with World(dsn, dsn) as world:
        with psycopg.connect(dsn, autocommit=True) as connection:
            store.seed(connection)
        yield world
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def run(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs ``pgbudget prices`` on the world's database; returns what it prints."""
    from typer.testing import CliRunner

    from pgbudget.cli import app
    from pgbudget.terminal import out

    # Made when it was first imported, for whatever terminal there was.
    monkeypatch.setattr(out, "width", 200)

    def call(*arguments: str, fails: type[BaseException] | None = None) -> str:
        result = CliRunner().invoke(app, ["prices", *arguments, "--dsn", world.dsn])
        if fails is not None:
            assert isinstance(result.exception, fails), result.output
            return str(result.exception)
        assert result.exit_code == 0, (result.output, result.exception)
        return result.output

    return call
