"""Price lists as plain values: rates, cards, and how two of them differ. Amounts are exact; no float anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Any

#: The units that a price may be quoted for, as the database has them.
UNITS = (1, 60, 1000, 3600, 1_000_000, 1_000_000_000)
EVERY_DAY = (1, 2, 3, 4, 5, 6, 7)

#: What tells the rates of one list apart: variant, kind, tokens above which it holds, part of the day (minutes, weekdays).
Key = tuple[str, str, int, tuple[int, int, tuple[int, ...]] | None]


@dataclass(frozen=True)
class Window:
    """Times of day in UTC, ``HH:MM``; weekdays from 1, Monday."""

    start: str
    end: str
    weekdays: tuple[int, ...] = EVERY_DAY

    def parts(self) -> list[tuple[int, int, tuple[int, ...]]]:
        """Minutes of the day and weekdays; past midnight, the rest on the days after."""
        first, last = _minute(self.start), _minute(self.end)
        if last > first:
            return [(first, last, self.weekdays)]
        rest = (0, last, tuple(sorted(day % 7 + 1 for day in self.weekdays)))
        return [(first, 1440, self.weekdays)] + [rest] * (last > 0)


@dataclass(frozen=True)
class Rate:
    """One line of a price list: USD for ``per`` units of a kind."""

    kind: str
    usd: Decimal
    per: int = 1_000_000
    variant: str = "standard"
    above_input_tokens: int = 0
    window: Window | None = None

    def amounts(self) -> Iterable[tuple[Key, Fraction]]:
        """The exact USD a unit, for each part of the day."""
        for part in self.window.parts() if self.window else [None]:
            yield (self.variant, self.kind, self.above_input_tokens, part), Fraction(self.usd) / self.per

    def as_json(self) -> dict[str, Any]:
        """As ``budget.add_price`` takes it, without what is the default."""
        made: dict[str, Any] = {"kind": self.kind, "usd": f"{self.usd:f}"}
        if self.per != 1_000_000:
            made["per"] = self.per
        if self.variant != "standard":
            made["variant"] = self.variant
        if self.above_input_tokens:
            made["above_input_tokens"] = self.above_input_tokens
        if self.window:
            made["window"] = {"from": self.window.start, "to": self.window.end}
            if self.window.weekdays != EVERY_DAY:
                made["window"]["weekdays"] = list(self.window.weekdays)
        return made

    @staticmethod
    def from_json(made: Mapping[str, Any]) -> Rate:
        """The reverse of ``as_json``."""
        window = made.get("window")
        return Rate(
            made["kind"], Decimal(str(made["usd"])), int(made.get("per", 1_000_000)), made.get("variant", "standard"),
            int(made.get("above_input_tokens", 0)),
            Window(window["from"], window["to"], tuple(window.get("weekdays", EVERY_DAY))) if window else None,
        )  # fmt: skip


@dataclass(frozen=True)
class Card:
    """One version of a model's price list, with the model's limits in tokens (None: unknown)."""

    provider: str
    model: str
    rates: tuple[Rate, ...]
    #: None: the source does not say since when.
    effective_from: datetime | None = None
    context: int | None = None
    max_output: int | None = None
    aliases: tuple[str, ...] = ()
    source: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)

    def amounts(self) -> dict[Key, Fraction]:
        """All rates by what tells them apart."""
        return {key: amount for rate in self.rates for key, amount in rate.amounts()}

    def same_prices(self, other: Card) -> bool:
        """Whether both charge the same for everything."""
        return self.amounts() == other.amounts()


def quoted(kind: str, usd: Decimal, per: int, **rest: Any) -> Rate:
    """A rate whose amount is a whole number of nano-USD, in the unit it is quoted in or else a larger one.

    A source that cut a fraction off (0.0833333333333333) is whole in no unit: then the largest one, rounded up.
    """
    amount, unit = usd, per
    for unit in (per, *(u for u in UNITS if u > per and u % per == 0)):
        amount = usd * (unit // per)
        if (amount * 10**9) % 1 == 0:
            break
    return Rate(kind, _plain((amount * 10**9).to_integral_value(ROUND_CEILING) / 10**9), unit, **rest)


def with_weekdays(rates: Iterable[Rate], weekdays: tuple[int, ...]) -> tuple[Rate, ...]:
    """The same rates, their windows on these days only."""
    return tuple(replace(r, window=replace(r.window, weekdays=weekdays)) if r.window else r for r in rates)


def describe(key: Key) -> str:
    """A rate's place in words: ``input``, ``priority output above 272000``, ``input 01:00-04:00 Mon-Fri``."""
    variant, kind, above, part = key
    words = ([] if variant == "standard" else [variant]) + [kind] + ([f"above {above}"] if above else [])
    if part:
        first, last, days = part
        words.append(f"{first // 60:02}:{first % 60:02}-{last // 60:02}:{last % 60:02}")
        if days != EVERY_DAY:
            names = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
            run = days == tuple(range(days[0], days[-1] + 1)) and len(days) > 2
            words.append(f"{names[days[0] - 1]}-{names[days[-1] - 1]}" if run else ",".join(names[d - 1] for d in days))
    return " ".join(words)


def per_million(amount: Fraction) -> str:
    """USD for a million units, exact where it ends, else as a fraction."""
    million = amount * 1_000_000
    rest = million.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return str(million)
    return f"{_plain(Decimal(million.numerator) / Decimal(million.denominator)):f}"


def _minute(text: str) -> int:
    hour, minute = text.split(":")
    return int(hour) * 60 + int(minute)


def _plain(value: Decimal) -> Decimal:
    value = value.normalize()
    return value if int(value.as_tuple().exponent) <= 0 else value.quantize(Decimal(1))
