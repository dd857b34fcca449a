"""What a call takes of the gateway's processor, and where it goes: by package and by function.

``.venv/bin/python -m bench.processor [--quick] [--seconds 1] [--rounds 5] [--kinds whole,streamed]``

Processor time, not time: what else the machine does makes it noisier, no more. Ways and kinds as in ``bench.calls``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import httpx
import psycopg

from bench.calls import (
    BIN,
    CLIENTS_OF_CPU,
    ENFORCED,
    KINDS,
    NO_BUDGETS,
    PASSED_ON,
    PROVIDER_KEY,
    SETTINGS,
    Cell,
    Target,
    Ways,
    let_finish,
    measure,
    server,
)
from bench.report import Table, save, spread
from bench.support import DEFAULT_SERVER, cluster, gateway_login, make_chain
from pgbudget.embedded import free_port

FUNCTIONS = 25
#: So much longer than a measurement is sampled.
LONGER = 20
#: Who runs a frame, by the beginning of its file; all else is Python's own library.
PACKAGES = ("pgbudget", "aiohttp", "psycopg", "psycopg_pool", "starlette", "uvicorn", "circuitbreaker")


class Sampled(Ways):
    """The gateway with a sampler in it, whose samples are in a file when it has ended."""

    def sampled(self, file: Path) -> Target:
        port = free_port()
        command: list[str | Path] = [sys.executable, "-m", "bench.sampled", file, "serve", "--port", str(port)]
        return self._target(command, port, "/readyz", self._environment, self._key)


def sampled(simulator: str, dsn: str, key: str, cell: Cell, seconds: float) -> Counter[str]:
    """Samples of the gateway under a load, by the function that ran, as ``name (file)``."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "samples"
        with ExitStack() as stack:
            target = Sampled(stack, simulator, dsn, key).sampled(file)
            measure(target, cell, 1)
            assert target.pid is not None
            os.kill(target.pid, signal.SIGUSR1)
            measure(target, cell, seconds)
        return Counter(json.loads(file.read_text()))


def package(function: str) -> str:
    """Whose a function is."""
    first = function.rpartition("(")[2].partition("/")[0]
    return first if first in PACKAGES else "Python's library"


def shares(own: dict[str, Counter[str]], calls: dict[str, float], rows: list[str]) -> list[list[str | float]]:
    """A row each, with its microseconds a call of each kind."""
    totals = {kind: counted.total() for kind, counted in own.items()}
    return [[row, *(counted[row] / totals[kind] * calls[kind] for kind, counted in own.items())] for row in rows]


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a third of a second, two rounds: to see that it runs")
    parser.add_argument("--seconds", type=float, help=f"of one measurement; {LONGER} times that is sampled")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--kinds", default="whole,streamed")
    parser.add_argument("--server", choices=["15", "18"], default=DEFAULT_SERVER)
    arguments = parser.parse_args()
    seconds = arguments.seconds or (0.3 if arguments.quick else 1)
    rounds = arguments.rounds or (2 if arguments.quick else 5)
    kinds, ways = arguments.kinds.split(","), [PASSED_ON, NO_BUDGETS, ENFORCED]
    used: dict[str, dict[str, list[float]]] = {kind: {way: [] for way in ways} for kind in kinds}
    own: dict[str, Counter[str]] = {}
    with ExitStack() as stack:
        made = stack.enter_context(cluster(arguments.server, SETTINGS))
        connection = stack.enter_context(psycopg.connect(made.dsn("bench"), autocommit=True))
        port = free_port()
        simulator = f"http://127.0.0.1:{port}"
        command: list[str | Path] = [BIN / "pgbudget", "simulate", "--port", str(port)]
        stack.enter_context(server(command, port, "/healthz", {"PGBUDGET_SIMULATOR_KEY": PROVIDER_KEY}))
        dsn, key = gateway_login(connection, made.dsn("bench")), make_chain(connection, "org")
        starts = Ways(stack, simulator, dsn, key)
        targets = {way: starts.start(way) for way in ways}
        for kind in kinds:
            httpx.post(f"{simulator}/simulator/defaults", json=KINDS[kind].behaviour).raise_for_status()
            cell = Cell(kind, CLIENTS_OF_CPU, 0)
            # The first round warms them.
            for round_ in range(rounds + 1):
                for way in ways:
                    sample = measure(targets[way], cell, seconds)
                    let_finish(targets[way])
                    if round_:
                        used[kind][way].append(sample["cpu_us_per_call"])
            own[kind] = sampled(simulator, dsn, key, cell, seconds * LONGER)
        assert connection.execute("select * from budget.verify()").fetchall() == []
    calls = {kind: statistics.median(used[kind][ENFORCED]) for kind in kinds}
    packages: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    for kind, counted in own.items():
        for function, count in counted.items():
            packages[kind][package(function)] += count
    most = [function for function, _ in sum(own.values(), Counter()).most_common(FUNCTIONS)]
    heads = [f"µs a call, {kind}" for kind in kinds]
    tables: dict[str, Table] = {
        "calls": {
            "columns": [f"processor of the gateway, {CLIENTS_OF_CPU} clients", *heads],
            "rows": [[way, *(str(spread(used[kind][way])) for kind in kinds)] for way in ways],
        },
        "packages": {
            "columns": [f"{ENFORCED}: whose code runs", *heads],
            "rows": shares(packages, calls, [name for name, _ in sum(packages.values(), Counter()).most_common()]),
        },
        "functions": {"columns": [f"{ENFORCED}: function, itself", *heads], "rows": shares(own, calls, most)},
    }
    save(
        "processor",
        facts={"rounds": str(rounds)},
        samples={"cpu_us_per_call": used, "own": own},
        tables=tables,
        plots={},
        keep=not arguments.quick,
    )


if __name__ == "__main__":
    main()
