"""``/v1/responses`` on the running gateway: what each end of a call is charged. Amounts are micro-dollars of the rate card."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI

from pgbudget.wire.dialect import TOOL_CALL_TOKENS
from tests.proxy.calls import STANDARD, STREAMED, budget, settled
from tests.support.processes import Gateway, Simulator, wait_until
from tests.support.world import World

TOKEN = "word "


@pytest.fixture
def world(shared_world: World) -> World:
    """The module's."""
    return shared_world


@pytest.fixture
def gateway(shared_gateway: Gateway, simulator: Simulator) -> Gateway:
    """The module's."""
    return shared_gateway


@pytest.fixture
def hasty(world: World) -> Iterator[World]:
    """What is not heard of for two seconds is stale."""
    world.execute("""select budget.set_policy(null, '{"stale_seconds": 2, "heartbeat_seconds": 1}')""")
    yield world
    world.execute("""select budget.set_policy(null, '{"stale_seconds": 90, "heartbeat_seconds": 20}')""")


@pytest.fixture(scope="session")
def priced(shared_world: World) -> World:
    """One model of the card with tiers and fees."""
    world = shared_world
    world.execute("""
      select budget.review_price(budget.add_price('simulator', m, '[
          {"kind": "input", "usd": 5}, {"kind": "cache_read", "usd": "0.5"}, {"kind": "output", "usd": 30},
          {"kind": "input", "usd": 10, "variant": "priority"}, {"kind": "output", "usd": 60, "variant": "priority"},
          {"kind": "input", "usd": 2, "variant": "flex"}, {"kind": "output", "usd": 10, "variant": "flex"},
          {"kind": "web_search", "usd": 10, "per": 1000}
        ]', '2021-01-01'), 'me')
      from unnest(array['t-pro']) m
    """)
    return world


def hold_of(world: World, gateway: Gateway, **body: Any) -> int:
    key = world.key(10**12)
    assert gateway.respond(key, {"status": 400}, **body).status_code == 400
    return int(settled(world, key)[0]["reserved_nano_usd"]) // 1000


@STREAMED
def test_a_call_is_held_and_settled_on_its_usage(world: World, gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    hold = hold_of(world, gateway, stream=stream)
    assert 600 + 1024 + 800 <= hold <= 600 + 1024 + 800 + 200
    key = world.key(10_000)
    answer = gateway.respond(key, stream=stream)
    assert answer.status_code == 200
    assert answer.headers["x-pgbudget-reservation"]
    (entry,) = settled(world, key)
    assert (entry["kind"], entry["source"], entry["amount"]) == ("settled", "usage", STANDARD)
    assert entry["note"]["provider_request_id"].startswith("resp_")
    assert simulator.tally()["generated"][-1]["request_body"]["max_output_tokens"] == 200


@STREAMED
def test_a_refusal_is_openai_shaped_and_nothing_is_sent(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    answer = gateway.respond(world.key(100), stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (402, "request_over_limit")
    answer = gateway.respond(world.key(10**6), stream=stream, tools=[{"type": "mcp", "server_url": "https://example.com"}])
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "tools[0].type")
    assert simulator.calls() == 0


# EST-05


def test_est_05_or_refused_by_setting(world: World, simulator: Simulator) -> None:
    with Gateway(world.gateway_dsn, simulator.url, unbounded_input="refuse") as gateway:
        key = world.key(10**9)
        for body, field in (
            ({"previous_response_id": "resp_1"}, "previous_response_id"),
            ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ):
            answer = gateway.respond(key, **body)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)
        assert simulator.calls() == 0
        assert gateway.respond(key).status_code == 200


# PRICE-07, tiers


@STREAMED
def test_price_07_a_search_is_charged_when_it_is_made(
    priced: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    body: dict[str, Any] = {"model": "t-pro", "tools": [{"type": "web_search"}], "max_output_tokens": 16, "stream": stream}
    key = priced.key(10**8)
    for searches in (0, 2):
        simulate = {"prompt_tokens": 100, "completion_tokens": 10, "web_searches": searches}
        assert gateway.respond(key, simulate, **body).status_code == 200
    none, two = settled(priced, key, 2)
    assert (none["amount"], two["amount"]) == (800, 20_800)
    # Ten searches and the context window; the provider is told how many.
    assert none["reserved_nano_usd"] // 1000 == 400_000 * 5 + 16 * 30 + 10 * 10_000
    assert simulator.tally()["generated"][-1]["request_body"]["max_tool_calls"] == 10
    assert gateway.respond(priced.key(20_000), **body).json()["error"]["code"] == "request_over_limit"


@STREAMED
def test_price_07_a_search_without_a_price_is_refused(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    for tool in ("web_search", "file_search", "code_interpreter"):
        answer = gateway.respond(world.key(10**9), tools=[{"type": tool}], stream=stream)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "model_unpriced")
    assert simulator.calls() == 0


def test_price_07_searches_of_a_broken_stream_are_those_that_were_seen(priced: World, gateway: Gateway) -> None:
    key = priced.key(10**8)
    simulate = {"web_searches": 2, "cut_after_chunks": 3}
    with pytest.raises(httpx.RemoteProtocolError):
        gateway.respond(key, simulate, model="t-pro", tools=[{"type": "web_search"}], stream=True)
    (entry,) = settled(priced, key)
    assert entry["outcome"] == "estimated"
    assert entry["usage"]["web_search"] == 2


@STREAMED
@pytest.mark.parametrize(
    ("asked", "served", "amount", "held"),
    [
        ("priority", "priority", 100 * 10 + 200 * 60, 60),
        ("priority", "default", 100 * 5 + 200 * 30, 60),
        ("flex", "flex", 100 * 2 + 200 * 10, 10),
        ("auto", "default", 100 * 5 + 200 * 30, 30),
        (None, "priority", 100 * 10 + 200 * 60, 30),
    ],
)
def test_the_tier_that_served_is_charged(
    priced: World, gateway: Gateway, asked: str | None, served: str, amount: int, held: int, stream: bool
) -> None:
    key = priced.key(10**8)
    tier = {} if asked is None else {"service_tier": asked}
    assert gateway.respond(key, {"service_tier": served}, model="t-pro", stream=stream, **tier).status_code == 200
    (entry,) = settled(priced, key)
    assert entry["amount"] == amount
    assert held * 200 <= entry["reserved_nano_usd"] // 1000 <= held * 200 + 2_000 * 10


# ERR-02: a stream that ends early


@pytest.mark.parametrize("deltas", ["content", "tool_calls", "reasoning"])
@pytest.mark.parametrize("fault", ["cut_after_chunks", "close_after_chunks", "end_after_chunks", "error_after_chunks"])
def test_err_02_a_broken_stream_is_charged_by_what_was_seen(world: World, gateway: Gateway, deltas: str, fault: str) -> None:
    hold = hold_of(world, gateway, stream=True)
    key = world.key(10**6)
    simulate = {fault: 20, "deltas": deltas}
    if fault in ("cut_after_chunks", "close_after_chunks"):
        with pytest.raises(httpx.RemoteProtocolError):
            gateway.respond(key, simulate, stream=True)
    else:
        gateway.respond(key, simulate, stream=True)
    (entry,) = settled(world, key)
    assert "estimated" in entry["flags"]
    around = TOOL_CALL_TOKENS if deltas == "tool_calls" else 0
    assert 0 <= entry["usage"]["output"] - 20 * len(TOKEN) - around <= 60
    assert 0 < entry["amount"] <= hold


@pytest.mark.parametrize("fault", ["cut_after_chunks", "close_after_chunks"])
def test_err_02_a_stream_that_breaks_before_its_output_is_charged_in_full(world: World, gateway: Gateway, fault: str) -> None:
    hold = hold_of(world, gateway, stream=True)
    key = world.key(10**6)
    with pytest.raises(httpx.RemoteProtocolError):
        gateway.respond(key, {fault: 0}, stream=True)
    (entry,) = settled(world, key)
    assert (entry["kind"], entry["amount"]) == ("charged", hold)


def test_err_02_a_failure_before_any_output_costs_nothing(world: World, gateway: Gateway) -> None:
    key = world.key(10**6)
    created = {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": [], "usage": None}}
    error = {"code": "server_error", "message": "no"}
    failed = {"type": "response.failed", "response": {**created["response"], "status": "failed", "error": error}}  # type: ignore[dict-item]
    thought = {"type": "response.output_item.added", "output_index": 0, "item": {"id": "i", "type": "reasoning"}}
    for events, kind in (((created, failed), "released"), ((created, thought, failed), "charged")):
        key = world.key(10**6)
        raw = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
        assert gateway.respond(key, {"raw_sse": raw}, stream=True).text == raw
        assert settled(world, key)[0]["kind"] == kind


# USE-01, USE-09, trap 6


@STREAMED
@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0},
        {"input_tokens": 100, "output_tokens": 0, "total_tokens": 100},
    ],
)
def test_use_09_usage_that_says_nothing_is_bounded_by_the_text(
    world: World, gateway: Gateway, usage: dict[str, int], stream: bool
) -> None:
    hold = hold_of(world, gateway, stream=stream)
    key = world.key(10**6)
    simulate = {"usage": usage, "completion_tokens": 30}
    # So much that the reply was cut: response.incomplete, as it was recorded.
    assert gateway.respond(key, simulate, max_output_tokens=16, stream=stream).status_code == 200
    (entry,) = settled(world, key)
    assert "estimated" in entry["flags"]
    assert entry["usage"]["output"] == 16 * len(TOKEN)
    assert 0 < entry["amount"] <= hold


# Answers in the background


def background(gateway: Gateway, key: str, simulate: dict[str, Any] | None = None, **body: Any) -> str:
    answer = gateway.respond(key, simulate, background=True, **body)
    assert (answer.status_code, answer.json()["status"], answer.json()["usage"]) == (200, "queued", None)
    return str(answer.json()["id"])


def ask(gateway: Gateway, key: str, answer_id: str, method: str = "GET", rest: str = "") -> httpx.Response:
    return httpx.request(
        method, f"{gateway.url}/v1/responses/{answer_id}{rest}", headers={"authorization": f"Bearer {key}"}, timeout=30
    )


def test_a_background_answer_is_held_until_it_has_ended(hasty: World, simulator: Simulator) -> None:
    world = hasty
    with Gateway(world.gateway_dsn, simulator.url) as gateway:
        hold = hold_of(world, gateway, background=True)
        key = world.key(10_000)
        # Longer than the stale window, and nobody asks for it.
        answer_id = background(gateway, key, {"background_ms": 4000})
        assert budget(gateway, key)["reserved"] == hold
        assert ask(gateway, key, answer_id).json()["status"] in ("queued", "in_progress")
        (entry,) = settled(world, key)
        assert (entry["kind"], entry["source"], entry["amount"], entry["flags"]) == ("settled", "usage", STANDARD, [])
        answer = ask(gateway, key, answer_id).json()
        assert (answer["status"], answer["usage"]["output_tokens"]) == ("completed", 200)


def test_a_background_answer_is_only_its_keys(world: World, gateway: Gateway, simulator: Simulator) -> None:
    key = world.key(10**6)
    answer_id = background(gateway, key)
    foreground = gateway.respond(key).json()["id"]
    settled(world, key, 2)
    for other, wanted in ((world.key(10**6), answer_id), (key, foreground), (key, "resp_nobody")):
        for method, rest in (("GET", ""), ("DELETE", ""), ("POST", "/cancel")):
            answer = ask(gateway, other, wanted, method, rest)
            assert answer.status_code == 404, (method, wanted)
            assert answer.headers["x-pgbudget-error-source"] == "gateway"
    assert ask(gateway, "sk-nobody", answer_id).status_code == 401
    assert ask(gateway, key, answer_id, rest="?stream=true").json()["error"]["param"] == "stream"


def test_another_gateway_knows_the_answer_too(world: World, gateway: Gateway, simulator: Simulator) -> None:
    key = world.key(10**6)
    answer_id = background(gateway, key)
    with Gateway(world.gateway_dsn, simulator.url) as other:
        assert ask(other, key, answer_id).json()["id"] == answer_id
        assert settled(world, key)[0]["amount"] == STANDARD
        assert ask(other, key, answer_id, "DELETE").json()["deleted"] is True
    assert ask(gateway, key, answer_id).status_code == 404


def test_a_gateway_that_dies_is_charged_in_full_until_somebody_looks(hasty: World, simulator: Simulator) -> None:
    world = hasty
    key = world.key(10**6)
    with Gateway(world.gateway_dsn, simulator.url) as doomed:
        answer_id = background(doomed, key, {"background_ms": 3000})
        doomed.kill()
    with Gateway(world.gateway_dsn, simulator.url, reconcile_seconds="0.2") as gateway:
        assert settled(world, key)[0]["outcome"] == "stale"
        wait_until(lambda: ask(gateway, key, answer_id).json()["status"] == "completed")
        rows = settled(world, key, 2)
        assert rows[1]["kind"] == "trued_up"
        assert rows[0]["amount"] + rows[1]["amount"] == STANDARD


def test_a_cancelled_answer_is_charged_in_full_when_the_provider_says_no_usage(world: World, gateway: Gateway) -> None:
    hold = hold_of(world, gateway, background=True)
    key = world.key(10**6)
    answer_id = background(gateway, key, {"background_ms": 60_000})
    assert ask(gateway, key, answer_id, "DELETE").json()["error"]["code"] == "not_ended"
    assert ask(gateway, key, answer_id, "POST", "/cancel").json()["status"] == "cancelled"
    (entry,) = settled(world, key)
    assert (entry["kind"], entry["amount"]) == ("charged", hold)


def test_a_failed_background_answer_is_charged_in_full(world: World, gateway: Gateway) -> None:
    hold = hold_of(world, gateway, background=True)
    key = world.key(10**6)
    background(gateway, key, {"error_after_chunks": 3})
    (entry,) = settled(world, key)
    assert (entry["kind"], entry["amount"]) == ("charged", hold)


def test_a_recorded_background_answer(world: World, gateway: Gateway) -> None:
    key = world.key(10**6)
    background(gateway, key, {"replay": "openai/responses_background_get_completed.json"})
    (entry,) = settled(world, key)
    assert entry["usage"] == {"input": 15, "output": 9}


def test_a_background_answer_has_a_time_limit(world: World, simulator: Simulator) -> None:
    with Gateway(world.gateway_dsn, simulator.url, background_seconds="1") as gateway:
        key = world.key(10**6)
        background(gateway, key, {"background_ms": 60_000})
        (entry,) = settled(world, key)
        assert (entry["kind"], entry["outcome"]) == ("charged", "unknown")


def test_many_background_answers_are_settled_once_each(world: World, gateway: Gateway) -> None:
    key = world.key(10**6)
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: background(gateway, key, {"background_ms": 200}), range(20)))
        for answer_id in ids:
            pool.submit(ask, gateway, key, answer_id)
    rows = settled(world, key, 20)
    assert [row["amount"] for row in rows] == [STANDARD] * 20
    assert len(set(ids)) == 20


# The SDK


def test_the_sdk_works_unchanged(world: World, gateway: Gateway) -> None:
    key = world.key(10**6)
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=key, timeout=30) as client:
        answer = client.responses.create(model="t-mini", input="hi", max_output_tokens=200)
        assert answer.output_text == TOKEN * 200
        with client.responses.stream(model="t-mini", input="hi", max_output_tokens=200) as stream:
            text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
            assert (text, stream.get_final_response().status) == (TOKEN * 200, "completed")
        waiting = client.responses.create(model="t-mini", input="hi", max_output_tokens=200, background=True)
        ended = wait_until(lambda: (r := client.responses.retrieve(waiting.id)).status == "completed" and r)
        assert ended.output_text == TOKEN * 200
        settled(world, key, 3)
        client.responses.delete(waiting.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(waiting.id)
        running = client.responses.create(
            model="t-mini", input="hi", background=True, extra_headers={"x-simulate": '{"background_ms": 60000}'}
        )
        assert client.responses.cancel(running.id).status == "cancelled"
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=world.key(10), max_retries=2) as client:
        with pytest.raises(openai.APIStatusError) as refused:
            client.responses.create(model="t-mini", input="hi", max_output_tokens=200)
        assert (refused.value.status_code, refused.value.code) == (402, "request_over_limit")
