"""What every benchmark needs: a database of its own, and the machine it ran on."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from pgbudget import migrate
from pgbudget.embedded import Cluster
from pgbudget.seed import seed_simulator

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")


@contextmanager
def cluster(server: str, settings: dict[str, str] | None = None) -> Iterator[Cluster]:
    """A running cluster that is thrown away, with a migrated and seeded database ``bench``; durable as any other."""
    folder = Path(tempfile.mkdtemp(prefix="pgbudget-bench-"))
    folder.chmod(0o711)
    programs = DEBIAN_15 if server == "15" else None
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


def machine() -> str:
    """Processors and system, for the head of a report."""
    return f"{os.cpu_count()} shared cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
