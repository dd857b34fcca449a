"""Calls through this gateway and its peers, side by side in one run: one simulator, one load generator, one process each.

Closed loop: each client calls again when it was answered. Open loop: so many calls a second are due whatever comes of them, and
a call's time runs from when it was due. Answers that come whole, and streams. It ends with ``verify()``, and the simulator's
bill must be what the ledger has, to the nano-USD.

``.venv/bin/python -m bench.calls [--quick] [--seconds 0.7] [--rounds 5] [--clients 1,16,64] [--rates 20,100,200] [--ways ...]``
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psycopg
import uvloop
from tests.support.processes import wait_until

from bench.load import Load, drive, post
from bench.report import Plot, Table, flush_seconds, number, percentile, save, spread
from bench.support import DEFAULT_SERVER, LEVELS, cluster, gateway_login, make_chain
from bench.ways import redis_server
from pgbudget.embedded import free_port

BIN = Path(sys.executable).parent
#: LiteLLM's proxy wants other versions of what we use, so it has an environment of its own: see the Makefile.
LITELLM = BIN.parent / "litellm" / "bin" / "litellm"
PROVIDER_KEY = "sk-provider-of-the-benchmarks"
PEER_KEY = "sk-key-of-the-benchmarks-4f1c9e7a2b6d8053"
MODEL = "t-mini"
#: No checkpoint while something is measured.
SETTINGS = {"max_wal_size": "16GB", "checkpoint_timeout": "1h", "shared_buffers": "512MB"}
ENFORCED, NO_BUDGETS, PASSED_ON, DIRECT = "strict budgets", "no budgets", "passed on", "direct"
HARDCAP, LITELLM_PROXY = "hardcap", "litellm"
#: Slow enough that a short look would tell nothing.
LONGER = {LITELLM_PROXY: 2}
#: So slow that a load that does not wait for it only makes a queue, which is then waited for.
CLOSED_LOOP_ONLY = (LITELLM_PROXY,)
INSERTS = 100
#: A process that uses less than this share of a core has done what it had to; it is waited for so long at most.
IDLE_SHARE, SETTLE_SECONDS = 0.1, 5.0


class Kind(NamedTuple):
    """A kind of call: what is asked for, how the simulator answers, and how a whole answer ends."""

    asked: dict[str, Any]
    behaviour: dict[str, Any]
    ending: bytes


KINDS = {
    "whole": Kind({"max_tokens": 200}, {"completion_tokens": 100}, b"}"),
    "streamed": Kind({"max_tokens": 200, "stream": True}, {"completion_tokens": 100}, b"data: [DONE]"),
    # As providers stream: every token is a write of its own, and mostly a read of its own.
    "token by token": Kind({"max_tokens": 500, "stream": True}, {"completion_tokens": 400, "chunk_ms": 1}, b"data: [DONE]"),
}
#: Of "token by token", and of what is told of processors.
CLIENTS_OF_CPU = 16


@dataclass
class Target:
    """A server under load. ``pid``: the process that stands between; None where there is none."""

    url: str
    key: str
    pid: int | None


class Cell(NamedTuple):
    """One measurement of each way. ``rate``: calls a second of an open loop; 0: closed."""

    kind: str
    clients: int
    rate: int

    @property
    def loop(self) -> str:
        return "open" if self.rate else "closed"

    def __str__(self) -> str:
        return f"{self.kind}, {self.clients} clients, " + (f"{self.rate}/s" if self.rate else "closed loop")


Sample = dict[str, float]
Samples = dict[Cell, dict[str, list[Sample]]]


@contextmanager
def server(command: list[str | Path], port: int, health: str, environment: dict[str, str]) -> Iterator[int]:
    """A server that answers. Yields its process id."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [str(part) for part in command], env={**os.environ, **environment}, stdout=log, stderr=subprocess.STDOUT
        )

        def answers() -> bool:
            if process.poll() is not None:
                log.seek(0)
                raise SystemExit(f"{command[0]} did not start:\n{log.read()}")
            try:
                return httpx.get(f"http://127.0.0.1:{port}{health}", timeout=2).status_code == 200
            except httpx.HTTPError:
                return False

        try:
            wait_until(answers, 120, f"readiness of {command[0]}")
            yield process.pid
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def config(content: dict[str, Any]) -> Iterator[Path]:
    """A file of configuration: JSON is YAML."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(content, file)
        file.flush()
        yield Path(file.name)


class Ways:
    """Starts what is measured."""

    def __init__(self, stack: ExitStack, simulator: str, gateway_dsn: str, key: str) -> None:
        self._stack = stack
        self._simulator = simulator
        self._key = key
        self._environment = {
            "PGBUDGET_DSN": gateway_dsn,
            "PGBUDGET_ACCOUNT_SIMULATOR_URL": f"{simulator}/v1",
            "PGBUDGET_ACCOUNT_SIMULATOR_KEY": PROVIDER_KEY,
        }

    def start(self, way: str) -> Target:
        """Start a way, until the stack ends."""
        return _STARTS[way](self)

    def direct(self) -> Target:
        return Target(self._simulator, PROVIDER_KEY, None)

    def enforced(self) -> Target:
        port = free_port()
        return self._target([BIN / "pgbudget", "serve", "--port", str(port)], port, "/readyz", self._environment, self._key)

    def unenforced(self, how: str) -> Target:
        port = free_port()
        command = [sys.executable, "-m", "bench.unenforced", how, str(port)]
        return self._target(command, port, "/healthz", self._environment, self._key)

    def hardcap(self) -> Target:
        """One process as its README has it; its Redis keeps nothing, which is its fastest."""
        port = free_port()
        redis = self._stack.enter_context(redis_server("--appendonly", "no"))
        upstream = {"kind": "openai", "base_url": self._simulator, "api_key_env": "BENCH_KEY"}
        file = self._config(
            {
                "redis_url": f"redis://127.0.0.1:{redis}/0",
                "upstreams": {"simulator": upstream},
                "routes": {MODEL: {"targets": [{"upstream": "simulator", "model": MODEL}]}},
                "pricing": {MODEL: {"input": 1, "output": 4}},
                "tenants": {"t": {"api_keys": [PEER_KEY], "budget": {"window_s": 86400, "total": 10**12}}},
            }
        )
        command = [BIN / "hardcap", "serve", "-c", file, "--host", "127.0.0.1", "--port", str(port)]
        return self._target(command, port, "/healthz", {"BENCH_KEY": PROVIDER_KEY})

    def litellm(self) -> Target:
        """Without budgets: they would need its own database. That is its fastest, too."""
        port = free_port()
        route = {"model": f"openai/{MODEL}", "api_base": f"{self._simulator}/v1", "api_key": PROVIDER_KEY}
        file = self._config(
            {
                "model_list": [{"model_name": MODEL, "litellm_params": route}],
                "general_settings": {"master_key": PEER_KEY},
            }
        )
        command = [LITELLM, "--config", file, "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
        # The net is not there to be asked for prices or told of anything, and a line a request is no work of a proxy.
        environment = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "LITELLM_LOG": "ERROR"}
        return self._target(command, port, "/health/liveliness", environment)

    def _config(self, content: dict[str, Any]) -> Path:
        return self._stack.enter_context(config(content))

    def _target(
        self, command: list[str | Path], port: int, health: str, environment: dict[str, str], key: str = PEER_KEY
    ) -> Target:
        pid = self._stack.enter_context(server(command, port, health, environment))
        return Target(f"http://127.0.0.1:{port}", key, pid)


_STARTS: dict[str, Callable[[Ways], Target]] = {
    DIRECT: Ways.direct,
    PASSED_ON: lambda ways: ways.unenforced("passed-on"),
    NO_BUDGETS: lambda ways: ways.unenforced("no-budgets"),
    ENFORCED: Ways.enforced,
    HARDCAP: Ways.hardcap,
    LITELLM_PROXY: Ways.litellm,
}


def processor_seconds(pid: int) -> float:
    """What a process has used, exactly: the clock of another process, as clock_getcpuclockid(3) makes it."""
    return time.clock_gettime((~pid << 3) | 2)


def measure(target: Target, cell: Cell, seconds: float) -> Sample:
    """One round of one way."""
    kind = KINDS[cell.kind]
    body = {"model": MODEL, "messages": [{"role": "user", "content": "word " * 120}], **kind.asked}
    request = post(f"{target.url}/v1/chat/completions", {"authorization": f"Bearer {target.key}"}, json.dumps(body).encode())
    before = processor_seconds(target.pid) if target.pid else 0
    load: Load = uvloop.run(
        drive(target.url, request, kind.ending, cell.clients, seconds, rate=cell.rate, warm=min(0.2, seconds / 3))
    )
    used = processor_seconds(target.pid) - before if target.pid else 0
    return {
        "calls_per_second": load.rate,
        "p50_ms": percentile(load.took, 0.5) * 1e3 if load.took else float("nan"),
        "p99_ms": percentile(load.took, 0.99) * 1e3 if load.took else float("nan"),
        "calls": load.calls,
        "unsent": load.unsent,
        "cpu_us_per_call": used / load.calls * 1e6,
        "cpu_ns_per_byte": used / load.size * 1e9,
        "generator_busy": load.busy,
    }


def measure_peer(target: Target, cell: Cell, seconds: float) -> Sample:
    """As :func:`measure`; a load that a peer does not bear is its result, and no end of the run."""
    try:
        return measure(target, cell, seconds)
    except* (AssertionError, ConnectionError) as failures:
        print(f"failed: {failures.exceptions[0]}", file=sys.stderr)
    nothing = ("calls_per_second", "calls", "unsent", "cpu_us_per_call", "cpu_ns_per_byte", "generator_busy")
    return {"p50_ms": float("nan"), "p99_ms": float("nan"), "failed": 1, **dict.fromkeys(nothing, 0)}


def let_finish(target: Target) -> None:
    """What a way does after its last answer must not be in the next one's way."""
    if target.pid is None:
        return
    deadline = time.monotonic() + SETTLE_SECONDS
    busy = 1.0
    while busy > IDLE_SHARE and time.monotonic() < deadline:
        before = processor_seconds(target.pid)
        time.sleep(0.05)
        busy = (processor_seconds(target.pid) - before) / 0.05


def insert_ms(connection: psycopg.Connection[Any]) -> float:
    """The p50 of one insert of one row and its commit: what any database that keeps a thing asks for."""
    took = []
    for number_ in range(INSERTS):
        start = time.perf_counter()
        connection.execute("insert into bench_inserts (n) values (%s)", (number_,))
        took.append(time.perf_counter() - start)
    return percentile(took, 0.5) * 1e3


def check(connection: psycopg.Connection[Any], billed_nano_usd: int, calls: int) -> None:
    """The books are right: what the simulator bills for our calls is what each level of the chain has spent."""

    def held() -> Any:
        return connection.execute("select sum(held_nano_usd) from budget_internal.periods").fetchone()

    wait_until(lambda: held() == (0,), 30, "that nothing is held")
    differences = connection.execute("select * from budget.verify()").fetchall()
    assert differences == [], differences
    spent = connection.execute("select sum(spent_nano_usd) from budget_internal.periods").fetchone()
    assert spent == (billed_nano_usd * LEVELS,), f"the simulator bills {billed_nano_usd}, {LEVELS} levels spent {spent}"
    print(f"verify() finds nothing; {calls} calls, {billed_nano_usd} nano-USD billed and spent")


def over(cell: dict[str, list[Sample]], ours: str, theirs: str, what: str = "calls_per_second") -> str:
    """Ratio of two ways in the same round: what else the machine does then slows both."""
    if not cell.get(ours) or not cell.get(theirs):
        return "not run"
    both = [(a[what], b[what]) for a, b in zip(cell[ours], cell[theirs], strict=True) if "failed" not in b]
    return str(spread([a / b for a, b in both])) if both else "it failed"


def told(samples: list[Sample], what: str) -> str:
    """The spread of one number."""
    return str(spread([s[what] for s in samples])) if samples else "not run"


def added(cell: dict[str, list[Sample]], way: str, base: str, what: str = "p50_ms") -> list[float]:
    """Milliseconds of a way above another's, by round."""
    return [a[what] - b[what] for a, b in zip(cell[way], cell[base], strict=True)]


def latency(samples: list[Sample]) -> str:
    """p50 / p99; of a load that was too much, that it was."""
    if not samples or any("failed" in s for s in samples):
        return "failed" if samples else "not run"
    if sum(s["unsent"] for s in samples) > 0.01 * sum(s["calls"] for s in samples):
        return "too much"
    return " / ".join(number(statistics.median(s[what] for s in samples)) for what in ("p50_ms", "p99_ms"))


def shown(samples: Samples, inserts: list[float], clients: list[int], rates: list[int], ways: list[str]) -> dict[str, Table]:
    """The tables of the report."""
    tables: dict[str, Table] = {}
    for kind in ("whole", "streamed"):
        closed = [samples[Cell(kind, count, 0)] for count in clients]
        opened = [samples[Cell(kind, count, rate)] for count, rate in zip(clients, rates, strict=True)]
        heads = [f"{count} client{'s' * (count > 1)}" for count in clients]
        tables[kind] = {
            "columns": [f"calls a second, {kind}, closed loop", *heads],
            "rows": [[way, *(told(cell[way], "calls_per_second") for cell in closed)] for way in ways],
        }
        tables[f"{kind} latency"] = {
            "columns": [f"ms a call, p50 / p99, {kind}, closed loop", *heads],
            "rows": [[way, *(latency(cell[way]) for cell in closed)] for way in ways],
        }
        tables[f"{kind} open"] = {
            "columns": [
                f"ms a call, p50 / p99, {kind}, open loop",
                *(f"{rate}/s, {head}" for rate, head in zip(rates, heads, strict=True)),
            ],
            "rows": [[way, *(latency(cell[way]) for cell in opened)] for way in ways],
        }
        if DIRECT in ways:
            tables[f"{kind} added"] = {
                "columns": [f"ms added to the p50 of {DIRECT}, {kind}, closed loop", *heads],
                "rows": [
                    [way, *(str(spread(added(cell, way, DIRECT))) for cell in closed)] for way in ways if way != DIRECT
                ],
            }  # fmt: skip
    if ENFORCED in ways:
        tables["ratios"] = ratios(samples, inserts, clients, rates, ways)
    streams = {kind: samples[Cell(kind, CLIENTS_OF_CPU, 0)] for kind in KINDS if Cell(kind, CLIENTS_OF_CPU, 0) in samples}
    tables["processor"] = {
        "columns": [f"processor of the gateway, {CLIENTS_OF_CPU} clients", *(
            f"{what}, {kind}" for kind in streams for what in (["µs a call"] if kind == "whole" else ["ns a byte"])
        )],
        "rows": [
            [way, *(
                told(cell[way], "cpu_us_per_call" if kind == "whole" else "cpu_ns_per_byte")
                for kind, cell in streams.items()
            )]
            for way in ways if way != DIRECT
        ],
    }  # fmt: skip
    busiest = [s["generator_busy"] for cell in samples.values() for rounds in cell.values() for s in rounds]
    tables["generator"] = {
        "columns": ["the load generator", "share of one core"],
        "rows": [["median of all measurements", statistics.median(busiest)], ["busiest", max(busiest)]],
    }
    return tables


def ratios(samples: Samples, inserts: list[float], clients: list[int], rates: list[int], ways: list[str]) -> Table:
    """What issue and README promise of "strict budgets"."""
    rows: list[list[str | float]] = []
    for count in clients:
        for kind in ("whole", "streamed"):
            for way in ways:
                if way not in (ENFORCED, DIRECT) and count > 1:
                    ratio = over(samples[Cell(kind, count, 0)], ENFORCED, way)
                    rows.append([f"calls a second, {kind}, {count} clients, over {way}", ratio])
    if 1 in clients:
        # In closed loop each call meets the settlement of the one before.
        for loop, rate in (("closed loop", 0), ("open loop", rates[clients.index(1)])):
            one = samples[Cell("whole", 1, rate)]
            for base in (DIRECT, PASSED_ON, NO_BUDGETS):
                if base in ways:
                    more = [ms / insert for ms, insert in zip(added(one, ENFORCED, base), inserts, strict=True)]
                    rows.append([f"p50 added to {base}, 1 client, {loop}, over one insert's commit", str(spread(more))])
    for kind in ("streamed", "token by token"):
        cell = samples.get(Cell(kind, CLIENTS_OF_CPU, 0), {})
        for base in (PASSED_ON, NO_BUDGETS):
            if base in cell:
                rows.append([f"processor a byte, {kind}, over {base}", over(cell, ENFORCED, base, "cpu_ns_per_byte")])
    return {"columns": [f"{ENFORCED}, on one chain of {LEVELS}", "ratio"], "rows": rows}


def plots(samples: Samples, clients: list[int], rates: list[int], ways: list[str]) -> dict[str, Plot]:
    """Throughput against clients, latency against load."""
    drawn: dict[str, Plot] = {}
    for kind in ("whole", "streamed"):
        drawn[kind] = {
            "title": f"calls, {kind}, closed loop",
            "x": "clients",
            "y": "calls a second",
            "log": True,
            "lines": {
                way: [
                    (count, *spread([s["calls_per_second"] for s in samples[Cell(kind, count, 0)][way]])) for count in clients
                ]
                for way in ways
            },
        }
        drawn[f"{kind}.latency"] = {
            "title": f"calls, {kind}, open loop: p50 from when they were due",
            "x": "calls a second",
            "y": "ms",
            "log": True,
            "lines": {
                way: [
                    (rate, *spread([s["p50_ms"] for s in samples[Cell(kind, count, rate)][way]]))
                    for count, rate in zip(clients, rates, strict=True)
                ]
                for way in ways
                if way not in CLOSED_LOOP_ONLY
            },
        }
    return drawn


def numbers(text: str) -> list[int]:
    """A list of whole numbers, as an argument."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a third of a second, two rounds: to see that it runs")
    parser.add_argument("--seconds", type=float, help="of one measurement")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--clients", type=numbers, default=[1, 16, 64])
    parser.add_argument(
        "--rates", type=numbers, default=[20, 100, 200], help="calls a second in open loop, for each of clients"
    )
    parser.add_argument("--ways", default=",".join(_STARTS))
    parser.add_argument("--server", choices=["15", "18"], default=DEFAULT_SERVER)
    arguments = parser.parse_args()
    seconds = arguments.seconds or (0.3 if arguments.quick else 0.7)
    rounds = arguments.rounds or (2 if arguments.quick else 5)
    clients, rates = arguments.clients, arguments.rates
    ways = [way for way in _STARTS if way in arguments.ways.split(",")]
    if len(clients) != len(rates):
        parser.error("--rates must have one for each of --clients")
    if LITELLM_PROXY in ways and not LITELLM.exists():
        print(f"{LITELLM} is not there: measured without (make bench-http makes it)", file=sys.stderr)
        ways.remove(LITELLM_PROXY)

    cells = [Cell(kind, count, 0) for kind in ("whole", "streamed") for count in clients]
    cells += [Cell(kind, *load) for kind in ("whole", "streamed") for load in zip(clients, rates, strict=True)]
    cells += [Cell("token by token", CLIENTS_OF_CPU, 0)]
    samples: Samples = {cell: {way: [] for way in ways} for cell in cells}
    inserts: list[float] = []
    billed = calls = 0
    with ExitStack() as stack:
        made = stack.enter_context(cluster(arguments.server, SETTINGS))
        connection = stack.enter_context(psycopg.connect(made.dsn("bench"), autocommit=True))
        connection.execute("create table bench_inserts (id int8 generated always as identity primary key, n int4)")
        gateway_dsn = gateway_login(connection, made.dsn("bench"))
        flush = flush_seconds(Path(made.data).parent)
        port = free_port()
        simulator = f"http://127.0.0.1:{port}"
        stack.enter_context(
            server(
                [BIN / "pgbudget", "simulate", "--port", str(port)], port, "/healthz", {"PGBUDGET_SIMULATOR_KEY": PROVIDER_KEY}
            )
        )
        starts = Ways(stack, simulator, gateway_dsn, make_chain(connection, "org"))
        targets = {way: starts.start(way) for way in ways}
        control = stack.enter_context(httpx.Client(base_url=simulator))
        for round_ in range(rounds):
            inserts.append(insert_ms(connection))
            for cell in cells:
                for way in ways:
                    if way in CLOSED_LOOP_ONLY and (cell.rate or cell.kind == "token by token"):
                        continue
                    # Forgets how to behave, too.
                    control.post("/simulator/reset").raise_for_status()
                    control.post("/simulator/defaults", json=KINDS[cell.kind].behaviour).raise_for_status()
                    run = measure_peer if way in (HARDCAP, LITELLM_PROXY) else measure
                    sample = run(targets[way], cell, seconds * LONGER.get(way, 1))
                    let_finish(targets[way])
                    samples[cell][way].append(sample)
                    if way == ENFORCED:
                        tally = control.get("/simulator/tally", params={"limit": 0}).json()
                        billed += tally["cost_nano_usd"]
                        calls += tally["requests"]
                    print(
                        f"round {round_ + 1}: {cell}, {way}: {sample['calls_per_second']:.0f}/s, p50 {sample['p50_ms']:.2f} ms",
                        flush=True,
                    )
        check(connection, billed, calls)
        version = connection.execute("show server_version").fetchone() or ("",)

    save(
        "calls",
        facts={
            "Postgres": version[0],
            "flush of a page": f"{flush * 1e3:.2f} ms",
            "insert and commit of a row": f"{spread(inserts)} ms",
            "settings": str(SETTINGS),
            "rounds": str(rounds),
        },
        samples={"calls": [{**cell._asdict(), "ways": by_way} for cell, by_way in samples.items()], "insert_ms": inserts},
        tables=shown(samples, inserts, clients, rates, ways),
        plots=plots(samples, clients, rates, ways),
        keep=not arguments.quick,
    )


if __name__ == "__main__":
    main()
