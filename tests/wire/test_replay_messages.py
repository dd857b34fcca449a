"""Every recorded body of Anthropic's through the proxy, cut again at awkward places, settled on its expected usage."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import httpx
import pytest

from tests.support.processes import WIRE, Gateway, Simulator, messages_request, wait_until
from tests.support.world import World

MESSAGES = [row for row in map(json.loads, (WIRE / "manifest.jsonl").read_text().splitlines()) if row["endpoint"] == "messages"]

#: Bodies that are settled on something else than a reported usage, and why.
ESTIMATED = {
    "anthropic/_spliced_midstream_overloaded.sse": "an error in the middle of the stream: the input it told, and the text",
}
CHARGED_IN_FULL = {
    "anthropic/messages_advisor_iterations.json": "a round of another model, which the price of this one does not fit",
}


@pytest.fixture
def priced(world: World) -> World:
    """One model with a price for every kind, so that each unit counts in its own digits."""
    world.execute("""
      select budget.set_model('simulator', 'replay', 10000000, 1000000),
        budget.set_route(null, 'replay', 'simulator', 'simulator'),
        budget.review_price(budget.add_price('simulator', 'replay', '[
          {"kind": "input", "usd": "0.001"}, {"kind": "cache_read", "usd": "0.01"}, {"kind": "cache_write_5m", "usd": "0.1"},
          {"kind": "cache_write_1h", "usd": 1}, {"kind": "output", "usd": 10}, {"kind": "web_search", "usd": 10, "per": 1000}
        ]'), 'me');
    """)
    return world


def expected_kinds(row: dict[str, Any]) -> dict[str, int]:
    """The manifest's usage as disjoint charge kinds."""
    usage = row["expected_usage"]
    kinds = {
        "input": usage["uncached_input_tokens"],
        "cache_read": usage["cached_input_tokens"],
        "cache_write_5m": usage["cache_write_5m"],
        "cache_write_1h": usage["cache_write_1h"],
        "output": usage["output_tokens"],
        "web_search": usage["web_searches"],
    }
    return {k: v for k, v in kinds.items() if v or k in ("input", "output")}


def splits_of(body: bytes, seed: int) -> list[str]:
    """A write a byte where the body is small enough for it, and cuts at random places."""
    return [*(["bytes"] if len(body) < 3000 else []), f"seed:{seed}"]


def test_every_body_is_settled_on_its_usage(priced: World, gateway: Gateway, simulator: Simulator) -> None:
    assert len(MESSAGES) >= 15
    key = priced.key(10**12)
    wrong: list[tuple[Any, ...]] = []
    booked = 0
    for seed, row in enumerate(MESSAGES):
        body = (WIRE / row["file"]).read_bytes()
        for split in splits_of(body, seed):
            simulate = {"replay": row["file"], "split": split}
            request = messages_request(key, simulate, model="replay", max_tokens=100_000, stream=row["stream"])
            answer = httpx.post(f"{gateway.url}/v1/messages", timeout=60, **request)
            booked += 1
            wait_until(partial(has_entries, priced, booked))
            entry = priced.ledger()[-1]
            told = (entry["kind"], entry["source"], entry["usage"])
            if (answer.status_code, answer.content) != (row["status"], body):
                wrong.append((row["file"], split, "the same bytes", answer.status_code, len(answer.content)))
            if row["status"] != 200:
                if entry["kind"] != "released":
                    wrong.append((row["file"], split, "released", told))
            elif row["file"] in CHARGED_IN_FULL:
                if entry["amount_nano_usd"] != entry["reserved_nano_usd"] or "usage_rejected" not in entry["flags"]:
                    wrong.append((row["file"], split, "the whole hold", told, entry["flags"]))
            elif row["file"] in ESTIMATED:
                least = {**expected_kinds(row), "output": text_bytes(body)}
                if "estimated" not in entry["flags"] or entry["usage"] != least:
                    wrong.append((row["file"], split, least, told))
            elif told != ("settled", "usage", expected_kinds(row)):
                wrong.append((row["file"], split, expected_kinds(row), told))
    assert wrong == []
    assert priced.verify() == []


def has_entries(world: World, count: int) -> bool:
    """Whether so many entries are booked."""
    return len(world.ledger()) == count


def text_bytes(body: bytes) -> int:
    """Bytes of the text deltas of a stream, read the simplest way."""
    events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]
    return sum(len(e["delta"]["text"].encode()) for e in events if e["type"] == "content_block_delta")


def test_the_lists_name_bodies_that_exist() -> None:
    assert {row["file"] for row in MESSAGES} >= ESTIMATED.keys() | CHARGED_IN_FULL.keys()
