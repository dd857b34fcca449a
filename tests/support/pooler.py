"""Debian's PgBouncer in transaction mode, in front of a server of the tests."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit, urlunsplit

import psycopg

from pgbudget.embedded import free_port
from tests.support.processes import wait_until

#: Connections to the server, of each login on each database: fewer than one gateway has, so they are shared.
SIZE = 2
#: It refuses to run as root; its package brings this user.
_USER_FOR_ROOT = "postgres"
_SETTINGS = """\
[databases]
* = host={host} port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 1000
# Who waits for a server that is away is told soon, and may come again.
server_login_retry = 0.1
query_wait_timeout = 2
"""


class Pooler:
    """A PgBouncer before a server, for all its databases, a superuser by its URL, and ``logins`` with their passwords."""

    def __init__(self, server_dsn: str, logins: Mapping[str, str]) -> None:
        # Where Debian puts it is on root's path only.
        program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            raise RuntimeError("pgbouncer is not installed: `make debian` as root on Debian does that")
        self._program = program
        self._server_dsn = server_dsn
        self._user = _USER_FOR_ROOT if os.geteuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="pgbudget-pooler-"))
        self._port = free_port()
        server = urlsplit(server_dsn)
        users = {str(server.username): server.password, **logins}
        (self._folder / "users").write_text("".join(f'"{name}" "{password}"\n' for name, password in users.items()))
        settings = {"host": server.hostname, "server_port": server.port, "port": self._port, "size": SIZE}
        (self._folder / "ini").write_text(_SETTINGS.format(**settings, folder=self._folder))
        if self._user:
            owner = pwd.getpwnam(self._user)
            for path in (self._folder, *self._folder.iterdir()):
                os.chown(path, owner.pw_uid, owner.pw_gid)

    def dsn(self, dsn: str) -> str:
        """The same database and login of the server, through the pooler."""
        parts = urlsplit(dsn)
        return urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{self._port}"))

    def start(self) -> None:
        """Start, and wait until it lets clients in; always on the same port."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, self._folder / "ini"], cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                user=self._user, group=self._user, extra_groups=[] if self._user else None,
            )  # fmt: skip
        wait_until(self._answers, 20, "readiness of pgbouncer")

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text()
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(self.dsn(self._server_dsn), connect_timeout=2).close()
            return True
        return False

    def stop(self) -> None:
        """End at once, with all connections."""
        self._process.kill()
        self._process.wait(20)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        ended, log = self._process.poll(), (self._folder / "log").read_text()
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
        assert ended is None, f"pgbouncer had ended ({ended}):\n{log[-4000:]}"
