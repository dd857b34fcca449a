"""What the source does not say, or says otherwise than the provider: made by hand, each with who says so and when.

Applied to what is read from the source, for the seed and for every import. Add to the list; a line goes when the source has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from fnmatch import fnmatchcase

from pgbudget.prices.cards import Card, Rate, with_weekdays

WEEKDAYS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Correction:
    """A change of the price lists of some models of a provider (``*`` in a name stands for any characters)."""

    provider: str
    models: tuple[str, ...]
    why: str
    said_by: str
    checked_on: str
    #: Rates that are added, or take the place of those of the same kind, in every variant of the list.
    rates: tuple[tuple[str, str, int], ...] = ()
    #: Kinds that the source has and the provider does not charge so.
    without: tuple[str, ...] = ()
    #: Days on which the windows are open.
    weekdays: tuple[int, ...] | None = None

    def applies_to(self, card: Card) -> bool:
        """Whether this is about the model of a card."""
        return card.provider == self.provider and any(fnmatchcase(card.model, pattern) for pattern in self.models)

    def apply(self, card: Card) -> Card:
        """The card as it should be."""
        replaced = {kind for kind, _, _ in self.rates} | set(self.without)
        variants = dict.fromkeys(rate.variant for rate in card.rates)
        rates = [rate for rate in card.rates if rate.kind not in replaced]
        rates += [Rate(kind, Decimal(usd), per, variant) for variant in variants for kind, usd, per in self.rates]
        made = tuple(rates) if self.weekdays is None else with_weekdays(rates, self.weekdays)
        notes = [*card.detail.get("corrections", []), f"{self.why} ({self.said_by}, {self.checked_on})"]
        return replace(card, rates=made, detail={**card.detail, "corrections": notes})


CORRECTIONS: tuple[Correction, ...] = (
    Correction(
        "deepseek", ("deepseek-flash", "deepseek-v4-*"),
        "peak hours are on Monday to Friday only; Chinese public holidays, which are off-peak too, cannot be said",
        "remarks of genai-prices 0.2.3 and its issue 582; litellm 1.110.2", "2026-11-30", weekdays=WEEKDAYS,
    ),
    Correction(
        "xai", ("grok-[3-9]*", "grok-build-*", "grok-code-*"), "a web search costs 5 USD per 1,000",
        "the charge that xAI stated for a recorded answer with two searches", "2026-11-30", rates=(("web_search", "5", 1000),),
    ),
    Correction(
        "openrouter", ("*",), "the web plugin costs 10 USD per 1,000 searches",
        "the charge that OpenRouter stated for a recorded answer with three searches", "2026-11-30",
        rates=(("web_search", "10", 1000),),
    ),
    Correction(
        "perplexity", ("sonar", "sonar-reasoning"),
        "the fee of a request is 5, 8 or 12 USD per 1,000 by search context size; the source has the largest only",
        "litellm 1.110.2, and the charge that Perplexity stated for a recorded answer", "2026-11-30",
        rates=(("request_low", "5", 1000), ("request_medium", "8", 1000), ("request_high", "12", 1000)), without=("request",),
    ),
)  # fmt: skip


def corrected(cards: Iterable[Card]) -> list[Card]:
    """Cards with every correction that is about them."""
    made = []
    for card in cards:
        for correction in CORRECTIONS:
            if correction.applies_to(card):
                card = correction.apply(card)
        made.append(card)
    return made
