"""Promise three: whatever happens in whatever order, counters, states and answers are those of a model that fits on a page.

The model keeps a list of calls. What a budget has spent and holds is summed from it each time, so it has no counters that
could be wrong in the same way as those of the database.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.sql.test_mutants import MUTANTS, Mutant
from tests.support.world import MICRO, Row, World

START = datetime(2027, 1, 15, 12, tzinfo=UTC)
DAY = 86_400
STALE_SECONDS = 90
IDEMPOTENCY_DAYS = 7
KEYS = ("one", "two")
#: nano-USD a token of t-mini.
PRICES = {"input": 1000, "cache_read": 250, "output": 4000}

Usage = dict[str, Any]


def price(usage: Usage | None) -> int | None:
    """What usage costs in nano-USD; None when it is missing or cannot be believed."""
    if not usage or any(kind not in PRICES or quantity < 0 for kind, quantity in usage.items()):
        return None
    return sum(PRICES[kind] * int(quantity) for kind, quantity in usage.items())


@dataclass(frozen=True)
class Request:
    """One item of a reserve_batch."""

    key: str
    input_tokens: int
    output_tokens: int
    request_id: str | None
    body_hash: str
    holder: str | None

    @property
    def cost(self) -> int:
        """The worst case in nano-USD."""
        return self.input_tokens * PRICES["input"] + self.output_tokens * PRICES["output"]


@dataclass(frozen=True)
class Report:
    """What a settlement says of a call."""

    outcome: str
    usage: Usage | None
    seen: Usage | None = None

    @property
    def cost(self) -> int | None:
        """What the usage costs."""
        return price(self.usage)

    @property
    def says_nothing_was_spent(self) -> bool:
        """Whether the call is given up without charge."""
        return self.outcome in ("released", "unsent") and not self.usage

    def bounded(self, cost: int, hold: int) -> int:
        """The charge for an estimate: within the hold, and no less than what was seen."""
        return max(min(cost, hold), price(self.seen) or 0)

    def same(self, other: Report | None) -> bool:
        """Whether it says nothing new."""
        return other is not None and other.outcome == self.outcome and (other.usage or None) == (self.usage or None)


@dataclass
class Call:
    """A granted request, and how it ended."""

    reservation_id: str
    request: Request
    day: int
    stale_at: int
    state: str = "open"
    charged: int = 0
    ended_at: int = 0
    ended_by: Report | None = None
    corrected_by: Report | None = None

    def keeps_its_id(self, now: int) -> bool:
        """Whether a request with its id is a repeat."""
        if self.ended_by is None:
            return True
        return self.ended_by.outcome != "unsent" and self.ended_at > now - IDEMPOTENCY_DAYS * DAY

    def end(self, report: Report, now: int) -> None:
        """An open call ends."""
        cost, hold = report.cost, self.request.cost
        if report.says_nothing_was_spent:
            self.state, self.charged = "released", 0
        elif report.outcome in ("unknown", "stale") or cost is None or (report.seen and price(report.seen) is None):
            self.state, self.charged = "charged", max(hold, price(report.seen) or 0)
        else:
            self.state, self.charged = "settled", cost if report.outcome == "finished" else report.bounded(cost, hold)
        self.ended_at, self.ended_by = now, report

    def settle(self, report: Report, now: int) -> tuple[str, str | None, int]:
        """A report arrives: status, code and charge of the answer."""
        if self.state == "open":
            self.end(report, now)
            return self.state, None, self.charged
        if self.state == "charged":
            cost = report.cost if report.outcome in ("finished", "estimated") else None
            if report.says_nothing_was_spent:
                cost = 0
            if cost is None:
                return "repeated", None, self.charged
            self.state, self.corrected_by = "trued_up", report
            self.charged = report.bounded(cost, self.request.cost) if report.outcome == "estimated" else cost
            return self.state, None, self.charged
        if report.same(self.ended_by) or report.same(self.corrected_by):
            return "repeated", None, self.charged
        return "rejected", "settlement_conflict", self.charged


requests = st.builds(
    Request,
    key=st.sampled_from(KEYS),
    # Mostly 900 micro-dollars, so that limits are met to the last one.
    input_tokens=st.sampled_from([100, 100, 100, 500, 0]),
    output_tokens=st.sampled_from([200, 200, 200, 1, 0]),
    request_id=st.sampled_from([None, None, None, "r1", "r2"]),
    body_hash=st.sampled_from(["h", "h", "other"]),
    holder=st.sampled_from([None, "a", "b"]),
)
usages = st.one_of(
    # Below, at and above the holds.
    st.fixed_dictionaries({"input": st.sampled_from([0, 1, 100, 500]), "output": st.sampled_from([0, 1, 100, 200, 300])}),
    st.fixed_dictionaries({"cache_read": st.sampled_from([1, 99]), "output": st.sampled_from([50, 1000])}),
    st.sampled_from([None, {}, {"output": -1}, {"bogus": 1}]),
)
outcomes = st.sampled_from(["finished", "finished", "estimated", "unknown", "released", "unsent"])
seen = st.sampled_from([None, None, None, {"output": 10}, {"output": 400}, {"output": -1}])
reports = st.builds(Report, outcome=outcomes, usage=usages, seen=seen)
#: In micro-dollars. Mostly such that some calls fit and some do not.
first_limits = st.sampled_from([None, 1800, 2699, 2700, 3600, 5400])
limits = st.sampled_from([None, 0, 400, 899, 900, 1800, 2700, 5000])
batches = st.lists(requests, min_size=1, max_size=4)
picks = st.lists(st.integers(0, 99), min_size=1, max_size=3)


class Books(RuleBasedStateMachine):
    """Two keys of one project: a daily budget on each of the three."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.calls: list[Call] = []
        self.limits: dict[str, int | None] = {}
        self.now = 0
        # What a failed example leaves must not fail the next.
        self.known_differences = world.verify()
        self.world.set_clock(START.isoformat())
        self.org = world.org()
        self.secrets = {key: world.value("select secret from budget.create_key(%s, 'p', %s)", self.org, key) for key in KEYS}

    def teardown(self) -> None:
        # The reconciler of the next example must not find them.
        self.world.execute("select budget.release(r.reservation_id) from budget_internal.reservations r")

    # The model.

    @property
    def day(self) -> int:
        """The current period."""
        return (self.now + (START - START.replace(hour=0)) // timedelta(seconds=1)) // DAY

    def counters(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Spent and held by budget and period, where there is any."""
        spent: dict[tuple[str, int], int] = defaultdict(int)
        held: dict[tuple[str, int], int] = defaultdict(int)
        for call in self.calls:
            for budget in (call.request.key, "p"):
                spent[budget, call.day] += call.charged
                held[budget, call.day] += call.request.cost if call.state == "open" else 0
        return {at: (spent[at], held[at]) for at in spent if spent[at] or held[at]}

    def earlier(self, request: Request) -> Call | None:
        """The call that has this request id."""
        for call in self.calls:
            same = call.request.key == request.key and call.request.request_id == request.request_id is not None
            if same and call.keeps_its_id(self.now):
                return call
        return None

    def refusal(self, request: Request) -> tuple[str, str] | None:
        """Code and budget of a refusal; None when the request fits."""
        busy = exceeded = None
        if request.cost == 0:
            return None
        for budget in (request.key, "p"):
            limit = self.limits[budget]
            spent, held = self.counters().get((budget, self.day), (0, 0))
            if limit is None:
                continue
            if request.cost > limit:
                return "request_over_limit", budget
            if request.cost > limit - spent:
                exceeded = exceeded or ("budget_exceeded", budget)
            elif request.cost > limit - spent - held:
                busy = busy or ("budget_busy", budget)
        return exceeded or busy

    def check_answer(self, request: Request, row: Row) -> None:
        """Decide one request as the model does, and compare."""
        found = row["status"], row["code"]
        if earlier := self.earlier(request):
            if earlier.request.body_hash != request.body_hash:
                assert found == ("denied", "idempotency_conflict")
            elif earlier.state == "open" and earlier.request.holder == request.holder is not None:
                assert found == ("granted", None)
            else:
                assert found == ("granted_again", None)
            assert str(row["reservation_id"]) == earlier.reservation_id
        elif refusal := self.refusal(request):
            assert (*found, row["scope_name"]) == ("denied", *refusal)
        else:
            assert (*found, row["reserved_nano_usd"]) == ("granted", None, request.cost)
            self.calls.append(Call(str(row["reservation_id"]), request, self.day, self.now + STALE_SECONDS))

    # What can happen.

    @initialize(one=first_limits, two=first_limits, project=first_limits, batch=batches)
    def begin(self, one: int | None, two: int | None, project: int | None, batch: list[Request]) -> None:
        for budget, limit in (("one", one), ("two", two), ("p", project)):
            self.set_limit(budget, limit)
        self.reserve(batch)

    @rule(budget=st.sampled_from([*KEYS, "p"]), limit=limits)
    def set_limit(self, budget: str, limit: int | None) -> None:
        # A second later, so that it counts as a change of the budget.
        self.advance(1)
        self.world.budget(self.org, "project" if budget == "p" else "key", budget, limit)
        self.limits[budget] = None if limit is None else limit * MICRO

    @rule(seconds=st.sampled_from([1, 30, STALE_SECONDS, STALE_SECONDS + 1, DAY // 2, DAY, IDEMPOTENCY_DAYS * DAY]))
    def advance(self, seconds: int) -> None:
        self.now += seconds
        self.world.set_clock((START + timedelta(seconds=self.now)).isoformat())

    @precondition(lambda self: any(call.state == "open" and call.stale_at > self.now for call in self.calls))
    @rule(seconds=st.sampled_from([0, 0, 1]))
    def advance_to_the_edge(self, seconds: int) -> None:
        """To the last instant of the call that is stale next, or past it."""
        edge = min(call.stale_at for call in self.calls if call.state == "open" and call.stale_at > self.now)
        self.advance(edge - self.now + seconds)

    @rule(batch=batches)
    def reserve(self, batch: list[Request]) -> None:
        items = [
            {
                "key": self.secrets[r.key],
                "model": "t-mini",
                "input_tokens": r.input_tokens,
                "max_output_tokens": r.output_tokens,
                "request_id": r.request_id,
                "options": {"body_hash": r.body_hash} | ({"holder": r.holder} if r.holder else {}),
            }
            for r in batch
        ]
        rows = self.world.rows("select * from budget.reserve_batch(%s)", json.dumps(items))
        for request, row in zip(batch, rows, strict=True):
            self.check_answer(request, row)

    @precondition(lambda self: self.calls)
    @rule(batch=st.lists(st.tuples(st.integers(0, 99), reports), min_size=1, max_size=3))
    def settle(self, batch: list[tuple[int, Report]]) -> None:
        # A high number is one of the last calls, which are more often open.
        pairs = [(self.calls[-1 - pick % len(self.calls)], report) for pick, report in batch]
        items = [
            {"reservation_id": c.reservation_id, "outcome": r.outcome, "usage": r.usage, "usage_seen": r.seen} for c, r in pairs
        ]
        rows = self.world.rows("select * from budget.settle_batch(%s)", json.dumps(items))
        for (call, report), row in zip(pairs, rows, strict=True):
            assert (row["status"], row["code"], row["charged_nano_usd"]) == call.settle(report, self.now)

    @precondition(lambda self: self.calls)
    @rule(pick=st.integers(0, 99))
    def repeat_the_report(self, pick: int) -> None:
        call = self.calls[-1 - pick % len(self.calls)]
        if (report := call.corrected_by or call.ended_by) and report.outcome != "stale":
            usage = None if report.usage is None else json.dumps(report.usage)
            row = self.world.one("select * from budget.settle(%s, %s, %s)", call.reservation_id, usage, report.outcome)
            assert (row["status"], row["charged_nano_usd"]) == ("repeated", call.charged)
            assert call.settle(report, self.now) == ("repeated", None, call.charged)

    @precondition(lambda self: self.calls)
    @rule(chosen=picks)
    def heartbeat(self, chosen: list[int]) -> None:
        calls = {c.reservation_id: c for c in (self.calls[-1 - pick % len(self.calls)] for pick in chosen)}
        rows = self.world.rows("select reservation_id::text, alive from budget.heartbeat(%s::uuid[])", list(calls))
        found = {row["reservation_id"]: row["alive"] for row in rows}
        assert found == {name: call.state == "open" and call.stale_at >= self.now for name, call in calls.items()}
        for name, alive in found.items():
            if alive:
                calls[name].stale_at = self.now + STALE_SECONDS

    @rule()
    def reconcile(self) -> None:
        due = [call for call in self.calls if call.state == "open" and call.stale_at < self.now]
        found = self.world.one("select * from budget.reconcile()")
        assert found == {"charged": len(due), "failed": 0, "quarantined": 0, "more": False}
        for call in due:
            call.end(Report("stale", None), self.now)

    @precondition(lambda self: self.calls)
    @rule(pick=st.integers(0, 99))
    def reconcile_one(self, pick: int) -> None:
        call = self.calls[-1 - pick % len(self.calls)]
        query = "select status, charged_nano_usd from budget.reconcile_one(%s)"
        if call.state == "open" and call.stale_at >= self.now:
            try:
                found = str(self.world.one(query, call.reservation_id))
            except psycopg.Error as error:
                found = error.sqlstate or ""
            assert found == "LB304"
            return
        status = "repeated"
        if call.state == "open":
            call.end(Report("stale", None), self.now)
            status = "charged"
        row = self.world.one(query, call.reservation_id)
        assert (row["status"], row["charged_nano_usd"]) == (status, call.charged)

    # What must hold after each step.

    @invariant()
    def counters_are_the_models(self) -> None:
        rows = self.world.rows(
            "select s.name, (p.starts_at at time zone 'UTC')::date as day, p.spent_nano_usd::int8 as spent,"
            " p.held_nano_usd::int8 as held from budget_internal.periods p"
            " join budget_internal.budgets b on b.budget_id = p.budget_id"
            " join budget_internal.scopes s on s.scope_id = b.scope_id"
            " join budget_internal.scopes o on o.scope_id = p.org_id where o.name = %s",
            self.org,
        )
        found = {(r["name"], (r["day"] - START.date()).days): (r["spent"], r["held"]) for r in rows}
        assert {at: counts for at, counts in found.items() if counts != (0, 0)} == self.counters()

    @invariant()
    def states_are_the_models(self) -> None:
        rows = self.world.rows(
            "select v.reservation_id::text, v.state, (coalesce(v.charged_usd, 0) * 1000000000)::int8 as charged"
            " from budget.reservation_status v join budget_internal.scopes o on o.scope_id = v.org_id where o.name = %s",
            self.org,
        )
        found = sorted((r["reservation_id"], r["state"], r["charged"]) for r in rows)
        assert found == sorted((c.reservation_id, c.state, c.charged) for c in self.calls)

    @invariant()
    def books_agree(self) -> None:
        assert [row for row in self.world.verify() if row not in self.known_differences] == []


FAULTS = [
    "busy at an exact fit",
    "a request id is free again after its end",
    "a request id is not looked for within its batch",
    "the hold is not given back",
    "a heartbeat is late an instant early",
    "stale an instant early",
    "every report trues up",
    "an estimate may pass the hold",
]


def run(world: World, **changed: Any) -> None:
    """Run the machine on a database."""

    class Here(Books):
        def __init__(self) -> None:
            super().__init__(world)

    base = settings(
        max_examples=60,
        stateful_step_count=25,
        deadline=None,
        # The same examples in each run: a red run is a fault of what changed.
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    run_state_machine_as_test(Here, settings=settings(base, **changed))


def test_the_database_does_what_the_model_does(world: World) -> None:
    run(world)


@pytest.mark.parametrize("fault", [m for m in MUTANTS if m.name in FAULTS], ids=lambda fault: fault.name)
def test_the_model_sees_a_fault(world: World, fault: Mutant) -> None:
    """Its steps reach what they are meant to reach."""
    fault.apply(world)
    with pytest.raises((AssertionError, psycopg.Error)):
        # The first find is enough.
        run(world, phases=[Phase.generate], report_multiple_bugs=False)
