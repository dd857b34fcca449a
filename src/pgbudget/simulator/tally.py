"""What the simulator generated and would bill: the ground truth of tests and benchmarks.

Priced by its own rate card, in whole nano-USD, rounded up once a call; shares no code with what it checks.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

#: nano-USD a token: input, cached input, output.
RATES = {
    "t-mini": (1_000, 250, 4_000),
    "t-pro": (5_000, 500, 30_000),
    "c-son": (3_000, 300, 15_000),
    "e-small": (20, 20, 0),
}


@dataclass(slots=True)
class Generated:
    """One call: what was made of it so far. Billed from the moment that its body was read, as providers do."""

    id: str
    model: str
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    finished: bool = False
    billed: bool = False
    request_headers: list[tuple[str, str]] = field(default_factory=list)
    request_body: Any = None

    @property
    def billed_nano_usd(self) -> int:
        """What a provider charges for it."""
        if not self.billed:
            return 0
        rate_in, rate_cached, rate_out = RATES.get(self.model, (0, 0, 0))
        fresh = self.prompt_tokens - self.cached_tokens
        return fresh * rate_in + self.cached_tokens * rate_cached + self.completion_tokens * rate_out


class Tally:
    """All calls since the last reset."""

    def __init__(self) -> None:
        self.calls: list[Generated] = []
        self.keep_requests = True

    def add(self, call: Generated) -> None:
        """A call has begun."""
        if not self.keep_requests:
            call.request_headers, call.request_body = [], None
        self.calls.append(call)

    def reset(self) -> None:
        """Forget all calls."""
        self.calls = []

    def summary(self, limit: int) -> dict[str, Any]:
        """Totals, and the last ``limit`` calls."""
        shown = self.calls[-limit:] if limit else []
        return {
            "requests": len(self.calls),
            "unfinished": sum(not c.finished for c in self.calls),
            "input_tokens": sum(c.prompt_tokens for c in self.calls if c.billed),
            "output_tokens": sum(c.completion_tokens for c in self.calls if c.billed),
            "cost_nano_usd": sum(c.billed_nano_usd for c in self.calls),
            "generated": [{**asdict(c), "billed_nano_usd": c.billed_nano_usd} for c in shown],
        }
