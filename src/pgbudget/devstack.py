"""``pgbudget up``: everything on one machine, for trying and developing. No root, no Docker, no service."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import sql
from rich.console import Console

from pgbudget import migrate
from pgbudget.embedded import Cluster, PortTaken, embedded_binaries, free_port
from pgbudget.prices.store import seed as seed_prices
from pgbudget.seed import seed_simulator

_DATABASE = "pgbudget"
_START_SECONDS = 30


class DevStackError(Exception):
    """The stack cannot run; the message says why and what to do."""


class DevStack:
    """The embedded server, the simulated provider and the gateway, with a demo key."""

    def __init__(self, folder: Path, port: int, console: Console) -> None:
        self._folder = folder.resolve()
        self._port = port
        self._console = console
        self._children: list[tuple[str, subprocess.Popen[str]]] = []
        self._stop = threading.Event()

    def run(self) -> None:
        """Start all, say how to use it, and stay until SIGINT or SIGTERM."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        try:
            if not self._folder.exists():
                # What cannot run leaves nothing behind.
                self._check_port()
                embedded_binaries()
            self._folder.mkdir(parents=True, exist_ok=True)
            # The server's user passes through when root runs this; each file in it is closed by itself.
            self._folder.chmod(0o711)
        except OSError as error:
            raise DevStackError(f"{self._folder} cannot be used: {error.strerror}") from None
        self._take_lock()
        self._check_port()
        self._cluster = Cluster(self._folder / "postgres", port=self._port_of_last_time("PGBUDGET_DSN"))
        self._say(f"starting Postgres 18 on {self._cluster.data}")
        try:
            try:
                self._cluster.start()
            except PortTaken:
                self._cluster.port = None
                self._cluster.start()
            self._start_services()
            self._wait()
        finally:
            self._shut_down()

    def stop_leftovers(self) -> None:
        """Stop the server of a run that was killed; the other processes of such a run end by themselves."""
        if not self._folder.is_dir():
            raise DevStackError(f"there is no {self._folder}: pgbudget up never ran here")
        self._take_lock()
        cluster = Cluster(self._folder / "postgres")
        if (cluster.data / "PG_VERSION").exists() and cluster.is_running():
            cluster.stop()
            self._say("stopped Postgres; the data stays")
        else:
            self._say("nothing runs here")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop.set()

    def _take_lock(self) -> None:
        """One stack a folder. The children hold the lock too, so it is free when all of them have ended."""
        self._lock = open(self._folder / "lock", "a+")  # noqa: SIM115
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.seek(0)
            owner = self._lock.read().strip()
            if not owner or _is_alive(int(owner)):
                raise DevStackError(
                    f"another pgbudget up runs in {self._folder} (process {owner}): Ctrl-C there, or kill {owner}, stops it"
                ) from None
            self._say("an earlier run was killed: waiting until what it started has ended")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()

    def _check_port(self) -> None:
        if not _is_free(self._port):
            raise DevStackError(f"port {self._port} is taken by another program; choose another: make up PORT={self._port + 1}")

    def _port_of_last_time(self, name: str) -> int | None:
        """The port in a setting of the last run, so that what was noted down stays true."""
        with contextlib.suppress(ValueError):
            port = urlsplit(read_env(self._folder).get(name, "")).port
            return port if port != self._port else None
        return None

    def _start_services(self) -> None:
        known = read_env(self._folder)
        gateway_password, admin_token = (
            secrets.token_urlsafe(24),
            known.get("PGBUDGET_ADMIN_TOKEN") or secrets.token_urlsafe(24),
        )
        with psycopg.connect(self._cluster.dsn(), autocommit=True) as connection:
            if not connection.execute("select 1 from pg_database where datname = %s", (_DATABASE,)).fetchone():
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(_DATABASE)))
        with psycopg.connect(self._cluster.dsn(_DATABASE), autocommit=True) as connection:
            applied = migrate.up(connection)
            self._say(f"migrated: {', '.join(applied)}" if applied else "the database is up to date")
            make_login(connection, "pgbudget_gateway", gateway_password, "budget_gateway", "budget_reconciler")
            seed_simulator(connection)
            key = self._demo_key(connection, known.get("PGBUDGET_KEY", ""))
        simulator_port = self._port_of_last_time("PGBUDGET_SIMULATOR_URL")
        if simulator_port is None or not _is_free(simulator_port):
            simulator_port = free_port()
        simulator_key = secrets.token_urlsafe(16)
        url, simulator_url = f"http://127.0.0.1:{self._port}", f"http://127.0.0.1:{simulator_port}"
        environment = {
            **os.environ,
            "PGBUDGET_DSN": self._cluster.dsn(_DATABASE, "pgbudget_gateway", gateway_password),
            "PGBUDGET_ADMIN_TOKEN": admin_token,
            "PGBUDGET_ACCOUNT_SIMULATOR_URL": f"{simulator_url}/v1",
            "PGBUDGET_ACCOUNT_SIMULATOR_KEY": simulator_key,
            "PGBUDGET_SIMULATOR_KEY": simulator_key,
        }
        self._spawn("simulator", ["simulate", "--port", str(simulator_port)], environment)
        self._spawn("gateway", ["serve", "--port", str(self._port)], environment)
        # While they start: neither needs it.
        with psycopg.connect(self._cluster.dsn(_DATABASE), autocommit=True) as connection:
            seed_prices(connection)
        self._await(f"{simulator_url}/healthz")
        self._await(f"{url}/readyz")
        self._write_env(
            {
                "PGBUDGET_URL": url,
                "PGBUDGET_KEY": key,
                "PGBUDGET_DSN": self._cluster.dsn(_DATABASE),
                "PGBUDGET_ADMIN_TOKEN": admin_token,
                "PGBUDGET_SIMULATOR_URL": simulator_url,
            }
        )
        self._greet(url, key)

    def _demo_key(self, connection: psycopg.Connection[Any], secret: str) -> str:
        """The key of the last time if it still works, else a new one."""
        with contextlib.suppress(psycopg.Error):
            connection.execute("select * from budget.key_budgets(%s)", (secret,))
            return secret
        if not connection.execute(
            "select 1 from budget_internal.scopes where kind = 'org' and name = 'demo' and deleted_at is null"
        ).fetchone():
            connection.execute(
                "select budget.create_scope(null, 'org', 'demo'), budget.create_scope('demo', 'project', 'demo')"
            )
        name = f"demo-{secrets.token_hex(3)}"
        row = connection.execute("select secret from budget.create_key('demo', 'demo', %s)", (name,)).fetchone()
        assert row is not None
        connection.execute("select budget.set_budget('demo', 'key', %s, 5, 'day')", (name,))
        return str(row[0])

    def _greet(self, url: str, key: str) -> None:
        body = '{"model":"t-mini","max_tokens":20,"messages":[{"role":"user","content":"hello"}]}'
        out = self._console
        out.print()
        out.print(f"  [bold]gateway[/]   {url}")
        out.print(f"  [bold]key[/]       {key}   (5 USD a day)", soft_wrap=True)
        out.print(f"  [bold]settings[/]  {self._folder / 'dev.env'}", soft_wrap=True)
        out.print()
        out.print("  Try it:", highlight=False)
        # Printed as it is, on one line, whatever the terminal's width: it is there to be copied.
        headers = f"-H 'authorization: Bearer {key}' -H 'content-type: application/json'"
        print(f"\ncurl -s {url}/v1/chat/completions {headers} -d '{body}'\n", flush=True)
        out.print("  Ctrl-C stops everything; the data stays.", highlight=False)
        out.print()

    def _spawn(self, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        child = subprocess.Popen(
            [sys.executable, "-m", "pgbudget.cli", *arguments],
            env={**environment, "PGBUDGET_END_WITH_STDIN": "1"},
            # Closed by the system when this process dies, however it dies.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Ctrl-C reaches this process only, which then stops its children in order.
            start_new_session=True,
            pass_fds=[self._lock.fileno()],
        )
        self._children.append((name, child))
        threading.Thread(target=self._copy, args=(name, child), daemon=True).start()

    def _copy(self, name: str, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        for line in child.stdout:
            print(f"{name:<9} | {line}", end="", flush=True)

    def _await(self, url: str) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and not self._stop.is_set():
            for name, child in self._children:
                if child.poll() is not None:
                    raise DevStackError(f"the {name} {_how_it_ended(child.returncode)} at its start; see its lines above")
            with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310
                if answer.status == 200:
                    return
            self._stop.wait(0.1)
        if not self._stop.is_set():
            raise DevStackError(f"{url} did not answer within {_START_SECONDS} seconds")

    def _wait(self) -> None:
        while not self._stop.wait(0.5):
            for name, child in self._children:
                if child.poll() is not None:
                    raise DevStackError(
                        f"the {name} {_how_it_ended(child.returncode)}; see its lines above. make up goes on from there"
                    )

    def _shut_down(self) -> None:
        self._say("stopping")
        # The gateway first: its calls end and are settled while all else still runs.
        for _, child in reversed(self._children):
            child.terminate()
            try:
                child.wait(40)
            except subprocess.TimeoutExpired:
                child.kill()
        self._cluster.stop()

    def _write_env(self, values: dict[str, str]) -> None:
        path = self._folder / "dev.env"
        fresh = path.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        fresh.replace(path)

    def _say(self, text: str) -> None:
        print(f"{'pgbudget':<9} | {text}", flush=True)


def read_env(folder: Path) -> dict[str, str]:
    """The settings of the last run in a folder; empty when there are none."""
    path = folder / "dev.env"
    if not path.exists():
        return {}
    return dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _how_it_ended(returncode: int) -> str:
    return f"was killed (signal {-returncode})" if returncode < 0 else f"ended (exit code {returncode})"


def make_login(connection: psycopg.Connection[Any], name: str, password: str, *roles: str) -> None:
    """Make or update a login that is a member of the given roles."""
    if not connection.execute("select 1 from pg_roles where rolname = %s", (name,)).fetchone():
        connection.execute(sql.SQL("create role {} login").format(sql.Identifier(name)))
    connection.execute(sql.SQL("alter role {} password {}").format(sql.Identifier(name), sql.Literal(password)))
    for role in roles:
        connection.execute(sql.SQL("grant {} to {}").format(sql.Identifier(role), sql.Identifier(name)))
    # Settings of a role are not inherited by its members.
    for setting, value in (("statement_timeout", "10s"), ("lock_timeout", "5s")):
        connection.execute(
            sql.SQL("alter role {} set {} = {}").format(sql.Identifier(name), sql.Identifier(setting), sql.Literal(value))
        )
