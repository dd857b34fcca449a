"""Every recorded body of a route through the proxy, cut again at awkward places, settled on its expected usage."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from pgbudget.errors import InvalidRequest
from pgbudget.wire import strict_json
from pgbudget.wire.dialect import ModelRequest
from pgbudget.wire.dialects import DIALECTS
from pgbudget.wire.providers import provider
from tests.support.processes import WIRE, Gateway, Simulator
from tests.support.world import World
from tests.wire.replay import MANIFEST, NOT_ON_USAGE, PATHS, VARIANTS, expected, faults, gateway_for, replay, served, set_up

ENDPOINTS = sorted({row["endpoint"] for row in MANIFEST if served(row)})

#: Recorded requests that are not accepted, and the field that is named: what they cost has no bound.
REFUSED = {
    "anthropic/messages_advisor_iterations.json": "tools[0].type",
    "anthropic/messages_compaction_iterations.json": "context_management",
    "anthropic/messages_stream_code_execution.sse": "tools[0].type",
    "anthropic/messages_stream_compaction_iterations.sse": "context_management",
    "openrouter/chat_cache_write.json": "provider",
    "openrouter/chat_stream_web_search.sse": "tools[0].type",
    "openrouter/chat_web_search.json": "tools[0].type",
}


@pytest.mark.parametrize("asked", [False, True], ids=["hidden", "asked"])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_every_body_is_settled_on_its_usage(
    priced: World, replaying: Gateway, simulator: Simulator, endpoint: str, asked: bool
) -> None:
    key = priced.key(10**12)
    wrong: list[Any] = []
    for index, row in enumerate(row for row in MANIFEST if row["endpoint"] == endpoint):
        if expected(row).outcome == "goes on":
            continue
        # A write a byte where the body is small enough for it, and cuts at random places.
        small = (WIRE / row["file"]).stat().st_size < 3000
        for split in ("bytes", f"seed:{index}") if small else (f"seed:{index}",):
            answer, entry = replay(priced, replaying, simulator, key, row, asked, split=split)
            wrong += [(split, *fault) for fault in faults(row, answer, entry, asked)]
    assert wrong == []


def test_a_stated_cost_is_charged_where_its_account_is_trusted(world: World, simulator: Simulator) -> None:
    set_up(world)
    key = world.key(10**12)
    stated = [row for row in MANIFEST if served(row) and row["provider_cost_usd"] is not None]
    for account in {row["provider"] for row in stated}:
        world.execute("select budget.set_account(%s, true)", account)
    charged = {}
    with gateway_for(world, simulator) as gateway:
        for row in stated:
            entry = replay(world, gateway, simulator, key, row)[1]
            charged[row["file"]] = (entry["source"], Decimal(entry["amount_nano_usd"]).scaleb(-9))
    # With the caller's own key nothing is stated: the call is priced by its usage, and never free.
    own_key = charged.pop("openrouter/chat_byok.json")
    assert own_key[0] == "usage"
    assert own_key[1] > 0
    assert charged == {
        row["file"]: ("provider_cost", Decimal(row["provider_cost_usd"])) for row in stated if row["file"] in charged
    }
    assert len(charged) >= 8


def test_every_recorded_request_is_read_and_bounded() -> None:
    dialects = {dialect.path: dialect for dialect in DIALECTS}
    read, unbounded, refused = 0, [], {}
    for row in MANIFEST:
        if not served(row) or not row["request_file"] or row["status"] != 200 or not row["expected_usage"]:
            continue
        body = strict_json.loads((WIRE / row["request_file"]).read_bytes())
        try:
            request = dialects[PATHS[row["endpoint"]]].read(body)
        except InvalidRequest as error:
            refused[row["file"]] = error.param
            continue
        assert request.stream == row["stream"], row["file"]
        read += 1
        if request.input_tokens < row["expected_usage"]["input_tokens"]:
            unbounded.append((row["file"], request.input_tokens, row["expected_usage"]["input_tokens"]))
    assert unbounded == []
    assert refused == REFUSED
    assert read >= 40


def test_no_recorded_call_of_a_tool_is_billed_more_than_is_seen_of_it() -> None:
    dialects = {dialect.path: dialect for dialect in DIALECTS}
    calls = 0
    for row in MANIFEST:
        if (
            not served(row)
            or not row["stream"]
            or row["status"] != 200
            or not (row["expected_usage"] or {}).get("output_tokens")
        ):
            continue
        request = ModelRequest({}, row["model"], 100_000, 0, {}, stream=True)
        meter = dialects[PATHS[row["endpoint"]]].meter(request, provider(row["provider"]))
        meter.stream((WIRE / row["file"]).read_bytes())
        if meter.tool_calls:
            calls += meter.tool_calls
            # As if it had broken off before it told.
            assert meter.seen >= row["expected_usage"]["output_tokens"], row["file"]
    assert calls >= 12


def test_the_lists_name_bodies_that_exist() -> None:
    names = {row["file"] for row in MANIFEST}
    assert names >= NOT_ON_USAGE.keys() | VARIANTS.keys()
    assert len(MANIFEST) == 117
