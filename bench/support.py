"""What every benchmark needs: a database of its own, a call to hold and settle, and the machine it ran on."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
from tests.support.world import with_database

from pgbudget import migrate
from pgbudget.devstack import make_login
from pgbudget.embedded import Cluster
from pgbudget.endpoint import new_request_id
from pgbudget.seed import seed_simulator

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
#: The server that is there.
DEFAULT_SERVER = "15" if DEBIAN_15.exists() else "18"
LOGIN, PASSWORD = "bench_gateway", "gateway-password-of-the-benchmarks"

#: What each measured call holds and costs, in nano-USD: t-mini for 100 tokens in and 200 out at most, 90 and 100 in the end.
HOLD = 900_000
COST = 490_000
USAGE = {"input": 90, "output": 100}
#: Budgets of a chain: key, project, org.
LEVELS = 3
LIMIT_USD = 1_000_000


@contextmanager
def cluster(server: str, settings: dict[str, str] | None = None) -> Iterator[Cluster]:
    """A running cluster that is thrown away, with a migrated and seeded database ``bench``; durable as any other."""
    folder = Path(tempfile.mkdtemp(prefix="pgbudget-bench-"))
    folder.chmod(0o711)
    programs = DEBIAN_15 if server == "15" else None
    if threading.current_thread() is threading.main_thread():
        # Ended by kill or timeout, it leaves no server behind either.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    made = Cluster(folder / "data", programs, settings={"max_connections": "300", **(settings or {})})
    try:
        made.start()
        with psycopg.connect(made.dsn(), autocommit=True) as connection:
            connection.execute("create database bench")
        with psycopg.connect(made.dsn("bench"), autocommit=True) as connection:
            migrate.up(connection)
            seed_simulator(connection)
        yield made
    finally:
        made.destroy()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def database(server: str, settings: dict[str, str] | None = None) -> Iterator[str]:
    """A migrated and seeded database on such a cluster. Yields a superuser's URL."""
    with cluster(server, settings) as made:
        yield made.dsn("bench")


def gateway_login(connection: psycopg.Connection[Any], dsn: str) -> str:
    """The URL of the gateway's login on a database; made by a superuser."""
    make_login(connection, LOGIN, PASSWORD, "budget_gateway")
    return with_database(dsn, "bench", LOGIN, PASSWORD)


def make_chain(connection: psycopg.Connection[Any], name: str, limit_usd: int | Decimal = LIMIT_USD) -> str:
    """The secret of a key with a strict daily budget on itself, its project and its org."""
    connection.execute("select budget.create_scope(null, 'org', %s)", (name,))
    connection.execute("select budget.create_scope(%s, 'project', 'p')", (name,))
    row = connection.execute("select secret from budget.create_key(%s, 'p', 'k')", (name,)).fetchone()
    assert row is not None
    for kind, scope in (("key", "k"), ("project", "p"), ("org", name)):
        connection.execute("select budget.set_budget(%s, %s, %s, %s, 'day')", (name, kind, scope, limit_usd))
    return str(row[0])


def request(key: str) -> dict[str, Any]:
    """What the gateway asks for a small chat call."""
    holder = uuid.uuid4().hex
    return {
        "key": key,
        "model": "t-mini",
        "input_tokens": 100,
        "max_output_tokens": 200,
        "request_id": new_request_id(),
        "options": {
            "n": 1,
            "features": [],
            "body_hash": hashlib.sha256(holder.encode()).hexdigest(),
            "holder": holder,
            "input_bounds": {"bytes4": 30, "chars3": 40},
        },
    }


def report(reservation_id: Any) -> dict[str, Any]:
    """How the gateway reports the end of that call."""
    return {"reservation_id": str(reservation_id), "outcome": "finished", "usage": USAGE}


def machine() -> str:
    """Processors and system, for the head of a report."""
    return f"{os.cpu_count()} shared cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
