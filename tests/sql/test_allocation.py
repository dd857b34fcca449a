"""Allocation rules against a second writing of them: random trees, budgets and changes, each accepted or refused alike."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import psycopg
import pytest

from tests.sql.test_mutants import Mutant, mutant
from tests.support.world import World

DAYS = {"1d": 1, "day": 1, "7d": 7, "week": 7, "30d": 30, "month": 30, "quarter": 90, "year": 360}
MODELS = ["c-son", "t-mini", "t-pro"]
Scope = tuple[str, str]


@dataclass(frozen=True)
class Budget:
    """One budget as an admin set it; the limit in micro-dollars."""

    limit: int | None
    period: str
    enforcement: str
    models: frozenset[str] | None
    allocation: str

    @property
    def counts(self) -> bool:
        return self.limit is not None and self.enforcement != "soft"

    @property
    def rate(self) -> Fraction:
        return Fraction(self.limit or 0, DAYS.get(self.period, 1))

    def stands_over(self, other: Budget) -> bool:
        """Whether the two are compared."""
        return (
            self.counts
            and other.counts
            and (self.period == "total") == (other.period == "total")
            and (self.models is None or (other.models is not None and other.models <= self.models))
        )


@dataclass
class Org:
    """The tree by the scopes right above, of a key its unit or project, and its member; budgets by scope and name."""

    above: dict[Scope, list[Scope]]
    budgets: dict[tuple[Scope, str], Budget] = field(default_factory=dict)

    def below(self, scope: Scope) -> list[Scope]:
        return [s for s, parents in self.above.items() if scope in parents]

    def line_above(self, scope: Scope) -> set[Scope]:
        parents = self.above[scope]
        return set(parents).union(*(self.line_above(p) for p in parents)) if parents else set()

    def of(self, scope: Scope) -> dict[str, Budget]:
        return {name: budget for (owner, name), budget in self.budgets.items() if owner == scope}

    def shares(self, scope: Scope, budget: Budget) -> dict[Scope, Fraction]:
        """The nearest scopes beneath with a budget that is compared; those of members are another matter."""
        found: dict[Scope, Fraction] = {}
        for lower in self.below(scope):
            if lower[0] == "member":
                continue
            rates = [b.rate for b in self.of(lower).values() if budget.stands_over(b)]
            found |= {lower: min(rates)} if rates else self.shares(lower, budget)
        return found

    def violations(self) -> set[Any]:
        """Every broken rule of the org."""
        found: set[Any] = set()
        for (lower, name), budget in self.budgets.items():
            for upper in self.line_above(lower):
                for upper_name, over in self.of(upper).items():
                    if over.stands_over(budget) and budget.rate > over.rate:
                        found.add(("each", upper, upper_name, lower, name))
        for (scope, name), budget in self.budgets.items():
            if budget.allocation != "sum_within":
                continue
            members = {
                s: min(rates)
                for s in self.below(scope)
                if s[0] == "member" and (rates := [b.rate for b in self.of(s).values() if budget.stands_over(b)])
            }
            for shares in (self.shares(scope, budget), members):
                if sum(shares.values()) > budget.rate:
                    found |= {("sum", scope, name, lower) for lower in shares}
        return found


def _tree(world: World, draw: random.Random) -> tuple[str, Org]:
    """An org with two projects, units up to four deep, members and keys, placed by chance."""
    name = world.org()
    org: Scope = ("org", name)
    above: dict[Scope, list[Scope]] = {org: [], ("project", "p"): [org], ("project", "q"): [org]}
    world.execute("select budget.create_scope(%s, 'project', 'q')", name)
    places: list[tuple[Scope, str, int]] = [(("project", "p"), "p", 0), (("project", "q"), "q", 0)]
    for unit in ("a", "b", "c", "d", "e"):
        parent, project, depth = draw.choice([place for place in places if place[2] < 4])
        world.execute("select budget.create_scope(%s, 'unit', %s, %s, %s)", name, unit, *parent)
        above["unit", unit] = [parent]
        places.append((("unit", unit), project, depth + 1))
    for member in ("m", "n"):
        world.execute("select budget.create_scope(%s, 'member', %s)", name, member)
        above["member", member] = [org]
    for key in ("k", "l", "o", "r"):
        parent, project, _ = draw.choice(places)
        owner = draw.choice(["m", "n", None])
        options = {"unit": parent[1] if parent[0] == "unit" else None, "member": owner}
        world.execute("select budget.create_key(%s, %s, %s, %s)", name, project, key, json.dumps(options))
        above["key", key] = [parent, *([("member", owner)] if owner else [])]
    return name, Org(above)


def _draw(draw: random.Random, scope: Scope) -> Budget:
    period = draw.choices([*DAYS, "total"], [1, 6, 1, 3, 1, 3, 2, 2, 4])[0]
    whole = {"org": 12, "project": 8, "unit": 6, "member": 6, "key": 4}[scope[0]]
    # Few distinct rates, so that equal ones are common.
    limit = None if draw.random() < 0.05 else draw.randint(1, whole) * DAYS.get(period, 1) + draw.choice([0, 0, 0, 1])
    return Budget(
        limit=limit,
        period=period,
        enforcement=draw.choices(["strict", "check", "soft"], [7, 2, 1])[0],
        models=frozenset(draw.sample(MODELS, draw.randint(1, 2))) if draw.random() < 0.2 else None,
        allocation="sum_within" if scope[0] in ("org", "project", "unit") and draw.random() < 0.5 else "each_within",
    )


def _call(world: World, statement: str, *arguments: Any) -> str:
    try:
        world.execute(statement, *arguments)
    except psycopg.Error as error:
        return "refused" if error.sqlstate == "LB109" else str(error)
    return "taken"


def changes_are_judged_alike(world: World) -> None:
    """A change is refused if, and only if, it breaks a rule that was not broken before."""
    outcomes: list[str] = []
    for seed in range(4):
        draw = random.Random(seed)
        name, org = _tree(world, draw)
        for step in range(110):
            scope, budget_name = draw.choice(list(org.above)), draw.choice(["x", "x", "y"])
            owner = None if scope[0] == "org" else name
            before, kept = org.violations(), dict(org.budgets)
            if (scope, budget_name) in org.budgets and draw.random() < 0.25:
                what = f"delete {scope} {budget_name}"
                del org.budgets[scope, budget_name]
                arguments: tuple[Any, ...] = (owner, *scope, budget_name)
                statement = "select budget.delete_budget(%s, %s, %s, %s)"
            else:
                budget = _draw(draw, scope)
                what = f"set {scope} {budget_name} {budget}"
                org.budgets[scope, budget_name] = budget
                options: dict[str, Any] = {"name": budget_name, "enforcement": budget.enforcement}
                options["models"] = sorted(budget.models) if budget.models else None
                options["allocation"] = budget.allocation if scope[0] in ("org", "project", "unit") else None
                arguments = (owner, *scope, budget.limit, budget.period, json.dumps(options))
                statement = "select budget.set_budget(%s, %s, %s, %s / 1e6, %s, %s)"
            broken = org.violations() - before
            if not broken:
                outcome = _call(world, statement, *arguments)
            elif draw.random() < 0.05:
                # As from before there were rules: what is broken already is nobody's change.
                _without_rules(world, statement, *arguments)
                outcome, broken = "taken", set()
            else:
                outcome = _call(world, statement, *arguments)
                org.budgets = kept
            assert outcome == ("refused" if broken else "taken"), f"seed {seed} step {step}: {what}: {broken}"
            outcomes.append(outcome)
    assert min(outcomes.count("refused"), outcomes.count("taken")) > len(outcomes) / 8, "a draw that tries both"


def _without_rules(world: World, statement: str, *arguments: Any) -> None:
    """A change as if there were no rules; they are there again for the next one."""
    rules = world.value("select pg_get_functiondef('budget_internal.check_allocation'::regproc)")
    with world.connect() as connection, connection.transaction():
        connection.execute(
            "create or replace function budget_internal.check_allocation(p_before text[], p_org_id bigint, p_scope_id bigint)"
            " returns void language plpgsql stable as 'begin end'"
        )
        connection.execute(statement.encode(), arguments)
        connection.execute(rules.encode())


def test_changes_are_judged_alike(world: World) -> None:
    changes_are_judged_alike(world)


VIOLATIONS = "35_budget/allocation_violations.sql"
SHARES = "35_budget/shares_below.sql"
MUTANTS = [
    mutant("equal is too much", changes_are_judged_alike, (VIOLATIONS, "and r.rate > v_rate", "and r.rate >= v_rate")),
    mutant(
        "equal is too much together",
        changes_are_judged_alike,
        (VIOLATIONS, "having sum(h.rate) > v_rate", "having sum(h.rate) >= v_rate"),
    ),
    mutant(
        "only the one above is asked",
        changes_are_judged_alike,
        ("35_budget/scopes_above.sql", "from above a\n    cross", "from (select p_scope_id as scope_id) a\n    cross"),
    ),
    mutant(
        "nothing beneath is asked",
        changes_are_judged_alike,
        (
            VIOLATIONS,
            "array(select l from budget_internal.scopes_below(p_org_id, p_scope_id) l) || p_scope_id",
            "array[p_scope_id]",
        ),
    ),
    mutant(
        "a sum is each", changes_are_judged_alike, (VIOLATIONS, "having sum(h.rate) > v_rate", "having max(h.rate) > v_rate")
    ),
    mutant(
        "a sum counts all levels", changes_are_judged_alike, (SHARES, "where p.rate is null and s.kind in", "where s.kind in")
    ),
    mutant(
        "the largest of a scope is its share",
        changes_are_judged_alike,
        (SHARES, "select l.of_members, l.scope_id, min(", "select l.of_members, l.scope_id, max("),
    ),
    mutant(
        "members share with projects", changes_are_judged_alike, (SHARES, "select true, s.scope_id", "select false, s.scope_id")
    ),
    mutant(
        "a year has 365 days",
        changes_are_judged_alike,
        ("35_budget/budget_rate.sql", "when 'year' then 7", "when 'year' then 6.9"),
    ),
    mutant(
        "soft ones are compared",
        changes_are_judged_alike,
        ("35_budget/is_compared.sql", "operator(pg_catalog.<>) 'soft'", "is not null"),
    ),
    mutant(
        "models are not looked at", changes_are_judged_alike, ("35_budget/is_compared.sql", "(p_models is null or", "(true or")
    ),
    mutant(
        "what was broken is refused",
        changes_are_judged_alike,
        ("35_budget/check_allocation.sql", "where v.identity <> all (p_before)", "where true"),
    ),
]


@pytest.mark.tests_of_tests
@pytest.mark.parametrize("fault", MUTANTS, ids=lambda fault: fault.name)
def test_a_fault_is_seen(world: World, fault: Mutant) -> None:
    fault.apply(world)
    try:
        fault.probe(world)
    except (AssertionError, psycopg.Error):
        return
    pytest.fail(f"{fault.probe.__name__} stays green over: {fault.name}")
