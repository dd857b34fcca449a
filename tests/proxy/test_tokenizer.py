"""Keys that go by a tokenizer: what does not fit by its bytes is counted, and held by its tokens. Micro-dollars."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.proxy.calls import settled
from tests.proxy.routes import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, TEXT, Route
from tests.support.processes import Gateway, Simulator, wait_until
from tests.support.world import World

#: 12,000 bytes, 2,400 words of a token each.
LONG = TEXT * 20
WORDS = 2_400
#: Between what is held for LONG by its tokens and by its bytes, with 200 tokens of output.
BETWEEN = 6_000
#: 30,000 bytes; as the handed cases have it 4,000 tokens of the newer vocabulary, 6,000 of the older one.
DENSE = "数据库预算" * 2000
EACH = [
    pytest.param(route, stream, id=f"{route}-{'streamed' if stream else 'whole'}")
    for route in (CHAT, RESPONSES, COMPLETIONS, EMBEDDINGS)
    for stream in ((False,) if route is EMBEDDINGS else (False, True))
]


@pytest.fixture(scope="session")
def priced(shared_world: World) -> World:
    """Models by what is known of their tokenizers: the newer one, either, and one of which nothing is known."""
    lines = '[{"kind": "input", "usd": 1}, {"kind": "output", "usd": 4}]'
    for model in ("gpt-4o-mini", "gpt-4"):
        shared_world.execute("select budget.set_model('openai', %s, 128000, 16384)", model)
        shared_world.execute(
            "select budget.review_price(budget.add_price('openai', %s, %s, '2020-01-01', 'made up'), 'me')", model, lines
        )
    newer, older = ({"provider": "openai", "account": "openai", "upstream_model": m} for m in ("gpt-4o-mini", "gpt-4"))
    unknown = {"provider": "simulator", "account": "simulator", "upstream_model": "t-mini", "priority": 2}
    for model, routes in {"newer": [newer], "either": [newer, {**older, "priority": 2}], "mixed": [newer, unknown]}.items():
        shared_world.execute("select budget.set_routes(null, %s, %s)", model, json.dumps(routes))
    return shared_world


@pytest.fixture(scope="session")
def gateway(priced: World, _simulator: Simulator) -> Iterator[Gateway]:
    """A gateway whose account of OpenAI leads to the simulator."""
    account: dict[str, Any] = {"account_openai_url": f"{_simulator.url}/v1", "account_openai_key": Simulator.KEY}
    with Gateway(priced.gateway_dsn, _simulator.url, **account) as running:
        yield running


def key_of(world: World, limit: int | None, bound: str = "tokenizer", ladder: list[dict[str, Any]] | None = None) -> str:
    key = world.key(limit, input_bound=bound)
    if ladder:
        world.execute("select budget.set_ladder(%s, 'key', %s, %s)", *world.key_name(key), json.dumps(ladder))
    return key


def ask(gateway: Gateway, key: str, route: Route = CHAT, stream: bool = False, **body: Any) -> httpx.Response:
    asked = route.body(**{"words": LONG, "model": "newer", "stream": stream, **body})
    return httpx.post(gateway.url + route.path, json=asked, headers=route.headers(key), timeout=60)


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    error: dict[str, Any] = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code), answer.text
    return error


def held(world: World, key: str) -> int:
    """What was held for the one call of a key."""
    (entry,) = settled(world, key)
    return int(entry["reserved_nano_usd"]) // 1000


def nothing_held(world: World, *keys: str) -> None:
    # What others held has ended, and may not be booked yet; what was held here would be in the ledger then.
    wait_until(lambda: world.rows("select 1 from budget_internal.reservations") == [])
    for key in keys:
        assert settled(world, key, 0) == []
    assert world.verify() == []


@pytest.mark.parametrize(("route", "stream"), EACH)
def test_what_fits_by_its_tokens_is_granted(
    priced: World, gateway: Gateway, simulator: Simulator, route: Route, stream: bool
) -> None:
    by_bytes = key_of(priced, BETWEEN, "bytes")
    refused(ask(gateway, by_bytes, route, stream), 402, "request_over_limit")
    nothing_held(priced, by_bytes)
    assert simulator.calls() == 0

    key = key_of(priced, BETWEEN)
    answer = ask(gateway, key, route, stream)
    assert answer.status_code == 200, answer.text
    output = 200 * 4 if route.cap else 0
    assert WORDS + 1024 <= held(priced, key) - output <= WORDS + 1024 + 100
    (call,) = simulator.tally()["generated"]
    assert call["request_body"]["model"] == "gpt-4o-mini"
    assert priced.verify() == []


@pytest.mark.parametrize(("route", "stream"), EACH)
def test_what_does_not_fit_by_its_tokens_either_is_told_by_them(
    priced: World, gateway: Gateway, simulator: Simulator, route: Route, stream: bool
) -> None:
    key = key_of(priced, WORDS)
    error = refused(ask(gateway, key, route, stream), 402, "request_over_limit")
    assert error["pgbudget"]["worst_case_usd"] < BETWEEN / 1e6
    nothing_held(priced, key)
    assert simulator.calls() == 0


def test_what_fits_by_its_bytes_is_held_by_them(priced: World, gateway: Gateway, simulator: Simulator) -> None:
    key = key_of(priced, 10**6)
    assert ask(gateway, key).status_code == 200
    assert held(priced, key) > len(LONG)


def spent(world: World, key: str) -> None:
    world.settle(world.reserve(key, input_tokens=9_000, output=0)["reservation_id"], {"input": 9_000})


def busy(world: World, key: str) -> None:
    world.reserve(key, input_tokens=9_000, output=0, holder="other")


def few_tokens(world: World, key: str) -> None:
    world.execute("select budget.set_rate_limit(%s, 'key', %s, null, %s)", *world.key_name(key), BETWEEN)


def few_tokens_left(world: World, key: str) -> None:
    world.execute("select budget.set_rate_limit(%s, 'key', %s, null, 15000)", *world.key_name(key))
    busy(world, key)


@pytest.mark.parametrize(
    ("limit", "full", "status", "code"),
    [
        (15_000, spent, 402, "budget_exceeded"), (15_000, busy, 429, "budget_busy"),
        (None, few_tokens, 402, "request_over_limit"), (None, few_tokens_left, 429, "tokens_limit_exceeded"),
    ],
)  # fmt: skip
def test_a_closer_bound_is_tried_whatever_is_in_the_way(
    priced: World, gateway: Gateway, simulator: Simulator, limit: int | None, full: Any, status: int, code: str
) -> None:
    for bound in ("bytes", "tokenizer"):
        key = key_of(priced, limit, bound)
        full(priced, key)
        answer = ask(gateway, key)
        if bound == "bytes":
            refused(answer, status, code)
        else:
            assert answer.status_code == 200, answer.text
        priced.execute(
            "select budget.settle(reservation_id, null, 'unsent') from budget_internal.reservations where holder = 'other'"
        )


def test_a_plan_is_held_by_the_larger_of_its_tokenizers(priced: World, gateway: Gateway, simulator: Simulator) -> None:
    limit = 6_500
    key = key_of(priced, limit)
    assert ask(gateway, key, words=DENSE, max_tokens=1).status_code == 200
    assert 4_000 + 1024 <= held(priced, key) <= limit
    refused(ask(gateway, key_of(priced, limit), words=DENSE, max_tokens=1, model="either"), 402, "request_over_limit")
    key = key_of(priced, limit + 2_000)
    assert ask(gateway, key, words=DENSE, max_tokens=1, model="either").status_code == 200
    assert 6_000 + 1024 <= held(priced, key) <= limit + 2_000


def test_an_unknown_tokenizer_on_any_way_leaves_the_bytes(priced: World, gateway: Gateway, simulator: Simulator) -> None:
    """A route of the plan, or a rung of the ladder."""
    refused(ask(gateway, key_of(priced, BETWEEN), model="mixed"), 402, "request_over_limit")
    climbs = key_of(priced, BETWEEN, ladder=[{"name": "other", "model": "t-mini"}])
    refused(ask(gateway, climbs), 402, "request_over_limit")
    nothing_held(priced, climbs)
    assert simulator.calls() == 0

    # A rung for which the bytes do is taken all the same.
    climbs = key_of(priced, 13_400, ladder=[{"name": "short", "max_output_tokens": 10}])
    answer = ask(gateway, climbs, model="mixed")
    assert (answer.status_code, answer.headers["x-pgbudget-rung"]) == (200, "short")


@pytest.mark.parametrize(("route", "stream"), [each for each in EACH if each.values[0] is not EMBEDDINGS])
def test_a_ladder_is_for_what_does_not_fit_by_its_tokens(
    priced: World, gateway: Gateway, simulator: Simulator, route: Route, stream: bool
) -> None:
    """Also where its rungs would fit by their bytes."""
    ladder = [{"name": "short", "max_output_tokens": 20}]
    for limit, rung in ((13_400, None), (BETWEEN - 2_000, "short")):
        answer = ask(gateway, key_of(priced, limit, ladder=ladder), route, stream)
        assert (answer.status_code, answer.headers.get("x-pgbudget-rung")) == (200, rung)


def test_input_of_any_size_is_not_counted(priced: World, gateway: Gateway, simulator: Simulator) -> None:
    key = key_of(priced, BETWEEN)
    stored = {"type": "file", "file": {"file_id": "file-1"}}
    refused(ask(gateway, key, messages=[{"role": "user", "content": [stored]}]), 402, "request_over_limit")
    nothing_held(priced, key)
    assert simulator.calls() == 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_without_usage_it_is_charged_by_its_tokens(priced: World, gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    simulator.defaults(no_usage=True, completion_tokens=10)
    key = key_of(priced, BETWEEN)
    assert ask(gateway, key, stream=stream).status_code == 200
    (entry,) = settled(priced, key)
    assert entry["flags"] == ["estimated"]
    assert WORDS < entry["amount"] <= entry["reserved_nano_usd"] // 1000 <= BETWEEN


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_those_that_wait_wait_for_room_for_their_tokens(
    priced: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = key_of(priced, BETWEEN, ladder=[{"name": "patience", "wait_seconds": 30}])
    other = priced.reserve(key, input_tokens=BETWEEN - 1_000, output=0)
    before = gateway.log().count("waits for room")
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(ask, gateway, key, CHAT, stream)]
        wait_until(lambda: gateway.log().count("waits for room") == before + 1)
        # It stands behind the first, and has not asked by itself.
        waiting.append(pool.submit(ask, gateway, key, CHAT, stream))
        wait_until(lambda: gateway.log().count("waits for room") == before + 2)
        priced.settle(other["reservation_id"], None, "unsent")
        answers = [one.result() for one in waiting]
    assert [(a.status_code, a.headers["x-pgbudget-rung"]) for a in answers] == [(200, "patience")] * 2
    entries = settled(priced, key, 3)
    assert sorted(entry["reserved_nano_usd"] // 1000 < BETWEEN for entry in entries) == [True] * 3


@pytest.mark.parametrize("bound", ["bytes", "tokenizer"])
def test_one_call_after_another_is_not_refused_for_what_is_not_booked_yet(
    priced: World, gateway: Gateway, simulator: Simulator, bound: str
) -> None:
    """The one before has ended, and room is for one: its hold is only not booked yet."""
    with httpx.Client(timeout=60) as client:
        for _ in range(10):
            # By its bytes over the whole limit, by its tokens not.
            key = key_of(priced, 7_500 if bound == "tokenizer" else 17_000, bound)
            for _ in range(2):
                asked = CHAT.body(words=LONG, model="newer")
                answer = client.post(gateway.url + CHAT.path, json=asked, headers=CHAT.headers(key))
                assert answer.status_code == 200, answer.text
