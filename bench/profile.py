"""Where the time of a call goes inside Postgres: processor time of a reserve and a settle by batch size, and of each function.

On one chain of three strict budgets, one session, so nothing waits. ``.venv/bin/python -m bench.profile [--server 15|18]``
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import psycopg

from bench.report import Table, save
from bench.support import DEFAULT_SERVER, database, make_chain, report, request

SIZES = (1, 8, 32, 64)
CALLS = 1920
#: Of the table of functions.
BATCH = 32

Session = psycopg.Connection[tuple[Any, ...]]


def processor(session: Session) -> float:
    """Seconds of processor that the server's process of a session has had."""
    return int(Path(f"/proc/{session.info.backend_pid}/schedstat").read_text().split()[0]) / 1e9


def run(session: Session, key: str, size: int) -> tuple[float, float]:
    """Seconds of processor a reserve and a settle, in batches of this size."""
    batches = max(CALLS // size // (4 if size == 1 else 1), 1)
    asked = [json.dumps([request(key) for _ in range(size)]) for _ in range(batches)]
    start = processor(session)
    granted = [session.execute("select reservation_id from budget.reserve_batch(%s)", (batch,)).fetchall() for batch in asked]
    between = processor(session)
    reports = [json.dumps([report(reservation_id) for (reservation_id,) in batch]) for batch in granted]
    for batch in reports:
        session.execute("select * from budget.settle_batch(%s)", (batch,)).fetchall()
    return (between - start) / size / batches, (processor(session) - between) / size / batches


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", choices=["15", "18"], default=DEFAULT_SERVER)
    arguments = parser.parse_args()
    samples: dict[str, list[tuple[float, float]]] = {}
    with database(arguments.server) as dsn, psycopg.connect(dsn, autocommit=True) as session:
        key = make_chain(session, "o")
        run(session, key, BATCH)
        for commit in ("flushed", "not flushed"):
            session.execute("select set_config('synchronous_commit', %s, false)", ("on" if commit == "flushed" else "off",))
            samples[commit] = [run(session, key, size) for size in SIZES]
        session.execute("set track_functions = 'all'")
        session.execute("select pg_stat_reset()")
        run(session, key, BATCH)
        session.execute("select pg_stat_force_next_flush()")
        rows = session.execute(
            "select funcname, calls, total_time, self_time from pg_stat_user_functions order by self_time desc limit 25"
        ).fetchall()
        assert session.execute("select * from budget.verify()").fetchall() == []
    total: Table = {
        "columns": ["processor of Postgres, µs a call", *(f"batches of {size}" for size in SIZES)],
        "rows": [
            [f"{what}, commits {commit}", *(f"{measured[place] * 1e6:,.0f}" for measured in by_size)]
            for commit, by_size in samples.items()
            for place, what in enumerate(("reserve", "settle"))
        ],
    }
    functions: Table = {
        "columns": [f"function, batches of {BATCH}", "times a pair", "µs a pair itself", "with what it calls"],
        "rows": [
            [name, f"{times / CALLS:.2f}", f"{own * 1e3 / CALLS:.1f}", f"{whole * 1e3 / CALLS:.1f}"]
            for name, times, whole, own in rows
        ],
    }
    save("profile", facts={}, samples=samples, tables={"total": total, "functions": functions}, plots={})


if __name__ == "__main__":
    main()
