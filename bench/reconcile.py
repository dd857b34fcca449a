"""What live calls notice of the reconciler: ``reserve`` while stale reservations are worked off, and without, in one run.

Half of the stale ones are on the budget of the live calls, half on others. Windows alternate until all are charged, the quiet
ones as long as the others.

``.venv/bin/python bench/reconcile.py [--server 15|18] [--stale 100000] [--clients 4] [--batch 500] [--window 5] [--json FILE]``
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.support import database, machine

OTHERS = 50
HUGE = 1_000_000
Connection = psycopg.Connection[Any]


def make_key(connection: Connection, org: str, name: str) -> str:
    """A key with a daily budget that everything fits into."""
    row = connection.execute("select secret from budget.create_key(%s, 'p', %s)", (org, name)).fetchone()
    assert row is not None
    connection.execute("select budget.set_budget(%s, 'key', %s, %s, 'day')", (org, name, HUGE))
    return str(row[0])


def make_stale(connection: Connection, live: str, others: list[str], count: int) -> None:
    """So many reservations that nobody keeps alive any more."""
    call = {"model": "t-mini", "input_tokens": 100, "max_output_tokens": 200}
    for start in range(0, count, 500):
        batch = [
            {**call, "key": live if number % 2 else others[number // 2 % len(others)]}
            for number in range(start, min(start + 500, count))
        ]
        row = connection.execute(
            "select count(*) filter (where status = 'granted') from budget.reserve_batch(%s)", (json.dumps(batch),)
        ).fetchone()
        assert row == (len(batch),)
    connection.execute("update budget_internal.reservations set stale_at = now() - interval '1 minute'")
    connection.execute("vacuum analyze budget_internal.reservations")


class Clients:
    """Calls that reserve and release one after the other, each on a connection of its own."""

    def __init__(self, dsn: str, key: str, count: int) -> None:
        self.samples: list[float] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(dsn, key)) for _ in range(count)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def take(self) -> list[float]:
        """The seconds of each reserve since the last time."""
        taken, self.samples = self.samples, []
        return taken

    def _run(self, dsn: str, key: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not self._stop.is_set():
                start = time.perf_counter()
                row = connection.execute(
                    "select status, reservation_id from budget.reserve(%s, 't-mini', 100, 200)", (key,)
                ).fetchone()
                self.samples.append(time.perf_counter() - start)
                assert row is not None
                assert row[0] == "granted"
                connection.execute("select budget.release(%s)", (row[1],))


def percentile(samples: list[float], share: float) -> float:
    """In milliseconds."""
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * share))] * 1000


def measure(dsn: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of reserve with and without a reconciler beside it."""
    quiet: list[float] = []
    busy: list[float] = []
    spent = 0.0
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select budget.create_scope(null, 'org', 'o'), budget.create_scope('o', 'project', 'p')")
        live = make_key(connection, "o", "live")
        others = [make_key(connection, "o", f"other{number}") for number in range(OTHERS)]
        make_stale(connection, live, others, arguments.stale)
        with Clients(dsn, live, arguments.clients) as clients:
            time.sleep(1)
            left = arguments.stale
            while left:
                clients.take()
                start = time.perf_counter()
                connection.execute("call budget.run_reconciler(%s, %s)", (arguments.batch, arguments.window))
                took = time.perf_counter() - start
                busy += clients.take()
                spent += took
                time.sleep(took)
                quiet += clients.take()
                row = connection.execute("select count(*) from budget_internal.reservations where stale_at < now()").fetchone()
                assert row is not None
                print(f"  {row[0]} left", file=sys.stderr)
                left = row[0]
        differences = connection.execute("select * from budget.verify()").fetchall()
    assert differences == [], differences
    return {
        "stale": arguments.stale,
        "clients": arguments.clients,
        "batch": arguments.batch,
        "reconciled_per_second": round(arguments.stale / spent),
        **{
            name: {
                "reserves": len(samples),
                "median_ms": round(statistics.median(samples) * 1000, 2),
                "p99_ms": round(percentile(samples, 0.99), 2),
                "max_ms": round(max(samples) * 1000, 2),
            }
            for name, samples in (("without", quiet), ("with", busy))
        },
        "p99_ratio": round(percentile(busy, 0.99) / percentile(quiet, 0.99), 2),
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", choices=("15", "18"), default="15" if Path("/usr/lib/postgresql/15").exists() else "18")
    parser.add_argument("--stale", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--window", type=int, default=5, help="seconds")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with database(arguments.server) as dsn:
        result = {"machine": machine(), "server": arguments.server, **measure(dsn, arguments)}
    print(f"{result['machine']}, Postgres {result['server']}: {result['stale']} stale, {result['clients']} clients")
    for name in ("without", "with"):
        row = result[name]
        print(f"{name:8} p99 {row['p99_ms']} ms, median {row['median_ms']} ms, max {row['max_ms']} ms of {row['reserves']}")
    print(f"p99 with / without: {result['p99_ratio']}; {result['reconciled_per_second']} reconciled a second")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
