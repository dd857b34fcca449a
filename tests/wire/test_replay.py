"""Every recorded chat body through the proxy, cut again at awkward places, settled on its expected usage."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import httpx
import pytest

from tests.support.processes import WIRE, Gateway, Simulator, chat_request, wait_until
from tests.support.world import World

MANIFEST = [json.loads(line) for line in (WIRE / "manifest.jsonl").read_text().splitlines()]
CHAT = [row for row in MANIFEST if row["endpoint"] == "chat"]

#: Bodies that are settled on something else than a reported usage, and why.
ESTIMATED = {
    "azure/chat_stream_first_empty_choices_no_usage.sse": "no usage on the wire: bounded by the text",
    "openai/chat_stream_n_nousage.sse": "no usage on the wire: bounded by the text",
    "openai/chat_stream_no_usage.sse": "no usage on the wire: bounded by the text",
    "openai/chat_stream_web_search.sse": "no usage on the wire, and a search fee that is nowhere in it",
    "openai/_spliced_chat_midstream_server_error.sse": "an error in the middle of the stream: bounded by the text",
}


@pytest.fixture
def priced(world: World) -> World:
    """One model with a price for every kind, so that each unit counts in its own digits."""
    world.execute("""
      select budget.set_model('simulator', m, 10000000, 1000000), budget.set_route(null, m, 'simulator', 'simulator'),
        budget.review_price(budget.add_price('simulator', m, '[
          {"kind": "input", "usd": "0.001"}, {"kind": "cache_read", "usd": "0.01"}, {"kind": "cache_write", "usd": "0.1"},
          {"kind": "audio_in", "usd": 1}, {"kind": "output", "usd": 10}, {"kind": "audio_out", "usd": 100},
          {"kind": "web_search", "usd": 10, "per": 1000}
        ]'), 'me')
      from unnest(array['replay', 'replay-search-preview']) m;
    """)
    return world


def expected_kinds(row: dict[str, Any]) -> dict[str, int]:
    """The manifest's usage as disjoint charge kinds."""
    usage = row["expected_usage"]
    kinds = {
        "input": usage["uncached_input_tokens"] - usage["audio_input_tokens"],
        "cache_read": usage["cached_input_tokens"],
        "cache_write": usage["cache_write_other"],
        "audio_in": usage["audio_input_tokens"],
        "output": usage["output_tokens"] - usage["audio_output_tokens"],
        "audio_out": usage["audio_output_tokens"],
        "web_search": usage["web_searches"],
    }
    return {k: v for k, v in kinds.items() if v or k in ("input", "output")}


def replay(gateway: Gateway, key: str, row: dict[str, Any], split: str | None, asked: bool) -> httpx.Response:
    model = "replay-search-preview" if "web_search" in row["file"] and row["provider"] == "openai" else "replay"
    request = chat_request(key, {"replay": row["file"], **({"split": split} if split else {})}, model=model, max_tokens=100_000)
    if row["stream"]:
        request["json"]["stream"] = True
        if asked:
            request["json"]["stream_options"] = {"include_usage": True}
    return httpx.post(f"{gateway.url}/v1/chat/completions", timeout=60, **request)


@pytest.mark.parametrize("asked", [False, True], ids=["hidden", "asked"])
def test_every_chat_body_is_settled_on_its_usage(priced: World, gateway: Gateway, simulator: Simulator, asked: bool) -> None:
    assert len(CHAT) >= 50
    key = priced.key(10**12)
    wrong: list[tuple[Any, ...]] = []
    booked = 0
    for index, row in enumerate(CHAT):
        body = (WIRE / row["file"]).read_bytes()
        # A write a byte where the body is small enough for it, else cuts at random places.
        for split in ("bytes" if len(body) < 3000 else None, f"seed:{index}"):
            if split is None:
                continue
            answer = replay(gateway, key, row, split, asked)
            booked += 1
            wait_until(partial(has_entries, priced, booked))
            entry = priced.ledger()[-1]
            if row["status"] != 200 or (row["expected_usage"] is None and row["file"] not in ESTIMATED):
                if (answer.status_code, entry["kind"]) != (row["status"], "released") or answer.content != body:
                    wrong.append((row["file"], split, "an error is passed on and released", entry["kind"]))
            elif row["file"] in ESTIMATED:
                if "estimated" not in entry["flags"] or entry["usage"]["output"] < text_bytes(body) // 8:
                    wrong.append((row["file"], split, "estimated", entry["usage"]))
            elif entry["source"] != "usage" or entry["usage"] != expected_kinds(row):
                wrong.append((row["file"], split, expected_kinds(row), (entry["source"], entry["usage"])))
            if answer.status_code == 200 and (asked or not row["stream"]) and answer.content != body:
                wrong.append((row["file"], split, "the same bytes", len(answer.content)))
            if answer.status_code == 200 and row["stream"] and not asked:
                for line in answer.content.splitlines():
                    if line.startswith(b"data: {") and "usage" in json.loads(line[6:]):
                        wrong.append((row["file"], split, "hidden usage", line[:100]))
    assert wrong == []
    assert priced.verify() == []


def has_entries(world: World, count: int) -> bool:
    """Whether so many entries are booked."""
    return len(world.ledger()) == count


def text_bytes(body: bytes) -> int:
    """Bytes of the content deltas of a stream, read the simplest way."""
    total = 0
    for line in body.splitlines():
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:]).get("choices") or []:
                total += len(((choice.get("delta") or {}).get("content") or "").encode())
    return total


def test_the_lists_name_bodies_that_exist() -> None:
    names = {row["file"] for row in CHAT}
    assert names >= ESTIMATED.keys()
