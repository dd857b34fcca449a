"""The rate card of the simulated provider, for ``pgbudget up``, tests and benchmarks."""

from __future__ import annotations

import json
from typing import Any

import psycopg

#: model: (context window, maximum output, USD a million tokens by charge kind)
CARD: dict[str, tuple[int, int, dict[str, str]]] = {
    "t-mini": (128_000, 16_384, {"input": "1", "cache_read": "0.25", "output": "4"}),
    "t-pro": (400_000, 32_768, {"input": "5", "cache_read": "0.5", "output": "30"}),
    "c-son": (
        200_000,
        64_000,
        {
            "input": "3",
            "cache_read": "0.3",
            "cache_write_5m": "3.75",
            "cache_write_1h": "6",
            "output": "15",
            # A cent a search.
            "web_search": "10000",
        },
    ),
    # Generates nothing: for embeddings.
    "e-small": (8_192, 0, {"input": "0.02"}),
}


def seed_simulator(connection: psycopg.Connection[Any], account: str = "simulator") -> None:
    """Record models, reviewed prices and routes of the simulator; does nothing where they are there already."""
    for model, (context, output, rates) in CARD.items():
        known = connection.execute(
            "select 1 from budget_internal.prices where provider = 'simulator' and model = %s", (model,)
        ).fetchone()
        if known:
            continue
        connection.execute("select budget.set_model('simulator', %s, %s, %s)", (model, context, output))
        lines = json.dumps([{"kind": kind, "usd": usd} for kind, usd in rates.items()])
        connection.execute(
            # In force from long ago, so that a clock stopped at any moment finds it.
            "select budget.review_price(budget.add_price('simulator', %s, %s, '2020-01-01T00:00:00Z', 'made up'), 'pgbudget')",
            (model, lines),
        )
        connection.execute("select budget.set_route(null, %s, 'simulator', %s)", (model, account))
