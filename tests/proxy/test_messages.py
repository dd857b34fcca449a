"""What is particular to Anthropic's route, streamed and not. Amounts are micro-dollars.

What it has in common with the others is in the table of test_cases_by_route.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.proxy.calls import STREAMED, settled
from tests.proxy.test_admission import ladder
from tests.support.processes import Gateway, Simulator, messages_request, wait_until
from tests.support.world import World

STANDARD = 100 * 3 + 200 * 15
SEARCH = {"type": "web_search_20250305", "name": "web_search"}


def event(kind: str, **members: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n"


@STREAMED
def test_a_call_is_passed_on_and_charged_by_its_usage(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = shared_world.key(10**6)
    request = messages_request(key, stream=stream)
    request["headers"] |= {"anthropic-beta": "a-2026-01-01,b-2026-01-01", "x-pgbudget-cost": "wait"}
    answer = httpx.post(f"{shared_gateway.url}/v1/messages", timeout=30, **request)
    assert answer.status_code == 200
    assert ("message_stop" in answer.text) == stream
    said = answer.text.rpartition(": pgbudget-cost-usd ")[2] if stream else answer.headers["x-pgbudget-cost-usd"]
    assert float(said) == STANDARD / 1e6
    (entry,) = settled(shared_world, key)
    assert (entry["amount"], entry["source"]) == (STANDARD, "usage")
    assert answer.headers["x-pgbudget-reservation"] == str(entry["reservation_id"])
    (call,) = simulator.tally()["generated"]
    headers = dict(call["request_headers"])
    assert (headers["anthropic-version"], headers["anthropic-beta"]) == ("2023-06-01", "a-2026-01-01,b-2026-01-01")
    assert key not in json.dumps(call)
    assert call["billed_nano_usd"] == entry["amount_nano_usd"]


# PRICE-07


@STREAMED
def test_price_07_searches_are_held_by_their_limit_and_charged_as_they_were(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    def ask(key: str, simulate: dict[str, Any] | None = None, **limit: int) -> httpx.Response:
        return shared_gateway.messages(key, simulate, tools=[{**SEARCH, **limit}], max_tokens=100, stream=stream)

    key = shared_world.key(10**9)
    assert ask(key, {"prompt_tokens": 45, "completion_tokens": 10, "web_searches": 2}, max_uses=5).status_code == 200
    (entry,) = settled(shared_world, key)
    assert entry["amount"] == 20_285
    # Five searches, and a context window of what they find.
    assert entry["reserved_nano_usd"] // 1000 == 5 * 10_000 + 200_000 * 3 + 100 * 15
    # Declared, but not used: no fee.
    assert ask(key, {"prompt_tokens": 45, "completion_tokens": 10}, max_uses=5).status_code == 200
    assert settled(shared_world, key, 2)[-1]["amount"] == 285
    # Without a limit the gateway sets one.
    assert ask(key).status_code == 200
    assert settled(shared_world, key, 3)[-1]["reserved_nano_usd"] // 1000 == 10 * 10_000 + 200_000 * 3 + 100 * 15
    assert [c["request_body"]["tools"][0]["max_uses"] for c in simulator.tally()["generated"]] == [5, 5, 10]
    assert ask(shared_world.key(20_000)).status_code == 402
    assert simulator.calls() == 3


@STREAMED
def test_a_ladder_turns_searching_off(shared_world: World, shared_gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    # Room for the context window, not for the searches.
    key = shared_world.key(200_000 * 3 + 100 * 15)
    ladder(shared_world, key, {"name": "plain", "features_off": ["web_search"]})
    answer = shared_gateway.messages(key, tools=[SEARCH], tool_choice={"type": "auto"}, max_tokens=100, stream=stream)
    assert (answer.status_code, answer.headers["x-pgbudget-rung"]) == (200, "plain")
    forwarded = simulator.tally()["generated"][-1]["request_body"]
    assert forwarded["tools"] == []
    assert "tool_choice" not in forwarded


# ERR-02


@pytest.mark.parametrize("deltas", ["content", "tool_calls", "reasoning"])
@STREAMED
def test_all_that_is_generated_is_charged_whatever_it_is(
    shared_world: World, shared_gateway: Gateway, deltas: str, stream: bool
) -> None:
    key = shared_world.key(10**6)
    assert shared_gateway.messages(key, {"deltas": deltas}, stream=stream).status_code == 200
    # Without usage: the text alone tells.
    assert shared_gateway.messages(key, {"deltas": deltas, "no_usage": True}, stream=stream).status_code == 200
    told, bounded = settled(shared_world, key, 2)
    assert (told["amount"], told["source"]) == (STANDARD, "usage")
    assert STANDARD <= bounded["amount"] <= bounded["reserved_nano_usd"] // 1000
    assert "estimated" in bounded["flags"]


def test_an_error_in_the_stream_is_charged_by_what_came_before_and_passed_on(
    shared_world: World, shared_gateway: Gateway
) -> None:
    key = shared_world.key(10**6)
    answer = shared_gateway.messages(key, {"error_after_chunks": 5}, stream=True)
    assert (answer.status_code, "event: error" in answer.text, "message_stop" in answer.text) == (200, True, False)
    error = event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    assert shared_gateway.messages(key, {"raw_sse": error}, stream=True).text == error
    some, nothing = settled(shared_world, key, 2)
    assert 100 * 3 + 5 * 15 <= some["amount"] < some["reserved_nano_usd"] // 1000
    assert "estimated" in some["flags"]
    assert (nothing["kind"], nothing["amount"]) == ("released", 0)


@STREAMED
def test_nothing_seen_is_charged_in_full(shared_world: World, shared_gateway: Gateway, stream: bool) -> None:
    key = shared_world.key(10**6)
    bodies = ["", "not json", "[]", '{"content": 5}', "{"]
    for body in bodies:
        simulate = {"raw_sse": f"data: {body}\n\n"} if stream and body else {"raw_sse" if stream else "raw_body": body}
        shared_gateway.messages(key, simulate, stream=stream)
    # A line that cannot be read may be output: it counts by its bytes.
    entries = settled(shared_world, key, len(bodies))
    assert all(e["amount"] > 0 for e in entries)
    assert {e["kind"] for e in entries} <= ({"charged", "settled"} if stream else {"charged"})


@STREAMED
def test_a_tier_that_has_no_price_is_charged_in_full(shared_world: World, shared_gateway: Gateway, stream: bool) -> None:
    key = shared_world.key(10**6)
    assert shared_gateway.messages(key, {"service_tier": "priority"}, stream=stream).status_code == 200
    (entry,) = settled(shared_world, key)
    assert (entry["kind"], entry["amount_nano_usd"]) == ("charged", entry["reserved_nano_usd"])
    answer = shared_gateway.messages(key, speed="fast", stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "model_unpriced")


# Refusals


@STREAMED
def test_every_refusal_is_shaped_as_the_sdk_knows_it(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = shared_world.key(10**6)
    found = [
        (shared_gateway.messages("pgb_unknown", stream=stream), 401, "authentication_error", "invalid_key"),
        (shared_gateway.messages(shared_world.key(1), stream=stream), 402, "billing_error", "request_over_limit"),
        (
            shared_gateway.messages(shared_world.key(10**6, allowed_models=["t-pro"]), stream=stream),
            403,
            "permission_error",
            "model_not_allowed",
        ),
        (shared_gateway.messages(key, model="no", stream=stream), 404, "not_found_error", "model_not_found"),
        (shared_gateway.messages(key, mcp_servers=[{}], stream=stream), 400, "invalid_request_error", "invalid_request"),
        (shared_gateway.messages(key, api_key="sk", stream=stream), 400, "invalid_request_error", "invalid_request"),
    ]
    for answer, status, kind, code in found:
        body = answer.json()
        assert (answer.status_code, body["error"]["type"], body["error"]["code"]) == (status, kind, code)
        assert body["type"] == "error"
        assert body["error"]["message"]
        assert answer.headers["x-pgbudget-error-source"] == "gateway"
        assert answer.headers["x-should-retry"] == "false"
        assert ("pgbudget" in body["error"]) == (status == 402)
    assert simulator.calls() == 0


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/messages/batches", 404),
        ("GET", "/v1/messages", 404),
        ("POST", "/v1/files", 404),
        ("GET", "/v1/models", 401),
        ("POST", "/v1/messages", 401),
        ("POST", "/v1/messages/count_tokens", 401),
    ],
)
def test_errors_of_other_routes_are_shaped_alike_for_who_speaks_anthropic(
    shared_gateway: Gateway, simulator: Simulator, method: str, path: str, status: int
) -> None:
    answer = httpx.request(method, shared_gateway.url + path, headers={"anthropic-version": "2023-06-01"})
    assert answer.status_code == status
    assert answer.json()["type"] == "error"
    assert answer.json()["error"]["type"] == {401: "authentication_error", 404: "not_found_error"}[status]
    assert answer.headers["x-pgbudget-error-source"] == "gateway"
    assert simulator.calls() == 0


# count_tokens: ROUTE-01


def count_tokens(gateway: Gateway, key: str, headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
    request = messages_request(key, {"prompt_tokens": 2095}, max_tokens=..., **body)
    request["headers"] |= headers or {}
    return httpx.post(f"{gateway.url}/v1/messages/count_tokens", timeout=30, **request)


def test_route_01_a_count_costs_nothing_but_needs_a_key_and_counts_as_a_request(
    world: World, gateway: Gateway, simulator: Simulator
) -> None:
    # Stopped within a minute, which then never ends.
    world.set_clock("2030-01-01T12:00:20Z")
    key = world.key(0)
    org, name = world.key_name(key)
    world.execute("select budget.set_rate_limit(%s, 'key', %s, 2, 1000)", org, name)
    run = {"x-pgbudget-run": "r", "x-pgbudget-run-max-steps": "1"}
    for _ in range(2):
        # More input than the tokens a minute, and no step of a run.
        answer = count_tokens(gateway, key, run, messages=[{"role": "user", "content": "word " * 2000}])
        assert (answer.status_code, answer.json()) == (200, {"input_tokens": 2095})
    answer = count_tokens(gateway, key)
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert answer.json()["error"]["type"] == "rate_limit_error"
    assert answer.headers["retry-after"] == "40"
    assert {(e["kind"], e["amount"]) for e in settled(world, key, 2)} == {("settled", 0)}
    assert world.rows("select * from budget_internal.scopes where kind = 'run'") == []
    assert simulator.calls() == 2
    for refused, status in ((count_tokens(gateway, "pgb_no"), 401), (count_tokens(gateway, world.key(), model="no"), 404)):
        assert refused.status_code == status
    assert simulator.calls() == 2
    assert world.verify() == []


def test_route_01_a_count_that_fails_costs_nothing_either(world: World, simulator: Simulator) -> None:
    with Gateway(world.gateway_dsn, simulator.url, max_body_bytes="2000") as gateway:
        key = world.key(0)
        assert count_tokens(gateway, key, {"x-simulate": '{"cut_after_chunks": 0}'}).status_code == 502
        assert count_tokens(gateway, key, {"x-simulate": '{"raw_body": "not json"}'}).text == "not json"
        assert count_tokens(gateway, key, {"x-simulate": '{"status": 400}'}).status_code == 400
        wait_until(lambda: world.rows("select 1 from budget_internal.reservations") == [], what="the settlements")
        assert {e["amount"] for e in settled(world, key, 3)} == {0}
        answer = count_tokens(gateway, key, messages=[{"role": "user", "content": "x" * 2000}])
        assert (answer.status_code, answer.json()["error"]["type"]) == (413, "request_too_large")
    assert simulator.calls() == 3
