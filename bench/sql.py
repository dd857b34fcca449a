"""Pairs of reserve and settle, pgbudget's and its peers', side by side in one run.

All callers on one chain of three budgets, and each on a chain of its own; through the gateway's coalescer and one by one. Every
way checks its own counters, and ``verify()`` ours.

``.venv/bin/python -m bench.sql [--quick] [--seconds 3] [--rounds 5] [--callers 1,8,32,64] [--ways floor,...] [--server 15|18]``
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from pathlib import Path

import psycopg
import uvloop

from bench import ways
from bench.report import Table, flush_seconds, percentile, save, spread
from bench.support import DEFAULT_SERVER, LEVELS, cluster, gateway_login, make_chain, request

WAYS: dict[str, Callable[[ways.Place], AbstractAsyncContextManager[ways.Pair]]] = {
    "coalesced": ways.coalesced,
    "one by one": ways.one_by_one,
    "update returning": ways.update_returning,
    "insert then sum": ways.insert_then_sum,
    "floor": ways.floor,
    "redis, fsync always": ways.redis_durable,
    "redis, not kept": ways.redis_volatile,
}
#: What README says of "coalesced", on the shared chain with this many callers: at least so many times the other's.
CALLERS_OF_RATIOS = 32
#: Statements in a row of the comparison of refusals.
CALLS = 50
#: No checkpoint while something is measured, and so no full page image in the write-ahead log.
SETTINGS = {"max_wal_size": "16GB", "checkpoint_timeout": "1h", "shared_buffers": "512MB"}

Samples = dict[str, dict[str, dict[int, list[dict[str, float]]]]]


async def measure(way: str, place: ways.Place, seconds: float) -> dict[str, float]:
    """One round of one way."""
    place.batches.clear()
    async with WAYS[way](place) as pair:
        rate, took = await ways.drive(pair, len(place.chains), seconds, warm=min(0.5, seconds / 4))
    return {
        "pairs_per_second": rate,
        "p50_ms": percentile(took, 0.5) * 1e3 if took else float("nan"),
        "p99_ms": percentile(took, 0.99) * 1e3 if took else float("nan"),
        "mean_batch": statistics.mean(place.batches) if place.batches else 1,
    }


def refusals(dsn: str, keys: dict[str, str], rounds: int) -> dict[str, list[dict[str, float]]]:
    """Milliseconds and bytes of write-ahead log of a reserve, by what becomes of it, one by one and in batches."""
    samples: dict[str, list[dict[str, float]]] = {}
    with psycopg.connect(dsn, autocommit=True) as connection:
        for number in range(rounds + 1):
            for size in (1, 50):
                for outcome, key in keys.items():
                    took, ids = [], []
                    before = connection.execute("select pg_current_wal_insert_lsn()").fetchone()
                    for _ in range(CALLS):
                        asked = json.dumps([request(key) for _ in range(size)])
                        start = time.perf_counter()
                        rows = connection.execute(
                            "select status, reservation_id from budget.reserve_batch(%s)", (asked,)
                        ).fetchall()
                        took.append((time.perf_counter() - start) / size * 1e3)
                        assert {status for status, _ in rows} == {outcome}, rows
                        ids += [row[1] for row in rows if row[1]]
                    row = connection.execute(
                        "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)::float8", before
                    ).fetchone()
                    assert row is not None
                    connection.execute("select budget.release(id) from unnest(%s::uuid[]) id", (ids,))
                    # The first round warms plans and caches.
                    if number:
                        samples.setdefault(f"{outcome}, batches of {size}", []).append(
                            {"p50_ms": percentile(took, 0.5), "wal_bytes": row[0] / CALLS / size}
                        )
    return samples


def shown(samples: Samples, refused: dict[str, list[dict[str, float]]], callers: list[int]) -> dict[str, Table]:
    """The tables of the report."""
    tables: dict[str, Table] = {}
    for chains, by_way in samples.items():
        tables[chains] = {
            "columns": [f"pairs a second, {chains} chain", *(f"{count} callers" for count in callers)],
            "rows": [
                [way, *(str(spread([s["pairs_per_second"] for s in by_callers[count]])) for count in callers)]
                for way, by_callers in by_way.items()
            ],
        }
        tables[f"{chains} latency"] = {
            "columns": [f"ms a pair, p50 / p99, {chains} chain", *(f"{count} callers" for count in callers)],
            "rows": [
                [way, *(" / ".join(f"{statistics.median(s[p] for s in by_callers[count]):.2f}" for p in ("p50_ms", "p99_ms"))
                        for count in callers)]
                for way, by_callers in by_way.items()
            ],
        }  # fmt: skip
    # Ratios of the same round: what else the machine does then slows both.
    ours = samples.get("shared", {}).get("coalesced", {}).get(CALLERS_OF_RATIOS)
    if ours:
        tables["ratios"] = {
            "columns": [f"coalesced over ..., shared chain, {CALLERS_OF_RATIOS} callers", "ratio"],
            "rows": [
                [way, str(spread([a["pairs_per_second"] / b["pairs_per_second"] for a, b in zip(ours, theirs, strict=True)]))]
                for way, by_callers in samples["shared"].items() if way != "coalesced"
                for theirs in [by_callers[CALLERS_OF_RATIOS]]
            ],
        }  # fmt: skip
    tables["refusals"] = {
        "columns": ["one reserve", "ms", "bytes of write-ahead log"],
        "rows": [
            [name, *(str(spread([r[what] for r in rows])) for what in ("p50_ms", "wal_bytes"))]
            for name, rows in refused.items()
        ],
    }
    return tables


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="half a second, three rounds: to see that it runs")
    parser.add_argument("--seconds", type=float, help="of one measurement")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--callers", default="1,8,32,64")
    parser.add_argument("--ways", default=",".join(name.replace(",", "") for name in WAYS), help="the first of names is enough")
    parser.add_argument("--chains", default="shared,own")
    parser.add_argument("--server", choices=["15", "18"], default=DEFAULT_SERVER)
    arguments = parser.parse_args()
    seconds = arguments.seconds or (0.5 if arguments.quick else 3)
    rounds = arguments.rounds or (3 if arguments.quick else 5)
    callers = [int(count) for count in arguments.callers.split(",")]
    chosen = [name for name in WAYS if any(name.replace(",", "").startswith(w.strip()) for w in arguments.ways.split(","))]

    samples: Samples = {
        chains: {way: {count: [] for count in callers} for way in chosen} for chains in arguments.chains.split(",")
    }
    with cluster(arguments.server, SETTINGS) as made, psycopg.connect(made.dsn("bench"), autocommit=True) as connection:
        dsn = made.dsn("bench")
        gateway_dsn = gateway_login(connection, dsn)
        keys = [make_chain(connection, f"org{number}") for number in range(max(callers))]
        flush = flush_seconds(Path(made.data).parent)
        for number in range(rounds):
            for chains, by_way in samples.items():
                for count in callers:
                    for way in chosen:
                        place = ways.Place(
                            gateway_dsn, dsn, keys, [0] * count if chains == "shared" else list(range(count)), []
                        )
                        sample = uvloop.run(measure(way, place, seconds))
                        by_way[way][count].append(sample)
                        print(
                            f"round {number + 1}: {chains} chain, {count} callers, {way}:"
                            f" {sample['pairs_per_second']:.0f} pairs/s, batches of {sample['mean_batch']:.1f}",
                            file=sys.stderr,
                        )
        refused = refusals(
            gateway_dsn,
            {"granted": make_chain(connection, "granted"), "denied": make_chain(connection, "denied", Decimal("0.0001"))},
            rounds,
        )
        differences = connection.execute("select * from budget.verify()").fetchall()
        assert differences == [], differences
        version = connection.execute("show server_version").fetchone() or ("",)

    save(
        "sql",
        facts={"Postgres": version[0], "flush of a page": f"{flush * 1e3:.2f} ms", "settings": str(SETTINGS),
               "rounds": str(rounds)},
        samples={"pairs": samples, "refusals": refused},
        tables=shown(samples, refused, callers),
        keep=not arguments.quick,
        plots={
            chains: {
                "title": f"reserve + settle, {chains} chain of {LEVELS} budgets" if chains == "own" else
                f"reserve + settle, all callers on one chain of {LEVELS} budgets",
                "x": "callers",
                "y": "pairs a second",
                "log": True,
                "lines": {
                    way: [(count, *spread([s["pairs_per_second"] for s in by_callers[count]])) for count in callers]
                    for way, by_callers in by_way.items()
                },
            }
            for chains, by_way in samples.items()
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
