"""Writes ``seed.json``: the reviewed price lists that ship with pgbudget. For whoever maintains the project:

``python -m pgbudget.prices.make_seed --as-of 2026-11-30 [--second-source FILE] [--out FILE]``

Reads genai-prices with the corrections made by hand, and the limits of litellm's wheel or data file. Look at the difference in
git before it is committed: that look is the review that the seed claims.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pgbudget.prices import genai
from pgbudget.prices.cards import Card
from pgbudget.prices.compare import disagreements, with_limits
from pgbudget.prices.corrections import corrected
from pgbudget.prices.second import SecondSource

PROVIDERS = ("openai", "anthropic", "google", "xai", "deepseek", "mistral", "groq")
#: Of these only some models, with every list since the beginning, for the charges that they state in recorded responses.
FEW = {
    "openrouter": (
        "anthropic/claude-haiku-4.5", "anthropic/claude-sonnet-4.6", "moonshotai/kimi-k2", "openai/gpt-4.1-mini",
        "openai/gpt-4o", "openai/gpt-4o-mini", "openai/gpt-5.2", "openai/o1",
    ),
    "perplexity": ("sonar", "sonar-pro", "sonar-reasoning", "sonar-reasoning-pro", "sonar-deep-research"),
}  # fmt: skip
#: Where the source does not say since when.
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


def cards(as_of: datetime, second: SecondSource) -> list[Card]:
    """The lists in force at a moment, of models that are not deprecated; of the few, those before as well."""
    read = genai.read(as_of, PROVIDERS, deprecated=False)
    chosen = [found[0] for found in genai.by_model(read).values()]
    for card in genai.read(BEGINNING, FEW, deprecated=False):
        if card.model in FEW[card.provider] and (card.effective_from or BEGINNING) <= as_of:
            chosen.append(card)
    return with_limits(corrected(sorted(chosen, key=lambda card: card.provider)), second)


def as_json(card: Card, second: SecondSource) -> dict[str, Any]:
    """A card as it is shipped."""
    differs = disagreements(card, second)
    detail = {key: value for key, value in card.detail.items() if key != "remarks"}
    if differs:
        detail["second_source"] = {"source": second.name, "usd_per_million": differs}
    made: dict[str, Any] = {"provider": card.provider, "model": card.model}
    made["effective_from"] = f"{card.effective_from or BEGINNING:%Y-%m-%d}"
    made.update({"context": card.context} if card.context else {})
    made.update({"max_output": card.max_output} if card.max_output is not None else {})
    made.update({"aliases": list(card.aliases)} if card.aliases else {})
    made.update({"detail": detail} if detail else {})
    made["rates"] = [rate.as_json() for rate in card.rates]
    return made


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--as-of", type=datetime.fromisoformat, required=True)
    parser.add_argument("--second-source", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("seed.json"))
    arguments = parser.parse_args()
    as_of = arguments.as_of.replace(tzinfo=UTC)
    second = SecondSource.load(arguments.second_source)
    made = [json.dumps(as_json(card, second), ensure_ascii=False) for card in cards(as_of, second)]
    head = {"source": f"{genai.source()} as of {as_of:%Y-%m-%d}", "limits": second.name}
    lines = json.dumps(head)[:-1] + ', "cards": [\n' + ",\n".join(made) + "\n]}\n"
    arguments.out.write_text(lines, encoding="utf-8")
    print(f"{len(made)} models, {len(lines) // 1024} KiB: {arguments.out}")


if __name__ == "__main__":
    main()
