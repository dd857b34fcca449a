"""The simulator behind real sockets, in a thread, with any key let in."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from pgbudget.embedded import free_port
from pgbudget.simulator.app import server
from tests.support.processes import WIRE, wait_until

BODY: dict[str, Any] = {"model": "t-mini", "max_tokens": 200, "messages": [{"role": "user", "content": "hi"}]}
STREAM: dict[str, Any] = {**BODY, "stream": True, "stream_options": {"include_usage": True}}


@dataclass(frozen=True)
class Route:
    """One route, with a body that asks for at most ``CAP`` tokens, and what its streams look like."""

    path: str
    body: dict[str, Any]
    #: Marks a stream's end.
    last: str = "data: [DONE]\n\n"
    #: The member of the body that caps the output.
    cap: str = "max_tokens"

    @property
    def stream(self) -> dict[str, Any]:
        """The body of a call that is streamed, with usage."""
        options = {"stream_options": {"include_usage": True}} if "[DONE]" in self.last else {}
        return {**self.body, "stream": True, **options}


CAP = 200
CHAT = Route("/v1/chat/completions", BODY)
RESPONSES = Route(
    "/v1/responses",
    {"model": "t-mini", "input": "hi", "max_output_tokens": CAP},
    last="event: response.completed",
    cap="max_output_tokens",
)
COMPLETIONS = Route("/v1/completions", {"model": "t-mini", "prompt": "hi", "max_tokens": CAP})
MESSAGES = Route(
    "/v1/messages",
    {"model": "t-mini", "messages": [{"role": "user", "content": "hi"}], "max_tokens": CAP},
    last='data: {"type":"message_stop"}\n\n',
)
EMBEDDINGS = Route("/v1/embeddings", {"model": "e-small", "input": "hi"})
#: All routes that generate text.
GENERATING = [CHAT, RESPONSES, COMPLETIONS, MESSAGES]


class Running:
    """A running simulator."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(base_url=self.url, timeout=20)

    def chat(self, body: dict[str, Any] | None = None, /, **behaviour: Any) -> httpx.Response:
        """One call, read to its end."""
        return self.post("/v1/chat/completions", body or BODY, **behaviour)

    def post(self, path: str, body: Any, /, **behaviour: Any) -> httpx.Response:
        """One call of any route, read to its end."""
        return self.client.post(path, json=body, headers=headers(behaviour))

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

    def connect(
        self, body: dict[str, Any] | None = None, /, path: str = "/v1/chat/completions", **behaviour: Any
    ) -> socket.socket:
        """Send a call on a connection of its own, and read nothing."""
        content = json.dumps(body or BODY).encode()
        lines = [f"POST {path} HTTP/1.1", "host: simulator", f"content-length: {len(content)}"]
        lines += [f"{name}: {value}" for name, value in headers(behaviour).items()]
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        return connection


def headers(behaviour: dict[str, Any]) -> dict[str, str]:
    """Headers of a call."""
    simulate = json.dumps(behaviour)
    return {"authorization": "Bearer sk-test", "anthropic-version": "2023-06-01", "x-simulate": simulate}


def sse(answer: httpx.Response) -> list[dict[str, Any]]:
    """The JSON events of a stream, which are named by their types."""
    *frames, rest = answer.text.split("\n\n")
    assert rest == ""
    found = []
    for frame in frames:
        name, data = frame.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


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
