"""Calls: what was granted, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.model.reference.budgets import Budget
from tests.model.reference.prices import TOKENS, Usage, believable, price
from tests.model.reference.tree import Scope

IDEMPOTENCY = timedelta(days=7)

#: A budget and the start of one of its windows.
At = tuple[Budget, datetime | None]


@dataclass(frozen=True)
class Report:
    """What a settlement says of a call."""

    outcome: str
    usage: Usage | None = None
    seen: Usage | None = None

    @property
    def says_nothing_was_spent(self) -> bool:
        """Whether the call is given up without charge."""
        return self.outcome in ("released", "unsent") and not self.usage

    @property
    def says_it_was_not_sent(self) -> bool:
        """Whether the call never left."""
        return self.outcome == "unsent" and not self.usage

    def same(self, other: Report | None) -> bool:
        """Whether it says nothing new."""
        return other is not None and other.outcome == self.outcome and (other.usage or None) == (self.usage or None)


@dataclass(eq=False)
class Call:
    """A granted request."""

    id: str
    key: str
    request_id: str | None
    body: str
    holder: str | None
    #: What it is priced as, however it was asked for.
    model: str
    #: None: unknown, nothing is held.
    cost: int | None
    #: The most that the route it takes can cost; None: unknown.
    worst: int | None
    held: list[At]
    counted: list[At]
    units: list[str]
    rates: list[Scope]
    tokens: int
    output: int
    rung: str | None
    at: datetime
    stale_at: datetime
    run: str | None = None
    state: str = "open"
    charged: int = 0
    charged_to: list[At] = field(default_factory=list)
    forgiven: set[tuple[int, datetime | None]] = field(default_factory=set)
    ended_at: datetime | None = None
    ended_by: Report | None = None
    corrected_by: Report | None = None

    @property
    def reserved(self) -> int:
        """What is held on each strict budget of its chain."""
        return (self.cost or 0) if self.held else 0

    @property
    def used_tokens(self) -> int:
        """What it counts as in its minute."""
        if self.state == "released":
            return 0
        report = {"settled": self.ended_by, "trued_up": self.corrected_by}.get(self.state)
        if report is None:
            return self.tokens
        return sum(quantity for kind, quantity in (report.usage or {}).items() if kind in TOKENS)

    @property
    def was_sent(self) -> bool:
        """Whether it counts as a request of its minute: by the last that is known of it."""
        report = self.corrected_by or self.ended_by
        return report is None or not report.says_it_was_not_sent

    def keeps_its_id(self, now: datetime) -> bool:
        """Whether a request with its id is a repeat. What was charged keeps it, also when it turns out to be unsent."""
        if self.ended_at is None or self.ended_by is None:
            return True
        return not self.ended_by.says_it_was_not_sent and self.ended_at > now - IDEMPOTENCY

    def end(self, report: Report, now: datetime) -> None:
        """The call ends."""
        most = self.reserved if self.held else self.worst or 0
        cost, seen = price(self.model, report.usage), price(self.model, report.seen)
        bad = bool(report.seen) and not believable(report.seen)
        if report.says_nothing_was_spent:
            self.state, self.charged = "released", 0
        elif report.outcome in ("unknown", "stale") or cost is None or bad:
            self.state, self.charged = "charged", max(most, seen or 0)
        else:
            bound = max(min(cost, most), seen or 0)
            self.state, self.charged = "settled", cost if report.outcome == "finished" else bound
        self.charged_to = [at for at in self.held + self.counted if at[0].counts(self.model)]
        self.ended_at, self.ended_by = now, report

    def settle(self, report: Report, now: datetime) -> tuple[str, str | None, int]:
        """A report arrives: status, code and charge of the answer."""
        if self.state == "open":
            self.end(report, now)
            return self.state, None, self.charged
        if self.state == "charged":
            cost = price(self.model, report.usage) if report.outcome in ("finished", "estimated") else None
            if report.says_nothing_was_spent:
                cost = 0
            if cost is None:
                return "repeated", None, self.charged
            if report.outcome == "estimated":
                # No more than the charge that it corrects, and no less than what was seen.
                cost = max(min(cost, self.charged), price(self.model, report.seen) or 0)
            self.state, self.corrected_by, self.charged = "trued_up", report, cost
            return self.state, None, self.charged
        if report.same(self.ended_by) or report.same(self.corrected_by):
            return "repeated", None, self.charged
        return "rejected", "settlement_conflict", self.charged
