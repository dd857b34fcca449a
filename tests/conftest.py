"""Servers, databases and processes for all tests."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from pgbudget import migrate
from pgbudget.devstack import make_login
from pgbudget.seed import seed_simulator
from tests.support import servers
from tests.support.pooler import Pooler
from tests.support.processes import WIRE, Gateway, Simulator
from tests.support.world import LOGINS, World, with_database

_counter = itertools.count()

# No test speaks TLS. Without this, every HTTP client here and in the children reads all authorities of the machine: 30 ms each.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = os.devnull


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What exists only on Debian's 15 is left out elsewhere; it is never left out where it should run.

    On a second server what touches no server, and what tests the tests, is not run again.
    """
    if os.environ.get("PGBUDGET_REQUIRE_ALL") or servers.runs_on_debian():
        return
    dropped = [
        item
        for item in items
        if item.get_closest_marker("debian15")
        or (servers.has_debian() and (item.get_closest_marker("tests_of_tests") or not _needs_server(item)))
    ]
    config.hook.pytest_deselected(items=dropped)
    items[:] = [item for item in items if item not in dropped]


def _needs_server(item: pytest.Item) -> bool:
    # Which Postgres it is cannot matter to a client of the gateway.
    if item.path.parent.name == "clients":
        return False
    # A test that starts servers of its own starts the one that is asked for.
    return "server" in getattr(item, "fixturenames", ()) or item.path.parent.name in ("e2e", "faults", "migrate", "isolation")


@pytest.fixture(scope="session")
def server() -> Iterator[servers.Server]:
    """The Postgres of this session."""
    with servers.test_server() as running:
        yield running


@pytest.fixture(scope="session")
def template(server: servers.Server) -> str:
    """A migrated and seeded database to copy from."""
    name = f"template_{os.getpid()}"
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    with psycopg.connect(with_database(server.dsn, name), autocommit=True) as connection:
        migrate.up(connection)
        make_login(connection, "test_gateway", LOGINS["test_gateway"], "budget_gateway", "budget_reconciler")
        seed_simulator(connection)
    return name


@contextlib.contextmanager
def _databases(server: servers.Server, template: str) -> Iterator[Callable[[], str]]:
    """Makes databases like the template; they are dropped at the end."""
    made: list[str] = []

    def make() -> str:
        name = f"test_{os.getpid()}_{next(_counter)}"
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
            # Rights of the database itself are not copied.
            connection.execute(sql.SQL("revoke temporary on database {} from public").format(sql.Identifier(name)))
        made.append(name)
        return name

    yield make
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for name in made:
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def make_database(server: servers.Server, template: str) -> Iterator[Callable[[], str]]:
    """Makes databases like the template; they are dropped after the test."""
    with _databases(server, template) as make:
        yield make


@pytest.fixture(scope="session")
def gateways_dsn(server: servers.Server) -> Iterator[str]:
    """Where gateways connect: the server itself, or with PGBUDGET_TEST_POOLER a PgBouncer in transaction mode before it."""
    if not os.environ.get("PGBUDGET_TEST_POOLER"):
        yield server.dsn
        return
    with Pooler(server.dsn, LOGINS) as pooler:
        yield pooler.dsn(server.dsn)


def _world(server: servers.Server, gateways_dsn: str, name: str) -> World:
    return World(with_database(server.dsn, name), with_database(gateways_dsn, name, "test_gateway", LOGINS["test_gateway"]))


@pytest.fixture
def world(server: servers.Server, gateways_dsn: str, make_database: Callable[[], str]) -> Iterator[World]:
    """A fresh, seeded database."""
    with _world(server, gateways_dsn, make_database()) as fresh:
        yield fresh


@pytest.fixture(scope="session")
def shared_world(server: servers.Server, gateways_dsn: str, template: str) -> Iterator[World]:
    """A database for tests that look only at what they made in it, with models for embeddings beside the others."""
    with _databases(server, template) as make, _world(server, gateways_dsn, make()) as shared:
        shared.execute("""
          select budget.set_model('simulator', m, 400000, 0), budget.set_route(null, m, 'simulator', 'simulator'),
            budget.review_price(
              budget.add_price('simulator', m, rate::jsonb, '2020-01-01', 'made up'), 'me')
          from (values ('e-mini', '[{"kind": "input", "usd": 1}]'), ('e-pro', '[{"kind": "input", "usd": 5}]')) e (m, rate)
        """)
        yield shared
        # Once for all of them: the books are those of the whole database.
        assert shared.verify() == []


@pytest.fixture(scope="session")
def shared_gateway(shared_world: World, _simulator: Simulator) -> Iterator[Gateway]:
    """One gateway on the shared database. Providers fail there on purpose, and are not left alone for it."""
    with Gateway(shared_world.gateway_dsn, _simulator.url, breaker_failures="0") as running:
        yield running


@pytest.fixture(scope="session")
def _simulator() -> Iterator[Simulator]:
    with Simulator() as running:
        yield running


@pytest.fixture
def simulator(_simulator: Simulator) -> Simulator:
    """The simulated provider, as new."""
    _simulator.reset()
    return _simulator


@pytest.fixture
def gateway(world: World, simulator: Simulator) -> Iterator[Gateway]:
    """One gateway on the test's database."""
    with Gateway(world.gateway_dsn, simulator.url) as running:
        yield running


@pytest.fixture(scope="session", autouse=True)
def _handed_material() -> None:
    if not WIRE.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"{WIRE} is missing")
        pytest.skip(f"{WIRE} is missing: set PGBUDGET_WIRE")
