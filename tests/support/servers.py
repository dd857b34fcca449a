"""Postgres for the tests: the first that fits of a given DSN, Debian's 15 with pg_cron and pgTAP, Docker, the embedded 18.

``PGBUDGET_TEST_SERVER`` (15 or 18) asks for one of the two that need no engine.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from pgbudget.embedded import Cluster, embedded_binaries

DEBIAN_15 = Path("/usr/lib/postgresql/15")
CRON_DATABASE = "pgbudget_cron"
# Nothing here outlives its machine: a crash of Postgres loses nothing without fsync, only one of the machine would.
SETTINGS = {"max_connections": "300", "max_locks_per_transaction": "256", "fsync": "off"}


@dataclass(frozen=True)
class Server:
    """A running server. ``binaries``: the folder of its programs; None when it is somebody else's."""

    dsn: str
    version: int
    binaries: Path | None
    has_cron: bool


def binaries() -> Path:
    """The programs of the server that the tests are to run on."""
    wanted = os.environ.get("PGBUDGET_TEST_SERVER") or ("15" if (DEBIAN_15 / "bin" / "postgres").exists() else "18")
    if wanted == "15":
        return DEBIAN_15 / "bin"
    if wanted == "18":
        return embedded_binaries()
    raise RuntimeError(f"PGBUDGET_TEST_SERVER must be 15 or 18, not {wanted}")


def has_debian() -> bool:
    """Whether this machine has Debian's 15, so that the other server is a second one."""
    return (DEBIAN_15 / "bin" / "postgres").exists()


def runs_on_debian() -> bool:
    """Whether the tests run on Debian's 15, with its extensions."""
    return not os.environ.get("PGBUDGET_TEST_DSN") and binaries().parent == DEBIAN_15


@contextmanager
def private_cluster(programs: Path, settings: dict[str, str] | None = None) -> Iterator[Cluster]:
    """A cluster of the test's own, deleted at the end."""
    folder = Path(tempfile.mkdtemp(prefix="pgbudget-test-"))
    # The user of the server passes through, when the tests run as root.
    folder.chmod(0o711)
    cluster = Cluster(folder / "data", programs, settings={**SETTINGS, **(settings or {})})
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.destroy()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def test_server() -> Iterator[Server]:
    """The server of the session."""
    if dsn := os.environ.get("PGBUDGET_TEST_DSN"):
        yield Server(dsn, _version(dsn), None, False)
        return
    if not os.environ.get("PGBUDGET_TEST_SERVER") and not DEBIAN_15.exists() and _docker_answers():
        from testcontainers.postgres import PostgresContainer

        with PostgresContainer("postgres:18", driver=None) as container:
            url = container.get_connection_url()
            yield Server(url, _version(url), None, False)
        return
    programs = binaries()
    cron = programs.parent == DEBIAN_15 and (DEBIAN_15 / "lib" / "pg_cron.so").exists()
    preload = {
        "shared_preload_libraries": "pg_cron",
        "cron.use_background_workers": "on",
        "cron.database_name": CRON_DATABASE,
    }
    with private_cluster(programs, preload if cron else None) as cluster:
        yield Server(cluster.dsn(), _version(cluster.dsn()), programs, cron)


def _version(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        return connection.info.server_version // 10000


def _docker_answers() -> bool:
    try:
        from testcontainers.core.docker_client import DockerClient

        DockerClient().client.ping()
    except Exception:
        return False
    return True
