"""Runs: a ceiling in USD and in steps over all calls of one piece of work, by header or by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.proxy.calls import STANDARD, STREAMED, hold_of, settled
from tests.support.processes import Gateway, Simulator, chat_request, wait_until
from tests.support.world import World

RUN, CEILING, STEPS = "x-pgbudget-run", "x-pgbudget-run-ceiling-usd", "x-pgbudget-run-max-steps"


def call(gateway: Gateway, key: str, headers: dict[Any, Any], stream: bool = False, **simulate: Any) -> httpx.Response:
    request = chat_request(key, simulate, stream=stream)
    request["headers"] |= headers
    answer: httpx.Response = httpx.post(f"{gateway.url}/v1/chat/completions", timeout=30, **request)
    return answer


def start(gateway: Gateway, key: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{gateway.url}/v1/budget/runs", headers={"authorization": f"Bearer {key}"}, json=body, timeout=30)


def end(gateway: Gateway, key: str, run: str) -> httpx.Response:
    return httpx.post(f"{gateway.url}/v1/budget/runs/{run}/end", headers={"authorization": f"Bearer {key}"}, timeout=30)


@STREAMED
def test_a_run_takes_as_many_steps_as_its_header_says(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = shared_world.key(10**6)
    run = {RUN: "nightly 7", STEPS: "2"}
    assert [call(shared_gateway, key, run, stream).status_code for _ in range(2)] == [200, 200]
    answer = call(shared_gateway, key, run, stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (402, "budget_exceeded")
    assert answer.headers["x-should-retry"] == "false"
    assert answer.json()["error"]["pgbudget"]["name"] == "nightly 7"
    # The provider hears nothing of it, and other calls of the key go on.
    assert all(not name.startswith("x-pgbudget") for c in simulator.tally()["generated"] for name, _ in c["request_headers"])
    assert call(shared_gateway, key, {RUN: "nightly 8", STEPS: "2"}, stream).status_code == 200
    assert call(shared_gateway, key, {}, stream).status_code == 200
    settled(shared_world, key, 4)


@STREAMED
def test_a_run_costs_as_much_as_its_header_says(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    hold = hold_of(shared_world, shared_gateway, stream=stream)
    simulator.reset()
    key = shared_world.key(10**9)
    # Room for one hold beside one charge, not for two holds or for one beside two charges.
    run = {RUN: "r", CEILING: f"{(hold + STANDARD) / 1e6:.6f}"}
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(call, shared_gateway, key, run, stream, barrier="run")
        wait_until(lambda: simulator.waiting("run") == 1)
        busy = call(shared_gateway, key, run, stream)
        assert (busy.status_code, busy.json()["error"]["code"]) == (429, "budget_busy")
        simulator.open("run")
        assert first.result().status_code == 200
    settled(shared_world, key)
    assert call(shared_gateway, key, run, stream).status_code == 200
    settled(shared_world, key, 2)
    over = call(shared_gateway, key, run, stream)
    assert (over.status_code, over.json()["error"]["code"]) == (402, "budget_exceeded")
    numbers = over.json()["error"]["pgbudget"]
    assert (numbers["scope"], numbers["name"]) == ("run", "r")
    assert round(numbers["spent_usd"] * 1e6) == 2 * STANDARD
    assert simulator.calls() == 2


UNREADABLE: list[tuple[dict[Any, Any], str]] = [
    ({RUN: ""}, RUN),
    ({RUN: "x" * 201}, RUN),
    ({RUN.encode(): b"\xff\xfe"}, RUN),
    ({RUN: "a\tb"}, RUN),
    ({CEILING: "1"}, CEILING),
    ({STEPS: "1"}, STEPS),
    ({RUN: "r", CEILING: "-1"}, CEILING),
    ({RUN: "r", CEILING: "NaN"}, CEILING),
    ({RUN: "r", CEILING: "1e3"}, CEILING),
    ({RUN: "r", CEILING: "0.0000000001"}, CEILING),
    ({RUN: "r", CEILING: "99999999999"}, CEILING),
    ({RUN: "r", STEPS: "0"}, STEPS),
    ({RUN: "r", STEPS: "1.5"}, STEPS),
    ({RUN: "r", STEPS: "9" * 19}, STEPS),
]


def test_a_header_that_cannot_be_read_is_named(world: World, gateway: Gateway, simulator: Simulator) -> None:
    key = world.key(10**6)
    for headers, field in UNREADABLE:
        answer = call(gateway, key, headers)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, field), headers
        assert field in answer.json()["error"]["message"]
    assert simulator.calls() == 0
    assert world.counters() == []


def test_a_run_may_not_have_more_than_its_key_allows(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator
) -> None:
    key = shared_world.key(10**6, run_ceiling_usd="0.5", run_max_steps=3)
    for headers in ({CEILING: "0.6"}, {STEPS: "4"}):
        answer = call(shared_gateway, key, {RUN: "r", **headers})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
        body = {"ceiling_usd": "0.6"} if CEILING in headers else {"max_steps": 4}
        assert start(shared_gateway, key, run="r", **body).json()["error"]["code"] == "invalid_request"
    assert simulator.calls() == 0
    # Without a word it gets what the key allows.
    shown = start(shared_gateway, key, run="r").json()
    assert (shown["ceiling_usd"], shown["max_steps"]) == (0.5, 3)


@STREAMED
def test_a_run_is_started_used_and_ended(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = shared_world.key(10**6)
    name = "größe/1"
    begun = start(shared_gateway, key, run=name, ceiling_usd=0.1, max_steps=5)
    assert begun.status_code == 201
    shown = begun.json()
    assert shown.pop("started_at")
    assert shown == {
        "run": name, "status": "started", "parent_run": None, "ceiling_usd": 0.1, "spent_usd": 0, "reserved_usd": 0,
        "available_usd": 0.1, "steps": 0, "max_steps": 5, "ended_at": None,
    }  # fmt: skip
    assert call(shared_gateway, key, {RUN: name.encode()}, stream).status_code == 200
    settled(shared_world, key)
    again = start(shared_gateway, key, run=name, ceiling_usd=0.2)
    assert (again.status_code, again.json()["status"]) == (200, "running")
    assert (again.json()["ceiling_usd"], again.json()["spent_usd"], again.json()["steps"]) == (0.1, 0.0009, 1)

    for _ in range(2):
        ended = end(shared_gateway, key, name)
        assert (ended.status_code, ended.json()["status"], ended.json()["spent_usd"]) == (200, "ended", 0.0009)
        assert ended.json()["ended_at"]
    late = call(shared_gateway, key, {RUN: name.encode()}, stream)
    assert (late.status_code, late.json()["error"]["code"]) == (400, "invalid_request")
    assert simulator.calls() == 1
    # It is the key's own: others know nothing of it.
    assert end(shared_gateway, shared_world.key(10**6), name).status_code == 404
    assert end(shared_gateway, key, "unknown").status_code == 404
    assert end(shared_gateway, "pgb_nobody", name).status_code == 401


def test_a_run_is_carved_from_its_parent_and_gives_back_what_is_left(shared_world: World, shared_gateway: Gateway) -> None:
    key = shared_world.key(10**6)
    assert start(shared_gateway, key, run="parent", ceiling_usd="1").status_code == 201
    child = start(shared_gateway, key, run="child", ceiling_usd="0.6", parent_run="parent")
    assert (child.status_code, child.json()["parent_run"]) == (201, "parent")
    # It would fit but for the other child; and never.
    busy = start(shared_gateway, key, run="second", ceiling_usd="0.6", parent_run="parent")
    assert (busy.status_code, busy.json()["error"]["code"]) == (429, "budget_busy")
    assert "x-should-retry" not in busy.headers
    over = start(shared_gateway, key, run="second", ceiling_usd="1.000000001", parent_run="parent")
    assert (over.status_code, over.json()["error"]["code"]) == (402, "budget_exceeded")
    assert over.headers["x-should-retry"] == "false"
    assert call(shared_gateway, key, {RUN: "child"}).status_code == 200
    settled(shared_world, key)
    assert end(shared_gateway, key, "child").json()["spent_usd"] == 0.0009
    parent = start(shared_gateway, key, run="parent").json()
    assert (parent["spent_usd"], parent["reserved_usd"], parent["available_usd"]) == (0.0009, 0, 0.9991)
    assert start(shared_gateway, key, run="second", ceiling_usd="0.6", parent_run="parent").status_code == 201
    assert end(shared_gateway, key, "parent").json()["status"] == "ended"
    assert start(shared_gateway, key, run="second").json()["status"] == "ended"


def test_an_amount_is_taken_digit_for_digit(shared_world: World, shared_gateway: Gateway) -> None:
    key = shared_world.key(10**6)
    request: dict[str, Any] = {"headers": {"authorization": f"Bearer {key}", "content-type": "application/json"}}
    url = f"{shared_gateway.url}/v1/budget/runs"
    for i, (text, digits) in enumerate(
        [("8999999999.123456789", "8999999999.123456789"), ("1e-7", "0.0000001"), ('"12"', "12"), ("0", "0"), ("1E+2", "100")]
    ):
        answer = httpx.post(url, content=f'{{"run": "r{i}", "ceiling_usd": {text}}}', **request)
        assert answer.status_code == 201, answer.text
        assert f'"ceiling_usd":{digits},' in answer.text


IMPOSSIBLE = [
    ("{}", "run"),
    ('{"run": 5}', "run"),
    ('{"run": " a"}', "run"),
    ('{"run": "a\\u0000b"}', "run"),
    ('{"run": "r", "ceiling_usd": -1}', "ceiling_usd"),
    ('{"run": "r", "ceiling_usd": true}', "ceiling_usd"),
    ('{"run": "r", "ceiling_usd": 1e400}', None),
    ('{"run": "r", "ceiling_usd": 1e99}', "ceiling_usd"),
    ('{"run": "r", "ceiling_usd": 1e-10}', "ceiling_usd"),
    ('{"run": "r", "ceiling_usd": 99999999999999999999}', "ceiling_usd"),
    ('{"run": "r", "ceiling_usd": 9000000000.5}', None),
    ('{"run": "r", "ceiling_usd": "\\u0000"}', "ceiling_usd"),
    ('{"run": "r", "ceiling_usd": {"usd": 1}}', "ceiling_usd"),
    ('{"run": "r", "max_steps": 0}', "max_steps"),
    ('{"run": "r", "max_steps": true}', "max_steps"),
    ('{"run": "r", "max_steps": "5"}', "max_steps"),
    ('{"run": "r", "max_steps": 1.5}', "max_steps"),
    ('{"run": "r", "parent_run": "\\u0000"}', "parent_run"),
    ('{"run": "r", "parent_run": "nobody", "ceiling_usd": 1}', None),
    ('{"run": "r", "budget": 1}', "budget"),
    ("[]", None),
    ("nonsense", None),
    ("", None),
]


def test_a_run_that_cannot_be_is_not_started(world: World, gateway: Gateway) -> None:
    key = world.key(10**6)
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    for body, field in IMPOSSIBLE:
        answer = httpx.post(f"{gateway.url}/v1/budget/runs", content=body, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request"), (body, answer.text)
        assert answer.json()["error"]["param"] == field, body
    assert world.rows("select * from budget_internal.runs") == []
