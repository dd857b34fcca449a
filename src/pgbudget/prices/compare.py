"""How what a source says differs from what is in force, line by line: the reviewable diff."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import Any, Literal

from pgbudget.prices.cards import Card, Key, describe, per_million
from pgbudget.prices.second import SecondSource
from pgbudget.prices.store import Listed


@dataclass(frozen=True)
class Line:
    """One rate or limit: now, by the source, and by the second source where that says otherwise."""

    what: str
    now: str | None
    source: str | None
    second: str | None = None


@dataclass(frozen=True)
class Change:
    """A model whose list differs. ``new`` has no list in force, ``vanished`` has one that the source does not know."""

    kind: Literal["new", "changed", "vanished"]
    card: Card
    lines: tuple[Line, ...]

    def as_json(self) -> dict[str, Any]:
        """For ``--json``. Amounts are USD for a million units."""
        begins = self.card.effective_from
        return {
            "provider": self.card.provider,
            "model": self.card.model,
            "change": self.kind,
            "effective_from": begins.isoformat() if begins and self.kind != "vanished" else None,
            "lines": [{"what": x.what, "now": x.now, "source": x.source, "second": x.second} for x in self.lines],
            "detail": dict(self.card.detail),
        }


def compare(
    cards: Iterable[Card], listed: Iterable[Listed], second: SecondSource, at: datetime, providers: Iterable[str]
) -> list[Change]:
    """What differs now and from each announced date on, for some providers."""
    wanted = set(providers)
    reviewed = [v for v in listed if v.reviewed_by is not None and v.card.provider in wanted]
    changes: list[Change] = []
    known: set[tuple[str, str]] = set()
    said: dict[tuple[str, str], Card] = {}
    for card in (_with_limits(c, second) for c in cards if c.provider in wanted):
        name = (card.provider, card.model)
        known.add(name)
        moment = at if name not in said else (card.effective_from or at)
        # A later list of the source changes the one before it, not what is in force today.
        now = said.get(name) or _in_force(reviewed, name, moment)
        planned = _in_force(reviewed, name, moment)
        said[name] = card
        if now is None and card.detail.get("deprecated"):
            # Nobody should begin with it.
            continue
        if now is None or (planned and not planned.same_prices(card) and not now.same_prices(card)):
            changes.append(Change("new" if now is None else "changed", card, tuple(_lines(now, card, second))))
    for version in reviewed:
        name = (version.card.provider, version.card.model)
        if name not in known and _in_force(reviewed, name, at) is version.card:
            changes.append(Change("vanished", version.card, tuple(_lines(version.card, None, second))))
    return sorted(changes, key=lambda c: (c.card.provider, ("new", "changed", "vanished").index(c.kind), c.card.model))


def to_import(changes: Iterable[Change], listed: Iterable[Listed], second: SecondSource) -> list[Card]:
    """The versions to add for what is new or changed: none that waits for a review already, none before what is in force."""
    versions = list(listed)
    cards = []
    for change in changes:
        if change.kind == "vanished":
            continue
        card = change.card
        own = [v for v in versions if (v.card.provider, v.card.model) == (card.provider, card.model)]
        if any(v.reviewed_by is None and v.card.same_prices(card) for v in own):
            continue
        begins = card.effective_from
        if begins is not None and any(v.card.effective_from and v.card.effective_from >= begins for v in own):
            # There is a later one already, or one of that very date: this holds from its import on.
            begins = None
        detail = dict(card.detail)
        differs = {line.what: line.second for line in change.lines if line.second is not None}
        if differs:
            detail["second_source"] = {"source": second.name, "usd_per_million": differs}
        cards.append(replace(card, effective_from=begins, detail=detail))
    return cards


def with_limits(cards: Iterable[Card], second: SecondSource) -> list[Card]:
    """Cards with the limits that the second source adds: the larger context, since a bound is cut to it."""
    return [_with_limits(card, second) for card in cards]


def disagreements(card: Card, second: SecondSource) -> dict[str, str]:
    """What the second source says otherwise, in USD a million."""
    return {line.what: line.second for line in _lines(None, card, second) if line.second is not None}


def _with_limits(card: Card, second: SecondSource) -> Card:
    opinion = second.ask(card)
    if opinion is None:
        return card
    context = max((c for c in (card.context, opinion.context) if c), default=None)
    return replace(card, context=context, max_output=opinion.max_output if card.max_output is None else card.max_output)


def _in_force(versions: Iterable[Listed], name: tuple[str, str], at: datetime) -> Card | None:
    for version in versions:
        begins, ends = version.card.effective_from, version.effective_to
        named = (version.card.provider, version.card.model) == name
        if named and begins is not None and begins <= at and (ends is None or at < ends):
            return version.card
    return None


def _lines(now: Card | None, card: Card | None, second: SecondSource) -> Iterable[Line]:
    old, new = (now.amounts() if now else {}), (card.amounts() if card else {})
    opinion = second.ask(card) if card else None
    other = opinion.amounts if opinion else {}
    for key in sorted(old.keys() | new.keys(), key=_order):
        differs = key in new and key in other and other[key] != new[key]
        if now is None or card is None or old.get(key) != new.get(key) or differs:
            yield Line(describe(key), _usd(old.get(key)), _usd(new.get(key)), _usd(other[key]) if differs else None)


def _order(key: Key) -> tuple[Any, ...]:
    variant, kind, above, part = key
    return (variant != "standard", variant, kind, above, part or (-1, -1, ()))


def _usd(amount: Fraction | None) -> str | None:
    return None if amount is None else per_million(amount)
