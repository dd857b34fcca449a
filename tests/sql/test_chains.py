"""Must show 2: 64 callers at once on chains of up to ten budgets that overlap, and every answer is the serial model's.

How the order is known. The one clock is replaced by one that also leaves what it said in a setting of the session. Reserve and
settle read it last under their locks, before they read a counter, so each caller knows the moment of each of its decisions,
granted or refused; for what is granted or booked it is the very stamp of the reservation or the ledger row. Calls that share a
strict budget are apart by its lock, so among them the order of these moments is the order in which they were decided. Sorted by
them, the history goes call by call through a model of a page: each answer must be the model's, to the budget that is named and
its limit, spent and held. A refusal that the model would have granted at its place in that order fails, and so does a grant
that it would have refused.

Budgets that only look at what is spent (``check``) are read without their lock: a settlement that has its stamp and has not
committed yet may or may not be seen. So their spend may be any that the replay goes through between the last settlement that
was answered before the decision and the first that was stamped after the answer; one of these must explain the answer.
"""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from threading import Barrier
from typing import Any

import psycopg
import pytest

from tests.support.world import MICRO, Row, World

CALLERS = 64
STEPS = 14
DEPTH = 4
KEYS = 16
#: Output caps that are asked for, in tokens.
OUTPUTS = [0, 10, 50, 100, 200, 200, 1000]
#: Limits by place in the tree, in calls of some 500 micro-dollars: below never more than above.
LIMITS = {"key": (3, 8), "member": (8, 20), "tag": (8, 40), "project": (60, 90), "org": (100, 130), "account": (110, 140)}
UNIT_LIMITS = [(36, 50), (28, 34), (20, 26), (10, 18)]


@dataclass
class Budget:
    """A budget as the model keeps it, in micro-dollars."""

    kind: str
    name: str
    limit: int
    enforcement: str
    spent: int = 0
    held: int = 0
    #: Of a check budget: moment of each settlement, when it was answered, spent after it.
    settled: list[tuple[Decimal, Decimal, int]] = field(default_factory=list)

    def spends(self, moment: Decimal, answered: Decimal) -> list[int]:
        """What a call without its lock may have seen spent, that decided at a moment and was answered at another."""
        if self.enforcement != "check":
            return [self.spent]
        seen, may_be = 0, []
        for stamp, known, spent in self.settled:
            if known < moment:
                seen = spent
            elif stamp <= answered:
                may_be.append(spent)
        return [seen, *may_be]


@dataclass(frozen=True)
class Item:
    """One request and its answer."""

    key: str
    cost: int
    answer: tuple[Any, ...]
    reservation: str | None


@dataclass(frozen=True)
class Call:
    """One call of reserve or settle: when it decided, when its answer was there, what it was about."""

    moment: Decimal
    answered: Decimal
    requests: tuple[Item, ...] = ()
    #: Reservation and charge.
    settlements: tuple[tuple[str, int], ...] = ()


Model = dict[str, list[Budget]]


def build(world: World, draw: random.Random) -> tuple[Model, dict[str, str]]:
    """An org with budgets on most scopes: the chain of each key in the model, and the secrets."""
    org = world.org()
    world.execute("select budget.create_scope(%s, 'project', 'q')", org)
    budgets: dict[tuple[str, str], Budget] = {}

    def budget(kind: str, name: str, room: tuple[int, int]) -> None:
        if draw.random() < 0.1:
            return
        enforcement = draw.choice(["strict"] * 8 + ["check", "soft"])
        made = budgets[kind, name] = Budget(kind, name, draw.randint(*room) * 500 + draw.randrange(100), enforcement)
        # No boundary of a period is near: 30 days from now, or for ever.
        period = draw.choice(["30d", "total"])
        owner = None if kind == "account" else org
        options = json.dumps({"enforcement": enforcement})
        usd = Decimal(made.limit) / 1_000_000
        world.execute("select budget.set_budget(%s, %s, %s, %s, %s, %s)", owner, kind, name, usd, period, options)

    budget("account", "simulator", LIMITS["account"])
    budget("org", org, LIMITS["org"])
    for project in "pq":
        budget("project", project, LIMITS["project"])
        above = ("project", project)
        for level in range(DEPTH):
            name = f"{project}{level}"
            world.execute("select budget.create_scope(%s, 'unit', %s, %s, %s)", org, name, *above)
            budget("unit", name, UNIT_LIMITS[level])
            above = ("unit", name)
    for kind, names in {"member": ["m0", "m1", "m2"], "tag": ["t0", "t1", "t2", "t3"]}.items():
        for name in names:
            world.execute("select budget.create_scope(%s, %s, %s)", org, kind, name)
            budget(kind, name, LIMITS[kind])

    chains: Model = {}
    secrets: dict[str, str] = {}
    for number in range(KEYS):
        key, project, level = f"k{number}", draw.choice("pq"), draw.randrange(-1, DEPTH)
        member, tags = draw.choice([None, "m0", "m1", "m2"]), sorted(draw.sample(["t0", "t1", "t2", "t3"], draw.randrange(3)))
        units = [f"{project}{u}" for u in range(level, -1, -1)]
        scopes = [("key", key), *(("tag", tag) for tag in tags), ("member", str(member)), *(("unit", u) for u in units)]
        scopes += [("project", project), ("org", org), ("account", "simulator")]
        place = json.dumps({"unit": units[0] if units else None, "member": member, "tags": tags})
        if sum(scope in budgets for scope in scopes) < 10:
            secrets[key] = world.value("select secret from budget.create_key(%s, %s, %s, %s)", org, project, key, place)
            budget("key", key, LIMITS["key"])
            chains[key] = [budgets[scope] for scope in scopes if scope in budgets]
    return chains, secrets


def watch_the_clock(world: World) -> None:
    """Make the clock leave what it said in a setting."""
    world.execute("""
        create or replace function budget_internal.clock() returns timestamptz language plpgsql volatile
        set search_path = pg_catalog, pg_temp as $$
        declare
          v_now constant timestamptz := clock_timestamp();
        begin
          perform set_config('test.now', extract(epoch from v_now)::text, false);
          return v_now;
        end
        $$
    """)


@dataclass
class Caller:
    """One connection that asks for and ends calls by chance, and writes down what it was told."""

    connection: psycopg.Connection[Row]
    secrets: dict[str, str]
    draw: random.Random
    calls: list[Call] = field(default_factory=list)
    #: Reservation, input and output tokens.
    open: list[tuple[str, int, int]] = field(default_factory=list)

    def step(self) -> None:
        """Reserve one or some, or end some."""
        if self.open and self.draw.random() < 0.4:
            self.settle(self.draw.randrange(1, len(self.open) + 1))
        else:
            self.reserve(self.draw.choice([1, 1, 1, 2, 3, 6]))

    def rows(self, query: str, argument: list[Row]) -> tuple[list[Row], Decimal, Decimal]:
        """Results, the moment of the decision, and a moment after the answer."""
        rows = self.connection.execute(query.encode(), (json.dumps(argument),)).fetchall()
        after = self.connection.execute("select extract(epoch from clock_timestamp()) as now").fetchone()
        assert after is not None
        return rows, Decimal(rows[0]["moment"]), after["now"]

    def reserve(self, count: int) -> None:
        """Ask for so many calls."""
        asked = [
            (
                self.draw.choice(list(self.secrets)),
                self.draw.randrange(1, 301),
                self.draw.choice(OUTPUTS),
            )
            for _ in range(count)
        ]
        query = "select r.*, current_setting('test.now') as moment from budget.reserve_batch(%s) r order by item"
        if count == 1:
            query = query.replace(
                "budget.reserve_batch(%s)",
                "(select (%s::jsonb -> 0) as one) q, budget.reserve(one ->> 'key', one ->> 'model',"
                " (one ->> 'input_tokens')::bigint, (one ->> 'max_output_tokens')::bigint)",
            )
        rows, moment, answered = self.rows(
            query,
            [
                {"key": self.secrets[key], "model": "t-mini", "input_tokens": inputs, "max_output_tokens": outputs}
                for key, inputs, outputs in asked
            ],
        )
        items = []
        for (key, inputs, outputs), row in zip(asked, rows, strict=True):
            named = ("limit_nano_usd", "spent_nano_usd", "held_nano_usd")
            answer = (
                (row["code"], row["scope_kind"], row["scope_name"], *(row[name] // MICRO for name in named))
                if row["status"] == "denied"
                else ("granted",)
            )
            items.append(Item(key, inputs + 4 * outputs, answer, row["reservation_id"] and str(row["reservation_id"])))
            if row["status"] == "granted":
                self.open.append((str(row["reservation_id"]), inputs, outputs))
        self.calls.append(Call(moment, answered, requests=tuple(items)))

    def settle(self, count: int) -> None:
        """End so many: mostly with a part of what they hold, some for nothing, a few with all of it."""
        self.draw.shuffle(self.open)
        ended, self.open = self.open[:count], self.open[count:]
        reports: list[Row] = []
        charges = []
        for reservation, inputs, outputs in ended:
            outcome = self.draw.choice(["finished", "finished", "finished", "released", "unknown"])
            usage = {
                "input": self.draw.randrange(inputs + 1) // 4,
                "output": self.draw.randrange(outputs + 1) // 8 + (not inputs),
            }
            charge = {"finished": usage["input"] + 4 * usage["output"], "released": 0, "unknown": inputs + 4 * outputs}[outcome]
            if outcome == "finished" and not charge:
                usage["input"] = charge = 1
            reports.append(
                {"reservation_id": reservation, "outcome": outcome, "usage": usage if outcome == "finished" else None}
            )
            charges.append((reservation, charge))
        query = "select r.*, current_setting('test.now') as moment from budget.settle_batch(%s) r order by item"
        rows, moment, answered = self.rows(query, reports)
        assert [(str(row["reservation_id"]), row["charged_nano_usd"] // MICRO) for row in rows] == charges
        self.calls.append(Call(moment, answered, settlements=tuple(charges)))


def decide(chain: list[Budget], cost: int, spends: tuple[int, ...]) -> tuple[Any, ...]:
    """The answer of one who decides alone. Costs are above 0."""

    def named(code: str, budget: Budget, spent: int) -> tuple[Any, ...]:
        return code, budget.kind, budget.name, budget.limit, spent, budget.held

    seen = list(zip(chain, spends, strict=True))
    strict = [(budget, spent) for budget, spent in seen if budget.enforcement == "strict"]
    for budget, spent in strict:
        if cost > budget.limit:
            return named("request_over_limit", budget, spent)
    for budget, spent in seen:
        if budget.enforcement != "soft" and spent + (cost if budget.enforcement == "strict" else 1) > budget.limit:
            return named("budget_exceeded", budget, spent)
    for budget, spent in strict:
        if spent + budget.held + cost > budget.limit:
            return named("budget_busy", budget, spent)
    return ("granted",)


def replay(chains: Model, calls: list[Call]) -> Counter[str]:
    """Go through the history in the order of its decisions; counts of the answers."""
    ordered = sorted(calls, key=lambda call: call.moment)
    counts: Counter[str] = Counter()
    held: dict[str, Item] = {}
    granted = {item.reservation: item for call in ordered for item in call.requests}
    for settlement in ordered:
        # What is settled later may be seen by a call that was stamped before: known in advance, by budget.
        for reservation, charge in settlement.settlements:
            for budget in chains[granted[reservation].key]:
                before = budget.settled[-1][2] if budget.settled else 0
                budget.settled.append((settlement.moment, settlement.answered, before + charge))
    for call in ordered:
        for item in call.requests:
            chain = chains[item.key]
            choices = itertools.product(*(budget.spends(call.moment, call.answered) for budget in chain))
            answers = {decide(chain, item.cost, spends) for spends in choices}
            assert item.answer in answers, (item, answers)
            counts[item.answer[0]] += 1
            if item.reservation is not None:
                held[item.reservation] = item
                for budget in chain:
                    if budget.enforcement == "strict":
                        budget.held += item.cost
                        assert budget.spent + budget.held <= budget.limit, budget
        for reservation, charge in call.settlements:
            item = held.pop(reservation)
            for budget in chains[item.key]:
                budget.spent += charge
                budget.held -= item.cost * (budget.enforcement == "strict")
    return counts


def wrong_histories(calls: list[Call]) -> Iterator[list[Call]]:
    """The same history with one answer that is not true: the replay must see each."""
    for code in ("budget_busy", "budget_exceeded", "granted"):
        number, place = next((n, p) for n, c in enumerate(calls) for p, i in enumerate(c.requests) if i.answer[0] == code)
        item = calls[number].requests[place]
        wrong = (*item.answer[:-1], item.answer[-1] - 1) if code != "granted" else ("budget_busy", "key", item.key, 0, 0, 0)
        changed = Item(item.key, item.cost, wrong, item.reservation)
        items = (*calls[number].requests[:place], changed, *calls[number].requests[place + 1 :])
        yield [*calls[:number], Call(calls[number].moment, calls[number].answered, items), *calls[number + 1 :]]


@pytest.mark.parametrize("seed", [1])
def test_64_callers_get_the_answers_of_one_who_decides_alone(world: World, seed: int) -> None:
    chains, secrets = build(world, random.Random(seed))
    lengths = sorted(len(chain) for chain in chains.values())
    assert lengths[-1] == 10, lengths
    watch_the_clock(world)
    fresh = copy.deepcopy(chains)
    start = Barrier(CALLERS)

    def run(number: int) -> list[Call]:
        with world.connect_gateway() as connection:
            # 64 callers wait for one budget of the org: on a slow machine longer than a gateway should.
            connection.execute("set lock_timeout = '60s'; set statement_timeout = '60s'")
            caller = Caller(connection, secrets, random.Random(seed * CALLERS + number))
            start.wait()
            for _ in range(STEPS):
                caller.step()
            return caller.calls

    with ThreadPoolExecutor(CALLERS) as pool:
        # A deadlock, or any other error, is raised here.
        calls = [call for history in pool.map(run, range(CALLERS)) for call in history]
    assert world.value("select deadlocks from pg_stat_database where datname = current_database()") == 0

    counts = replay(chains, calls)
    assert counts.keys() == {"granted", "budget_busy", "budget_exceeded", "request_over_limit"}, counts
    assert all(count > 20 for count in counts.values()), counts

    # The moments that the replay went by are those of the books, and so are its counters in the end.
    stamps = {item.reservation: call.moment for call in calls for item in call.requests if item.reservation}
    booked = {reservation: call.moment for call in calls for reservation, _ in call.settlements}
    ledger = world.rows(
        "select reservation_id::text, extract(epoch from reserved_at) as at, extract(epoch from booked_at) as booked"
        " from budget_internal.ledger_entries"
    )
    assert {row["reservation_id"]: row["booked"] for row in ledger} == booked
    still = world.rows("select reservation_id::text, extract(epoch from reserved_at) as at from budget_internal.reservations")
    assert {row["reservation_id"]: row["at"] for row in [*ledger, *still]} == stamps
    totals: dict[tuple[str, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in world.rows(
        "select s.kind::text, s.name, p.spent_nano_usd, p.held_nano_usd from budget_internal.periods p"
        " join budget_internal.budgets b on b.budget_id = p.budget_id join budget_internal.scopes s on s.scope_id = b.scope_id"
    ):
        totals[row["kind"], row["name"]] = (row["spent_nano_usd"] // MICRO, row["held_nano_usd"] // MICRO)
    modelled = {(b.kind, b.name): (b.spent, b.held) for chain in chains.values() for b in chain}
    assert {name: totals[name] for name in modelled} == modelled
    assert world.verify() == []

    for wrong in wrong_histories(calls):
        with pytest.raises(AssertionError):
            replay(copy.deepcopy(fresh), wrong)
