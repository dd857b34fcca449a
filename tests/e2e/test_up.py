"""``pgbudget up``, as a newcomer meets it."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from pgbudget.embedded import free_port
from tests.support.processes import wait_until


class Up:
    """One run of the command."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self._log = folder.parent / f"up-{port}.log"
        command = [sys.executable, "-m", "pgbudget.cli", "up", "--port", str(port), "--folder", str(folder)]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def output(self) -> str:
        return self._log.read_text()

    def ready(self) -> Up:
        def greeted() -> bool:
            assert self.process.poll() is None, self.output()
            return "Ctrl-C stops everything" in self.output()

        wait_until(greeted, 90, "the greeting")
        return self

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        code = self.process.wait(90)
        assert is_quiet(self.output()), self.output()
        return code

    def env(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in (self.folder / "dev.env").read_text().splitlines())


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pgbudget-up-") as parent:
        os.chmod(parent, 0o711)
        yield Path(parent) / ".pgbudget"


def refused(folder: Path, port: int) -> str:
    """What a run that cannot start says; always one line on top of the log, and no trace."""
    run = Up(folder, port)
    assert run.process.wait(60) == 1, run.output()
    assert "Traceback" not in run.output()
    return run.output()


def down(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pgbudget.cli", "down", "--folder", str(folder)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def is_quiet(output: str) -> bool:
    """Whether nothing that ended did so with a trace."""
    return "Traceback" not in output and "Fatal" not in output


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ports(env: dict[str, str]) -> tuple[int, int]:
    """Of the simulator and the database."""
    simulator, database = (int(re.findall(r":(\d+)", env[name])[-1]) for name in ("PGBUDGET_SIMULATOR_URL", "PGBUDGET_DSN"))
    return simulator, database


def spent(env: dict[str, str]) -> str:
    budgets = httpx.get(f"{env['PGBUDGET_URL']}/v1/budget", headers={"authorization": f"Bearer {env['PGBUDGET_KEY']}"}).json()
    return str(budgets["budgets"][0]["spent_usd"])


def test_the_first_call_works_and_a_second_run_finds_it_again(folder: Path) -> None:
    port = free_port()
    run = Up(folder, port).ready()
    env = run.env()
    assert stat.S_IMODE((folder / "dev.env").stat().st_mode) == 0o600
    assert set(env) == {
        "PGBUDGET_URL", "PGBUDGET_KEY", "PGBUDGET_DSN", "PGBUDGET_ADMIN_TOKEN", "PGBUDGET_SIMULATOR_URL"
    }  # fmt: skip
    curl = re.search(r"^curl .*$", run.output(), re.MULTILINE)
    assert curl
    answer = subprocess.run(["sh", "-c", curl[0]], capture_output=True, text=True, check=True).stdout
    assert '"chat.completion"' in answer
    first = wait_until(lambda: (now := spent(env)) not in ("0", "0.0") and now, 5, "the spend of the call")

    assert refused(folder, free_port()).count(f"another pgbudget up runs in {folder}") == 1
    assert f"kill {run.process.pid}, stops it" in down(folder).stderr

    assert run.stop() == 0
    assert not any(answers(p) for p in (port, *ports(env)))

    again = Up(folder, port).ready()
    # All that was noted down is still true.
    assert again.env() == env
    assert spent(again.env()) == first

    # Killed, it takes its children with it, and the next run goes on from there.
    again.process.kill()
    again.process.wait()
    (folder / "dev.env").unlink()
    third = Up(folder, port).ready()
    assert third.env()["PGBUDGET_KEY"] != env["PGBUDGET_KEY"]
    with psycopg.connect(third.env()["PGBUDGET_DSN"]) as connection:
        assert connection.execute("select count(*) from budget.ledger").fetchone() == (1,)
        assert connection.execute("select * from budget.verify()").fetchall() == []
    assert third.stop(signal.SIGTERM) == 0


def test_the_server_of_a_killed_run_is_stopped_by_down(folder: Path) -> None:
    assert "pgbudget up never ran here" in down(folder).stderr
    run = Up(folder, free_port()).ready()
    headers = {"authorization": f"Bearer {run.env()['PGBUDGET_KEY']}"}
    asked = {"model": "e-small", "input": "hello"}
    assert httpx.post(f"{run.env()['PGBUDGET_URL']}/v1/embeddings", json=asked, headers=headers).status_code == 200
    simulator_port, database_port = ports(run.env())
    run.process.kill()
    run.process.wait()
    assert answers(database_port)
    stopped = down(folder)
    assert (stopped.returncode, "stopped Postgres" in stopped.stdout) == (0, True), stopped
    # What ends by itself was waited for.
    assert not any(answers(port) for port in (simulator_port, database_port))
    assert "nothing runs here" in down(folder).stdout

    # Ports of the last time that others have taken meanwhile are left to them.
    with socket.socket() as other:
        # Also while old connections of the port are remembered.
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", database_port))
        other.listen()
        again = Up(folder, simulator_port).ready()
        assert not {simulator_port, database_port} & set(ports(again.env()))
        assert again.stop() == 0


def test_a_gateway_that_was_killed_is_said_to_have_been(folder: Path) -> None:
    run = Up(folder, free_port()).ready()
    children = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(run.process.pid)], capture_output=True, text=True).stdout
    (gateway,) = re.findall(r"^ *(\d+) .*pgbudget.cli serve ", children, re.M)
    os.kill(int(gateway), signal.SIGKILL)
    assert run.process.wait(90) == 1
    assert "the gateway was killed (signal 9); see its lines above. make up goes on from there" in run.output()
    assert is_quiet(run.output())


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "its parent's death"])
@pytest.mark.parametrize("command", ["serve", "simulate"])
def test_a_child_ends_quietly_however_it_is_ended(command: str, how: str) -> None:
    port = free_port()
    child = subprocess.Popen(
        [sys.executable, "-m", "pgbudget.cli", command, "--port", str(port)],
        # No database is needed to live and to end.
        env={**os.environ, "PGBUDGET_DSN": "postgresql://nobody@127.0.0.1:1/none", "PGBUDGET_END_WITH_STDIN": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child:
        wait_until(lambda: answers(port), 30, "the port")
        if how == "its parent's death":
            child.stdin.close()
        else:
            child.send_signal(getattr(signal, how))
        # Its stdin stays open, as that of a child whose parent lives; the output ends with the process.
        output = child.stdout.read()
        assert (child.wait(30), is_quiet(output)) == (0, True), output


def test_a_taken_port_is_one_clear_line(folder: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert f"port {port} is taken by another program; choose another: make up PORT={port + 1}" in refused(folder, port)
    assert not folder.exists()


def test_a_broken_data_folder_is_one_clear_line(folder: Path) -> None:
    data = folder / "postgres"
    data.mkdir(parents=True)
    (data / "letter.txt").write_text("not a database")
    assert "is not empty and holds no Postgres data: move it away" in refused(folder, free_port())
    (data / "PG_VERSION").write_text("17\n")
    assert "is of Postgres 17, the server is 18: move it away" in refused(folder, free_port())
    (data / "PG_VERSION").write_text("18\n")
    assert "Postgres does not start from" in refused(folder, free_port())
