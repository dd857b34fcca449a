"""Price lists as values: exact amounts, windows, what differs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from pgbudget.prices import genai, store
from pgbudget.prices.cards import Card, Rate, Window, describe, per_million, quoted
from pgbudget.prices.compare import compare, disagreements, to_import
from pgbudget.prices.corrections import corrected
from pgbudget.prices.make_seed import BEGINNING, cards
from pgbudget.prices.second import SecondSource
from pgbudget.prices.store import Listed

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
LITELLM = Path(__file__).with_name("litellm_extract.json")


@pytest.mark.parametrize(
    ("usd", "per", "found"),
    [
        ("0.15", 1_000_000, ("0.15", 1_000_000)),
        ("0.111", 3600, ("0.111", 3600)),
        ("10", 1000, ("10", 1000)),
        ("100", 1_000_000, ("100", 1_000_000)),
        # Less than a nano-dollar for a million: quoted for more of them.
        ("0.0000000005", 1_000_000, ("0.0000005", 1_000_000_000)),
        ("0.00000000005", 1000, ("0.00000005", 1_000_000)),
        # What a source cut off is rounded up, never down.
        ("0.0833333333333333", 1_000_000, ("83.333333334", 1_000_000_000)),
    ],
)
def test_an_amount_is_kept_as_it_is_quoted(usd: str, per: int, found: tuple[str, int]) -> None:
    rate = quoted("input", Decimal(usd), per)
    assert (f"{rate.usd:f}", rate.per) == found
    assert Fraction(rate.usd) / rate.per >= Fraction(usd) / per


def test_equal_prices_in_other_units_are_the_same() -> None:
    one = Card("x", "m", (Rate("input", Decimal("0.15")),))
    assert one.same_prices(Card("x", "m", (Rate("input", Decimal("0.00015"), 1000),)))
    assert not one.same_prices(Card("x", "m", (Rate("input", Decimal("0.15"), variant="batch"),)))


def test_a_window_past_midnight_is_two() -> None:
    assert Window("22:00", "00:30", (5, 7)).parts() == [(1320, 1440, (5, 7)), (0, 30, (1, 6))]
    assert Window("22:00", "00:00").parts() == [(1320, 1440, (1, 2, 3, 4, 5, 6, 7))]


def test_a_rate_reads_in_words() -> None:
    assert describe(("standard", "input", 0, None)) == "input"
    assert describe(("priority", "output", 272000, None)) == "priority output above 272000"
    assert describe(("standard", "input", 0, (60, 240, (1, 2, 3, 4, 5)))) == "input 01:00-04:00 Mon-Fri"
    assert per_million(Fraction(111, 3_600_000)) == "185/6"
    assert per_million(Fraction(5, 1000)) == "5000"


def _card(provider: str, model: str) -> Card:
    return next(c for c in corrected(genai.read(NOW, [provider])) if c.model == model)


def _amount(card: Card, *key: object) -> str:
    return per_million(card.amounts()[key])  # type: ignore[index]


def test_tiers_variants_and_windows_are_read() -> None:
    tiered = _card("openai", "gpt-5.5")
    assert [_amount(tiered, "standard", "input", above, None) for above in (0, 272000)] == ["5", "10"]
    assert _amount(tiered, "flex", "output", 272000, None) == "22.5"
    # A flat price of a variant takes the place of all tiers, and what it does not name is as standard.
    assert _amount(tiered, "priority", "input", 0, None) == "12.5"
    assert ("priority", "input", 272000, None) not in tiered.amounts()
    assert _amount(tiered, "priority", "web_search", 0, None) == "10000"
    peak = _card("deepseek", "deepseek-v4-flash")
    assert peak.effective_from == datetime(2026, 9, 10, tzinfo=UTC)
    assert _amount(peak, "standard", "input", 0, (60, 240, (1, 2, 3, 4, 5))) == "0.3"
    assert _amount(peak, "standard", "input", 0, None) == "0.15"


def test_what_the_source_lacks_is_corrected_by_hand_and_says_so() -> None:
    card = _card("xai", "grok-4.3")
    assert _amount(card, "standard", "web_search", 0, None) == "5000"
    assert "recorded answer" in card.detail["corrections"][0]
    sonar = {(kind) for _, kind, _, _ in _card("perplexity", "sonar").amounts()}
    assert {"request_low", "request_medium", "request_high"} <= sonar
    assert "request" not in sonar


def test_writes_of_anthropic_are_held_only_where_asked_for() -> None:
    kinds = {kind for _, kind, _, _ in _card("anthropic", "claude-haiku-4-5").amounts()}
    assert {"cache_write_5m", "cache_write_1h"} <= kinds
    assert "cache_write" not in kinds


def test_other_names_are_exact_or_dated() -> None:
    aliases = _card("openai", "gpt-5.6-sol").aliases
    assert "gpt-5.6" in aliases
    assert "gpt-5.6-sol-20*" in aliases
    shipped = [alias for card in store.shipped() for alias in card.aliases]
    # No bare prefix: it would price whatever comes later.
    assert [a for a in shipped if "*" in a and not a.endswith(("-20*", "@*")) and "-20" not in a] == []


def test_a_model_with_a_unit_that_cannot_be_counted_is_left_out() -> None:
    assert "tts-1" not in {card.model for card in genai.read(NOW, ["openai"])}


def test_the_second_source_is_heard_exactly_where_it_differs() -> None:
    second = SecondSource.load(LITELLM)
    differs = disagreements(_card("deepseek", "deepseek-v4-flash"), second)
    assert differs == {"input": "0.3", "cache_read": "0.006", "output": "1.2"}
    assert disagreements(_card("anthropic", "claude-haiku-4-5"), second) == {}
    opinion = second.ask(_card("google", "gemini-2.5-pro"))
    assert opinion is not None
    assert (opinion.context, opinion.max_output) == (1_048_576, 65_536)
    assert second.ask(Card("openai", "no-such-model", ())) is None


def test_new_changed_and_vanished_models_are_told_apart() -> None:
    listed = [
        Listed(1, _old("same", "1"), None, "ann"),
        Listed(2, _old("dearer", "1"), None, "ann"),
        Listed(3, _old("gone", "1"), None, "ann"),
        Listed(4, _old("waits", "1"), None, "ann"),
        Listed(5, _old("waits", "2", month=2), None, None),
    ]
    cards = [_new("same", "1"), _new("dearer", "2"), _new("fresh", "3"), _new("waits", "2")]
    none = SecondSource({}, "")
    changes = compare(cards, listed, none, NOW, ["x"])
    assert [(c.kind, c.card.model) for c in changes] == [
        ("new", "fresh"), ("changed", "dearer"), ("changed", "waits"), ("vanished", "gone"),
    ]  # fmt: skip
    assert [(line.what, line.now, line.source) for line in changes[1].lines] == [("input", "1", "2")]
    # What waits already is not added again, and nothing is withdrawn by itself.
    assert [card.model for card in to_import(changes, listed, none)] == ["fresh", "dearer"]


def test_an_announced_price_is_a_version_of_its_own() -> None:
    later = datetime(2026, 12, 24, tzinfo=UTC)
    cards = [_new("m", "1"), Card("x", "m", (Rate("input", Decimal("9")),), later)]
    changes = compare(cards, [Listed(1, _old("m", "1"), None, "ann")], SecondSource({}, ""), NOW, ["x"])
    assert [(c.kind, c.card.effective_from) for c in changes] == [("changed", later)]


def _old(model: str, usd: str, month: int = 1) -> Card:
    return Card("x", model, (Rate("input", Decimal(usd)),), datetime(2026, month, 1, tzinfo=UTC))


def _new(model: str, usd: str) -> Card:
    return Card("x", model, (Rate("input", Decimal(usd)),))


def _version(card: Card) -> tuple[str, str, datetime]:
    return card.provider, card.model, card.effective_from or BEGINNING


def test_the_shipped_lists_are_what_the_script_writes() -> None:
    """A correction or a conversion that changes is written again: ``python -m pgbudget.prices.make_seed``."""
    shipped = {_version(card): card for card in store.shipped()}
    assert len(shipped) >= 150
    if genai.source() not in next(iter(shipped.values())).source:
        return
    made = {_version(card): card for card in cards(datetime(2026, 11, 30, tzinfo=UTC), SecondSource({}, ""))}
    assert made.keys() == shipped.keys()
    assert [name for name, card in made.items() if not card.same_prices(shipped[name])] == []
    assert all(json.dumps(rate.as_json()) for card in shipped.values() for rate in card.rates)
