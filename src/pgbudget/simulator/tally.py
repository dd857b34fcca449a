"""What the simulator generated and would bill: the ground truth of tests and benchmarks.

Priced by its own rate card, exactly, rounded up to whole nano-USD once a call; shares no code with what it checks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal

#: Calls that are kept whole; older ones count in the totals only.
KEPT: Final = 10_000

#: running -> how it ended: answered, refused with an error, broken off by the simulator, or left by the client.
State = Literal["running", "finished", "refused", "broken", "left"]


def _pico(usd_per_million: str) -> int:
    """A vendor's price, USD a million tokens, as pico-USD a token."""
    pico = Decimal(usd_per_million) * 10**6
    assert pico == int(pico)
    return int(pico)


@dataclass(frozen=True, slots=True)
class Price:
    """Prices of one model, pico-USD a token; ``output`` is None where it generates no text."""

    input: int
    cached: int
    output: int | None
    write_5m: int
    write_1h: int

    @classmethod
    def of(cls, per_million: str) -> Price:
        """Read ``input cached output [write_5m write_1h]``, USD a million tokens; ``-``: no output. A write costs as input."""
        fresh, cached, output, *writes = per_million.split()
        write_5m, write_1h = writes or (fresh, fresh)
        return cls(_pico(fresh), _pico(cached), None if output == "-" else _pico(output), _pico(write_5m), _pico(write_1h))


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the rate card."""

    max_output: int
    price: Price
    #: Above so many input tokens the whole call has the other price.
    cliff: int | None = None
    beyond: Price | None = None

    def price_of(self, input_tokens: int) -> Price:
        """The price of a call by its size."""
        if self.cliff is not None and self.beyond is not None and input_tokens > self.cliff:
            return self.beyond
        return self.price


RATES: Final = {
    "t-mini": Model(16_384, Price.of("1 0.25 4")),
    "t-pro": Model(32_768, Price.of("5 0.5 30")),
    "c-son": Model(64_000, Price.of("3 0.3 15 3.75 6"), 200_000, Price.of("6 0.6 22.5 7.5 12")),
    # What the advisor of a recording ran on.
    "claude-opus-4-8": Model(128_000, Price.of("5 0.5 25 6.25 10")),
    "e-small": Model(0, Price.of("0.02 0.02 -")),
}
#: A web search, whatever the model: 10 USD a thousand.
SEARCH_NANO: Final = 10_000_000
#: What the tokens cost at a service tier, in halves of their price; at the price itself if it is not one of these.
TIERS: Final = {"flex": 1, "batch": 1, "priority": 4}


#: What is counted of a call.
COUNTS: Final = (
    "prompt_tokens",
    "cached_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
    "completion_tokens",
    "web_searches",
)


@dataclass(slots=True, eq=False)
class Call:
    """One call, and what was made of it so far. Costs nothing until the generation begins."""

    model: str
    id: Any = None
    #: All of the input: fresh, from the cache, written to it.
    prompt_tokens: int = 0
    cached_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    reasoning_tokens: int = 0
    completion_tokens: int = 0
    web_searches: int = 0
    service_tier: str | None = None
    billed: bool = False
    #: What other models did for it.
    others: list[Call] = field(default_factory=list)
    state: State = "running"
    status: int | None = None
    request_headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    request_body: Any = None

    def bill(self, counts: Mapping[str, int | None]) -> None:
        """From now on it costs; ``counts`` by the names of its members, which may be not known."""
        for name in COUNTS:
            setattr(self, name, counts.get(name) or 0)
        self.billed = True

    @property
    def billed_nano_usd(self) -> int:
        """What a provider charges for it, other models' work not included; nothing for a model off the rate card."""
        model = RATES.get(self.model)
        if not self.billed or model is None:
            return 0
        price = model.price_of(self.prompt_tokens)
        writes = self.cache_write_5m_tokens + self.cache_write_1h_tokens
        pico = (
            max(0, self.prompt_tokens - self.cached_tokens - writes) * price.input
            + self.cached_tokens * price.cached
            + self.cache_write_5m_tokens * price.write_5m
            + self.cache_write_1h_tokens * price.write_1h
            + self.completion_tokens * (price.output or 0)
        )
        halves = pico * TIERS.get(self.service_tier or "", 2)
        return -(-halves // 2000) + self.web_searches * SEARCH_NANO

    def shown(self) -> dict[str, Any]:
        """As JSON; headers as they came, the provider's key included."""
        return {
            "id": self.id,
            "model": self.model,
            "state": self.state,
            "status": self.status,
            "finished": self.state in ("finished", "refused"),
            **{name: getattr(self, name) for name in COUNTS},
            "service_tier": self.service_tier,
            "billed": self.billed,
            "billed_nano_usd": self.billed_nano_usd,
            "others": [{"model": o.model, "billed_nano_usd": o.billed_nano_usd} for o in self.others],
            "request_headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in self.request_headers],
            "request_body": self.request_body,
        }


@dataclass(slots=True)
class Totals:
    """Sums over calls."""

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0

    def add(self, call: Call, requests: int = 1) -> None:
        """Count a call."""
        self.requests += requests
        self.input_tokens += call.prompt_tokens
        self.cached_tokens += call.cached_tokens
        self.output_tokens += call.completion_tokens
        self.cost_nano_usd += call.billed_nano_usd

    def plus(self, other: Totals) -> Totals:
        """The sum of two."""
        return Totals(*(getattr(self, name) + getattr(other, name) for name in Totals.__slots__))

    def shown(self) -> dict[str, int]:
        """As JSON."""
        return {name: getattr(self, name) for name in Totals.__slots__}


def _add(by_model: dict[str, Totals], call: Call) -> None:
    """Count a call where it belongs: one request, whatever other models did for it."""
    by_model.setdefault(call.model, Totals()).add(call)
    for other in call.others:
        by_model.setdefault(other.model, Totals()).add(other, requests=0)


class Tally:
    """All calls since the last reset. Ended calls are summed once, so that reading costs the same after a million."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all calls, running ones too."""
        self._recent: deque[Call] = deque(maxlen=KEPT)
        self._running: set[Call] = set()
        self._ended: dict[str, Totals] = {}
        self._states: dict[State, int] = dict.fromkeys(("finished", "refused", "broken", "left"), 0)

    def begin(self, call: Call) -> None:
        """A call has come."""
        self._running.add(call)
        self._recent.append(call)

    def end(self, call: Call, state: State) -> None:
        """A call has ended; the first end counts."""
        if call.state != "running":
            return
        call.state = state
        if call in self._running:
            self._running.remove(call)
            _add(self._ended, call)
            self._states[state] += 1

    def summary(self, limit: int) -> dict[str, Any]:
        """Totals, and the last ``limit`` calls, oldest first."""
        by_model = {model: totals.plus(Totals()) for model, totals in self._ended.items()}
        for call in self._running:
            _add(by_model, call)
        total = Totals()
        for totals in by_model.values():
            total = total.plus(totals)
        states = {"running": len(self._running), **self._states}
        return {
            **total.shown(),
            "unfinished": states["running"] + states["broken"] + states["left"],
            "states": states,
            "by_model": {m: {**by_model[m].shown(), "priced": m in RATES} for m in sorted(by_model)},
            "generated": [call.shown() for call in list(self._recent)[-limit:]] if limit > 0 else [],
        }
