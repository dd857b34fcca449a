"""Every recorded body of the responses API through the proxy, cut again at awkward places, settled on its expected usage."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import partial
from typing import Any

import httpx
import pytest

from pgbudget.wire.dialect import TIERS
from tests.support.processes import WIRE, Gateway, Simulator, responses_request, wait_until
from tests.support.world import World
from tests.wire.test_replay import MANIFEST, expected_kinds, has_entries

RESPONSES = [row for row in MANIFEST if row["endpoint"] == "responses"]

#: Bodies that are settled on something else than a reported usage, and why.
NOT_ON_USAGE = {
    "openai/responses_stream_incomplete_zero_usage.sse": "a usage of zeros though text was made: bounded by the text",
    "openai/responses_background_queued.json": "queued: only a later GET tells its end (tests/proxy/test_responses.py)",
}
#: Accounts of providers whose answers state their cost.
STATED = {row["file"]: row["provider_cost_usd"] for row in RESPONSES if row["provider_cost_usd"] is not None}


@pytest.fixture
def priced(world: World) -> World:
    """One model with a price for every kind and tier, so that each unit counts in its own digits."""
    kinds = [("input", "0.001", 10**6), ("cache_read", "0.01", 10**6), ("cache_write", "0.1", 10**6), ("output", "10", 10**6)]
    lines = [
        {"kind": kind, "usd": usd, "per": per, "variant": variant}
        for variant in ("standard", "priority", "flex")
        for kind, usd, per in [*kinds, ("web_search", "10", 1000)]
    ]
    world.execute(
        "select budget.set_model('simulator', 'replay', 10000000, 1000000),"
        " budget.set_route(null, 'replay', 'simulator', 'simulator'),"
        " budget.review_price(budget.add_price('simulator', 'replay', %s), 'me')",
        json.dumps(lines),
    )
    return world


def replay(gateway: Gateway, key: str, row: dict[str, Any], split: str) -> httpx.Response:
    tools = [{"type": "web_search"}] if "web_search" in row["file"] else ...
    request = responses_request(
        key,
        {"replay": row["file"], "split": split},
        model="replay",
        max_output_tokens=100_000,
        tools=tools,
        stream=row["stream"],
    )
    return httpx.post(f"{gateway.url}/v1/responses", timeout=60, **request)


def tier_of(body: bytes) -> str:
    """The tier that the end of a body names, as the price variant that it is billed by."""
    lines = [line[6:] for line in body.splitlines() if line.startswith(b"data: {")] or [body]
    last = json.loads(lines[-1])
    return TIERS[last.get("response", last).get("service_tier") or "default"]


def test_every_responses_body_is_settled_on_its_usage(priced: World, gateway: Gateway, simulator: Simulator) -> None:
    assert len(RESPONSES) >= 20
    key = priced.key(10**12)
    wrong: list[tuple[Any, ...]] = []
    booked = 0
    for index, row in enumerate(RESPONSES):
        if row["file"] == "openai/responses_background_queued.json":
            continue
        body = (WIRE / row["file"]).read_bytes()
        for split in ("bytes", f"seed:{index}", f"seed:{index + 1000}") if len(body) < 30_000 else ("lines", f"seed:{index}"):
            answer = replay(gateway, key, row, split)
            booked += 1
            wait_until(partial(has_entries, priced, booked))
            entry = priced.ledger()[-1]
            if answer.content != body:
                wrong.append((row["file"], split, "the same bytes", len(answer.content)))
            if row["file"] in NOT_ON_USAGE:
                if "estimated" not in entry["flags"] or not 16 <= entry["usage"]["output"] <= 400:
                    wrong.append((row["file"], split, "estimated", entry["usage"]))
            elif row["expected_usage"] is None:
                if (answer.status_code, entry["kind"]) != (row["status"], "released"):
                    wrong.append((row["file"], split, "released", entry["kind"]))
            elif entry["source"] != "usage" or entry["usage"] != expected_kinds(row):
                wrong.append((row["file"], split, expected_kinds(row), (entry["source"], entry["usage"])))
            elif entry["variant"] != tier_of(body):
                wrong.append((row["file"], split, tier_of(body), entry["variant"]))
    assert wrong == []
    assert priced.verify() == []


@pytest.mark.parametrize("name", sorted(STATED))
def test_what_a_provider_states_that_it_cost_is_booked_beside_the_usage(priced: World, simulator: Simulator, name: str) -> None:
    """To the provider's own account, whose ways say where the cost stands."""
    (row,) = [row for row in RESPONSES if row["file"] == name]
    prices = json.dumps([{"kind": kind, "usd": 1} for kind in ("input", "output")])
    priced.execute(
        "select budget.set_model(%s, 'stating', 1000000, 100000), budget.set_route(null, 'stating', %s, 'stating'),"
        " budget.set_account('stating', true), budget.review_price(budget.add_price(%s, 'stating', %s), 'me')",
        row["provider"], row["provider"], row["provider"], prices,
    )  # fmt: skip
    settings: dict[str, Any] = {"account_stating_url": f"{simulator.url}/v1", "account_stating_key": Simulator.KEY}
    # The header that says so is not handed on to such a provider.
    simulator.defaults(replay=name)
    with Gateway(priced.gateway_dsn, simulator.url, **settings) as gateway:
        key = priced.key(10**9)
        request = responses_request(key, model="stating", stream=row["stream"])
        assert httpx.post(f"{gateway.url}/v1/responses", timeout=60, **request).status_code == 200
        wait_until(partial(has_entries, priced, 1))
        (entry,) = priced.ledger()
    assert entry["source"] == "provider_cost"
    assert entry["amount_nano_usd"] == -(-Decimal(STATED[name]) * 10**9 // 1)
    assert entry["usage"] == expected_kinds(row)


def test_the_list_names_bodies_that_exist() -> None:
    assert {row["file"] for row in RESPONSES} >= NOT_ON_USAGE.keys()
    assert len(STATED) == 2
