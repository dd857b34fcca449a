"""The rate card of the stage, in nano-USD a token, and what usage and worst cases cost by it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

Usage = dict[str, int]

#: Kinds that have a price; the others of a model's list fall back, or have none.
RATES: dict[str, dict[str, Fraction]] = {
    "t-mini": {"input": Fraction(1000), "cache_read": Fraction(250), "output": Fraction(4000)},
    "t-pro": {"input": Fraction(5000), "cache_read": Fraction(500), "output": Fraction(30000)},
    "c-son": {
        "input": Fraction(3000),
        "cache_read": Fraction(300),
        "cache_write_5m": Fraction(3750),
        "cache_write_1h": Fraction(6000),
        "output": Fraction(15000),
        "web_search": Fraction(10_000_000),
    },
    # Not whole: each amount is rounded up once.
    "odd": {"input": Fraction("1000.3"), "output": Fraction("4000.21")},
    # Without a price.
    "raw": {},
}
#: What a token costs that has no price of its own.
FALLBACK = {"cache_read": "input", "reasoning": "output"}
#: Kinds that count as tokens of a minute; fees do not.
TOKENS = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")
KNOWN = (*TOKENS, "web_search")
NOT_INPUT = ("output", "web_search")
#: Kinds of input that only a request with this feature can turn into.
BY_FEATURE = ("cache_write_5m", "cache_write_1h")


@dataclass(frozen=True)
class Route:
    """One way to a model."""

    model: str
    account: str


#: Model names that clients type, and where they lead, in order. ``both``: the first is the cheaper one.
ROUTES: dict[str, tuple[Route, ...]] = {
    "t-mini": (Route("t-mini", "simulator"),),
    "t-pro": (Route("t-pro", "simulator"),),
    "c-son": (Route("c-son", "simulator"),),
    "odd": (Route("odd", "spare"),),
    "raw": (Route("raw", "simulator"),),
    "both": (Route("t-mini", "simulator"), Route("t-pro", "spare")),
}
CONTEXT = {"t-mini": 128_000, "t-pro": 400_000, "c-son": 200_000, "odd": 128_000, "raw": 128_000}
MAX_OUTPUT = {"t-mini": 16_384, "t-pro": 32_768, "c-son": 64_000, "odd": 6_000, "raw": 16_384}


def believable(usage: Usage | None) -> bool:
    """Whether usage is made of kinds that exist and whole numbers."""
    return usage is not None and all(kind in KNOWN and 0 <= quantity <= 10**12 for kind, quantity in usage.items())


def price(model: str, usage: Usage | None) -> int | None:
    """What usage costs; None when it is missing, cannot be believed, or has a unit without a price."""
    rates = RATES[model]
    if not usage or not rates or not believable(usage):
        return None
    total = Fraction(0)
    for kind, quantity in usage.items():
        rate = rates.get(kind, rates.get(FALLBACK.get(kind, "")))
        if rate is None and quantity:
            return None
        total += (rate or 0) * quantity
    return ceil(total)


def worst_case(model: str, input_tokens: int, output_tokens: int, features: frozenset[str]) -> int | None:
    """The most that a call can cost: each token as the dearest kind that it can turn into; None without a price."""
    rates = RATES[model]
    if any(feature not in rates for feature in features):
        return None
    dearest_input = max((rate for kind, rate in rates.items() if _can_be_input(kind, features)), default=None)
    if dearest_input is None:
        return None
    return ceil(dearest_input * input_tokens + rates["output"] * output_tokens)


def _can_be_input(kind: str, features: frozenset[str]) -> bool:
    return kind not in NOT_INPUT and (kind not in BY_FEATURE or kind in features)


def plan_cost(name: str, input_tokens: int, output_tokens: int, features: frozenset[str]) -> int | None:
    """The most over every route that a name may lead to; None when one of them has no price."""
    costs = [worst_case(route.model, input_tokens, output_tokens, features) for route in ROUTES[name]]
    known = [cost for cost in costs if cost is not None]
    return max(known) if len(known) == len(costs) else None
