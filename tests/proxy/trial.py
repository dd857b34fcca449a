"""One trial of a case: a route, streamed or not, and short ways to make its calls and to look at what became of them."""

from __future__ import annotations

import contextlib
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import httpx
import psycopg

from pgbudget.devstack import make_login
from tests.proxy.calls import budget, settled
from tests.proxy.routes import Body, Route
from tests.support.processes import Gateway, Simulator, wait_until
from tests.support.world import LOGINS, World, with_database


class Gateways:
    """Gateways on one database beside the usual one, each started when it is first needed."""

    AWAY = "test_gateway_away"
    _SETTINGS: ClassVar[dict[str, dict[str, str]]] = {
        # Does not read on for who has left, nor wait for a body.
        "hasty": {"drain_seconds": "0", "body_seconds": "0.3"},
        # Gives a provider up soon, and has others: one that answers, and one that nobody is.
        "impatient": {
            "first_byte_seconds": "0.3",
            "idle_seconds": "0.5",
            "account_nobody_url": "http://127.0.0.1:9/v1",
            "account_nobody_key": "k",
        },
        # Has faults of its own: see processes.panic.
        "faulty": {"drain_seconds": "0", "test_panics": "1"},
        # With a login of its own, which can be shut out.
        "away": {},
    }

    def __init__(self, world: World, simulator: Simulator, second: Simulator) -> None:
        self.world, self.simulator, self.second = world, simulator, second
        self._running: dict[str, Gateway] = {}
        self._stack = contextlib.ExitStack()

    def __getattr__(self, name: str) -> Gateway:
        if name not in self._SETTINGS:
            raise AttributeError(name)
        if name not in self._running:
            self._running[name] = self._stack.enter_context(self.start(name))
        return self._running[name]

    def start(self, name: str = "hasty") -> Gateway:
        """Another one with these settings, of the test's own."""
        dsn = self.world.gateway_dsn
        if name == "away":
            database, password = dsn.rpartition("/")[2], LOGINS[self.AWAY]
            with psycopg.connect(self.world.dsn, autocommit=True) as connection:
                make_login(connection, self.AWAY, password, "budget_gateway", "budget_reconciler")
            dsn = with_database(dsn, database, self.AWAY, password)
        settings: dict[str, Any] = {
            "account_second_url": f"{self.second.url}/v1",
            "account_second_key": Simulator.KEY,
            "breaker_failures": "0",
            **self._SETTINGS[name],
        }
        return Gateway(dsn, self.simulator.url, **settings)

    @contextlib.contextmanager
    def shut_out(self) -> Any:
        """Meanwhile the database is away, for one of them."""
        self.world.execute(f"alter role {self.AWAY} nologin")
        self.world.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", self.AWAY)
        try:
            yield
        finally:
            self.world.execute(f"alter role {self.AWAY} login")

    def stop(self) -> None:
        """Stop all."""
        self._stack.close()


@dataclass(frozen=True)
class Trial:
    """See the module's docstring. Amounts are micro-dollars."""

    world: World
    gateway: Gateway
    gateways: Gateways
    simulator: Simulator
    route: Route
    stream: bool
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(16))

    def through(self, gateway: Gateway) -> Trial:
        """The same by another gateway."""
        return replace(self, gateway=gateway)

    @property
    def standard(self) -> int:
        """What the standard call costs: 100 tokens of input, 200 of output."""
        return self.route.cost(100, 200)

    @property
    def url(self) -> str:
        """The route on the gateway."""
        return self.gateway.url + self.route.path

    def key(self, limit: int | None = 10**6, **options: Any) -> str:
        """The secret of a new key with this budget."""
        return self.world.key(limit, **options)

    def request(self, key: str, simulate: Body | None = None, **body: Any) -> dict[str, Any]:
        """Arguments for httpx: the standard call, changed as :meth:`Route.body` is."""
        headers = {**self.route.headers(key), "x-simulate": json.dumps(simulate or {})}
        body = {"stream": self.stream, **body}
        return {"url": self.url, "headers": headers, "json": self.route.body(**body)}

    def ask(self, key: str, simulate: Body | None = None, **body: Any) -> httpx.Response:
        """Make a call and read its answer."""
        answer: httpx.Response = httpx.post(timeout=60, **self.request(key, simulate, **body))
        return answer

    def send(self, key: str, body: bytes, **headers: str) -> httpx.Response:
        """Send these bytes."""
        sent = {
            **self.route.headers(key),
            "content-type": "application/json",
            **{k.replace("_", "-"): v for k, v in headers.items()},
        }
        return httpx.post(self.url, content=body, headers=sent, timeout=60)

    def leave(self, key: str, simulate: Body, pieces: int, **body: Any) -> int:
        """Read so many pieces of text, then leave; returns the status."""
        text = ""
        with httpx.stream("POST", timeout=60, **self.request(key, simulate, **body)) as answer:
            for part in answer.iter_text():
                text += part
                if text.count("word ") >= pieces:
                    break
            return answer.status_code

    def leave_at_barrier(self, key: str, name: str, more: Body | None = None) -> None:
        """Leave when the call waits upstream, at a barrier of its own, before the answer's first byte."""
        request = httpx.Request("POST", **self.request(key, {"barrier": name, **(more or {})}))
        lines = [f"POST {self.route.path} HTTP/1.1".encode()] + [b": ".join(header) for header in request.headers.raw]
        with socket.create_connection(("127.0.0.1", self.gateway.port)) as client:
            client.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + request.content)
            wait_until(lambda: self.simulator.waiting(name) == 1, what="the call upstream")

    def entries(self, key: str, count: int = 1) -> list[dict[str, Any]]:
        """The ledger of a key, once it has so many rows and nothing is held."""
        found = settled(self.world, key, count)
        assert len(found) == count, found
        return found

    def entry(self, key: str) -> dict[str, Any]:
        """The one row of a key's ledger; ``hold``: what was held, ``amount``: what was charged."""
        (entry,) = self.entries(key)
        return {**entry, "amount": int(entry["amount"]), "hold": entry["reserved_nano_usd"] // 1000}

    def hold(self, **body: Any) -> int:
        """What the gateway itself holds for the standard call, or another."""
        key = self.key(10**12)
        assert self.ask(key, {"status": 400}, **body).status_code == 400
        return int(self.entry(key)["hold"])

    def budget(self, key: str) -> dict[str, Any]:
        """The key's budget as its caller sees it."""
        return budget(self.gateway, key)

    def forwarded(self, place: int = -1) -> Body:
        """The body that the provider got."""
        return dict(self.simulator.tally()["generated"][place]["request_body"])

    def refused(self, answer: httpx.Response, status: int, code: str, message: str = "") -> Body:
        """Check whose refusal an answer is; returns its error."""
        assert answer.status_code == status, (message, answer.text)
        error = answer.json()["error"]
        assert (error["code"], answer.headers["x-pgbudget-error-source"]) == (code, "gateway"), message
        assert answer.headers.get("x-should-retry") == (None if status in (408, 429, 502, 503) else "false"), (message, code)
        return dict(error)

    def untouched(self) -> None:
        """No call has reached the provider."""
        assert self.simulator.calls() == 0
