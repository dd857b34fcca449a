"""Several gateways, one budget: the provider's own tally never passes the limit, and the ledger is the tally."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread
from typing import Any

import httpx
import pytest

from tests.support.processes import Gateway, Simulator, chat_request, wait_until
from tests.support.world import World

STREAMS = 500
CLIENTS = 64


@contextmanager
def two_gateways(world: World, simulator: Simulator) -> Iterator[list[Gateway]]:
    """Two processes on one database."""
    with ExitStack() as stack:
        gateways = [Gateway(world.gateway_dsn, simulator.url) for _ in range(2)]
        # Both start at once.
        yield [stack.enter_context(gateway) for gateway in gateways]


def tally(simulator: Simulator) -> dict[str, Any]:
    """Totals alone."""
    return dict(httpx.get(f"{simulator.url}/simulator/tally", params={"limit": 0}, timeout=30).json())


async def call_all(gateways: list[Gateway], requests: list[dict[str, Any]], clients: int) -> list[httpx.Response]:
    """Send all requests, so many at a time, in turn through the gateways."""
    waiting = iter(enumerate(requests))
    answers: list[httpx.Response] = []

    async with httpx.AsyncClient(timeout=120, limits=httpx.Limits(max_connections=None)) as client:

        async def work() -> None:
            for number, request in waiting:
                url = f"{gateways[number % len(gateways)].url}/v1/chat/completions"
                answers.append(await client.post(url, **request))

        await asyncio.gather(*(work() for _ in range(clients)))
    return answers


@contextmanager
def sampled(look: Any) -> Iterator[None]:
    """Call ``look`` again and again, in a thread of its own; fails if it failed."""
    stop = Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            while not stop.wait(0.02):
                look()
        except BaseException as error:
            failures.append(error)

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("limit", [250_000, 10_000_000], ids=["room for some", "room for all"])
def test_500_streams_at_64_clients_through_two_gateways(world: World, simulator: Simulator, limit: int) -> None:
    key = world.key(limit)
    chance = random.Random(2)
    requests = []
    for _ in range(STREAMS):
        behaviour = {
            "prompt_tokens": chance.randint(20, 120),
            # As answers are: most are short, some run into the cap.
            "completion_tokens": max(1, round(math.exp(chance.gauss(math.log(150), 0.8)))),
            "chunks": chance.randint(4, 16),
            "chunk_ms": 8,
        }
        requests.append(chat_request(key, behaviour, max_tokens=600, stream=True))
    samples: list[tuple[int, int]] = []

    with two_gateways(world, simulator) as gateways, world.connect() as probe:

        def look() -> None:
            row = probe.execute(
                "select spent_nano_usd::int8 as spent, held_nano_usd::int8 as held from budget_internal.periods"
            ).fetchone()
            counted = (row["spent"] + row["held"]) if row else 0
            samples.append((tally(simulator)["cost_nano_usd"], counted))

        with sampled(look):
            answers = asyncio.run(call_all(gateways, requests, CLIENTS))
        wait_until(lambda: world.held() == 0, what="the settlements")
        assert all(gateway.stop() == 0 for gateway in gateways)

    nano_limit = limit * 1000
    assert len(samples) > 20
    assert max(billed for billed, _ in samples) <= nano_limit
    assert max(counted for _, counted in samples) <= nano_limit
    codes = Counter(a.status_code if a.status_code == 200 else a.json()["error"]["code"] for a in answers)
    assert codes.total() == STREAMS
    assert codes.keys() <= {200, "budget_busy", "budget_exceeded"}
    if limit == 250_000:
        assert 64 <= codes[200] < STREAMS
    else:
        assert codes[200] == STREAMS
    granted = [a for a in answers if a.status_code == 200]
    assert all(a.text.endswith("data: [DONE]\n\n") for a in granted)

    truth = tally(simulator)
    entries = world.ledger()
    assert (truth["requests"], truth["unfinished"]) == (len(granted), 0)
    assert {a.headers["x-pgbudget-reservation"] for a in granted} == {str(e["reservation_id"]) for e in entries}
    assert [(e["kind"], e["source"]) for e in entries] == [("settled", "usage")] * len(granted)
    assert sum(e["amount_nano_usd"] for e in entries) == truth["cost_nano_usd"] <= nano_limit
    assert world.spent() == truth["cost_nano_usd"] // 1000
    assert world.rows("select 1 from budget_internal.reservations") == []
    assert world.verify() == []


def test_ledger_03_an_admin_at_work_costs_no_call_and_no_charge(world: World, simulator: Simulator) -> None:
    org = world.org()
    keys = [world.key(10**9, org=org, period="total") for _ in range(2)]
    other = world.key(10**9, org=world.org(), period="total")
    for kind, name in (("org", org), ("project", "p")):
        world.budget(org, kind, name, 10**9, "total")
    requests = [chat_request(keys[number % 2], {"chunk_ms": 2, "chunks": 5}, stream=number % 4 < 2) for number in range(200)]
    changes = 0

    with two_gateways(world, simulator) as gateways, world.connect() as admin:

        def change() -> None:
            nonlocal changes
            for kind, name, usd in (("org", org, 2000), ("project", "p", 1000)):
                admin.execute("select budget.set_budget(%s, %s, %s, %s, 'total')", (org, kind, name, usd + changes % 7))
            changes += 1

        with sampled(change):
            for _ in range(3):
                answers = asyncio.run(call_all(gateways, requests, len(requests)))
                assert Counter(a.status_code for a in answers) == {200: 200}
        wait_until(lambda: world.held() == 0, what="the settlements")
        # No charge had to be tried again because two transactions waited for each other.
        for gateway in gateways:
            assert "Deadlock" not in gateway.log()
            assert "settlements wait" not in gateway.log()

    assert changes > 20
    calls = 3 * len(requests)
    entries = world.ledger()
    assert len(entries) == len({e["reservation_id"] for e in entries}) == calls
    charged = sum(e["amount_nano_usd"] for e in entries)
    assert charged == tally(simulator)["cost_nano_usd"] == calls * 900_000
    spent = world.rows(
        "select s.kind::text as kind, p.spent_nano_usd::int8 as spent from budget_internal.periods p"
        " join budget_internal.budgets b using (budget_id) join budget_internal.scopes s on s.scope_id = b.scope_id"
        " where b.deleted_at is null order by 1"
    )
    assert sum(row["spent"] for row in spent if row["kind"] == "key") == charged
    assert [row["spent"] for row in spent if row["kind"] in ("org", "project")] == [charged, charged]
    assert len(spent) == 4
    assert [e for e in entries if e["key_id"] == world.value(
        "select key_id from budget_internal.key_secrets where secret_hash = sha256(convert_to(%s, 'UTF8'))", other
    )] == []  # fmt: skip
    assert world.verify() == []
