"""Runs each file of pgtap/ with pg_prove, all on one database that every file leaves as it was."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.support import servers
from tests.support.world import with_database

ROOT = Path(__file__).parents[2] / "pgtap"
FILES = sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("*/*.sql"))
PLAIN = Path("/usr/share/postgresql/15/extension/pgtap--1.2.0.sql")


@pytest.fixture(scope="module")
def pgtap_dsn(server: servers.Server, template: str) -> Iterator[str]:
    """A database with pgTAP and the helpers."""
    if shutil.which("pg_prove") is None:
        message = "pg_prove is missing: install libtap-parser-sourcehandler-pgtap-perl"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    name = f"pgtap_{os.getpid()}"
    dsn = with_database(server.dsn, name)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
    with psycopg.connect(dsn, autocommit=True) as connection:
        known = connection.execute("select 1 from pg_available_extensions where name = 'pgtap'").fetchone()
        # Where the server cannot install it, it loads as plain SQL.
        connection.execute(b"create extension pgtap" if known else PLAIN.read_bytes())
        connection.execute((ROOT / "helpers.sql").read_bytes())
    yield dsn
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.mark.parametrize("file", FILES)
def test_file(pgtap_dsn: str, file: str) -> None:
    done = subprocess.run(
        ["pg_prove", "--verbose", "--dbname", pgtap_dsn, str(ROOT / file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
