"""Where the time of a pair goes inside Postgres: self time by function, of batches on one chain. Tracking slows calls a little.

``.venv/bin/python -m bench.profile [--batch 32] [--batches 200] [--server 15|18]``
"""

from __future__ import annotations

import argparse
import json
import time

import psycopg

from bench.report import save
from bench.support import DEFAULT_SERVER, database, make_chain, report, request


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--server", choices=["15", "18"], default=DEFAULT_SERVER)
    arguments = parser.parse_args()
    pairs = arguments.batch * arguments.batches
    # Commits are not flushed: this is about what the functions do.
    with (
        database(arguments.server, {"synchronous_commit": "off"}) as dsn,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        key = make_chain(connection, "o")

        def run(batches: int) -> tuple[float, float]:
            reserving = settling = 0.0
            for _ in range(batches):
                asked = json.dumps([request(key) for _ in range(arguments.batch)])
                start = time.perf_counter()
                rows = connection.execute("select reservation_id from budget.reserve_batch(%s)", (asked,)).fetchall()
                reserving += time.perf_counter() - start
                reports = json.dumps([report(reservation_id) for (reservation_id,) in rows])
                start = time.perf_counter()
                connection.execute("select * from budget.settle_batch(%s)", (reports,)).fetchall()
                settling += time.perf_counter() - start
            return reserving, settling

        run(10)
        reserving, settling = run(arguments.batches)
        connection.execute("set track_functions = 'all'")
        connection.execute("select pg_stat_reset()")
        run(arguments.batches)
        connection.execute("select pg_stat_force_next_flush()")
        rows = connection.execute(
            "select funcname, calls, total_time, self_time from pg_stat_user_functions order by self_time desc limit 25"
        ).fetchall()
        assert connection.execute("select * from budget.verify()").fetchall() == []
    save(
        "profile",
        facts={"batch": str(arguments.batch)},
        samples={"reserve": reserving / pairs, "settle": settling / pairs},
        tables={
            "total": {
                "columns": ["not tracked", "µs a call"],
                "rows": [["reserve", reserving / pairs * 1e6], ["settle", settling / pairs * 1e6]],
            },
            "functions": {
                "columns": ["function", "calls a pair", "µs a pair itself", "with what it calls"],
                "rows": [[n, calls / pairs, own * 1e3 / pairs, total * 1e3 / pairs] for n, calls, total, own in rows],
            },
        },
        plots={},
    )


if __name__ == "__main__":
    main()
