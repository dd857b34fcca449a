"""The gateway and the simulator as processes, as they run in production."""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Self

import httpx

from pgbudget.embedded import free_port

WIRE = Path(os.environ.get("PGBUDGET_WIRE") or Path(__file__).parents[3] / "shared" / "wire")
SHARED = WIRE.parent


#: Forks from a process that has everything imported: a gateway costs a tenth of a fresh interpreter.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "pytest", "pgbudget.cli", "pgbudget.app", "pgbudget.devstack", "pgbudget.simulator.app",
        # What the command and the server load when they start.
        "typer._adapters", "uvicorn.lifespan.on", "uvicorn.loops.uvloop", "encodings.idna",
    ]
)  # fmt: skip


def _run(arguments: list[str], environment: dict[str, str], log: str) -> None:
    """What the child does: a command of pgbudget, in its own session, with its own environment and output."""
    with open(log, "w") as out, open(os.devnull) as nothing:
        for number, file in enumerate((nothing, out, out)):
            os.dup2(file.fileno(), number)
    # As a fresh interpreter has it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["pgbudget", *arguments]
    if "PGBUDGET_TEST_LOG_ALL" in environment:
        logging.basicConfig(stream=sys.stdout, level=logging.DEBUG, force=True)
        logging.debug("everything is logged")
    if "PGBUDGET_TEST_PANICS" in environment:
        panic()
    from pgbudget.cli import main

    main()


def panic() -> None:
    """From now on this gateway has a fault where a call's header ``x-test-panic`` says: in one of these methods."""
    from pgbudget.call import Call
    from pgbudget.client import Client

    fault: ContextVar[str] = ContextVar("fault", default="")
    run = Call.run

    async def told(self: Any, *arguments: Any) -> None:
        fault.set(dict(self._headers).get(b"x-test-panic", b"").decode())
        await run(self, *arguments)

    def may_fail(owner: type, name: str) -> None:
        method = getattr(owner, name)

        async def failing(self: Any, *arguments: Any, **named: Any) -> Any:
            if fault.get() == f"{owner.__name__}.{name}":
                raise RuntimeError("panic")
            return await method(self, *arguments, **named)

        setattr(owner, name, failing)

    setattr(Call, "run", told)  # noqa: B010 - a method cannot be assigned to
    may_fail(Call, "_cap")
    may_fail(Call, "_pass_on")
    may_fail(Client, "send")


def wait_until(condition: Callable[[], Any], seconds: float = 20, what: str = "condition") -> Any:
    """Wait until something is true; returns it."""
    deadline = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {seconds} seconds")
        # A turn of polling, not a wait for time to pass.
        threading.Event().wait(0.02)


class Process:
    """A child with a log file and a port."""

    health = "/healthz"

    def __init__(self, arguments: list[str], environment: dict[str, str], port: int | None = None) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = tempfile.NamedTemporaryFile("w+", suffix=".log", delete=False)  # noqa: SIM115
        self._child = _FORKS.Process(
            target=_run, args=([*arguments, "--port", str(self.port)], {**os.environ, **environment}, self._log.name)
        )
        self._child.start()

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._child.pid is not None
        return self._child.pid

    def wait_ready(self) -> None:
        """Wait until it answers."""

        def answers() -> bool:
            assert self._child.is_alive(), self.log()
            with contextlib.suppress(httpx.HTTPError):
                return httpx.get(self.url + self.health, timeout=2).status_code == 200
            return False

        wait_until(answers, 30, f"readiness of {type(self).__name__}")

    def log(self) -> str:
        """All that it printed."""
        return Path(self._log.name).read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL."""
        self._child.kill()
        self._child.join(10)

    def signal_stop(self) -> None:
        """SIGTERM, without waiting."""
        self._child.terminate()

    def stop(self) -> int:
        """SIGTERM, and wait for the end; returns the exit code."""
        self._child.terminate()
        self._child.join(60)
        assert self._child.exitcode is not None
        return self._child.exitcode

    def __enter__(self) -> Self:
        try:
            self.wait_ready()
        except BaseException:
            # Else it would be left running.
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._child.terminate()
        self._child.join(40)
        if self._child.is_alive():
            self.kill()
        self._log.close()
        os.unlink(self._log.name)


class Simulator(Process):
    """The simulated provider."""

    KEY = "sk-simulator-0123456789"

    def __init__(self) -> None:
        super().__init__(["simulate"], {"PGBUDGET_SIMULATOR_KEY": self.KEY, "PGBUDGET_WIRE": str(WIRE)})

    def reset(self) -> None:
        """Forget everything."""
        httpx.post(f"{self.url}/simulator/reset").raise_for_status()

    def defaults(self, **behaviour: Any) -> None:
        """Behaviour of the run from now on."""
        httpx.post(f"{self.url}/simulator/defaults", json=behaviour).raise_for_status()

    def tally(self) -> dict[str, Any]:
        """What it generated and would bill."""
        return dict(httpx.get(f"{self.url}/simulator/tally").json())

    def calls(self) -> int:
        """How many calls reached it."""
        return int(self.tally()["requests"])

    def waiting(self, barrier: str) -> int:
        """How many calls wait at a barrier."""
        return int(httpx.get(f"{self.url}/simulator/barrier/{barrier}").json()["waiting"])

    def open(self, barrier: str) -> None:
        """Open a barrier."""
        httpx.post(f"{self.url}/simulator/barrier/{barrier}/open").raise_for_status()


class Gateway(Process):
    """The gateway on a database, with the simulator as its provider."""

    health = "/readyz"
    ADMIN = "admin-token-for-tests"

    def __init__(self, dsn: str, simulator_url: str, port: int | None = None, **settings: str) -> None:
        super().__init__(
            ["serve"],
            {
                "PGBUDGET_DSN": dsn,
                "PGBUDGET_ADMIN_TOKEN": self.ADMIN,
                "PGBUDGET_ACCOUNT_SIMULATOR_URL": f"{simulator_url}/v1",
                "PGBUDGET_ACCOUNT_SIMULATOR_KEY": Simulator.KEY,
                "PGBUDGET_RECONCILE_SECONDS": "1",
                **{f"PGBUDGET_{name.upper()}": value for name, value in settings.items()},
            },
            port,
        )

    def chat(self, key: str, simulate: dict[str, Any] | None = None, **body: Any) -> httpx.Response:
        """The standard call of the cases, or another."""
        answer: httpx.Response = httpx.post(
            f"{self.url}/v1/chat/completions", timeout=60, **chat_request(key, simulate, **body)
        )
        return answer

    def messages(self, key: str, simulate: dict[str, Any] | None = None, **body: Any) -> httpx.Response:
        """The standard call on Anthropic's route."""
        answer: httpx.Response = httpx.post(f"{self.url}/v1/messages", timeout=60, **messages_request(key, simulate, **body))
        return answer

    def respond(self, key: str, simulate: dict[str, Any] | None = None, **body: Any) -> httpx.Response:
        """The same call of the responses API, or another."""
        answer: httpx.Response = httpx.post(f"{self.url}/v1/responses", timeout=60, **responses_request(key, simulate, **body))
        return answer


def responses_request(key: str, simulate: dict[str, Any] | None = None, **body: Any) -> dict[str, Any]:
    """Arguments for httpx: the standard call of the responses API, changed as :func:`chat_request` is."""
    changes = {"max_tokens": ..., "messages": ..., "max_output_tokens": 200, "input": "word " * 120, **body}
    return chat_request(key, simulate, **changes)


def chat_request(key: str, simulate: dict[str, Any] | None = None, **body: Any) -> dict[str, Any]:
    """Arguments for httpx: the standard call, changed by ``body``; a member that is ``...`` is left out."""
    content = {
        "model": "t-mini",
        "max_tokens": 200,
        "messages": [{"role": "user", "content": "word " * 120}],
        **body,
    }
    return {
        "headers": {"authorization": f"Bearer {key}", "x-simulate": json.dumps(simulate or {})},
        "json": {name: value for name, value in content.items() if value is not ...},
    }


def messages_request(key: str, simulate: dict[str, Any] | None = None, **body: Any) -> dict[str, Any]:
    """As :func:`chat_request`, as Anthropic's SDK sends it."""
    request = chat_request(key, simulate, **{"model": "c-son", **body})
    del request["headers"]["authorization"]
    request["headers"] |= {"x-api-key": key, "anthropic-version": "2023-06-01"}
    return request
