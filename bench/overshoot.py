"""How far budgets are passed, and how much of them can be used: many streams for each tenant, on several gateways, to the end.

Every stream of a tenant calls again and again until its tenant's budget lets no more in. Lengths are log-normal and known to
nobody before. Once with holds of the whole cap, once with holds that grow. What was really generated is the simulator's tally.

``.venv/bin/python -m bench.overshoot [--quick] [--tenants 8] [--streams 128] [--gateways 3] [--calls 2] [--server 15|18]``

used        what was charged, of all limits
generated   what the provider billed, of all limits: less than what was charged, since a stream that is cut is charged a token
            for each byte that was seen, and the bound of its input
over        the most that the provider billed for one tenant beyond its limit, in nano-USD
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import psycopg
from tests.support.processes import Gateway, Simulator, wait_until
from tests.support.world import with_database

from bench.report import Table, flush_seconds, save
from bench.support import DEFAULT_SERVER, cluster
from pgbudget.devstack import make_login

PASSWORD = "gateway-password-of-the-benchmark"  # noqa: S105
LOGIN = "overshoot_gateway"
CAP = 4096
#: The median of the lengths in tokens, and how far they are spread: one in forty is seven times as long.
MEDIAN, SIGMA = 200, 1.0
#: A first slice, in tokens; tokens a piece; seconds a piece: eighty tokens a second.
SLICE, PIECE, PIECE_MS = 64, 8, 100
#: How long a client waits that was told to come again, in seconds: a thousand of them are some hundred questions a second.
PAUSE = (1.0, 4.0)
#: Micro-dollars a call, on average: 100 tokens of input, and of output the mean.
CALL_USD = (100 + 4 * MEDIAN * math.exp(SIGMA**2 / 2)) / 1e6


@dataclass(slots=True)
class Outcome:
    """What came of one way of holding."""

    used: float
    generated: float
    over_nano_usd: int
    calls: int
    cut: int
    refused: dict[str, int]
    seconds: float
    differences: int


async def client(
    session: aiohttp.ClientSession, url: str, key: str, tenant: str, rng: random.Random, refused: Counter[str]
) -> None:
    """Call until nothing more is let in."""
    while True:
        tokens = max(1, min(CAP, round(rng.lognormvariate(math.log(MEDIAN), SIGMA))))
        simulate = {"completion_tokens": tokens, "chunks": -(-tokens // PIECE), "chunk_ms": PIECE_MS}
        body = {
            "model": "t-mini", "max_tokens": CAP, "stream": True, "user": tenant,
            "messages": [{"role": "user", "content": "How does it go on?"}],
        }  # fmt: skip
        headers = {"authorization": f"Bearer {key}", "x-simulate": json.dumps(simulate)}
        async with session.post(f"{url}/v1/chat/completions", json=body, headers=headers) as answer:
            if answer.status == 200:
                async for _ in answer.content.iter_any():
                    pass
                continue
            code = (await answer.json())["error"]["code"]
            refused[code] += 1
            if code in ("budget_exceeded", "request_over_limit"):
                return
            assert answer.status in (429, 503), (answer.status, code)
        await asyncio.sleep(rng.uniform(*PAUSE))


async def run_clients(urls: list[str], keys: dict[str, str], streams: int, seed: int) -> Counter[str]:
    """All clients of all tenants, spread over the gateways."""
    refused: Counter[str] = Counter()
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        await asyncio.gather(
            *(
                client(session, urls[number % len(urls)], key, tenant, random.Random(f"{seed}{tenant}{number}"), refused)  # noqa: S311
                for tenant, key in keys.items()
                for number in range(streams)
            )
        )
    return refused


def make_tenants(
    connection: psycopg.Connection[Any], names: list[str], limit_usd: float, options: dict[str, Any]
) -> dict[str, str]:
    """A key for each tenant, with its budget on the org."""
    keys = {}
    for name in names:
        connection.execute("select budget.create_scope(null, 'org', %s), budget.create_scope(%s, 'project', 'p')", (name, name))
        row = connection.execute(
            "select secret from budget.create_key(%s, 'p', 'k', %s)", (name, json.dumps(options))
        ).fetchone()
        assert row is not None
        keys[name] = str(row[0])
        connection.execute("select budget.set_budget(%s, 'org', %s, %s::numeric, 'total')", (name, name, f"{limit_usd:.6f}"))
    return keys


def measure(dsn: str, login: str, arguments: argparse.Namespace, *, grows: bool) -> Outcome:
    """One run, on gateways and a simulator of its own."""
    limit_usd = round(CALL_USD * arguments.calls * arguments.streams, 6)
    limit_nano_usd = round(limit_usd * 1e9)
    names = [f"{'growing' if grows else 'whole'}{number}" for number in range(arguments.tenants)]
    with ExitStack() as stack, psycopg.connect(dsn, autocommit=True) as connection:
        keys = make_tenants(connection, names, limit_usd, {"first_output_tokens": SLICE} if grows else {})
        simulator = stack.enter_context(Simulator())
        gateways = [stack.enter_context(Gateway(login, simulator.url)) for _ in range(arguments.gateways)]
        started = time.monotonic()
        refused = asyncio.run(run_clients([g.url for g in gateways], keys, arguments.streams, arguments.seed))
        seconds = time.monotonic() - started
        open_now = "select count(*) from budget_internal.reservations"
        wait_until(lambda: (connection.execute(open_now).fetchone() or (1,))[0] == 0, 60, "settlement of everything")
        wait_until(lambda: simulator.tally()["states"]["running"] == 0, 60, "end of every stream at the provider")
        calls = httpx.get(f"{simulator.url}/simulator/tally", params={"limit": 10_000}, timeout=60).json()
        assert calls["requests"] <= 10_000, "more calls than the simulator keeps: lower --calls"
        billed: Counter[str] = Counter()
        for call in calls["generated"]:
            billed[call["request_body"]["user"]] += call["billed_nano_usd"]
        spent, cut = connection.execute(
            "select sum(l.amount_nano_usd), count(*) filter (where l.note ->> 'reason' like 'cut:%%')"
            " from budget_internal.ledger_entries l join budget_internal.scopes o on o.scope_id = l.org_id"
            " where o.name = any (%s)",
            (names,),
        ).fetchone() or (0, 0)
        differences = connection.execute("select * from budget.verify()").fetchall()
    limits = limit_nano_usd * len(names)
    return Outcome(
        float(spent) / limits, billed.total() / limits, max(billed[name] - limit_nano_usd for name in names),
        calls["requests"], cut, dict(refused), seconds, len(differences),
    )  # fmt: skip


def shown(outcomes: dict[str, Outcome]) -> Table:
    """The table of the report."""
    return {
        "columns": ["", "used", "generated", "over, nano-USD", "streams", "cut", "refused as busy", "seconds"],
        "rows": [
            [
                name, f"{outcome.used:.2%}", f"{outcome.generated:.2%}", f"{max(0, outcome.over_nano_usd)}", outcome.calls,
                outcome.cut, outcome.refused.get("budget_busy", 0), outcome.seconds,
            ]
            for name, outcome in outcomes.items()
        ],
    }  # fmt: skip


def main() -> None:
    """Measure and report; fails when a budget was passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two tenants, 16 streams each: to see that it runs")
    parser.add_argument("--server", choices=["15", "18"], default=DEFAULT_SERVER)
    parser.add_argument("--tenants", type=int, default=8)
    parser.add_argument("--streams", type=int, default=128, help="a tenant")
    parser.add_argument("--gateways", type=int, default=3)
    parser.add_argument("--calls", type=float, default=2, help="how many calls a stream the budget is made for")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.tenants, arguments.streams = 2, 16
    outcomes = {}
    with cluster(arguments.server) as made:
        dsn = made.dsn("bench")
        flush = flush_seconds(Path(made.data).parent)
        with psycopg.connect(dsn, autocommit=True) as connection:
            make_login(connection, LOGIN, PASSWORD, "budget_gateway", "budget_reconciler")
            version = (connection.execute("show server_version").fetchone() or ("",))[0]
        login = with_database(dsn, "bench", LOGIN, PASSWORD)
        for name, grows in (("whole cap held", False), ("holds that grow", True)):
            outcomes[name] = measure(dsn, login, arguments, grows=grows)
            print(f"{name}: {outcomes[name]}", flush=True)
    size = f"{arguments.tenants} tenants of {arguments.streams} streams on {arguments.gateways} gateways"
    save(
        "overshoot",
        facts={"Postgres": version, "flush of a page": f"{flush * 1e3:.2f} ms", "size": size},
        samples={name: asdict(outcome) for name, outcome in outcomes.items()},
        tables={"outcomes": shown(outcomes)},
        plots={},
        keep=not arguments.quick,
    )
    bad = [name for name, outcome in outcomes.items() if outcome.over_nano_usd > 0 or outcome.used > 1 or outcome.differences]
    if bad:
        sys.exit(f"a budget was passed, or the books are wrong: {', '.join(bad)}")


if __name__ == "__main__":
    main()
