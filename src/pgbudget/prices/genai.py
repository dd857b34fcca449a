"""The price lists of the ``genai-prices`` package (the extra ``prices``) as cards. Read when lists are compared or imported.

The package falls back to standard prices for a service tier that it does not know, and charges nothing for a unit without a
price; neither happens here, because only its tables are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, time
from decimal import Decimal
from importlib.metadata import version
from typing import Any

from pgbudget.prices.cards import Card, Rate, Window, quoted

#: The package's names of providers, where they are not those of pgbudget.
NAMES = {"x-ai": "xai"}

#: Price key: (charge kind, unit). The unit of ``audio_hours`` is the second: its price is for 3,600 of them.
KINDS = {
    "input_mtok": ("input", 1_000_000),
    "cache_read_mtok": ("cache_read", 1_000_000),
    "cache_write_mtok": ("cache_write", 1_000_000),
    "cache_write_5m_mtok": ("cache_write_5m", 1_000_000),
    "cache_write_1h_mtok": ("cache_write_1h", 1_000_000),
    "input_audio_mtok": ("audio_in", 1_000_000),
    "input_image_mtok": ("image_in", 1_000_000),
    "output_mtok": ("output", 1_000_000),
    "output_reasoning_mtok": ("reasoning", 1_000_000),
    "output_audio_mtok": ("audio_out", 1_000_000),
    "output_image_mtok": ("image_out", 1_000_000),
    "web_searches_kcount": ("web_search", 1000),
    "storage_searches_kcount": ("file_search", 1000),
    "requests_kcount": ("request", 1000),
    "audio_hours": ("audio_seconds", 3600),
    "input_document_kpages": ("pages", 1000),
}
#: Said twice by the package.
_SAME = {"input_audio_hours": "audio_hours"}
#: Units that providers count among the tokens of another kind: a list that has one of them would be too low without it.
_NEEDED = {"input_video_mtok", "output_video_mtok", "input_mchars", "input_text_messages_kcount"}

_VARIANTS = {
    ("service_tier", "priority"): "priority",
    ("service_tier", "flex"): "flex",
    ("service_tier", "fast"): "fast",
    ("speed", "fast"): "fast",
    ("processing", "batch"): "batch",
}

Prices = dict[str, Any]


class SourceMissing(Exception):
    """A package that is needed is not installed; the message says how to install it."""


def source() -> str:
    """Name and version of the package."""
    return f"genai-prices {version('genai-prices')}"


def read(as_of: datetime, providers: Iterable[str] | None = None, deprecated: bool = True) -> list[Card]:
    """The lists in force at a moment and those that are announced for later, without what cannot be said exactly.

    :raises SourceMissing: the package is not installed.
    """
    try:
        from genai_prices.data import providers as data
    except ImportError:
        raise SourceMissing("the prices come from the package genai-prices: pip install 'pgbudget[prices]'") from None
    wanted = None if providers is None else set(providers)
    cards: list[Card] = []
    for provider in data:
        name = NAMES.get(provider.id, provider.id)
        if wanted is not None and name not in wanted:
            continue
        for model in provider.models:
            if deprecated or not model.deprecated:
                cards += _cards(name, model, as_of)
    return cards


def provider_names() -> list[str]:
    """All providers of the package, as pgbudget calls them."""
    from genai_prices.data import providers as data

    return [NAMES.get(provider.id, provider.id) for provider in data]


def _cards(provider: str, model: Any, as_of: datetime) -> Iterator[Card]:
    """One card for the list in force, and one for each later start."""
    from genai_prices.types import ConditionalPrice, ModelPrice, StartDateConstraint, TimeOfDateConstraint

    entries: list[Any] = [ConditionalPrice(prices=model.prices)] if isinstance(model.prices, ModelPrice) else model.prices
    windows = [e for e in entries if isinstance(e.constraint, TimeOfDateConstraint)]
    starts = sorted(
        start
        for e in entries
        if isinstance(e.constraint, StartDateConstraint) and (start := _midnight(e.constraint.start_date))
    )
    moments = [as_of, *(start for start in starts if start > as_of)]
    for moment in moments:
        # The last that is active wins; without any, the first.
        base = entries[0].prices
        for entry in entries:
            if entry not in windows and (entry.constraint is None or _midnight(entry.constraint.start_date) <= moment):
                base = entry.prices
        standard = _known(base)
        variants = {"standard": standard}
        for variant in model.price_variants or ():
            if variant.constraint is not None and _midnight(variant.constraint.start_date) > moment:
                continue
            names = [_VARIANTS.get(when) for when in variant.when.items()]
            if len(names) != 1 or names[0] is None:
                continue
            # A partial list: the first that says something of a key is heard, the rest is as standard.
            said = variants.setdefault(names[0], {})
            for key, price in _known(variant.prices).items():
                said.setdefault(key, price)
        left_out = {key: str(price) for key, price in standard.items() if key not in KINDS}
        if not standard or _NEEDED & set(left_out):
            continue
        rates = [
            rate for name, said in variants.items() for rate in _rates(provider, model.id, name, {**standard, **said}, None)
        ]
        for entry in windows:
            window = Window(_clock(entry.constraint.start_time), _clock(entry.constraint.end_time))
            rates += _rates(provider, model.id, "standard", _known(entry.prices), window)
        begun = [start for start in starts if start <= moment]
        detail: dict[str, Any] = {"left_out": left_out} if left_out else {}
        if model.deprecated:
            detail["deprecated"] = True
        if model.price_comments:
            detail["remarks"] = model.price_comments
        tiers = [rate.above_input_tokens for rate in rates]
        # A window smaller than a tier is not that of the whole model.
        context = model.context_window if (model.context_window or 0) > max(tiers) else None
        # An embedding writes nothing: a cap of its own would be held at a price that it does not have.
        writes = any(rate.kind in ("output", "audio_out", "image_out") for rate in rates)
        yield Card(
            provider,
            model.id,
            tuple(rates),
            begun[-1] if begun else None,
            context,
            None if writes else 0,
            tuple(_aliases(model)),
            source(),
            detail,
        )


def _known(prices: Any) -> Prices:
    """The prices that are given, each once."""
    given = {key: price for key, price in vars(prices).items() if price is not None and not key.startswith("_")}
    return {key: price for key, price in given.items() if _SAME.get(key) not in given}


def _rates(provider: str, model: str, variant: str, prices: Prices, window: Window | None) -> Iterator[Rate]:
    """The lines of one list. Anthropic's writes are those of five minutes, and only made where a request asks for them."""
    from genai_prices.types import TieredPrices

    for key, price in prices.items():
        if key not in KINDS:
            continue
        kind, per = KINDS[key]
        if kind == "cache_write" and (provider == "anthropic" or model.startswith("claude")):
            kind = "cache_write_5m"
        steps: list[tuple[int, Decimal]] = (
            [(0, price.base), *((tier.start, tier.price) for tier in price.tiers)]
            if isinstance(price, TieredPrices)
            else [(0, price)]
        )
        for above, usd in steps:
            yield quoted(kind, usd, per, variant=variant, above_input_tokens=above, window=window)


def _aliases(model: Any) -> Iterator[str]:
    """Other names that the package takes for the model: exact ones, and dated snapshots of a name, as patterns.

    Never a bare prefix: ``gpt-x`` must not price a ``gpt-x-mini`` that comes later.
    """
    from genai_prices import types

    seen = {model.id}
    clauses: list[Any] = [model.match]
    while clauses:
        clause = clauses.pop(0)
        names: list[str] = []
        if isinstance(clause, types.ClauseOr):
            clauses += clause.or_
        elif isinstance(clause, types.ClauseEquals):
            names = [clause.equals]
        elif isinstance(clause, types.ClauseStartsWith):
            text = clause.starts_with
            names = [f"{text}*"] if re.search(r"-20\d\d$|@$", text) else [text, f"{text}-20*"]
        elif isinstance(clause, types.ClauseRegex):
            dated = re.fullmatch(r"\^([\w.\\/-]+)-\\d\{[48]\}(-\\d\{2\}-\\d\{2\})?\$", clause.regex)
            names = [dated[1].replace("\\", "") + "-20*"] if dated else []
        for name in names:
            if name not in seen:
                seen.add(name)
                yield name


def _midnight(date: Any) -> datetime:
    return datetime.combine(date, time(), UTC)


def _clock(moment: time) -> str:
    return f"{moment:%H:%M}"


def by_model(cards: Iterable[Card]) -> Mapping[tuple[str, str], list[Card]]:
    """Cards of each model, the one in force first."""
    found: dict[tuple[str, str], list[Card]] = {}
    for card in cards:
        found.setdefault((card.provider, card.model), []).append(card)
    return found
