"""Every charge that a provider states in a recorded body, against the shipped price lists: equal, or explained one by one.

``docs/stated_charges.md`` is what this finds; ``make docs`` writes it anew.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgbudget.prices.make_seed import BEGINNING
from tests.support.processes import WIRE
from tests.support.world import World

PAGE = Path(__file__).parents[2] / "docs" / "stated_charges.md"
MANIFEST = WIRE / "manifest.jsonl"
ROWS = [json.loads(line) for line in MANIFEST.read_text().splitlines()] if MANIFEST.exists() else []
MONEY = re.compile(rb'"(\w*(?:cost|price|usd|charge|credit|fee|bill|amount|spend)\w*)"\s*:', re.I)
#: What bodies say of money, and what it is.
AMOUNTS = {"cost", "total_cost", "cost_in_usd_ticks"}
PARTS = {
    "cost_details", "input_tokens_cost", "output_tokens_cost", "request_cost",
    "upstream_inference_cost", "upstream_inference_input_cost", "upstream_inference_output_cost",
    "upstream_inference_prompt_cost", "upstream_inference_completions_cost",
}  # fmt: skip
#: OpenAI names who pays; Cohere the units that it counts, without a price.
NO_AMOUNTS = {"billing", "billed_units"}


@dataclass(frozen=True)
class Charge:
    """What a provider charged for a body. ``ours``: None where no list was in force."""

    row: dict[str, Any]
    when: datetime
    usage: dict[str, Any]
    stated: Decimal
    ours: Decimal | None
    quote: Callable[[dict[str, int], datetime], Decimal | None]

    @property
    def kinds(self) -> dict[str, int]:
        """The expected usage as disjoint charge kinds; the fee of a request by the size that the body names."""
        expected = self.row["expected_usage"]
        kinds = {
            "input": expected["uncached_input_tokens"] - expected["audio_input_tokens"],
            "cache_read": expected["cached_input_tokens"],
            "cache_write": expected["cache_write_other"],
            "cache_write_5m": expected["cache_write_5m"],
            "cache_write_1h": expected["cache_write_1h"],
            "audio_in": expected["audio_input_tokens"],
            "output": expected["output_tokens"] - expected["reasoning_tokens"] - expected["audio_output_tokens"],
            "reasoning": expected["reasoning_tokens"],
            "audio_out": expected["audio_output_tokens"],
            "web_search": expected["web_searches"],
        }
        if "search_context_size" in self.usage:
            kinds["request_" + self.usage["search_context_size"]] = 1
        return {kind: quantity for kind, quantity in kinds.items() if quantity}


def _own_key(charge: Charge) -> bool:
    return bool(charge.usage["is_byok"]) and charge.usage["cost_details"]["upstream_inference_cost"] == charge.ours


def _before_the_lists(charge: Charge) -> bool:
    return charge.when < BEGINNING and charge.ours is None and charge.quote(charge.kinds, BEGINNING) == charge.stated


def _rounded_parts(charge: Charge) -> bool:
    parts = [charge.quote({kind: quantity}, charge.when) for kind, quantity in charge.kinds.items()]
    places = Decimal("0.00001")
    return sum(part.quantize(places, ROUND_HALF_EVEN) for part in parts if part is not None) == charge.stated


#: Why a charge differs, and the arithmetic that shows it.
EXPLAINED: dict[str, tuple[str, Callable[[Charge], bool]]] = {
    "openrouter/chat_byok.json": (
        "The caller's own key at OpenAI (`is_byok`): OpenRouter charges nothing, OpenAI charges the owner of the key. That "
        "charge is `cost_details.upstream_inference_cost`, and equal to ours.",
        _own_key,
    ),
    "openrouter/chat_stream_kimi_usage_chunk_has_choices.sse": (
        "Recorded before the shipped lists begin (2026-01-01), so no price is in force. By the first list the charge is equal.",
        _before_the_lists,
    ),
    "perplexity/chat_stream_usage_every_chunk.sse": (
        "Perplexity rounds each part to 5 decimals before it adds: 0.000008 to 0.00001 for the input, 0.000005 to 0 for the "
        "output, and 0.005 for the request. Ours is the exact sum.",
        _rounded_parts,
    ),
}


def events(body: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of a body, streamed or not."""
    texts = [body] if not re.search(rb"^data:", body, re.M) else re.findall(rb"^data:\s*(\{.*\})\s*$", body, re.M)
    for text in texts:
        try:
            event = json.loads(text, parse_float=Decimal)
        except ValueError:
            continue
        if isinstance(event, dict):
            # The Responses API streams the whole response as a member.
            yield event["response"] if isinstance(event.get("response"), dict) else event


def stated_usd(usage: dict[str, Any]) -> Decimal | None:
    """The charge that a usage object states."""
    cost = usage.get("cost")
    if isinstance(cost, dict):
        return Decimal(cost["total_cost"])
    if cost is not None:
        return Decimal(cost)
    if "cost_in_usd_ticks" in usage:
        return Decimal(usage["cost_in_usd_ticks"]) / 10**10
    return None


def read_charges(world: World) -> list[Charge]:
    """All stated charges, with ours at the recorded moment."""
    found = []
    for row in ROWS:
        usage: dict[str, Any] = {}
        when = None
        for event in events((WIRE / row["file"]).read_bytes()):
            when = event.get("created") or event.get("created_at") or when
            # What comes later stands: usage is cumulative.
            usage = event["usage"] if isinstance(event.get("usage"), dict) else usage
        stated = stated_usd(usage)
        if stated is None:
            continue
        assert isinstance(when, int), row["file"]

        def quote(kinds: dict[str, int], at: datetime, row: dict[str, Any] = row) -> Decimal | None:
            try:
                nano = world.value("select budget.quote(%s, %s, %s, %s)", row["provider"], row["model"], json.dumps(kinds), at)
            except psycopg.Error as error:
                if error.sqlstate != "LB103":
                    raise
                return None
            return Decimal(nano) / 10**9

        moment = datetime.fromtimestamp(when, UTC)
        charge = Charge(row, moment, usage, stated, None, quote)
        found.append(Charge(row, moment, usage, stated, quote(charge.kinds, moment), quote))
    return found


@pytest.fixture(scope="module")
def charges(priced: World) -> list[Charge]:
    if not ROWS and not os.environ.get("CI"):
        pytest.skip(f"no recorded bodies in {WIRE}")
    return read_charges(priced)


def test_no_body_speaks_of_money_in_words_unknown_here() -> None:
    if not ROWS and not os.environ.get("CI"):
        pytest.skip(f"no recorded bodies in {WIRE}")
    said = {name.decode() for row in ROWS for name in MONEY.findall((WIRE / row["file"]).read_bytes())}
    assert said == AMOUNTS | PARTS | NO_AMOUNTS


def test_every_stated_charge_is_found(charges: list[Charge]) -> None:
    amount = re.compile(rb'"(cost|total_cost|cost_in_usd_ticks)"\s*:\s*[\d{]')
    assert {c.row["file"] for c in charges} == {r["file"] for r in ROWS if amount.search((WIRE / r["file"]).read_bytes())}
    # The manifest was made by another reader of the bodies.
    listed = {row["file"]: Decimal(row["provider_cost_usd"]) for row in ROWS if row["provider_cost_usd"] is not None}
    assert {charge.row["file"]: charge.stated for charge in charges} == listed
    assert len(charges) == 11


def test_every_stated_charge_is_equal_or_explained(charges: list[Charge]) -> None:
    differs = {charge.row["file"]: (charge.stated, charge.ours) for charge in charges if charge.stated != charge.ours}
    assert {file: both for file, both in differs.items() if file not in EXPLAINED} == {}, "neither equal nor explained"
    assert EXPLAINED.keys() - differs.keys() == set(), "explained, but equal or gone"


def test_every_explanation_is_right(charges: list[Charge]) -> None:
    explained = [charge for charge in charges if charge.row["file"] in EXPLAINED]
    assert [charge.row["file"] for charge in explained if not EXPLAINED[charge.row["file"]][1](charge)] == []


def test_the_table_is_what_is_found(charges: list[Charge]) -> None:
    text = page(charges)
    if os.environ.get("PGBUDGET_WRITE_DOCS"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "run: make docs"


def page(charges: list[Charge]) -> str:
    """The table as a document."""
    lines = [
        "# Charges that providers state",
        "",
        "Some providers say in a response what they charged for it. Here is every such charge in the recorded traffic that the",
        "tests replay, beside what `budget.quote` makes of the response's usage by the shipped [price lists](prices.md) at the",
        "moment of the recording, exact, in USD. `make docs` writes this page; `tests/prices/test_stated.py` fails when a",
        "charge is neither equal nor explained here, when an explanation does not add up, and when one is not needed any more.",
        "",
        "| Body | Provider | Model | When (UTC) | Stated | Ours | |",
        "| --- | --- | --- | --- | ---: | ---: | --- |",
    ]
    for charge in sorted(charges, key=lambda charge: str(charge.row["file"])):
        why = "equal" if charge.stated == charge.ours else EXPLAINED.get(charge.row["file"], ("not explained",))[0]
        row = charge.row
        lines.append(
            f"| `{row['file']}` | {row['provider']} | `{row['model']}` | {charge.when:%Y-%m-%d %H:%M} | {usd(charge.stated)} "
            f"| {usd(charge.ours)} | {why} |"
        )
    equal = sum(charge.stated == charge.ours for charge in charges)
    lines += ["", f"{len(charges)} charges: {equal} equal, {len(charges) - equal} explained."]
    return "\n".join(lines) + "\n"


def usd(amount: Decimal | None) -> str:
    """Exact, without zeros at the end."""
    return "none" if amount is None else f"{amount.normalize():f}"
