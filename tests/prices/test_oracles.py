"""Every worked charge of shared/prices, to the nano-dollar, from the price lists that ship."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.world import World

FILE = Path(os.environ.get("PGBUDGET_PRICES") or Path(__file__).parents[3] / "shared" / "prices") / "oracles.json"
ORACLES = json.loads(FILE.read_text()) if FILE.exists() else []

#: Before its price was cut on 2026-08-21; the seed has what is in force since.
HISTORY = [
    {"kind": "input", "usd": "5"},
    {"kind": "cache_write", "usd": "6.25"},
    {"kind": "cache_read", "usd": "0.5"},
    {"kind": "output", "usd": "30"},
]


@pytest.fixture(scope="module")
def with_history(priced: World) -> World:
    """The shipped lists, and the one that was in force before."""
    priced.execute(
        "select budget.review_price(budget.add_price('openai', 'gpt-5.6-sol', %s, '2026-01-01T00:00:00Z', 'history'), 'me')",
        json.dumps(HISTORY),
    )
    return priced


def test_the_oracles_are_there() -> None:
    assert len(ORACLES) == 27, f"{FILE} has {len(ORACLES)} oracles; PGBUDGET_PRICES names another folder"


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: oracle["id"])
def test_a_quote_is_exact(with_history: World, oracle: dict[str, Any]) -> None:
    usage = {line["kind"]: line["qty"] for line in oracle["price_lines"]}
    variant = next(iter((oracle["price_context"] or {"": "standard"}).values()))
    cost = with_history.value(
        "select budget.quote(%s, %s, %s, %s, %s)",
        oracle["provider"], oracle["model"], json.dumps(usage), oracle["at"], variant,
    )  # fmt: skip
    assert cost == oracle["ceil_nano_usd"]


def test_history_ends_where_the_shipped_list_begins(with_history: World) -> None:
    rows = with_history.rows(
        "select effective_from::date::text as first, effective_to::date::text as last from budget.price_list"
        " where provider = 'openai' and model = 'gpt-5.6-sol' order by effective_from"
    )
    assert [(row["first"], row["last"]) for row in rows] == [("2026-01-01", "2026-08-21"), ("2026-08-21", None)]
