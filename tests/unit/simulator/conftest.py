"""The simulator behind real sockets, in a thread, with any key let in."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pgbudget.embedded import free_port
from pgbudget.simulator.app import server
from tests.support.processes import WIRE, wait_until

BODY: dict[str, Any] = {"model": "t-mini", "max_tokens": 200, "messages": [{"role": "user", "content": "hi"}]}
STREAM: dict[str, Any] = {**BODY, "stream": True, "stream_options": {"include_usage": True}}


class Running:
    """A running simulator."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(base_url=self.url, timeout=20)

    def chat(self, body: dict[str, Any] | None = None, /, **behaviour: Any) -> httpx.Response:
        """One call, read to its end."""
        return self.client.post("/v1/chat/completions", json=body or BODY, headers=headers(behaviour))

    def tally(self, **params: Any) -> dict[str, Any]:
        """The tally."""
        return dict(self.client.get("/simulator/tally", params=params).json())

    def last(self) -> dict[str, Any]:
        """The last call in the tally, once there is one."""
        return dict(wait_until(lambda: self.tally(limit=1)["generated"])[-1])

    def waiting(self, barrier: str) -> int:
        """How many wait at a barrier."""
        return int(self.client.get(f"/simulator/barrier/{barrier}").json()["waiting"])

    def open(self, barrier: str) -> None:
        """Open a barrier."""
        self.client.post(f"/simulator/barrier/{barrier}/open").raise_for_status()

    def connect(self, body: dict[str, Any] | None = None, /, **behaviour: Any) -> socket.socket:
        """Send a call on a connection of its own, and read nothing."""
        content = json.dumps(body or BODY).encode()
        lines = ["POST /v1/chat/completions HTTP/1.1", "host: simulator", f"content-length: {len(content)}"]
        lines += [f"{name}: {value}" for name, value in headers(behaviour).items()]
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        return connection


def headers(behaviour: dict[str, Any]) -> dict[str, str]:
    """Headers of a call."""
    return {"authorization": "Bearer sk-test", "x-simulate": json.dumps(behaviour)}


def events(answer: httpx.Response) -> list[dict[str, Any]]:
    """The JSON events of a stream that ends as it should."""
    *frames, done, rest = answer.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


@pytest.fixture(scope="session")
def _running() -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PGBUDGET_WIRE", str(WIRE))
        environment.delenv("PGBUDGET_SIMULATOR_KEY", raising=False)
        port = free_port()
        running = server("127.0.0.1", port)
        thread = threading.Thread(target=running.run)
        thread.start()
        wait_until(lambda: running.started or not thread.is_alive(), what="the simulator's start")
        simulator = Running(port)
        yield simulator
        simulator.client.close()
        running.should_exit = True
        thread.join()


@pytest.fixture
def simulator(_running: Running) -> Running:
    """The simulator, as new."""
    _running.client.post("/simulator/reset").raise_for_status()
    return _running
