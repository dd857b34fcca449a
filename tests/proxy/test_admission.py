"""What admission decides, as a caller of the chat route meets it: rate limits, ladders, estimates, counts of refusals."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.proxy.calls import STANDARD, STREAMED, hold_of, settled
from tests.proxy.routes import CHAT, COMPLETIONS, EMBEDDINGS, MESSAGES, RESPONSES, ROUTES, Route
from tests.support.processes import Gateway, Simulator, chat_request, wait_until
from tests.support.world import Row, World

#: Twenty seconds into a minute.
NOON = "2030-01-01T12:00:20Z"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def rate_limit(world: World, key: str, requests: int | None, tokens: int | None) -> None:
    org, name = world.key_name(key)
    world.execute("select budget.set_rate_limit(%s, 'key', %s, %s, %s)", org, name, requests, tokens)


def ladder(world: World, key: str, *rungs: dict[str, Any]) -> None:
    org, name = world.key_name(key)
    world.execute("select budget.set_ladder(%s, 'key', %s, %s)", org, name, json.dumps(rungs))


def error_of(answer: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = answer.json()["error"]
    return error


# Rate limits


@STREAMED
def test_requests_a_minute(world: World, gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    world.set_clock(NOON)
    key = world.key(10**6)
    rate_limit(world, key, 2, None)
    assert [gateway.chat(key, stream=stream).status_code for _ in range(2)] == [200, 200]
    answer = gateway.chat(key, stream=stream)
    assert (answer.status_code, error_of(answer)["code"]) == (429, "rate_limit_exceeded")
    assert error_of(answer)["type"] == "rate_limit_error"
    assert answer.headers["retry-after"] == "40"
    assert "x-should-retry" not in answer.headers
    # A rate limit is no budget: its refusal tells no amounts.
    assert "pgbudget" not in error_of(answer)
    assert simulator.calls() == 2
    settled(world, key, 2)
    world.set_clock("2030-01-01T12:01:00Z")
    assert gateway.chat(key, stream=stream).status_code == 200


@STREAMED
def test_tokens_a_minute(world: World, gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    world.set_clock(NOON)
    # t-mini's prices are 1 and 4 micro-dollars.
    input_bound = hold_of(world, gateway, stream=stream) - 200 * 4
    simulator.reset()

    never = world.key(10**6)
    rate_limit(world, never, None, input_bound)
    answer = gateway.chat(never, stream=stream)
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["pgbudget"]["name"]) == (
        402,
        "request_over_limit",
        world.key_name(never)[1],
    )
    assert f"may use {input_bound} tokens a minute" in error["message"]
    assert answer.headers["x-should-retry"] == "false"
    assert "retry-after" not in answer.headers
    assert simulator.calls() == 0

    # With too little room the output allowance shrinks: what was granted is what is forwarded.
    key = world.key(10**6)
    rate_limit(world, key, None, input_bound + 50)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(gateway.chat, key, {"barrier": "minute"}, stream=stream)
        wait_until(lambda: simulator.waiting("minute") == 1)
        answer = gateway.chat(key, stream=stream)
        assert (answer.status_code, error_of(answer)["code"]) == (429, "tokens_limit_exceeded")
        assert answer.headers["retry-after"] == "40"
        assert "x-should-retry" not in answer.headers
        simulator.open("minute")
        assert first.result().status_code == 200
    (generated,) = simulator.tally()["generated"]
    assert generated["request_body"]["max_tokens"] == 50
    assert settled(world, key)[0]["amount"] == 100 + 50 * 4


# Refusals that waiting cannot help


@STREAMED
def test_a_request_above_a_ceiling_is_told_so(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    for key in (shared_world.key(1_000), shared_world.key(10**6, request_ceiling_usd="0.001")):
        answer = shared_gateway.chat(key, stream=stream)
        assert (answer.status_code, error_of(answer)["code"]) == (402, "request_over_limit")
        assert answer.headers["x-should-retry"] == "false"
        assert "retry-after" not in answer.headers
        assert error_of(answer)["pgbudget"]["worst_case_usd"] > 0.001
    assert simulator.calls() == 0


# Ladders


@STREAMED
def test_a_rung_with_a_cheaper_model(shared_world: World, shared_gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    # t-pro would cost five times as much for input, and 30 micro-dollars a token of output.
    key = shared_world.key(5_000)
    ladder(shared_world, key, {"name": "cheaper", "model": "t-mini"})
    answer = shared_gateway.chat(key, model="t-pro", stream=stream)
    assert answer.status_code == 200
    assert answer.headers["x-pgbudget-rung"] == "cheaper"
    (generated,) = simulator.tally()["generated"]
    assert (generated["request_body"]["model"], generated["request_body"]["max_tokens"]) == ("t-mini", 200)
    (entry,) = settled(shared_world, key)
    assert (entry["amount"], entry["rung"]) == (STANDARD, "cheaper")


@STREAMED
def test_a_rung_with_a_shorter_answer(shared_world: World, shared_gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    hold = hold_of(shared_world, shared_gateway, stream=stream)
    simulator.reset()
    key = shared_world.key(hold - 400)
    # Names are any text: they come back as UTF-8.
    ladder(shared_world, key, {"name": "kürzer", "max_output_tokens": 10})
    answer = shared_gateway.chat(key, stream=stream)
    assert answer.status_code == 200
    assert answer.headers["x-pgbudget-rung"] == "kürzer"
    assert simulator.tally()["generated"][0]["request_body"]["max_tokens"] == 10
    assert settled(shared_world, key)[0]["amount"] == 100 + 10 * 4


@STREAMED
def test_what_fits_as_asked_has_no_rung(shared_world: World, shared_gateway: Gateway, stream: bool) -> None:
    key = shared_world.key(10**6)
    ladder(shared_world, key, {"name": "cheaper", "model": "t-mini"})
    answer = shared_gateway.chat(key, model="t-pro", stream=stream)
    assert answer.status_code == 200
    assert "x-pgbudget-rung" not in answer.headers


@pytest.fixture(scope="session")
def searcher(shared_world: World) -> str:
    """A model that can search: 10,000 micro-dollars a search, 1 and 4 a token, 50 a token of a picture."""
    shared_world.execute("""
      select budget.set_model('simulator', 'searcher', 20000, 1000);
      select budget.review_price(budget.add_price('simulator', 'searcher', '[
        {"kind": "input", "usd": "1"}, {"kind": "output", "usd": "4"}, {"kind": "image_in", "usd": "50"},
        {"kind": "web_search", "usd": "0.01", "per": 1}]', '2020-01-01T00:00:00Z'), 'me');
      select budget.set_route(null, 'searcher', 'simulator', 'simulator');
    """)
    return "searcher"


@STREAMED
def test_a_rung_that_turns_a_feature_off(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, searcher: str, stream: bool
) -> None:
    # A search has no bound but the context window: 20,000 of input, 800 of output, 10,000 for the search.
    key = shared_world.key(25_000)
    body: dict[str, Any] = {"model": searcher, "web_search_options": {"search_context_size": "low"}, "stream": stream}
    answer = shared_gateway.chat(key, **body)
    assert (answer.status_code, error_of(answer)["code"]) == (402, "request_over_limit")
    assert error_of(answer)["pgbudget"]["worst_case_usd"] == 0.0308
    ladder(shared_world, key, {"name": "plain", "features_off": ["web_search"]})
    answer = shared_gateway.chat(key, {"no_usage": True}, **body)
    assert answer.status_code == 200
    assert answer.headers["x-pgbudget-rung"] == "plain"
    (generated,) = simulator.tally()["generated"]
    assert "web_search_options" not in generated["request_body"]
    assert generated["request_body"]["messages"]
    # Bounded by what was seen: no search is among it.
    (entry,) = settled(shared_world, key)
    assert entry["reserved_nano_usd"] == 20_800_000
    assert entry["amount"] <= 20_800
    assert "web_search" not in entry["usage"]


@STREAMED
def test_a_feature_that_cannot_be_taken_out_is_not_called(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, searcher: str, stream: bool
) -> None:
    key = shared_world.key(20_000)
    ladder(shared_world, key, {"name": "blind", "features_off": ["image_in"]})
    body: dict[str, Any] = {
        "model": searcher,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "what?"}, IMAGE]}],
    }
    request = chat_request(key, stream=stream, **body)
    request["headers"]["idempotency-key"] = "picture-1"
    # Nothing was sent under that id: it is decided afresh.
    for count in (1, 2):
        answer = httpx.post(f"{shared_gateway.url}/v1/chat/completions", timeout=30, **request)
        assert (answer.status_code, error_of(answer)["code"]) == (503, "budget_config_invalid")
        assert 'rung "blind"' in error_of(answer)["message"]
        assert answer.headers["x-should-retry"] == "false"
        entry = settled(shared_world, key, count)[-1]
        assert (entry["kind"], entry["outcome"], entry["amount"]) == ("released", "unsent", 0)
        assert answer.headers["x-pgbudget-reservation"] == str(entry["reservation_id"])
    assert simulator.calls() == 0


@STREAMED
@pytest.mark.parametrize("last", [{"name": "wait", "wait_seconds": 5}, {"name": "stop", "refuse": True}])
def test_a_ladder_that_ends_without_a_grant_refuses(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, last: dict[str, Any], stream: bool
) -> None:
    key = shared_world.key(hold_of(shared_world, shared_gateway, stream=stream))
    ladder(shared_world, key, {"name": "dearer", "model": "t-pro"}, last)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(shared_gateway.chat, key, {"barrier": "held"}, stream=stream)
        wait_until(lambda: simulator.waiting("held") == 1)
        answer = shared_gateway.chat(key, stream=stream)
        assert (answer.status_code, error_of(answer)["code"]) == (429, "budget_busy")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert "x-should-retry" not in answer.headers
        simulator.open("held")
        assert first.result().status_code == 200
    settled(shared_world, key)
    assert simulator.waiting("held") == 0


# How a key measures its input


@STREAMED
@pytest.mark.parametrize("text", ["word " * 500, "预算" * 300], ids=["ascii", "chinese"])
def test_a_key_goes_by_the_estimate_that_is_set(shared_world: World, shared_gateway: Gateway, text: str, stream: bool) -> None:
    request = chat_request("k", messages=[{"role": "user", "content": text}], stream=stream)["json"]
    compact = json.dumps(request, ensure_ascii=False, separators=(",", ":"))
    size = len(compact.encode())
    wanted = {"bytes": size, "chars3": -(-len(compact) // 3), "bytes4": -(-size // 4)}
    for mode, tokens in wanted.items():
        key = shared_world.key(10**6, input_bound=mode)
        assert shared_gateway.chat(key, messages=request["messages"], stream=stream).status_code == 200
        assert settled(shared_world, key)[0]["reserved_nano_usd"] == (1024 + tokens + 200 * 4) * 1000, mode


# Idempotency: one call for one key, whatever becomes of it


def repeat(gateway: Gateway, request: dict[str, Any]) -> httpx.Response:
    answer: httpx.Response = httpx.post(f"{gateway.url}/v1/chat/completions", timeout=30, **request)
    return answer


@STREAMED
@pytest.mark.parametrize(
    ("simulate", "state"),
    [({}, "settled"), ({"no_usage": True}, "settled"), ({"status": 400}, "released"), ({"cut_after_chunks": 0}, "charged")],
    ids=["with usage", "without usage", "refused upstream", "nothing known"],
)
def test_a_repeat_is_told_what_became_of_the_first_call(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, simulate: dict[str, Any], state: str, stream: bool
) -> None:
    key = shared_world.key(10**6)
    request = chat_request(key, simulate, stream=stream)
    request["headers"]["idempotency-key"] = "order-1"
    try:
        repeat(shared_gateway, request)
    except httpx.RemoteProtocolError:
        assert (state, stream) == ("charged", True)
    (entry,) = settled(shared_world, key)
    calls = simulator.calls()
    first = {"reservation_id": str(entry["reservation_id"]), "state": state}
    for max_tokens in (200, 201):
        # The same body, then another one.
        request["json"]["max_tokens"] = max_tokens
        answer = repeat(shared_gateway, request)
        assert (answer.status_code, error_of(answer)["code"]) == (409, "idempotency_conflict")
        assert error_of(answer)["pgbudget"] == first
        assert answer.headers["x-should-retry"] == "false"
    assert simulator.calls() == calls
    assert settled(shared_world, key) == [entry]


@STREAMED
def test_of_many_calls_with_one_key_at_once_one_is_made(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = shared_world.key(10**6)
    request = chat_request(key, {"barrier": "once"}, stream=stream)
    request["headers"]["idempotency-key"] = "order-1"
    with Gateway(shared_world.gateway_dsn, simulator.url) as other, ThreadPoolExecutor(20) as pool:
        calls = [pool.submit(repeat, (shared_gateway, other)[i % 2], request) for i in range(20)]
        wait_until(lambda: sum(call.done() for call in calls) == 19, what="the answers to all but one")
        assert simulator.waiting("once") == 1
        simulator.open("once")
        answers = [call.result() for call in calls]
        assert sorted(a.status_code for a in answers) == [200] + [409] * 19
        (first,) = [a.headers["x-pgbudget-reservation"] for a in answers if a.status_code == 200]
        told = [error_of(a)["pgbudget"] for a in answers if a.status_code == 409]
        assert told == [{"reservation_id": first, "state": "open"}] * 19
        # Another caller's id is another id, though it reads the same.
        request["headers"]["authorization"] = f"Bearer {shared_world.key(10**6)}"
        assert repeat(other, request).status_code == 200
    settled(shared_world, key)
    assert simulator.calls() == 2


@pytest.mark.parametrize("value", ["", "x" * 201, "a\tb"])
def test_an_idempotency_key_that_cannot_be_one_is_refused(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, value: str
) -> None:
    request = chat_request(shared_world.key(10**6))
    request["headers"]["idempotency-key"] = value
    answer = repeat(shared_gateway, request)
    assert (answer.status_code, error_of(answer)["param"]) == (400, "idempotency-key")
    assert simulator.calls() == 0


@pytest.mark.parametrize("route", ROUTES, ids=str)
@pytest.mark.parametrize("value", ["", "true", "WAIT", "wait, wait"])
def test_a_way_of_telling_the_cost_that_there_is_not_is_refused(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, route: Route, value: str
) -> None:
    key = shared_world.key(10**6)
    headers = {**route.headers(key), "x-pgbudget-cost": value}
    answer = httpx.post(shared_gateway.url + route.path, json=route.body(), headers=headers)
    assert answer.status_code == 400
    assert "x-pgbudget-cost can only be wait" in error_of(answer)["message"]
    assert simulator.calls() == 0
    # Nothing was held, so nothing has ended.
    assert settled(shared_world, key, 0) == []


# A model that writes nothing


@STREAMED
@pytest.mark.parametrize(
    ("route", "capped"),
    # Messages must say how long an answer may be.
    [
        *((route, True) for route in (CHAT, COMPLETIONS, RESPONSES, MESSAGES)),
        *((r, False) for r in (CHAT, COMPLETIONS, RESPONSES)),
    ],
)
def test_a_model_without_output_is_not_asked_for_any(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, route: Route, capped: bool, stream: bool
) -> None:
    key = shared_world.key(10**6)
    body = route.body(stream=stream, model=EMBEDDINGS.model)
    if not capped:
        del body[str(route.cap)]
    answer = httpx.post(shared_gateway.url + route.path, json=body, headers=route.headers(key))
    assert answer.status_code == 400
    assert f"{EMBEDDINGS.model} writes no answers" in error_of(answer)["message"]
    assert simulator.calls() == 0
    (entry,) = settled(shared_world, key)
    assert (entry["kind"], entry["amount"]) == ("released", 0)


# Counts of refusals


def counted(world: World) -> list[Row]:
    return world.rows(
        "select scope_kind::text, scope_name, code, sum(refusals)::int as refusals from budget.refusal_count"
        " group by 1, 2, 3 order by code, scope_name"
    )


def test_refusals_are_counted_by_scope_and_code(world: World, simulator: Simulator) -> None:
    org = world.org()
    poor, limited = world.key(1_000, org=org), world.key(10**6, org=org)
    world.budget(org, "project", "p", 10**9)
    rate_limit(world, limited, 1, None)
    names = {key: world.key_name(key)[1] for key in (poor, limited)}
    with Gateway(world.gateway_dsn, simulator.url) as gateway:
        world.set_clock(NOON)
        statuses = [gateway.chat(key, model=model).status_code for key, model in [
            (poor, "t-mini"), (poor, "t-mini"), (poor, "unknown"), (limited, "t-mini"), (limited, "t-mini"),
            ("pgb_nobody", "t-mini"), ("pgb_somebody", "t-mini"),
        ]]  # fmt: skip
        assert statuses == [402, 402, 404, 200, 429, 401, 401]
        wanted: list[Row] = [
            {"scope_kind": None, "scope_name": None, "code": "invalid_key", "refusals": 2},
            {"scope_kind": "key", "scope_name": names[poor], "code": "model_not_found", "refusals": 1},
            {"scope_kind": "key", "scope_name": names[limited], "code": "rate_limit_exceeded", "refusals": 1},
            {"scope_kind": "key", "scope_name": names[poor], "code": "request_over_limit", "refusals": 2},
        ]
        wait_until(lambda: counted(world) == wanted, what="the counts")
        # What is counted since is told at the end.
        assert gateway.chat(poor).status_code == 402
        assert gateway.stop() == 0
    assert counted(world) == [*wanted[:-1], {**wanted[-1], "refusals": 3}]
    settled(world, limited)
