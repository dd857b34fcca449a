"""The handed cases on Anthropic's route, streamed and not, and how its calls end. Amounts are micro-dollars, as there."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
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


def sse(start: dict[str, Any], delta: dict[str, Any], text: str = "Hi") -> str:
    """A stream with these usages at its beginning and its end."""
    return "".join(
        [
            event("message_start", message={"id": "msg_1", "type": "message", "model": "c-son", "content": [], "usage": start}),
            event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
            event("ping"),
            event("content_block_delta", index=0, delta={"type": "text_delta", "text": text}),
            event("content_block_stop", index=0),
            event("message_delta", delta={"stop_reason": "end_turn"}, usage=delta),
            event("message_stop"),
        ]
    )


@STREAMED
def test_a_call_is_passed_on_and_charged_by_its_usage(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = world.key(10**6)
    request = messages_request(key, stream=stream)
    request["headers"] |= {"anthropic-beta": "a-2026-01-01,b-2026-01-01", "x-pgbudget-cost": "wait"}
    answer = httpx.post(f"{gateway.url}/v1/messages", timeout=30, **request)
    assert answer.status_code == 200
    assert ("message_stop" in answer.text) == stream
    said = answer.text.rpartition(": pgbudget-cost-usd ")[2] if stream else answer.headers["x-pgbudget-cost-usd"]
    assert float(said) == STANDARD / 1e6
    (entry,) = settled(world, key)
    assert (entry["amount"], entry["source"]) == (STANDARD, "usage")
    assert answer.headers["x-pgbudget-reservation"] == str(entry["reservation_id"])
    (call,) = simulator.tally()["generated"]
    headers = dict(call["request_headers"])
    assert (headers["anthropic-version"], headers["anthropic-beta"]) == ("2023-06-01", "a-2026-01-01,b-2026-01-01")
    assert key not in json.dumps(call)
    assert call["billed_nano_usd"] == entry["amount_nano_usd"]


# EST-03, EST-08, EST-10


@STREAMED
def test_est_08_the_cap_that_is_priced_is_the_cap_that_is_forwarded(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = world.key(10**9)
    bad: list[Any] = [..., None, 0, -1, 1.5, "100", True, [], 1e30, 2**63]
    for value in bad:
        answer = gateway.messages(key, max_tokens=value, stream=stream)
        error = answer.json()["error"]
        assert (answer.status_code, error["type"], error["param"]) == (400, "invalid_request_error", "max_tokens"), value
    assert (simulator.calls(), world.held()) == (0, 0)
    for i, (asked, cap) in enumerate(((10, 10), (100_000, 64_000), (2**63 - 1, 64_000))):
        assert gateway.messages(key, max_tokens=asked, stream=stream).status_code == 200
        assert settled(world, key, i + 1)[-1]["reserved_nano_usd"] // 1000 >= cap * 15
        assert simulator.tally()["generated"][-1]["request_body"]["max_tokens"] == cap


@STREAMED
def test_est_03_a_picture_is_held_as_a_picture(world: World, gateway: Gateway, stream: bool) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 2_549_000}
    key = world.key(200_000)
    for block in (
        {"type": "image", "source": source},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": source}]},
    ):
        answer = gateway.messages(key, messages=[{"role": "user", "content": [block]}], max_tokens=500, stream=stream)
        assert answer.status_code == 200
    entries = settled(world, key, 2)
    assert all(1000 * 3 <= e["reserved_nano_usd"] // 1000 <= 18_384 * 3 + 500 * 15 for e in entries)


@STREAMED
def test_est_10_a_cache_write_is_held_at_its_own_price(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    def system(ttl: str) -> list[dict[str, Any]]:
        # Without spaces that JSON would add: 100,000 bytes are at most 100,000 tokens.
        return [{"type": "text", "text": "x" * 100_000, "cache_control": {"type": "ephemeral", "ttl": ttl}}]

    answer = gateway.messages(world.key(400_000), system=system("1h"), max_tokens=10, stream=stream)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["code"]) == (402, "billing_error", "request_over_limit")
    assert answer.headers["x-should-retry"] == "false"
    assert 600_150 <= round(error["pgbudget"]["worst_case_usd"] * 1e6) < 1_305_000
    assert simulator.calls() == 0
    key = world.key(10**6)
    assert gateway.messages(key, {"cache_write_1h_tokens": 90}, system=system("1h"), max_tokens=10, stream=stream).is_success
    (entry,) = settled(world, key)
    assert entry["amount"] == 10 * 3 + 90 * 6 + 10 * 15


# USE-06, USE-08, PRICE-02


def split(five_minutes: int, an_hour: int) -> dict[str, int]:
    return {"ephemeral_5m_input_tokens": five_minutes, "ephemeral_1h_input_tokens": an_hour}


CACHED = {"input_tokens": 27, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 0}
USAGES: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "use-06": ({**CACHED, "output_tokens": 1}, {**CACHED, "output_tokens": 47}, 1_086_000),
    "use-08a": (
        {"input_tokens": 0, "cache_creation_input_tokens": 1000, "cache_creation": split(600, 400), "output_tokens": 0},
        {"output_tokens": 0},
        4_650_000,
    ),
    "use-08b": ({"input_tokens": 0, "cache_creation_input_tokens": 2805, "output_tokens": 0}, {"output_tokens": 0}, 10_518_750),
    "use-08c": (
        {"input_tokens": 0, "cache_creation_input_tokens": 100_000, "cache_creation": split(0, 100_000), "output_tokens": 0},
        {"cache_creation_input_tokens": 100_000, "cache_creation": split(100_000, 0), "output_tokens": 0},
        375_000_000,
    ),
    "price-02": (
        {"input_tokens": 86, "cache_read_input_tokens": 20_000, "cache_creation_input_tokens": 0, "output_tokens": 1},
        {"output_tokens": 50},
        7_008_000,
    ),
}


@STREAMED
@pytest.mark.parametrize("name", USAGES)
def test_use_06_use_08_price_02_usage_is_merged_and_each_kind_has_its_price(
    world: World, gateway: Gateway, name: str, stream: bool
) -> None:
    start, delta, nano_usd = USAGES[name]
    text = "Hi" if delta["output_tokens"] else ""
    body = sse(start, delta, text)
    whole = {"type": "message", "content": [{"type": "text", "text": text}], "usage": {**start, **delta}}
    simulate = {"raw_sse": body, "split": "bytes"} if stream else {"raw_body": json.dumps(whole)}
    key = world.key(10**9)
    answer = gateway.messages(key, simulate, stream=stream)
    assert answer.text == (body if stream else simulate["raw_body"])
    (entry,) = settled(world, key)
    assert (entry["amount_nano_usd"], entry["source"]) == (nano_usd, "usage")


# PRICE-07


@STREAMED
def test_price_07_searches_are_held_by_their_limit_and_charged_as_they_were(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    def ask(key: str, simulate: dict[str, Any] | None = None, **limit: int) -> httpx.Response:
        return gateway.messages(key, simulate, tools=[{**SEARCH, **limit}], max_tokens=100, stream=stream)

    key = world.key(10**9)
    assert ask(key, {"prompt_tokens": 45, "completion_tokens": 10, "web_searches": 2}, max_uses=5).status_code == 200
    (entry,) = settled(world, key)
    assert entry["amount"] == 20_285
    # Five searches, and a context window of what they find.
    assert entry["reserved_nano_usd"] // 1000 == 5 * 10_000 + 200_000 * 3 + 100 * 15
    # Declared, but not used: no fee.
    assert ask(key, {"prompt_tokens": 45, "completion_tokens": 10}, max_uses=5).status_code == 200
    assert settled(world, key, 2)[-1]["amount"] == 285
    # Without a limit the gateway sets one.
    assert ask(key).status_code == 200
    assert settled(world, key, 3)[-1]["reserved_nano_usd"] // 1000 == 10 * 10_000 + 200_000 * 3 + 100 * 15
    assert [c["request_body"]["tools"][0]["max_uses"] for c in simulator.tally()["generated"]] == [5, 5, 10]
    assert ask(world.key(20_000)).status_code == 402
    assert simulator.calls() == 3


@STREAMED
def test_a_ladder_turns_searching_off(world: World, gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    # Room for the context window, not for the searches.
    key = world.key(200_000 * 3 + 100 * 15)
    ladder(world, key, {"name": "plain", "features_off": ["web_search"]})
    answer = gateway.messages(key, tools=[SEARCH], tool_choice={"type": "auto"}, max_tokens=100, stream=stream)
    assert (answer.status_code, answer.headers["x-pgbudget-rung"]) == (200, "plain")
    forwarded = simulator.tally()["generated"][-1]["request_body"]
    assert forwarded["tools"] == []
    assert "tool_choice" not in forwarded


# ERR-01, ERR-02


async def _read_some(gateway: Gateway, key: str, simulate: dict[str, Any], pieces: int) -> None:
    """Read so many events of a stream, then close the socket."""
    async with (
        httpx.AsyncClient(timeout=30) as client,
        client.stream("POST", f"{gateway.url}/v1/messages", **messages_request(key, simulate, stream=True)) as answer,
    ):
        seen = 0
        async for line in answer.aiter_lines():
            seen += line.startswith("data:") and "text_delta" in line
            if seen >= pieces:
                return


def test_err_01_leaving_a_stream_is_not_free(world: World, simulator: Simulator) -> None:
    with Gateway(world.gateway_dsn, simulator.url, drain_seconds="0") as gateway:
        key = world.key(10**6)
        asyncio.run(_read_some(gateway, key, {"prompt_tokens": 45, "chunk_ms": 20}, 26))
        (entry,) = settled(world, key)
        # The input that the beginning told, and a token for each byte of the text that was seen.
        assert 45 * 3 + 26 * 15 <= entry["amount"] <= entry["reserved_nano_usd"] // 1000
        assert entry["usage"]["input"] == 45
        assert "estimated" in entry["flags"]


def test_err_01_with_time_to_drain_the_real_usage_is_charged(world: World, simulator: Simulator) -> None:
    with Gateway(world.gateway_dsn, simulator.url, drain_seconds="20") as gateway:
        key = world.key(10**6)
        simulate = {"prompt_tokens": 45, "completion_tokens": 511, "ignore_cap": True, "chunk_ms": 2}
        asyncio.run(_read_some(gateway, key, simulate, 26))
        (entry,) = settled(world, key)
        assert (entry["amount"], entry["source"]) == (7_800, "usage")


def test_err_01_leaving_an_answer_that_comes_whole_is_charged_as_it_comes(
    world: World, gateway: Gateway, simulator: Simulator
) -> None:
    key = world.key(10**6)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(httpx.post, f"{gateway.url}/v1/messages", timeout=3, **messages_request(key, {"barrier": "slow"}))
        wait_until(lambda: simulator.waiting("slow") == 1)
        with pytest.raises(httpx.ReadTimeout):
            call.result()
    simulator.open("slow")
    (entry,) = settled(world, key)
    assert (entry["amount"], entry["source"]) == (STANDARD, "usage")


@pytest.mark.parametrize("deltas", ["content", "tool_calls", "reasoning"])
def test_err_02_a_stream_that_breaks_is_charged_by_its_output(world: World, gateway: Gateway, deltas: str) -> None:
    simulate = {"deltas": deltas, "completion_tokens": 1600, "chunks": 100, "cut_after_chunks": 99, "chunk_ms": 3}
    key = world.key(10**6)
    with pytest.raises(httpx.RemoteProtocolError):
        gateway.messages(key, simulate, stream=True, max_tokens=10_000)
    (entry,) = settled(world, key)
    # 1,584 tokens of five bytes: at least the real cost of what was sent, less than the hold.
    assert 100 * 3 + 1584 * 15 <= entry["amount"] < entry["reserved_nano_usd"] // 1000
    assert "estimated" in entry["flags"]


@pytest.mark.parametrize("deltas", ["content", "tool_calls", "reasoning"])
@STREAMED
def test_all_that_is_generated_is_charged_whatever_it_is(world: World, gateway: Gateway, deltas: str, stream: bool) -> None:
    key = world.key(10**6)
    assert gateway.messages(key, {"deltas": deltas}, stream=stream).status_code == 200
    # Without usage: the text alone tells.
    assert gateway.messages(key, {"deltas": deltas, "no_usage": True}, stream=stream).status_code == 200
    told, bounded = settled(world, key, 2)
    assert (told["amount"], told["source"]) == (STANDARD, "usage")
    assert STANDARD <= bounded["amount"] <= bounded["reserved_nano_usd"] // 1000
    assert "estimated" in bounded["flags"]


def test_silence_is_charged_by_what_came_before(world: World, simulator: Simulator) -> None:
    with Gateway(world.gateway_dsn, simulator.url, idle_seconds="0.5") as gateway:
        key = world.key(10**6)
        with pytest.raises(httpx.RemoteProtocolError):
            gateway.messages(key, {"silence_after_chunks": 20}, stream=True)
        (entry,) = settled(world, key)
        assert 100 * 3 + 20 * 15 <= entry["amount"] < entry["reserved_nano_usd"] // 1000


def test_an_error_in_the_stream_is_charged_by_what_came_before_and_passed_on(world: World, gateway: Gateway) -> None:
    key = world.key(10**6)
    answer = gateway.messages(key, {"error_after_chunks": 5}, stream=True)
    assert (answer.status_code, "event: error" in answer.text, "message_stop" in answer.text) == (200, True, False)
    error = event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    assert gateway.messages(key, {"raw_sse": error}, stream=True).text == error
    some, nothing = settled(world, key, 2)
    assert 100 * 3 + 5 * 15 <= some["amount"] < some["reserved_nano_usd"] // 1000
    assert "estimated" in some["flags"]
    assert (nothing["kind"], nothing["amount"]) == ("released", 0)


@STREAMED
def test_nothing_seen_is_charged_in_full(world: World, gateway: Gateway, stream: bool) -> None:
    key = world.key(10**6)
    bodies = ["", "not json", "[]", '{"content": 5}', "{"]
    for body in bodies:
        simulate = {"raw_sse": f"data: {body}\n\n"} if stream and body else {"raw_sse" if stream else "raw_body": body}
        gateway.messages(key, simulate, stream=stream)
    # A line that cannot be read may be output: it counts by its bytes.
    entries = settled(world, key, len(bodies))
    assert all(e["amount"] > 0 for e in entries)
    assert {e["kind"] for e in entries} <= ({"charged", "settled"} if stream else {"charged"})


@STREAMED
@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 529])
def test_what_the_provider_refused_is_released_and_its_own(world: World, gateway: Gateway, status: int, stream: bool) -> None:
    key = world.key(10**6)
    answer = gateway.messages(key, {"status": status}, stream=stream)
    assert (answer.status_code, answer.json()["error"]["message"]) == (status, f"simulated status {status}")
    assert answer.headers["x-pgbudget-error-source"] == "upstream"
    (entry,) = settled(world, key)
    assert (entry["kind"], entry["amount"]) == ("released", 0)


@STREAMED
@pytest.mark.parametrize("value", [-5, 1.5, "many", 10**30, True])
def test_usage_that_cannot_be_is_charged_in_full(world: World, gateway: Gateway, value: Any, stream: bool) -> None:
    key = world.key(10**6)
    usage = {"input_tokens": 100, "output_tokens": value}
    assert gateway.messages(key, {"usage": usage}, stream=stream).status_code == 200
    (entry,) = settled(world, key)
    assert (entry["kind"], entry["amount_nano_usd"]) == ("charged", entry["reserved_nano_usd"])
    assert "usage_rejected" in entry["flags"]


@STREAMED
def test_a_tier_that_has_no_price_is_charged_in_full(world: World, gateway: Gateway, stream: bool) -> None:
    key = world.key(10**6)
    assert gateway.messages(key, {"service_tier": "priority"}, stream=stream).status_code == 200
    (entry,) = settled(world, key)
    assert (entry["kind"], entry["amount_nano_usd"]) == ("charged", entry["reserved_nano_usd"])
    answer = gateway.messages(key, speed="fast", stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "model_unpriced")


# Refusals


@STREAMED
def test_every_refusal_is_shaped_as_the_sdk_knows_it(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = world.key(10**6)
    found = [
        (gateway.messages("pgb_unknown", stream=stream), 401, "authentication_error", "invalid_key"),
        (gateway.messages(world.key(1), stream=stream), 402, "billing_error", "request_over_limit"),
        (
            gateway.messages(world.key(10**6, allowed_models=["t-pro"]), stream=stream),
            403,
            "permission_error",
            "model_not_allowed",
        ),
        (gateway.messages(key, model="no", stream=stream), 404, "not_found_error", "model_not_found"),
        (gateway.messages(key, mcp_servers=[{}], stream=stream), 400, "invalid_request_error", "invalid_request"),
        (gateway.messages(key, api_key="sk", stream=stream), 400, "invalid_request_error", "invalid_request"),
    ]
    for answer, status, kind, code in found:
        body = answer.json()
        assert (answer.status_code, body["error"]["type"], body["error"]["code"]) == (status, kind, code)
        assert body["type"] == "error"
        assert body["error"]["message"]
        assert answer.headers["x-pgbudget-error-source"] == "gateway"
        assert answer.headers["x-should-retry"] == "false"
        assert ("pgbudget" in body["error"]) == (status == 402)
    assert (simulator.calls(), world.held()) == (0, 0)


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
    gateway: Gateway, simulator: Simulator, method: str, path: str, status: int
) -> None:
    answer = httpx.request(method, gateway.url + path, headers={"anthropic-version": "2023-06-01"})
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
