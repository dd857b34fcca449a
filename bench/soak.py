"""Random traffic on two gateways of one Postgres, one of the three killed again and again; at the end the books are right.

In turn every ``--kill-every`` seconds: SIGKILL of a gateway, ``-m immediate`` of Postgres; each is started again. The simulator
knows what was really spent. Fails when a key, or a call, is charged less than that; when a strict budget is over its limit by
admission in any of the samples, one a second; when ``verify()`` finds something; when a reservation stays open after the stale
window; when a gateway answers what it never should.

``.venv/bin/python bench/soak.py [--minutes 20] [--kill-every 60] [--server 15|18] [--clients 12] [--seed 1] [--json FILE]``
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import psycopg
from psycopg.rows import dict_row

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.processes import Gateway, Simulator, chat_request, wait_until
from tests.support.world import with_database

from bench.support import cluster, machine
from pgbudget.devstack import make_login
from pgbudget.embedded import Cluster

PASSWORD = "gateway-password-of-the-soak"  # noqa: S105
LOGIN = "soak_gateway"
HUGE = 1_000_000
#: Ends the name of a call that has no request id: the ledger knows it by its key only.
ANONYMOUS = "-anonymous"
#: What a client may be refused with here; anything else is a finding.
REFUSALS = {
    "budget_exceeded", "budget_busy", "request_over_limit", "idempotency_conflict", "enforcement_unavailable", "upstream_error"
}  # fmt: skip
#: A budget that is over its limit by more than what calls cost beyond their holds.
OVER_LIMIT = """
with beyond as (
  select i.period_id, sum(e.amount_nano_usd) - max(e.reserved_nano_usd) as nano_usd
  from budget_internal.ledger_entries e
  cross join lateral unnest(e.period_ids) i (period_id)
  where e.reservation_id in (select o.reservation_id from budget_internal.ledger_entries o where o.overrun)
  group by i.period_id, e.reservation_id
), allowed as (
  select b.period_id, sum(greatest(b.nano_usd, 0)) as nano_usd from beyond b group by b.period_id
)
select s.kind::text as kind, s.name, b.limit_nano_usd::int8 as limit_nano_usd, p.spent_nano_usd::int8 as spent_nano_usd,
  p.held_nano_usd::int8 as held_nano_usd, coalesce(a.nano_usd, 0)::int8 as overrun_nano_usd
from budget_internal.periods p
join budget_internal.budgets b on b.budget_id = p.budget_id
join budget_internal.scopes s on s.scope_id = b.scope_id
left join allowed a on a.period_id = p.period_id
where b.enforcement = 'strict' and p.spent_nano_usd + p.held_nano_usd > b.limit_nano_usd + coalesce(a.nano_usd, 0)
"""
OPEN = """
select count(*) as holds, coalesce(max(extract(epoch from clock_timestamp() - stale_at)), 0)::float8 as late
from budget_internal.reservations
"""
Row = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """How long, how often, how much."""

    seconds: float = 1200
    kill_every: float = 60
    stale_seconds: int = 15
    heartbeat_seconds: int = 4
    reconcile_seconds: float = 3
    clients: int = 12
    seed: int = 1


@dataclass(frozen=True)
class Key:
    """A key and how much of the traffic it gets."""

    org: str
    name: str
    secret: str
    weight: int

    @property
    def label(self) -> str:
        """Its name among all."""
        return f"{self.org}/{self.name}"


@dataclass
class Kill:
    """What was killed when (on the monotonic clock), and the seconds until it ran, and served, again."""

    what: str
    at: float
    restarted: float = 0
    served_by_any: float | None = None
    served_by_each: float | None = None


def connect(dsn: str) -> psycopg.Connection[Row]:
    """A connection of the superuser."""
    return psycopg.connect(dsn, autocommit=True, row_factory=dict_row)


def make_world(dsn: str, plan: Plan) -> list[Key]:
    """Three orgs with three keys each: one that is soon used up, one that is used up on the way, one that never is."""
    minutes = round(Decimal(plan.seconds) / 60, 6)
    keys = []
    with connect(dsn) as connection:
        make_login(connection, LOGIN, PASSWORD, "budget_gateway", "budget_reconciler")
        windows = {"stale_seconds": plan.stale_seconds, "heartbeat_seconds": plan.heartbeat_seconds}
        connection.execute("select budget.set_policy(null, %s)", (json.dumps(windows),))
        for number in range(3):
            org = f"org{number}"
            connection.execute(
                "select budget.create_scope(null, 'org', %s), budget.create_scope(%s, 'project', 'p')", (org, org)
            )
            # One org is used up as a whole on the way, by whichever of its keys.
            whole = Decimal("0.12") * minutes if number == 0 else Decimal(HUGE)
            for kind, name in (("org", org), ("project", "p")):
                connection.execute("select budget.set_budget(%s, %s, %s, %s, 'total')", (org, kind, name, whole))
            for name, limit, weight in (
                ("narrow", Decimal("0.01"), 1),
                ("middle", Decimal("0.05") * minutes, 3),
                ("wide", whole, 4),
            ):
                row = connection.execute("select secret from budget.create_key(%s, 'p', %s)", (org, name)).fetchone()
                assert row is not None
                connection.execute("select budget.set_budget(%s, 'key', %s, %s, 'total')", (org, name, limit))
                keys.append(Key(org, name, row["secret"], weight))
    return keys


@dataclass
class Call:
    """One call of a client."""

    key: Key
    id: str
    behaviour: Row
    body: Row
    request_id: str | None
    #: Leave after so many lines of a stream, or after so many seconds of a whole answer.
    leave_after_lines: int | None = None
    leave_after_seconds: float | None = None


def random_call(chance: random.Random, key: Key, number: int) -> Call:
    """As calls are: most are short, some run into the cap, a few meet a fault or are left."""
    identity = f"{key.label}/{number}"
    request_id: str | None = identity
    if chance.random() < 0.2:
        identity, request_id = identity + ANONYMOUS, None
    stream = chance.random() < 0.6
    tokens = max(1, round(math.exp(chance.gauss(math.log(80), 0.8))))
    chunks = min(tokens, chance.randint(2, 20))
    after = chance.randint(0, chunks)
    behaviour: Row = {
        "ids": [identity],
        "prompt_tokens": chance.randint(20, 120),
        "completion_tokens": tokens,
        "chunks": chunks,
        "chunk_ms": chance.choice([2, 10, 50, 150]),
    }
    faults: list[tuple[int, Row]] = [
        (80, {}),
        (4, {"status": chance.choice([400, 429, 500, 503])}),
        (3, {"cut_after_chunks": after}),
        (2, {"close_after_chunks": after}),
        (2, {"silence_after_chunks": after}),
        (1, {"end_after_chunks": after}),
        # A stream with an error in place of any output is charged nothing, as designed, though this provider bills the input.
        (1, {"error_after_chunks": max(1, after) if stream else after}),
        (5, {"no_usage": True}),
        # At once, so that hardly a kill hits it: what such a call costs beyond its hold nobody could know then.
        (2, {"ignore_cap": True, "completion_tokens": 2000, "chunk_ms": 0, "chunks": 1}),
    ]
    fault = chance.choices([fault for _, fault in faults], [weight for weight, _ in faults])[0]
    body: Row = {
        "model": chance.choices(["t-mini", "c-son", "t-pro"], [85, 12, 3])[0],
        "max_tokens": 100 if "ignore_cap" in fault else chance.choice([50, 150, 300, 400]),
        "messages": [{"role": "user", "content": "word " * chance.randint(20, 120)}],
    }
    if stream:
        body |= {"stream": True}
        if chance.random() < 0.5:
            body |= {"stream_options": {"include_usage": True}}
    call = Call(key, identity, {**behaviour, **fault}, body, request_id)
    if chance.random() < 0.08 and "ignore_cap" not in fault:
        if stream:
            call.leave_after_lines = chance.randint(0, 20)
        else:
            call.leave_after_seconds = chance.uniform(0.01, 0.5)
    return call


class Traffic:
    """Clients that call one after the other, by any of the gateways."""

    def __init__(self, urls: list[str], keys: list[Key], plan: Plan) -> None:
        self.outcomes: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        #: When a call that was served began, when its answer did, and by which gateway.
        self.served: list[tuple[float, float, int]] = []
        self.unexpected: list[str] = []
        self._urls = urls
        self._keys = keys
        self._plan = plan
        self._stop = Event()
        self._failures: list[BaseException] = []
        self._sent: deque[Call] = deque(maxlen=200)
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Let each client end its call; raises what broke one of them."""
        self._stop.set()
        self._thread.join()
        if self._failures:
            raise self._failures[0]

    def _run(self) -> None:
        try:
            asyncio.run(self._all())
        except BaseException as error:
            self._failures.append(error)

    async def _all(self) -> None:
        async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None)) as client:
            await asyncio.gather(*(self._client(client, number) for number in range(self._plan.clients)))

    async def _client(self, client: httpx.AsyncClient, worker: int) -> None:
        chance = random.Random(self._plan.seed * 1000 + worker)  # noqa: S311
        weights = [key.weight for key in self._keys]
        number = worker
        while not self._stop.is_set():
            call = random_call(chance, chance.choices(self._keys, weights)[0], number)
            number += self._plan.clients
            if self._sent and chance.random() < 0.02:
                # Somebody sends again what was sent before.
                call = chance.choice(self._sent)
            self._sent.append(call)
            gateway = chance.randrange(len(self._urls))
            outcome = await self._call(client, call, gateway)
            self.outcomes[outcome] += 1
            if outcome in ("no answer", "broken") and chance.random() < 0.5:
                # As SDKs do: the same again, here by the other gateway.
                other = (gateway + 1) % len(self._urls)
                self.outcomes[await self._call(client, call, other)] += 1
            await asyncio.sleep(chance.uniform(0, 0.4))

    async def _call(self, client: httpx.AsyncClient, call: Call, gateway: int) -> str:
        """Make a call; returns how it ended for the client."""
        request = chat_request(call.key.secret, call.behaviour, **call.body)
        if call.request_id is not None:
            request["headers"]["idempotency-key"] = call.request_id
        begun = time.monotonic()
        started = False
        limit = httpx.Timeout(60, read=call.leave_after_seconds or 60)
        try:
            url = f"{self._urls[gateway]}/v1/chat/completions"
            async with client.stream("POST", url, timeout=limit, **request) as answer:
                started = True
                if answer.status_code != 200:
                    return self._refused(answer, await answer.aread(), begun, gateway)
                self.served.append((begun, time.monotonic(), gateway))
                if not call.body.get("stream"):
                    await answer.aread()
                    return "answered"
                count, last = 0, ""
                async for line in answer.aiter_lines():
                    if count == call.leave_after_lines:
                        return "left"
                    count += 1
                    last = line or last
                return "streamed" if last == "data: [DONE]" else "broken"
        except httpx.ReadTimeout:
            return "left" if call.leave_after_seconds else self._strange("no answer within a minute")
        except httpx.TransportError:
            return "broken" if started else "no answer"

    def _refused(self, answer: httpx.Response, content: bytes, begun: float, gateway: int) -> str:
        if answer.headers.get("x-pgbudget-error-source") == "upstream":
            self.served.append((begun, time.monotonic(), gateway))
            return f"provider's {answer.status_code}"
        try:
            code = str(json.loads(content)["error"]["code"])
        except (ValueError, KeyError, TypeError):
            return self._strange(f"{answer.status_code}: {content[:200]!r}")
        if code not in REFUSALS:
            return self._strange(f"{answer.status_code} {content[:300]!r}")
        self.refusals[code] += 1
        if code != "enforcement_unavailable":
            self.served.append((begun, time.monotonic(), gateway))
        return "refused"

    def _strange(self, what: str) -> str:
        self.unexpected.append(what)
        return "strange"


class Tally:
    """The simulator's tally by call, gathered while it runs: it keeps the last ten thousand only."""

    def __init__(self, simulator: Simulator) -> None:
        self.by_call: Counter[str] = Counter()
        #: What made each call behave as it did, for who looks into a finding.
        self.behaviours: dict[str, str] = {}
        self._costs: dict[int, tuple[str, int]] = {}
        self._url = f"{simulator.url}/simulator/tally"
        self._seen = 0

    def look(self) -> None:
        """Take what is new, and what may have changed since."""
        requests = self._get(0)["requests"]
        answer = self._get(min(10_000, requests - self._seen + 1000))
        generated = answer["generated"]
        first = answer["requests"] - len(generated)
        for number, call in enumerate(generated, first):
            identity = str(call["id"] or "")
            self._costs[number] = (identity, call["billed_nano_usd"])
            behaviour = dict(call["request_headers"]).get("x-simulate", "")
            streamed = "streamed" if call["request_body"].get("stream") else "whole"
            self.behaviours[identity] = f"{streamed}, {call['state']}, {call['status']}, {behaviour}"
        self._seen = answer["requests"]

    def finish(self) -> int:
        """The last look; returns the simulator's own total."""
        self.look()
        for call, cost in self._costs.values():
            self.by_call[call] += cost
        return int(self._get(0)["cost_nano_usd"])

    def _get(self, limit: int) -> Row:
        return dict(httpx.get(self._url, params={"limit": limit}, timeout=30).json())


class Watch:
    """Looks every second, in a thread of its own."""

    def __init__(self, dsn: str, tally: Tally) -> None:
        self.samples = 0
        self.most_open = 0
        #: The longest that an open reservation was past its stale window.
        self.most_late = 0.0
        self.over_limit: list[Row] = []
        self._dsn = dsn
        self._tally = tally
        self._stop = Event()
        self._failures: list[BaseException] = []
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop looking; raises what broke it."""
        self._stop.set()
        self._thread.join()
        if self._failures:
            raise self._failures[0]

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                # Postgres may be away.
                with suppress(psycopg.OperationalError), connect(self._dsn) as connection:
                    while not self._stop.wait(1):
                        self._look(connection)
                self._stop.wait(0.2)
        except BaseException as error:
            self._failures.append(error)

    def _look(self, connection: psycopg.Connection[Row]) -> None:
        self.over_limit += connection.execute(OVER_LIMIT).fetchall()
        row = connection.execute(OPEN).fetchone()
        assert row is not None
        self.most_open = max(self.most_open, row["holds"])
        self.most_late = max(self.most_late, row["late"])
        self.samples += 1
        if self.samples % 5 == 0:
            self._tally.look()


class Gateways:
    """Two processes, killed and begun anew on their ports."""

    def __init__(self, start: Callable[[int | None], Gateway]) -> None:
        self._start = start
        self._running = [start(None) for _ in range(2)]
        self.tracebacks: list[str] = []

    def __enter__(self) -> Gateways:
        for gateway in self._running:
            gateway.wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        for gateway in self._running:
            self._end(gateway)

    @property
    def urls(self) -> list[str]:
        """Their addresses, the same for the whole run."""
        return [gateway.url for gateway in self._running]

    def kill(self, number: int) -> None:
        """SIGKILL one and start it again."""
        killed = self._running[number]
        killed.kill()
        self._end(killed)
        self._running[number] = self._start(killed.port)
        self._running[number].wait_ready()

    def stop(self) -> list[int]:
        """SIGTERM; returns the exit codes."""
        return [gateway.stop() for gateway in self._running]

    def _end(self, gateway: Gateway) -> None:
        with suppress(FileNotFoundError):
            log = gateway.log()
            if "Traceback" in log:
                self.tracebacks.append(log[log.index("Traceback") :][:3000])
            gateway.__exit__()


def kill_in_turn(postgres: Cluster, gateways: Gateways, plan: Plan, say: Callable[[str], None]) -> list[Kill]:
    """Kill until the time is over, and start again what was killed."""
    chance = random.Random(plan.seed)  # noqa: S311
    pause = Event()
    begun = time.monotonic()
    kills: list[Kill] = []
    # The last part is quiet: whatever was killed serves again.
    while (due := (len(kills) + 1) * plan.kill_every) < plan.seconds - min(plan.kill_every, 10) / 2:
        pause.wait(max(0, begun + due - time.monotonic()))
        turn = len(kills)
        kill = Kill("gateway" if turn % 2 == 0 else "Postgres", time.monotonic())
        if turn % 2 == 0:
            gateways.kill(turn // 2 % 2)
        else:
            postgres.stop("immediate")
            pause.wait(chance.uniform(0, 3))
            postgres.start()
        kill.restarted = time.monotonic() - kill.at
        kills.append(kill)
        say(f"{due:6.0f} s: {kill.what} killed, runs again after {kill.restarted:.1f} s")
    pause.wait(max(0, begun + plan.seconds - time.monotonic()))
    return kills


def find_service(kills: list[Kill], served: list[tuple[float, float, int]]) -> None:
    """Fill in how long after each kill a call that began after it was served: by any gateway, and by the last to do so."""
    for kill in kills:
        first: dict[int, float] = {}
        for begun, answered, gateway in served:
            if begun >= kill.at:
                first[gateway] = min(first.get(gateway, math.inf), answered - kill.at)
        if first:
            kill.served_by_any = min(first.values())
        if len(first) == 2:
            kill.served_by_each = max(first.values())


@dataclass
class Books:
    """What the database says at the end, and what it should have said."""

    result: Row = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def check(self, holds: bool, otherwise: str) -> None:
        """Note a failure."""
        if not holds:
            self.failures.append(otherwise)


def read_books(dsn: str, keys: list[Key], tally: Tally, books: Books) -> None:
    """Compare the ledger with the tally."""
    total = tally.finish()
    books.check(
        sum(tally.by_call.values()) == total, f"the tally by call has {sum(tally.by_call.values())} of {total} nano-USD"
    )
    with connect(dsn) as connection:
        ledger = connection.execute(
            "select o.name || '/' || k.name as key, e.reservation_id, e.request_id, e.kind::text as kind, e.outcome, e.source,"
            " e.overrun, e.amount_nano_usd::int8 as amount from budget_internal.ledger_entries e"
            " join budget_internal.scopes k on k.scope_id = e.key_id join budget_internal.scopes o on o.scope_id = e.org_id"
        ).fetchall()
        differences = connection.execute("select * from budget.verify()").fetchall()
        left = connection.execute("select count(*) as n from budget_internal.reservations").fetchone()
    assert left is not None
    books.check(not differences, f"verify: {differences[:10]}")
    books.check(left["n"] == 0, f"{left['n']} reservations are open")

    by_key = {key.label: {"ledger": 0, "tally": 0} for key in keys}
    by_call: Counter[str] = Counter()
    ways: dict[str, list[str]] = {}
    for entry in ledger:
        by_key[entry["key"]]["ledger"] += entry["amount"]
        by_call[entry["request_id"]] += entry["amount"]
        ways.setdefault(entry["request_id"], []).append(f"{entry['kind']} {entry['outcome']}")
    for call, cost in tally.by_call.items():
        by_key[call.rpartition("/")[0]]["tally"] += cost
        if not call.endswith(ANONYMOUS):
            booked = f"{by_call[call]} ({', '.join(ways.get(call, []))})"
            books.check(by_call[call] >= cost, f"call {call}: charged {booked}, cost {cost} nano-USD: {tally.behaviours[call]}")
    for label, sums in by_key.items():
        books.check(sums["ledger"] >= sums["tally"], f"key {label}: charged {sums['ledger']}, cost {sums['tally']} nano-USD")

    trued_up = {entry["reservation_id"] for entry in ledger if entry["kind"] == "trued_up"}
    standing = [entry for entry in ledger if entry["kind"] == "charged" and entry["reservation_id"] not in trued_up]
    charged = sum(entry["amount"] for entry in ledger)
    compared = {call: cost for call, cost in tally.by_call.items() if not call.endswith(ANONYMOUS)}
    provisional = {entry["request_id"] for entry in standing} & compared.keys()
    excess = sum(by_call[call] - compared[call] for call in provisional)
    books.result |= {
        "keys_nano_usd": by_key,
        "ledger_nano_usd": charged,
        "tally_nano_usd": total,
        "overcharge_percent": round(100 * (charged - total) / total, 2) if total else None,
        "entries": dict(Counter(f"{e['kind']} {e['outcome']}, by {e['source']}" for e in ledger).most_common()),
        "provisional": sum(entry["kind"] == "charged" for entry in ledger),
        "provisional_trued_up": len(trued_up),
        "provisional_standing_nano_usd": sum(entry["amount"] for entry in standing),
        "overruns": len({entry["reservation_id"] for entry in ledger if entry["overrun"]}),
        "calls_compared": len(compared),
        "overcharge_by_provisional_percent": round(100 * excess / (sum(compared.values()) or 1), 2),
    }


@contextmanager
def processes(dsn: str, plan: Plan) -> Iterator[tuple[Simulator, Gateways]]:
    """The simulator and two gateways that soon give up on a silent provider."""
    settings = {
        "reconcile_seconds": str(plan.reconcile_seconds),
        "first_byte_seconds": "5",
        "idle_seconds": "5",
        "drain_seconds": "2",
    }
    login = with_database(dsn, dsn.rpartition("/")[2], LOGIN, PASSWORD)
    with Simulator() as simulator:

        def start(port: int | None) -> Gateway:
            return Gateway(login, simulator.url, port, **settings)

        with Gateways(start) as gateways:
            yield simulator, gateways


def soak(postgres: Cluster, dsn: str, plan: Plan, say: Callable[[str], None] = lambda _: None) -> Row:
    """Run it; the member ``failures`` is empty when all is as it should be."""
    books = Books()
    keys = make_world(dsn, plan)
    with processes(dsn, plan) as (simulator, gateways):
        tally = Tally(simulator)
        traffic = Traffic(gateways.urls, keys, plan)
        with Watch(dsn, tally) as watch:
            with traffic:
                kills = kill_in_turn(postgres, gateways, plan, say)

                def serves_again() -> bool:
                    find_service(kills[-1:], list(traffic.served))
                    return not kills or kills[-1].served_by_each is not None

                with suppress(AssertionError):
                    wait_until(serves_again, 60)
            say("traffic has ended")
            stopped = time.monotonic()
            with suppress(AssertionError), connect(dsn) as connection:
                # A hold ends by its call, or by the reconciler once it is stale; what is left is found in the books.
                patience = plan.stale_seconds + plan.reconcile_seconds + 15
                wait_until(lambda: not connection.execute("select 1 from budget_internal.reservations").fetchall(), patience)
            emptied = time.monotonic() - stopped
            # Settlements that come after the reconciler's charge are still queued; they are booked before a gateway ends.
            codes = gateways.stop()
        books.check(codes == [0, 0], f"the gateways ended with {codes}")
        read_books(dsn, keys, tally, books)
    find_service(kills, traffic.served)
    back = [kill for kill in kills if kill.served_by_each is not None]
    books.check(len(back) == len(kills), f"after {len(kills) - len(back)} kills a gateway never served again")
    books.check(not watch.over_limit, f"over the limit by admission: {watch.over_limit[:5]}")
    books.check(watch.samples > plan.seconds / 3, f"only {watch.samples} samples")
    books.check(not traffic.unexpected, f"{len(traffic.unexpected)} strange answers: {traffic.unexpected[:5]}")
    books.check(not gateways.tracebacks, f"{len(gateways.tracebacks)} gateways logged an exception: {gateways.tracebacks[:1]}")
    return {
        "seconds": plan.seconds,
        "kill_every": plan.kill_every,
        "stale_seconds": plan.stale_seconds,
        "kills": dict(Counter(kill.what for kill in kills)),
        "calls": traffic.outcomes.total(),
        "outcomes": dict(traffic.outcomes.most_common()),
        "refusals": dict(traffic.refusals.most_common()),
        **books.result,
        "samples": watch.samples,
        "most_open": watch.most_open,
        "most_late_seconds": round(watch.most_late, 1),
        "last_hold_ended_after_seconds": round(emptied, 1),
        "without_service_seconds": {
            what: {
                "by_any": max(round(kill.served_by_any or 0, 2) for kill in back if kill.what == what),
                "by_each": max(round(kill.served_by_each or 0, 2) for kill in back if kill.what == what),
            }
            for what in dict.fromkeys(kill.what for kill in back)
        },
        "failures": books.failures,
    }


def report(result: Row) -> Iterator[str]:
    """The lines to print."""
    yield f"{result['machine']}, Postgres {result['server']}: {result['seconds']:.0f} s, killed {result['kills']}"
    yield f"calls: {result['calls']}: {result['outcomes']}"
    yield f"refusals: {result['refusals']}"
    for label, sums in result["keys_nano_usd"].items():
        yield f"  {label:12} ledger {sums['ledger'] / 1e9:9.6f} USD, tally {sums['tally'] / 1e9:9.6f} USD"
    yield (
        f"ledger {result['ledger_nano_usd'] / 1e9:.6f} USD, tally {result['tally_nano_usd'] / 1e9:.6f} USD:"
        f" {result['overcharge_percent']} % more; {result['provisional_standing_nano_usd'] / 1e9:.6f} USD of it are"
        f" {result['provisional'] - result['provisional_trued_up']} provisional charges that stand"
    )
    yield f"provisional: {result['provisional']}, trued up: {result['provisional_trued_up']}; overruns: {result['overruns']}"
    for name, count in result["entries"].items():
        yield f"  {count:6} {name}"
    yield (
        f"calls compared one by one: {result['calls_compared']}: provisional charges made them"
        f" {result['overcharge_by_provisional_percent']} % dearer; samples of the budgets: {result['samples']}"
    )
    yield (
        f"open: {result['most_open']} at most, {result['most_late_seconds']} s past the window at most;"
        f" the last ended {result['last_hold_ended_after_seconds']} s after the traffic"
    )
    for what, seconds in result["without_service_seconds"].items():
        yield f"after a kill of {what}: served within {seconds['by_any']} s, by each gateway within {seconds['by_each']} s"
    yield from (f"FAILED: {failure}" for failure in result["failures"])


def main() -> None:
    """Soak and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--kill-every", type=float, default=60, help="seconds")
    parser.add_argument("--server", choices=("15", "18"), default="15" if Path("/usr/lib/postgresql/15").exists() else "18")
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    plan = Plan(arguments.minutes * 60, arguments.kill_every, clients=arguments.clients, seed=arguments.seed)
    with cluster(arguments.server) as postgres:
        outcome = soak(postgres, postgres.dsn("bench"), plan, lambda line: print(line, file=sys.stderr))
    result = {"machine": machine(), "server": arguments.server, **outcome}
    for line in report(result):
        print(line)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(1 if result["failures"] else 0)


if __name__ == "__main__":
    main()
