"""Every file of ``pgtap/`` as one test, on a database of its own, run by psql as the superuser.

A file is a transaction that is rolled back: ``begin; select plan(2); ...; select * from finish(); rollback;``. Where the
server has no pgTAP extension, the plain SQL of Debian's package is loaded instead. ``pgtap/helpers.sql``, if it is there,
is loaded into schema ``budget_test`` first.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.support.servers import DEBIAN_EXTENSIONS, Server
from tests.support.world import with_database

ROOT = Path(__file__).parents[2] / "pgtap"
FILES = sorted(path for path in ROOT.glob("*/*.sql"))
_PLAN = re.compile(r"^1\.\.(\d+)", re.MULTILINE)
_RESULT = re.compile(r"^(not )?ok \d+", re.MULTILINE)


@pytest.fixture
def database(server: Server, make_database: Callable[[], str]) -> str:
    """The DSN of a database with pgTAP in schema ``tap``."""
    dsn = with_database(server.dsn, make_database())
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create schema tap; create schema budget_test")
        if connection.execute("select 1 from pg_available_extensions where name = 'pgtap'").fetchone():
            connection.execute("create extension pgtap schema tap")
        else:
            scripts = sorted(path for path in DEBIAN_EXTENSIONS.glob("pgtap--*.sql") if path.name.count("--") == 1)
            if not scripts:
                pytest.skip("there is no pgTAP: install Debian's postgresql-15-pgtap")
            with connection.transaction():
                connection.execute("set local search_path = tap; set local check_function_bodies = off")
                connection.execute(scripts[-1].read_text().encode())
        if (helpers := ROOT / "helpers.sql").exists():
            connection.execute(helpers.read_text().encode())
    return dsn


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_behaviour(path: Path, database: str, server: Server) -> None:
    psql = server.binaries / "psql" if server.binaries else Path("psql")
    done = subprocess.run(
        [psql, "-X", "-q", "-A", "-t", "-P", "pager=off", "-v", "ON_ERROR_STOP=1", "-f", path, database],
        env={**os.environ, "PGOPTIONS": "-c search_path=tap,public -c client_min_messages=warning"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    output = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, output
    results, plan = _RESULT.findall(done.stdout), _PLAN.search(done.stdout)
    assert plan is not None, output
    assert int(plan[1]) == len(results) > 0, f"not what was planned\n{output}"
    assert not any(results), output
