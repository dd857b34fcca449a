"""What size and churn do to a reserve: the same calls on databases of several sizes, and on one after an hour's worth of calls.

All databases are in one server and are measured in turn. Fails when a sequential scan of a table that grows is on the hot path,
or ``verify()`` finds something.

``.venv/bin/python -m bench.growth [--quick] [--rounds 7] [--churn 360000] [--server 15|18]``
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from tests.support.world import with_database

from bench.report import Table, percentile, save, spread
from bench.support import COST, DEFAULT_SERVER, HOLD, LIMIT_USD, LOGIN, PASSWORD, cluster, gateway_login, report, request

#: Calls of a round, one by one, on so many keys in turn.
CALLS = 200
KEYS = 50
BATCH = 50
#: Tables that have a row a key, call or period: what reads one of them from end to end gets slower as it grows.
GROWING = (
    "scopes", "keys", "key_secrets", "key_tags", "budgets", "periods", "reservations", "ledger_entries%", "runs", "crossings",
    "rate_windows", "unit_months", "audit_entries",
)  # fmt: skip
#: A checkpoint between the rounds, none in them.
SETTINGS = {"max_wal_size": "4GB", "checkpoint_timeout": "1h", "shared_buffers": "1GB"}

Connection = psycopg.Connection[Any]


@dataclass(frozen=True)
class Size:
    """Rows of a database before it is measured; ``churn``: pairs of reserve and settle made on one key."""

    entries: int = 0
    keys: int = 1_000
    open: int = 0
    churn: int = 0


def sizes(quick: bool, churn: int) -> dict[str, Size]:
    """One thing at a time, then all of them."""
    part = 100 if quick else 1
    million, most, held = 1_000_000 // part, 100_000 // part, 50_000 // part
    smallest = Size(keys=1_000 // (10 if quick else 1))
    return {
        "smallest": smallest,
        "1 million entries": replace(smallest, entries=million),
        "5 million entries": replace(smallest, entries=5 * million),
        "100,000 keys": replace(smallest, keys=most),
        "50,000 open": replace(smallest, open=held),
        "largest": Size(5 * million, most, held),
        "after churn": replace(smallest, churn=churn),
    }


def secret(number: int) -> str:
    """Of a key that :func:`grow` makes."""
    return f"grown-{number}"


def grow(connection: Connection, size: Size, analyze: bool = True) -> None:
    """Rows as calls would have left them, each made in one statement; a chain of three budgets a key, of this month."""
    connection.execute("select budget.create_scope(null, 'org', 'grown'), budget.create_scope('grown', 'project', 'p')")
    for kind, name in (("project", "p"), ("org", "grown")):
        connection.execute("select budget.set_budget('grown', %s, %s, %s, 'month')", (kind, name, LIMIT_USD))
    with connection.transaction():
        # Without triggers: no audit of what nobody did, no foreign key looked up row by row.
        connection.execute("set local session_replication_role = replica")
        for statement in _GROWN:
            connection.execute(
                statement.encode(),
                {
                    "keys": size.keys,
                    "entries": size.entries,
                    "open": size.open,
                    "limit": LIMIT_USD * 10**9,
                    "hold": HOLD,
                    "cost": COST,
                },
            )
    if analyze:
        connection.execute("vacuum analyze")
    # What is counted from here on was done by calls.
    connection.execute("select pg_stat_force_next_flush()")
    connection.execute("select pg_stat_reset()")


_GROWN = (
    """
    create temporary table place on commit drop as
    select o.scope_id as org_id, p.scope_id as project_id
    from budget_internal.scopes o join budget_internal.scopes p on p.parent_id = o.scope_id and p.kind = 'project'
    where o.kind = 'org' and o.name = 'grown'
    """,
    """
    insert into budget_internal.scopes (org_id, kind, name, parent_id)
    select p.org_id, 'key', 'grown-' || n, p.project_id from place p cross join generate_series(0, %(keys)s - 1) n order by n
    """,
    """
    insert into budget_internal.keys (org_id, key_id, project_id, chain)
    select p.org_id, s.scope_id, p.project_id, array[s.scope_id, p.project_id, p.org_id]
    from place p join budget_internal.scopes s on s.org_id = p.org_id and s.kind = 'key'
    """,
    """
    insert into budget_internal.key_secrets (org_id, key_id, secret_hash, last_four)
    select p.org_id, s.scope_id, sha256(convert_to(s.name, 'UTF8')), right(s.name, 4)
    from place p join budget_internal.scopes s on s.org_id = p.org_id and s.kind = 'key'
    """,
    """
    insert into budget_internal.budgets (org_id, scope_id, name, limit_nano_usd, period, anchor_at, time_zone)
    select p.org_id, s.scope_id, 'default', %(limit)s, 'month', now(), 'UTC'
    from place p join budget_internal.scopes s on s.org_id = p.org_id and s.kind = 'key'
    """,
    """
    insert into budget_internal.periods (org_id, budget_id, starts_at, ends_at, lock_key)
    select b.org_id, b.budget_id, t.starts_at, t.ends_at, budget_internal.period_lock_key(b.budget_id, t.starts_at)
    from place p
    join budget_internal.budgets b on b.org_id = p.org_id
    cross join lateral budget_internal.period_bounds(b.period, b.anchor_at, b.time_zone, b.fiscal_month, b.fiscal_day, now()) t
    """,
    """
    create temporary table chain on commit drop as
    select
      k.org_id, k.key_id, k.chain, row_number() over (order by k.key_id) - 1 as n,
      array(
        select i.period_id
        from unnest(k.chain) with ordinality c (scope_id, place)
        join budget_internal.budgets b on b.scope_id = c.scope_id and b.deleted_at is null
        join budget_internal.periods i on i.budget_id = b.budget_id
        order by c.place
      ) as period_ids,
      (select r.route_id from budget_internal.routes r where r.org_id = 0 and r.model = 't-mini') as route_id,
      (select r.price_id from budget_internal.prices r where r.provider = 'simulator' and r.model = 't-mini') as price_id
    from place p join budget_internal.keys k on k.org_id = p.org_id
    """,
    "create unique index on chain (n)",
    "analyze chain",
    """
    insert into budget_internal.ledger_entries (
      org_id, booked_at, kind, reservation_id, key_id, scope_ids, period_ids, amount_nano_usd, reserved_nano_usd, source,
      outcome, usage, overrun, flags, model, route_id, price_id, variant, request_id, body_hash, reserved_at
    )
    select
      c.org_id, m.at, 'settled',
      -- As a UUIDv7 of that moment.
      (
        lpad(to_hex((extract(epoch from m.at) * 1000)::int8), 12, '0') || '7' || lpad(to_hex(e & 4095), 3, '0')
        || '8' || lpad(to_hex(e), 15, '0')
      )::uuid,
      c.key_id, c.chain, c.period_ids, %(cost)s, %(hold)s, 'usage', 'finished', '{"input": 90, "output": 100}', false, '{}',
      't-mini', c.route_id, c.price_id, 'standard',
      -- As the gateway makes them.
      'gw-' || lpad(to_hex((extract(epoch from m.at) * 1000)::int8), 12, '0') || left(md5(e::text), 20),
      md5(e::text) || md5(e::text), m.at
    from generate_series(1, %(entries)s) e
    cross join lateral (
      select date_trunc('month', now(), 'UTC') + (now() - date_trunc('month', now(), 'UTC')) * (e::float8 / %(entries)s) as at
    ) m
    -- Not in the order of the keys: calls of one key lie far apart.
    join chain c on c.n = (e * 7919::int8) %% %(keys)s
    """,
    """
    insert into budget_internal.reservations (
      org_id, reservation_id, key_id, scope_ids, held_period_ids, reserved_nano_usd, model, route_ids, price_ids, input_tokens,
      output_tokens, choices, request_id, body_hash, holder, reserved_at, stale_seconds, stale_at
    )
    select
      c.org_id, gen_random_uuid(), c.key_id, c.chain, c.period_ids, %(hold)s, 't-mini', array[c.route_id], array[c.price_id],
      100, 200, 1, 'gw-open-' || o, md5(o::text) || md5(o::text), md5(o::text), now(), 86400, now() + interval '1 day'
    from generate_series(1, %(open)s) o
    join chain c on c.n = (o * 7919::int8) %% %(keys)s
    """,
    """
    update budget_internal.periods p
    set spent_nano_usd = s.spent, grants = s.calls
    from (
      select i.period_id, sum(l.amount_nano_usd)::int8 as spent, count(*) as calls
      from budget_internal.ledger_entries l cross join unnest(l.period_ids) i (period_id)
      group by i.period_id
    ) s
    where p.period_id = s.period_id
    """,
    """
    update budget_internal.periods p
    set held_nano_usd = h.held, open_holds = h.holds, open_since_ms = h.since_ms, grants = p.grants + h.holds
    from (
      select
        i.period_id, sum(r.reserved_nano_usd)::int8 as held, count(*) as holds,
        sum((extract(epoch from r.reserved_at) * 1000)::int8)::int8 as since_ms
      from budget_internal.reservations r cross join unnest(r.held_period_ids) i (period_id)
      group by i.period_id
    ) h
    where p.period_id = h.period_id
    """,
)


def hold(connection: Connection, keys: list[str]) -> list[str]:
    """Reserve once for each of these, in one batch; the ids."""
    rows = connection.execute(
        "select status, reservation_id from budget.reserve_batch(%s)", (json.dumps([request(key) for key in keys]),)
    ).fetchall()
    assert all(status == "granted" for status, _ in rows), rows
    return [str(reservation_id) for _, reservation_id in rows]


def settle(connection: Connection, ids: list[str]) -> None:
    """Settle them in one batch."""
    row = connection.execute(
        "select count(*) from budget.settle_batch(%s) where status = 'settled'", (json.dumps([report(i) for i in ids]),)
    ).fetchone()
    assert row == (len(ids),)


def churn(connection: Connection, pairs: int) -> None:
    """So many pairs on one key."""
    for _ in range(0, pairs, BATCH):
        settle(connection, hold(connection, [secret(0)] * BATCH))


def flushed_to(watcher: Connection) -> Any:
    """The end of the write-ahead log."""
    return (watcher.execute("select pg_current_wal_flush_lsn()").fetchone() or (None,))[0]


def written(watcher: Connection, begin: Any) -> tuple[float, float]:
    """Bytes of the write-ahead log since: of records, and of the whole pages in them, as there are after a checkpoint."""
    row = watcher.execute(
        "select sum(record_size)::float8, sum(fpi_size)::float8 from pg_get_wal_stats(%s, %s)", (begin, flushed_to(watcher))
    ).fetchone()
    assert row is not None
    records, pages = row
    return records, pages


def measure(connection: Connection, watcher: Connection, size: Size) -> dict[str, float]:
    """One round on one database: milliseconds at the median and bytes of write-ahead log a call."""
    keys = [secret(number * size.keys // KEYS) for number in range(KEYS)]
    result: dict[str, float] = {}
    for flushed in ("on", "off"):
        connection.execute(f"set synchronous_commit = {flushed}")
        took, ids = [], []
        begin = flushed_to(watcher)
        for number in range(CALLS):
            asked = json.dumps([request(keys[number % KEYS])])
            start = time.perf_counter()
            row = connection.execute("select status, reservation_id from budget.reserve_batch(%s)", (asked,)).fetchone()
            took.append(time.perf_counter() - start)
            assert row is not None
            assert row[0] == "granted", row
            ids.append(str(row[1]))
        settles = []
        for first in range(0, CALLS, BATCH):
            start = time.perf_counter()
            settle(connection, ids[first : first + BATCH])
            settles.append((time.perf_counter() - start) / BATCH)
        suffix = "" if flushed == "on" else ", commit not flushed"
        result |= {
            f"reserve{suffix}": percentile(took, 0.5) * 1e3,
            f"settle in a batch{suffix}": percentile(settles, 0.5) * 1e3,
        }
        if flushed == "on":
            records, pages = written(watcher, begin)
            result |= {"wal records": records / CALLS, "wal pages": pages / CALLS}
    return result


def sequential_scans(connection: Connection) -> dict[str, int]:
    """So far, by growing table."""
    rows = connection.execute(
        "select relname, seq_scan from pg_stat_user_tables where schemaname = 'budget_internal' and relname like any (%s)",
        (list(GROWING),),
    ).fetchall()
    return {name: int(scans) for name, scans in rows}


def facts(connection: Connection) -> dict[str, Any]:
    """Sizes in MiB, and how many updates of periods stayed on their page."""
    row = connection.execute(
        """
        select
          pg_total_relation_size('budget_internal.periods') / 2.0^20,
          pg_total_relation_size('budget_internal.reservations') / 2.0^20,
          sum(pg_table_size(i.relid)) / 2.0^20, sum(pg_indexes_size(i.relid)) / 2.0^20,
          (select n_tup_upd from pg_stat_user_tables where relid = 'budget_internal.periods'::regclass),
          (select n_tup_hot_upd from pg_stat_user_tables where relid = 'budget_internal.periods'::regclass)
        from pg_partition_tree('budget_internal.ledger_entries') i
        where i.isleaf
        """
    ).fetchone()
    assert row is not None
    names = ("periods", "reservations", "ledger", "ledger indexes", "updates", "hot updates")
    return dict(zip(names, map(float, row), strict=True))


def shown(
    wanted: dict[str, Size], samples: dict[str, dict[str, list[float]]], found: dict[str, dict[str, Any]]
) -> dict[str, Table]:
    """The tables of the report; ratios are of the same round."""
    smallest = samples["smallest"]

    def ratio(name: str, what: str) -> str:
        return str(spread([a / b for a, b in zip(samples[name][what], smallest[what], strict=True)]))

    return {
        "time": {
            "columns": ["p50, ms", "entries", "keys", "open", "reserve", "over the smallest", "reserve, not flushed",
                        "over the smallest", "settle in a batch of 50"],
            "rows": [
                [
                    name, f"{size.entries + size.churn:,}", f"{size.keys:,}", f"{size.open:,}",
                    str(spread(samples[name]["reserve"])), ratio(name, "reserve"),
                    str(spread(samples[name]["reserve, commit not flushed"])), ratio(name, "reserve, commit not flushed"),
                    str(spread(samples[name]["settle in a batch"])),
                ]
                for name, size in wanted.items()
            ],
        },
        "size": {
            "columns": ["MiB", "periods", "reservations", "ledger", "its indexes", "WAL bytes a pair", "and of whole pages",
                        "periods updated HOT", "sequential scans"],
            "rows": [
                [
                    name, *(f"{found[name][table]:.1f}" for table in ("periods", "reservations", "ledger", "ledger indexes")),
                    str(spread(samples[name]["wal records"])), str(spread(samples[name]["wal pages"])),
                    f"{found[name]['hot updates'] / found[name]['updates']:.1%}",
                    ", ".join(found[name]["sequential scans"]) or "none",
                ]
                for name in wanted
            ],
        },
    }  # fmt: skip


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows, three rounds: to see that it runs")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--churn", type=int, help="pairs on one key; 360000: an hour at 100 a second")
    parser.add_argument("--server", choices=["15", "18"], default=DEFAULT_SERVER)
    arguments = parser.parse_args()
    rounds = arguments.rounds or (3 if arguments.quick else 7)
    wanted = sizes(arguments.quick, arguments.churn or (10_000 if arguments.quick else 360_000))

    samples: dict[str, dict[str, list[float]]] = {name: {} for name in wanted}
    found: dict[str, dict[str, Any]] = {}
    with cluster(arguments.server, SETTINGS) as made, psycopg.connect(made.dsn(), autocommit=True) as admin:
        gateway_login(admin, made.dsn())
        with psycopg.connect(made.dsn("bench"), autocommit=True) as connection:
            connection.execute("create extension pg_walinspect")
        dsns = {
            name: (made.dsn(f"size{n}"), with_database(made.dsn(), f"size{n}", LOGIN, PASSWORD))
            for n, name in enumerate(wanted)
        }
        for number, (name, size) in enumerate(wanted.items()):
            start = time.monotonic()
            admin.execute(f"create database size{number} template bench".encode())
            with psycopg.connect(dsns[name][0], autocommit=True) as connection:
                grow(connection, size)
                churn(connection, size.churn)
            print(f"{name}: made in {time.monotonic() - start:.0f} s", file=sys.stderr)
        version = (admin.execute("show server_version").fetchone() or ("",))[0]

        # The first round warms caches, and writes the pages that a checkpoint makes whole in the log.
        for number in range(rounds + 1):
            for name, size in wanted.items():
                dsn, gateway_dsn = dsns[name]
                with psycopg.connect(dsn, autocommit=True) as watcher:
                    before = sequential_scans(watcher)
                    with psycopg.connect(gateway_dsn, autocommit=True) as connection:
                        # Plans are made, and charged to nobody.
                        settle(connection, hold(connection, [secret(0)]))
                        sample = measure(connection, watcher, size)
                        connection.execute("select pg_stat_force_next_flush()")
                    found[name] = facts(watcher) | {
                        "sequential scans": {
                            t: n - before.get(t, 0) for t, n in sequential_scans(watcher).items() if n > before.get(t, 0)
                        }
                    }
                if number:
                    for what, value in sample.items():
                        samples[name].setdefault(what, []).append(value)
                print(f"round {number}: {name}: reserve {sample['reserve']:.2f} ms", file=sys.stderr)
        for name, (dsn, _) in dsns.items():
            with psycopg.connect(dsn, autocommit=True) as connection:
                differences = connection.execute("select * from budget.verify()").fetchall()
                assert differences == [], (name, differences)
                # Of tables with a page or two the planner reads all.
                assert wanted[name].keys < 1000 or not found[name]["sequential scans"], (name, found[name])

    save("growth", facts={"Postgres": version, "settings": str(SETTINGS), "rounds": str(rounds)},
         samples=samples | {"sizes": found}, keep=not arguments.quick,
         tables=shown(wanted, samples, found),
         plots={"entries": {
             "title": "p50 of reserve against ledger rows", "x": "million ledger entries", "y": "ms",
             "lines": {
                 what: [
                     (wanted[name].entries / 1e6, *spread(samples[name][what]))
                     for name in ("smallest", "1 million entries", "5 million entries")
                 ]
                 for what in ("reserve", "reserve, commit not flushed")
             },
         }})  # fmt: skip


if __name__ == "__main__":
    main()
