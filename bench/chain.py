"""What a longer chain costs: ``reserve`` on one budget and on ten, one by one and in batches, side by side in one run.

``.venv/bin/python bench/chain.py [--server 15|18] [--rounds 7] [--json FILE]``
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.support import database, machine

CHAINS = (1, 10)
CALLS = 200
BATCH = 50
HUGE = 1_000_000


def make_key(connection: psycopg.Connection[Any], budgets: int) -> str:
    """A key with so many strict budgets on its chain: on itself, its project and its org in turn."""
    org = f"org{budgets}"
    connection.execute("select budget.create_scope(null, 'org', %s)", (org,))
    connection.execute("select budget.create_scope(%s, 'project', 'p')", (org,))
    row = connection.execute("select secret from budget.create_key(%s, 'p', 'k')", (org,)).fetchone()
    assert row is not None
    for number in range(budgets):
        kind, name = (("key", "k"), ("project", "p"), ("org", org))[number % 3]
        connection.execute(
            "select budget.set_budget(%s, %s, %s, %s, 'day', %s)", (org, kind, name, HUGE, json.dumps({"name": f"b{number}"}))
        )
    return str(row[0])


def one_by_one(connection: psycopg.Connection[Any], key: str) -> tuple[float, list[str]]:
    """Seconds a reserve, each in a transaction of its own."""
    held = []
    start = time.perf_counter()
    for _ in range(CALLS):
        row = connection.execute("select status, reservation_id from budget.reserve(%s, 't-mini', 100, 200)", (key,)).fetchone()
        assert row is not None
        assert row[0] == "granted"
        held.append(str(row[1]))
    return (time.perf_counter() - start) / CALLS, held


def in_batches(connection: psycopg.Connection[Any], key: str) -> tuple[float, list[str]]:
    """Seconds a reserve, in batches of fifty."""
    batch = json.dumps([{"key": key, "model": "t-mini", "input_tokens": 100, "max_output_tokens": 200}] * BATCH)
    held = []
    start = time.perf_counter()
    for _ in range(CALLS // BATCH):
        rows = connection.execute("select status, reservation_id from budget.reserve_batch(%s)", (batch,)).fetchall()
        assert all(status == "granted" for status, _ in rows)
        held += [str(reservation) for _, reservation in rows]
    return (time.perf_counter() - start) / CALLS, held


def settle(connection: psycopg.Connection[Any], held: list[str]) -> float:
    """Seconds a settlement, in batches of fifty."""
    start = time.perf_counter()
    for first in range(0, len(held), BATCH):
        reports = [
            {"reservation_id": reservation, "outcome": "finished", "usage": {"input": 90, "output": 100}}
            for reservation in held[first : first + BATCH]
        ]
        connection.execute("select count(*) from budget.settle_batch(%s)", (json.dumps(reports),)).fetchone()
    return (time.perf_counter() - start) / len(held)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", choices=["15", "18"], default="18")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    ways: dict[str, Callable[[psycopg.Connection[Any], str], tuple[float, list[str]]]] = {
        "one by one": one_by_one,
        "batches of 50": in_batches,
    }
    times: dict[str, list[float]] = {}
    with database(arguments.server) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        keys = {budgets: make_key(connection, budgets) for budgets in CHAINS}
        for turn in range(arguments.rounds + 1):
            for name, way in ways.items():
                for budgets, key in keys.items():
                    seconds, held = way(connection, key)
                    settled = settle(connection, held)
                    # The first round warms plans and caches.
                    if turn:
                        times.setdefault(f"reserve, {name}, chain of {budgets}", []).append(seconds)
                        times.setdefault(f"settle, batches of 50, chain of {budgets}", []).append(settled)
        differences = connection.execute("select * from budget.verify()").fetchall()
        assert differences == [], differences

    medians = {name: statistics.median(values) for name, values in times.items()}
    print(machine())
    for name, values in times.items():
        print(f"{name:40} {medians[name] * 1e3:7.3f} ms  ({min(values) * 1e3:.3f} to {max(values) * 1e3:.3f})")
    ratios = {name: medians[f"reserve, {name}, chain of 10"] / medians[f"reserve, {name}, chain of 1"] for name in ways}
    for name, ratio in ratios.items():
        print(f"chain of ten over chain of one, {name}: {ratio:.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "seconds": times, "ratios": ratios}, indent=1) + "\n")


if __name__ == "__main__":
    main()
