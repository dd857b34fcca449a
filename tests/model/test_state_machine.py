"""Promise three: whatever happens in whatever order, answers, counters and states are those of the reference.

``PGBUDGET_MODEL_EXAMPLES`` asks for more examples than CI runs, and for other ones each time; what fails is printed with the
seed that repeats it.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from tests.model.pair import ACCOUNTS, KEYS, MEMBERS, ORG, PROJECTS, TAGS, UNITS, Pair, Stage, at
from tests.model.reference import Call, Report, Request, Rung, RunOption, Scope
from tests.model.reference.books import STALE
from tests.model.reference.calls import IDEMPOTENCY
from tests.model.reference.tree import Place
from tests.sql.test_mutants import mutant
from tests.support.world import MICRO, World

#: A quiet noon; hours before a month, a week and New York's summer time begin; half an hour before all calendars turn.
STARTS = [at("2027-01-15T12:00:30"), at("2027-02-28T22:00:00"), at("2027-03-13T20:00:59"), at("2027-12-31T23:30:00")]
SECOND, DAY, MILLISECOND = timedelta(seconds=1), timedelta(days=1), timedelta(milliseconds=1)
RUNS = ("r1", "r2", "r3", "r4")

keys = st.sampled_from(["deep", "deep", "flat", "bare"])
SCOPES: list[Scope] = [
    *(("key", key) for key in KEYS),
    *(("tag", tag) for tag in TAGS),
    *(("member", member) for member in MEMBERS),
    *(("unit", unit) for unit in UNITS),
    *(("project", project) for project in PROJECTS),
    ("org", ORG),
    *(("account", account) for account in ACCOUNTS),
]
scopes = st.sampled_from([*SCOPES, ("key", "deep"), ("unit", "u4"), ("project", "p"), ("key", "flat")])
places = st.builds(
    Place,
    project=st.sampled_from(["p", "p", "q"]),
    unit=st.sampled_from([None, "u1", "u3", "u4", "v", "w"]),
    member=st.sampled_from([None, *MEMBERS]),
    tags=st.sampled_from([(), ("blue",), ("blue", "red")]),
)
parents: st.SearchStrategy[Scope] = st.sampled_from(
    [("project", "p"), ("project", "q"), *(("unit", unit) for unit in ("u1", "u2", "u3", "v", "w"))]
)
micros = st.sampled_from([899, 900, 1799, 1800, 2700, 2700, 3600, 3600, 5400, 9000, 30_000])
amounts = micros.map(lambda micro: micro * MICRO)
run_options = st.builds(
    RunOption,
    id=st.sampled_from(RUNS),
    ceiling=st.one_of(st.none(), amounts),
    steps=st.sampled_from([None, None, None, 1, 2]),
)
requests = st.builds(
    Request,
    key=keys,
    model=st.sampled_from(["t-mini"] * 12 + ["both", "both", "t-pro", "c-son", "c-son", "odd", "gone", "raw"]),
    # Mostly 900 micro-dollars, so that limits are met to the last one.
    input_tokens=st.sampled_from([100] * 6 + [500, 0, None]),
    output_tokens=st.sampled_from([200] * 8 + [1, 0, None]),
    choices=st.sampled_from([1] * 9 + [2, 3]),
    features=st.sampled_from([frozenset[str]()] * 9 + [frozenset({"cache_write_5m"})]),
    request_id=st.sampled_from([None] * 6 + ["i1", "i2"]),
    body=st.sampled_from(["h"] * 3 + ["other"]),
    holder=st.sampled_from([None, "a", "b"]),
    run=st.one_of(st.none(), st.none(), st.none(), run_options),
    tokenizer=st.sampled_from([None, None, 40]),
)
usages = st.one_of(
    # Below, at and above the holds.
    st.fixed_dictionaries({"input": st.sampled_from([0, 1, 100, 500]), "output": st.sampled_from([0, 1, 100, 200, 300])}),
    st.fixed_dictionaries({"cache_read": st.sampled_from([1, 99]), "reasoning": st.sampled_from([50, 1000])}),
    st.sampled_from([None, {}, {"output": -1}, {"bogus": 1}, {"web_search": 1}]),
)
reports = st.builds(
    Report,
    outcome=st.sampled_from(["finished", "finished", "finished", "estimated", "unknown", "released", "unsent"]),
    usage=usages,
    seen=st.sampled_from([None, None, None, {"output": 10}, {"output": 400}, {"output": -1}]),
)
ladder_rungs = st.lists(
    st.one_of(
        st.builds(Rung, name=st.just(""), output_tokens=st.sampled_from([1, 20, 100])),
        st.builds(
            Rung, name=st.just(""), model=st.sampled_from(["t-mini", "odd", "raw"]), output_tokens=st.sampled_from([None, 50])
        ),
        st.builds(Rung, name=st.just(""), features_off=st.just(frozenset({"cache_write_5m"}))),
        st.builds(Rung, name=st.just(""), wait=st.just(5)),
    ),
    max_size=3,
)
picks = st.integers(0, 99)
waits = st.sampled_from([SECOND, 20 * SECOND, 60 * SECOND, STALE, STALE + SECOND, DAY / 2, DAY, IDEMPOTENCY, 31 * DAY])


class Change:
    """A change of the configuration: what it is, and how it is made. Returns the SQLSTATE of a refusal."""

    def __init__(self, words: str, make: Callable[[Pair], Any]) -> None:
        self.words = words
        self.make = make

    def __repr__(self) -> str:
        return f"<{self.words}>"

    def __call__(self, pair: Pair) -> Any:
        return self.make(pair)


@st.composite
def budgets(draw: st.DrawFn) -> Change:
    """A budget made or changed."""
    scope = draw(scopes)
    kind = draw(st.sampled_from(["day"] * 5 + ["1d", "7d", "30d", "week", "month", "quarter", "year", "total", "total"]))
    name = draw(st.sampled_from(["a", "a", "b"]))
    limit = draw(st.one_of(amounts, amounts, amounts, st.sampled_from([0, None])))
    options: dict[str, Any] = {"enforcement": draw(st.sampled_from(["strict"] * 4 + ["check", "soft"]))}
    if draw(st.integers(0, 3)) == 0:
        options["models"] = draw(st.sampled_from([None, frozenset({"t-mini"}), frozenset({"t-pro", "odd"})]))
    if draw(st.integers(0, 3)) == 0:
        options["zone"] = draw(st.sampled_from(["UTC", "America/New_York", "Asia/Kathmandu"]))
    if limit is not None and draw(st.integers(0, 3)) == 0:
        options["raised"] = draw(amounts)
        options["raised_until"] = draw(st.sampled_from([timedelta(minutes=1), timedelta(hours=30)]))
    if kind != "total" and limit is not None:
        options["carry_cap"] = draw(st.sampled_from([None, None, limit, limit // 2, 2 * limit]))
    if scope[0] in ("org", "project", "unit") and draw(st.integers(0, 3)) == 0:
        options["allocation"] = draw(st.sampled_from(["each_within", "sum_within"]))

    def change(pair: Pair) -> str | None:
        if scope not in (*pair.books.tree.scopes(), *(("account", account) for account in ACCOUNTS)):
            return "gone"
        given = dict(options)
        if "raised_until" in given:
            given["raised_until"] = (pair.now + given["raised_until"]).replace(microsecond=0)
        return pair.set_budget(scope, limit, kind, name, **given)

    return Change(f"budget {name} of {scope}: {limit} {kind} {options}", change)


@st.composite
def tree_changes(draw: st.DrawFn) -> Change:
    """A key or a unit moved, made or taken away."""
    what = draw(st.sampled_from(["move_key", "move_key", "move_unit", "move_unit", "add_unit", "delete"]))
    key, place, unit, parent = draw(keys), draw(places), draw(st.sampled_from(list(UNITS))), draw(parents)
    scope = draw(st.sampled_from([scope for scope in SCOPES if scope[0] in ("unit", "member", "tag", "key")]))

    def change(pair: Pair) -> str | None:
        tree = pair.books.tree
        there = set(tree.scopes())
        new = f"x{len(tree.units)}{pair.now:%m%d%H%M%S}"
        needed: dict[str, list[Scope | None]] = {
            "move_key": [("key", key), ("unit", place.unit) if place.unit else None,
                         ("member", place.member) if place.member else None, *(("tag", tag) for tag in place.tags)],
            "move_unit": [("unit", unit), parent],
            "add_unit": [parent],
            "delete": [scope],
        }  # fmt: skip
        if any(scope is not None and scope not in there for scope in needed[what]):
            return "gone"
        pair.advance(SECOND)
        if what == "move_key":
            return pair.move_key(key, place)
        if what == "move_unit":
            return pair.move_unit(unit, parent)
        if what == "add_unit":
            return pair.add_unit(new, parent)
        return pair.delete_scope(scope)

    words = {"move_key": f"{key} to {place}", "move_unit": f"{unit} to {parent}", "add_unit": f"{parent}", "delete": f"{scope}"}
    return Change(f"{what} {words[what]}", change)


@st.composite
def key_changes(draw: st.DrawFn) -> Change:
    """What a key allows, or its limits."""
    key = draw(keys)
    setting, value = draw(
        st.one_of(
            st.tuples(st.just("allowed_models"), st.sampled_from([frozenset({"t-mini", "both"}), frozenset({"odd"}), None])),
            st.tuples(st.just("ceiling"), st.one_of(amounts, st.none())),
            st.tuples(st.just("default_output"), st.sampled_from([None, 150])),
            st.tuples(st.just("max_output"), st.sampled_from([None, 190])),
            st.tuples(st.just("tokenizer"), st.booleans()),
            st.tuples(st.just("allow_unpriced"), st.booleans()),
            st.tuples(st.just("run_ceiling"), st.one_of(st.none(), amounts)),
            st.tuples(st.just("run_steps"), st.sampled_from([None, 2])),
        )
    )

    def change(pair: Pair) -> str | None:
        if key not in pair.books.tree.keys:
            return "gone"
        pair.set_key(key, **{setting: value})
        return None

    return Change(f"{key} {setting} {value}", change)


@st.composite
def rate_limits(draw: st.DrawFn) -> Change:
    """Requests and tokens a minute."""
    scope = draw(st.sampled_from([("key", "deep"), ("project", "p"), ("project", "p"), ("key", "bare")]))
    per_minute = draw(st.sampled_from([None, None, 1, 2, 5])), draw(st.sampled_from([None, 99, 101, 500, 650, 2000]))

    def change(pair: Pair) -> str | None:
        if scope not in pair.books.tree.scopes():
            return "gone"
        pair.set_rate(scope, *per_minute)
        return None

    return Change(f"rate of {scope}: {per_minute}", change)


@st.composite
def ladders(draw: st.DrawFn) -> Change:
    """A ladder."""
    scope = draw(st.sampled_from([("key", "deep"), ("project", "p"), ("org", ORG)]))
    steps = [Rung(**{**vars(rung), "name": f"s{place}"}) for place, rung in enumerate(draw(ladder_rungs))]
    if draw(st.booleans()):
        steps.append(Rung("stop", refuse=True))

    def change(pair: Pair) -> str | None:
        if scope not in pair.books.tree.scopes():
            return "gone"
        pair.set_ladder(scope, *steps)
        return None

    return Change(f"ladder of {scope}: {steps}", change)


@st.composite
def removals(draw: st.DrawFn) -> Change:
    """A budget that is there taken away or reset."""
    pick, reset = draw(picks), draw(st.sampled_from([True, True, False]))

    def change(pair: Pair) -> str | None:
        there = [budget for budget in pair.books.budgets if not budget.deleted and budget.scope[0] != "run"]
        if reset:
            # One that has spent something, if there is any.
            there = [b for b in there if any((b, b.window(pair.now).start) in c.charged_to for c in pair.books.calls)] or there
        if not there:
            return "gone"
        budget = there[pick % len(there)]
        act = pair.reset_budget if reset else pair.delete_budget
        return act(budget.scope, budget.name)

    return Change(f"{'reset' if reset else 'delete'} budget {pick}", change)


@st.composite
def policies(draw: st.DrawFn) -> Change:
    """What the org does with costs that are not known."""
    require, check = draw(st.booleans()), draw(st.booleans())
    return Change(f"policy {require} {check}", lambda pair: pair.set_policy(check and require, require))


@st.composite
def switches(draw: st.DrawFn) -> Change:
    """A key disabled or enabled."""
    key, enabled = draw(keys), draw(st.sampled_from([True, True, False]))

    def change(pair: Pair) -> str | None:
        if key not in pair.books.tree.keys:
            return "gone"
        pair.enable_key(key, enabled)
        return None

    return Change(f"{key} enabled: {enabled}", change)


batches = st.one_of(
    st.lists(requests, min_size=1, max_size=4),
    # The same again and again meets every limit.
    st.builds(lambda request, times: [request] * times, requests, st.integers(2, 4)),
)


class Machine(RuleBasedStateMachine):
    """Everything that can happen to an org."""

    def __init__(self, stage: Stage, seen: Counter[str]) -> None:
        super().__init__()
        self.stage = stage
        self.seen = seen
        self._pair: Pair | None = None
        self.steps = 0

    @property
    def pair(self) -> Pair:
        """The database and the reference."""
        assert self._pair is not None
        return self._pair

    @property
    def calls(self) -> list[Call]:
        """All that was granted."""
        return self.pair.books.calls if self._pair else []

    def pick(self, number: int) -> Call:
        """One of the calls, mostly one that is open."""
        there = [call for call in self.calls if call.state == "open" and number >= 25] or self.calls
        return there[-1 - number % len(there)]

    def teardown(self) -> None:
        if self._pair:
            self._pair.close()

    @initialize(
        start=st.sampled_from(STARTS),
        limits=st.lists(budgets(), min_size=2, max_size=6),
        rates=st.lists(rate_limits(), max_size=1),
        others=st.lists(st.one_of(ladders(), key_changes(), key_changes(), policies(), switches()), max_size=3),
        crowded=st.sampled_from([False] * 5 + [True]),
        batch=batches,
    )
    def begin(
        self, start: Any, limits: list[Change], rates: list[Change], others: list[Change], crowded: bool, batch: list[Request]
    ) -> None:
        self._pair = Pair(self.stage, start)
        for scope in self.pair.books.tree.chain("deep") if crowded else []:
            self.pair.set_budget(scope, None, name="c", enforcement="soft")
        for change in (*limits, *rates, *others):
            change(self.pair)
        self.reserve(batch)

    @rule(batch=batches)
    def reserve(self, batch: list[Request]) -> None:
        for request, answer in zip(batch, self.pair.reserve(*batch), strict=True):
            self.seen[answer.code or answer.status] += 1
            if answer.rung:
                self.seen[f"rung: {answer.status}"] += 1
            elif answer.status == "granted" and request.output_tokens and (answer.output_tokens or 0) < request.output_tokens:
                self.seen["shrunk"] += 1

    # Twice as often as the others.
    @rule(batch=batches)
    def reserve_more(self, batch: list[Request]) -> None:
        self.reserve(batch)

    @precondition(lambda self: self.calls)
    @rule(batch=st.lists(st.tuples(picks, reports), min_size=1, max_size=3))
    def settle(self, batch: list[tuple[int, Report]]) -> None:
        pairs: dict[Any, tuple[Call, Report]] = {}
        for place, (number, report) in enumerate(batch):
            call = self.pick(number)
            pairs.setdefault(call if call.rates else place, (call, report))
        for status in self.pair.settle(*pairs.values()):
            self.seen[status] += 1

    @precondition(lambda self: self.calls)
    @rule(number=picks, again=st.booleans())
    def settle_as_usual(self, number: int, again: bool) -> None:
        call = self.pick(number)
        report = Report("finished", {"input": 100, "output": 150})
        self.seen[self.pair.settle((call, report))[0]] += 1
        last = call.corrected_by or call.ended_by
        if again and last and last.outcome != "stale":
            assert self.pair.settle((call, last)) == ["repeated"]

    @rule(
        change=st.one_of(
            budgets(), budgets(), removals(), removals(), rate_limits(), ladders(), key_changes(), policies(), switches()
        )
    )
    def configure(self, change: Change) -> None:
        self.seen[f"configure: {change(self.pair) or 'done'}"] += 1

    @rule(change=st.one_of(tree_changes(), tree_changes(), removals(), budgets()))
    def move(self, change: Change) -> None:
        self.seen[f"move: {change(self.pair) or 'done'}"] += 1

    @rule(
        key=keys,
        option=run_options,
        parent=st.sampled_from([None, *RUNS]),
        end=st.booleans(),
        edge=st.sampled_from([None, 0, 1, 1]),
    )
    def start_or_end_a_run(self, key: str, option: RunOption, parent: str | None, end: bool, edge: int | None) -> None:
        self.pair.advance(SECOND)
        there = [run for run in self.pair.books.runs if not run.ended]
        if end and there:
            self.seen[f"end run: {self.pair.end_run(there[-1].key, there[-1].name) or 'done'}"] += 1
            return
        if parent and there:
            # One that is there, most of the time.
            key, parent = there[0].key, there[0].name
            slot = self.pair.books.slot(there[0].budget)
            if edge is not None and slot.limit is not None:
                # All that is left of it, or one more.
                option = replace(option, ceiling=max(0, slot.limit - slot.spent - slot.held) + edge)
        status = self.pair.start_run(key, option, parent)
        self.seen[f"run: {status}{' below' if parent and status == 'started' else ''}"] += 1

    @rule(time=waits)
    def advance(self, time: timedelta) -> None:
        self.pair.advance(time)

    @rule(edge=st.sampled_from(["stale", "minute", "period"]), late=st.sampled_from([timedelta(0), -MILLISECOND, MILLISECOND]))
    def advance_to_an_edge(self, edge: str, late: timedelta) -> None:
        """To the last instant of a call, to the end of a minute or of a period, or about there."""
        now = self.pair.now
        ends = [now.replace(second=0, microsecond=0) + timedelta(minutes=1)]
        if edge == "stale":
            ends = [call.stale_at for call in self.calls if call.state == "open"]
        elif edge == "period":
            ends = [end for budget in self.pair.books.budgets if (end := budget.window(now).end) is not None]
        later = [end + late for end in ends if end + late > now]
        if later:
            self.pair.advance(min(later) - now)

    @precondition(lambda self: self.calls)
    @rule(chosen=st.lists(picks, min_size=1, max_size=3), one=st.booleans())
    def keep_or_reconcile(self, chosen: list[int], one: bool) -> None:
        if one:
            self.pair.heartbeat([self.pick(number) for number in chosen])
            self.pair.reconcile_one(self.pick(chosen[0]))
        else:
            self.seen["stale"] += self.pair.reconcile()

    @invariant()
    def all_is_the_same(self) -> None:
        if self._pair:
            # What verify() would find stays there: it is asked now and then.
            self.steps += 1
            self.pair.check(verify=self.steps % 5 == 0)
            books = self.pair.books
            self.seen["steps"] += 1
            self.seen["forgiven"] += any(call.forgiven for call in self.calls)
            self.seen["carried"] += any(period.carried for budget in books.budgets for period in budget.periods.values())


#: What a run must have met: a machine that never gets there shows nothing.
REACHED = [
    *("granted", "granted_again", "idempotency_conflict", "invalid_request", "key_disabled"),
    *("budget_config_invalid", "model_not_allowed", "model_not_found", "model_unpriced"),
    *("rate_limit_exceeded", "tokens_limit_exceeded", "request_over_limit", "budget_exceeded", "budget_busy"),
    *("settled", "released", "charged", "trued_up", "repeated", "rejected", "stale", "shrunk", "forgiven", "carried"),
    *("rung: granted", "rung: denied", "run: started", "run: started below", "run: denied", "run: ended", "end run: done"),
    *("configure: done", "configure: LB109", "move: done", "move: LB101"),
]


@dataclass(frozen=True)
class Fault:
    """A rule broken on purpose: text of a file of ``sql/``, and text instead; and the examples that meet it early."""

    name: str
    file: str
    old: str
    new: str
    number: int = 0


FAULTS = [
    Fault(
        "a raise has no end",
        "35_budget/limit_in_force.sql",
        "case when p_raise_until > p_at then p_raise else 0 end",
        "coalesce(p_raise, 0)",
        5,
    ),
    Fault(
        "room is not carried over", "50_reserve/open_periods.sql", "budget_internal.carried_room(s.budget_id, s.starts_at)", "0"
    ),
    Fault(
        "a reset forgives nothing",
        "35_budget/reset_budget.sql",
        "forgiven_nano_usd = p.spent_nano_usd",
        "forgiven_nano_usd = 0",
    ),
    Fault("a minute is not corrected", "55_settle/correct_rates.sql", "w.tokens + d.tokens", "w.tokens"),
    Fault("an allowance shrinks as if for one choice", "50_reserve/decide.sql", "v_room / p_request.choices", "v_room", 9),
    Fault(
        "a check lets through at the limit",
        "50_reserve/refusing_slot.sql",
        "then p_spent[v_slot] >= v_limit",
        "then p_spent[v_slot] > v_limit",
        2,
    ),
    Fault("a narrowed budget counts every model", "55_settle/book_closures.sql", "m.model = any (b.models)", "true", 4),
    Fault(
        "a moved unit takes no chains along",
        "30_scope/move_scope.sql",
        "perform budget_internal.refresh_chains(v_unit.org_id, array(",
        "perform cardinality(array(",
    ),
    Fault("every refusal waits", "50_reserve/reserve_batch.sql", " or v_result.code = 'budget_busy' then", " or true then", 4),
    Fault("an ended run gives nothing back", "52_run/end_run.sql", "perform budget_internal.shrink_carves(v_below);", "", 1),
    Fault(
        "a heartbeat is late an instant early",
        "60_heartbeat/heartbeat.sql",
        "r.stale_at >= budget_internal.clock()",
        "r.stale_at > budget_internal.clock()",
        9,
    ),
    Fault("the hold is not given back", "55_settle/book_closures.sql", "held_nano_usd = p.held_nano_usd - m.held, ", ""),
]


def run(stage: Stage, seen: Counter[str] | None = None, number: int = 0, **changed: Any) -> None:
    """Run the machine on a database; with a number other than 0, on the examples of that number."""
    counts: Counter[str] = Counter() if seen is None else seen

    class Here(Machine):
        def __init__(self) -> None:
            super().__init__(stage, counts)

    base = settings(
        max_examples=120,
        stateful_step_count=30,
        deadline=None,
        # The same examples in each run: a red run is a fault of what changed.
        derandomize=True,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    if wanted := os.environ.get("PGBUDGET_MODEL_EXAMPLES"):
        base = settings(base, max_examples=int(wanted), derandomize=False)
        number = int(os.environ.get("PGBUDGET_MODEL_SEED") or random.randrange(2**32))
        print(f"PGBUDGET_MODEL_SEED={number}")
    if number:
        base = settings(base, derandomize=False)
        seed(number)(Here)
    run_state_machine_as_test(Here, settings=settings(base, **changed))


def test_the_database_does_what_the_reference_does(world: World) -> None:
    seen: Counter[str] = Counter()
    stage = Stage(world)
    # The first two meet everything there is; after a change of what is drawn it may take more.
    for number in (2, 4, *range(5, 15)):
        run(stage, seen, number)
        if all(seen[what] for what in REACHED):
            break
    assert [what for what in REACHED if not seen[what]] == [], seen


@pytest.mark.tests_of_tests
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_reference_sees_a_fault(world: World, fault: Fault) -> None:
    """Its steps reach what they are meant to reach."""
    mutant(fault.name, lambda _: None, (fault.file, fault.old, fault.new)).apply(world)
    stage = Stage(world)
    for number in (fault.number, *range(20, 30)):
        try:
            # The first find is enough.
            run(stage, None, number, max_examples=25, phases=[Phase.generate], report_multiple_bugs=False)
        except (AssertionError, psycopg.Error):
            return
    pytest.fail("not seen")
