"""A second opinion, and the limits of models: the data file of litellm, where its wheel is installed. litellm itself is
never imported, and never prices anything here: it says 0.0 for models that it lost."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from pgbudget.prices.cards import Card, Key

_FILE = "litellm/model_prices_and_context_window_backup.json"
_PREFIXES = {
    "google": ("gemini/", "vertex_ai/", ""),
    "xai": ("xai/",),
    "openai": ("", "openai/"),
    "anthropic": ("", "anthropic/"),
}
_PROVIDERS = {"google": {"gemini", "vertex_ai-language-models", "vertex_ai", "vertex_ai-anthropic_models"}}
_FIELDS = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
    "input_cost_per_audio_token": "audio_in",
    "output_cost_per_audio_token": "audio_out",
    "output_cost_per_reasoning_token": "reasoning",
}
_VARIANTS = {"": "standard", "_priority": "priority", "_flex": "flex", "_batches": "batch"}


@dataclass(frozen=True)
class Opinion:
    """What the second source says of a model: limits in tokens, exact USD a unit."""

    context: int | None
    max_output: int | None
    amounts: dict[Key, Fraction]


class SecondSource:
    """The data file, or nothing where it is not installed."""

    def __init__(self, data: dict[str, Any], name: str) -> None:
        self.name = name
        self._data = data

    @staticmethod
    def load(file: Path | None = None) -> SecondSource:
        """From a data file or a wheel, else from the installed package, else empty.

        :raises OSError: the file cannot be read.
        :raises ValueError: it is not what it should be.
        """
        if file is None:
            try:
                package = distribution("litellm")
            except PackageNotFoundError:
                return SecondSource({}, "")
            text, name = Path(str(package.locate_file(_FILE))).read_text(encoding="utf-8"), f"litellm {package.version}"
        elif file.suffix == ".whl":
            with zipfile.ZipFile(file) as wheel:
                text, name = wheel.read(_FILE).decode(), " ".join(file.name.split("-")[:2])
        else:
            text, name = file.read_text(encoding="utf-8"), file.name
        # Numbers as they are written: floats would not be what the file says.
        return SecondSource(json.loads(text, parse_float=Decimal), name)

    def ask(self, card: Card) -> Opinion | None:
        """What is said of a card's model; None when it is not there."""
        for prefix in _PREFIXES.get(card.provider, (f"{card.provider}/",)):
            entry = self._data.get(prefix + card.model)
            providers = _PROVIDERS.get(card.provider, {card.provider})
            if isinstance(entry, dict) and entry.get("litellm_provider") in providers:
                return _opinion(entry, card)
        return None


def _opinion(entry: dict[str, Any], card: Card) -> Opinion:
    kinds = {rate.kind for rate in card.rates}
    amounts: dict[Key, Fraction] = {}
    for name, value in entry.items():
        shape = re.fullmatch(r"(.+?)(?:_above_(\d+)k_tokens)?(_priority|_flex|_batches)?", name)
        if shape is None or shape[1] not in _FIELDS or not isinstance(value, (Decimal, int)) or isinstance(value, bool):
            continue
        kind = _FIELDS[shape[1]]
        if kind == "cache_write" and "cache_write" not in kinds and "cache_write_5m" in kinds:
            kind = "cache_write_5m"
        amounts[(_VARIANTS[shape[3] or ""], kind, int(shape[2] or 0) * 1000, None)] = Fraction(value)
    longest = max((above for _, _, above, _ in amounts), default=0)
    context = _limit(entry.get("max_input_tokens"))
    return Opinion(context if (context or 0) > longest else None, _limit(entry.get("max_output_tokens")), amounts)


def _limit(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, Decimal)) and value > 0 else None
