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

    @property
    def cost(self) -> int | None:
        """What the usage costs in nano-USD; None when it cannot be believed or is missing."""
        if not self.usage:
            return None
        if any(kind not in PRICES or quantity < 0 for kind, quantity in self.usage.items()):
            return None
        return sum(PRICES[kind] * int(quantity) for kind, quantity in self.usage.items())

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

    def end(self, report: Report, now: int) -> None:
        """An open call ends."""
        cost, hold = report.cost, self.request.cost
        if report.outcome == "released" and not report.usage:
            self.state, self.charged = "released", 0
        elif report.outcome in ("unknown", "stale") or cost is None:
            self.state, self.charged = "charged", hold
        else:
            self.state, self.charged = "settled", cost if report.outcome == "finished" else min(cost, hold)
        self.ended_at, self.ended_by = now, report

    def settle(self, report: Report, now: int) -> tuple[str, str | None, int]:
        """A report arrives: status, code and charge of the answer."""
        if self.state == "open":
            self.end(report, now)
            return self.state, None, self.charged
        if self.state == "charged":
            cost = report.cost if report.outcome in ("finished", "estimated") else None
            if report.outcome == "released" and not report.usage:
                cost = 0
            if cost is None:
                return "repeated", None, self.charged
            self.state, self.corrected_by = "trued_up", report
            self.charged = cost if report.outcome == "finished" else min(cost, self.request.cost)
            return self.state, None, self.charged
        if report.same(self.ended_by) or report.same(self.corrected_by):
            return "repeated", None, self.charged
        return "rejected", "settlement_conflict", self.charged


requests = st.builds(
    Request,
    key=st.sampled_from(KEYS),
    input_tokens=st.sampled_from([0, 1, 100, 500]),
    output_tokens=st.sampled_from([0, 1, 100, 200]),
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
outcomes = st.sampled_from(["finished", "finished", "estimated", "unknown", "released"])
reports = st.builds(Report, outcome=outcomes, usage=usages)
limits = st.sampled_from([None, 0, 400, 899, 900, 1800, 2700, 5000])
picks = st.lists(st.integers(0, 99), min_size=1, max_size=3)


class Books(RuleBasedStateMachine):
    """Two keys of one project: a daily budget on each of the three."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.calls: list[Call] = []
        self.limits: dict[str, int | None] = {}
        self.now = 0
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
            if same and (call.state == "open" or call.ended_at > self.now - IDEMPOTENCY_DAYS * DAY):
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

    @initialize(one=limits, two=limits, project=limits)
    def first_limits(self, one: int | None, two: int | None, project: int | None) -> None:
        for budget, limit in (("one", one), ("two", two), ("p", project)):
            self.set_limit(budget, limit)

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

    @rule(batch=st.lists(requests, min_size=1, max_size=4))
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
        items = [{"reservation_id": c.reservation_id, "outcome": r.outcome, "usage": r.usage} for c, r in pairs]
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
        assert self.world.verify() == []


FAULTS = [
    "busy at an exact fit",
    "a request id is free again after its end",
    "a request id is not looked for within its batch",
    "the hold is not given back",
    "a heartbeat is late an instant early",
    "every report trues up",
    "an estimate may pass the hold",
]


def run(world: World, **changed: Any) -> None:
    """Run the machine on a database."""

    class Here(Books):
        def __init__(self) -> None:
            super().__init__(world)

    base = settings(
        max_examples=40,
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
