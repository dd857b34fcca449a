"""Budgets, their settings, and the rules between those above and below."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any

from tests.model.reference.calendar import DAYS, Window, window
from tests.model.reference.tree import Scope, Tree

#: Kinds of scopes that stand over others.
OVER = ("org", "project", "unit", "member")


@dataclass
class Period:
    """A window that a call was admitted in."""

    window: Window
    carried: int
    #: Calls that were admitted while the budget was strict.
    steps: int = 0


@dataclass
class Budget:
    """One budget. ``steps``: the most calls it admits, of a run."""

    scope: Scope
    name: str
    limit: int | None
    kind: str
    zone: str
    anchor: datetime
    created: datetime
    enforcement: str = "strict"
    models: frozenset[str] | None = None
    raised: int | None = None
    raised_until: datetime | None = None
    carry_cap: int | None = None
    allocation: str = "each_within"
    steps: int | None = None
    deleted: bool = False
    #: Given by the database, in the order of creation.
    id: int = 0
    periods: dict[datetime | None, Period] = field(default_factory=dict)

    @property
    def strict(self) -> bool:
        """Whether calls are held against it."""
        return self.enforcement == "strict"

    def window(self, at: datetime) -> Window:
        """Its window at a moment."""
        return window(self.kind, self.anchor, self.zone, at)

    def counts(self, model: str) -> bool:
        """Whether the spend of a model belongs to it."""
        return self.models is None or model in self.models

    def limit_at(self, at: datetime, carried: int) -> int | None:
        """What a period may take at a moment."""
        if self.limit is None:
            return None
        raised = self.raised if self.raised_until is not None and self.raised_until > at else None
        return self.limit + (raised or 0) + carried

    def changed(self, now: datetime, limit: int | None, kind: str, options: dict[str, Any]) -> dict[str, Any]:
        """The settings after ``set_budget``: what is named changes, the rest stays where it still has a meaning."""
        settings = {
            "limit": limit,
            "kind": kind,
            "zone": options.get("zone", self.zone),
            "anchor": self.anchor if kind == self.kind else now.replace(microsecond=0),
            **{name: options.get(name, getattr(self, name)) for name in ("enforcement", "models", "allocation", "carry_cap")},
            "raised": self.raised,
            "raised_until": self.raised_until,
        }
        if "raised" in options:
            settings["raised"], settings["raised_until"] = options["raised"], options["raised_until"]
        if limit is None or (settings["raised_until"] is not None and settings["raised_until"] <= now):
            settings["raised"] = settings["raised_until"] = None
        if limit is None or kind == "total":
            settings["carry_cap"] = None
        return settings


def rate(budget: Budget) -> Fraction:
    """A limit a day."""
    return Fraction(budget.limit or 0, DAYS[budget.kind])


def compared(budget: Budget, above: Budget) -> bool:
    """Whether a budget must be within another that stands over it."""
    return (
        budget.limit is not None
        and budget.enforcement != "soft"
        and (budget.kind == "total") == (above.kind == "total")
        and (above.models is None or (budget.models is not None and budget.models <= above.models))
    )


def violations(tree: Tree, budgets: Iterable[Budget]) -> set[tuple[str, ...]]:
    """Pairs, and shares of sums, that break an allocation rule."""
    by_scope: dict[Scope, list[Budget]] = defaultdict(list)
    for budget in budgets:
        by_scope[budget.scope].append(budget)
    found: set[tuple[str, ...]] = set()
    for scope, own in list(by_scope.items()):
        for above in own:
            if scope[0] not in OVER or above.limit is None or above.enforcement == "soft":
                continue
            for below in (b for other in tree.beneath(scope) for b in by_scope[other]):
                if compared(below, above) and rate(below) > rate(above):
                    found.add((*scope, above.name, *below.scope, below.name))
            if above.allocation == "sum_within":
                sides = [_shares(tree, by_scope, above, tree.children(scope))]
                if scope[0] == "org":
                    members: list[Scope] = [("member", member) for member in tree.members]
                    sides.append({m: share for m in members if (share := _share(by_scope, above, m)) is not None})
                for shares in sides:
                    if sum(shares.values()) > rate(above):
                        found.update((*scope, above.name, "sum", *share) for share in shares)
    return found


def _share(by_scope: dict[Scope, list[Budget]], above: Budget, scope: Scope) -> Fraction | None:
    return min((rate(budget) for budget in by_scope[scope] if compared(budget, above)), default=None)


def _shares(tree: Tree, by_scope: dict[Scope, list[Budget]], above: Budget, scopes: list[Scope]) -> dict[Scope, Fraction]:
    """The nearest budgets beneath."""
    found: dict[Scope, Fraction] = {}
    for scope in scopes:
        share = _share(by_scope, above, scope)
        if share is not None:
            found[scope] = share
        else:
            found |= _shares(tree, by_scope, above, tree.children(scope))
    return found
