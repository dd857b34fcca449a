"""A call goes through the routes of its plan under one hold: each attempt that fails is charged for what it may have cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.proxy.calls import STANDARD, STREAMED, settled
from tests.support.processes import Gateway, Simulator, chat_request, wait_until
from tests.support.world import World

#: The other provider: as the first, at ten times its price.
DEAR = 10 * STANDARD


@pytest.fixture(scope="session")
def _second() -> Iterator[Simulator]:
    with Simulator() as running:
        yield running


@pytest.fixture
def second(_second: Simulator) -> Simulator:
    """Another provider."""
    _second.reset()
    return _second


@pytest.fixture(scope="session")
def planned(shared_world: World) -> World:
    """A model with a dear route behind a cheap one."""
    shared_world.execute("""
      select budget.set_model('simulator', 'dear', 128000, 16384),
        budget.review_price(budget.add_price('simulator', 'dear', '[
          {"kind": "input", "usd": 10}, {"kind": "output", "usd": 40}
        ]', '2020-01-01T00:00:00Z', 'made up'), 'me');
      select budget.set_routes(null, 'planned', '[
        {"provider": "simulator", "account": "simulator", "upstream_model": "t-mini"},
        {"provider": "simulator", "account": "second", "upstream_model": "dear", "priority": 2}
      ]')
    """)
    return shared_world


@pytest.fixture(scope="session")
def gateway(planned: World, _simulator: Simulator, _second: Simulator) -> Iterator[Gateway]:
    """A gateway with both providers."""
    with gateway_of(planned, _simulator, _second.url, breaker_failures="0") as running:
        yield running


def gateway_of(world: World, simulator: Simulator, second_url: str, **settings: Any) -> Gateway:
    accounts: dict[str, Any] = {"account_second_url": f"{second_url}/v1", "account_second_key": Simulator.KEY}
    return Gateway(world.gateway_dsn, simulator.url, **{**accounts, **settings})


def planned_call(gateway: Gateway, key: str, stream: bool = False, **simulate: Any) -> httpx.Response:
    return gateway.chat(key, simulate, model="planned", stream=stream)


def entries(world: World, key: str, count: int) -> list[tuple[str, str, int]]:
    """Kind, outcome and micro-dollars of the ledger rows of a key."""
    return [(row["kind"], row["outcome"], int(row["amount"])) for row in settled(world, key, count)]


@STREAMED
@pytest.mark.parametrize("status", [401, 403, 404, 408, 429, 500, 503, 529])
def test_what_another_provider_may_do_better_goes_there(
    planned: World, gateway: Gateway, simulator: Simulator, second: Simulator, stream: bool, status: int
) -> None:
    key = planned.key(10**9)
    simulator.defaults(status=status)
    answer = planned_call(gateway, key, stream)
    assert answer.status_code == 200
    assert (simulator.calls(), second.calls()) == (1, 1)
    assert second.tally()["generated"][0]["request_body"]["model"] == "dear"
    # One hold, one row: what was refused cost nothing.
    assert entries(planned, key, 1) == [("settled", "finished", DEAR)]


@STREAMED
@pytest.mark.parametrize("status", [400, 402, 409, 413, 422])
def test_what_is_wrong_with_the_request_is_wrong_everywhere(
    planned: World, gateway: Gateway, simulator: Simulator, second: Simulator, stream: bool, status: int
) -> None:
    key = planned.key(10**9)
    simulator.defaults(status=status)
    answer = planned_call(gateway, key, stream)
    assert (answer.status_code, answer.headers["x-pgbudget-error-source"]) == (status, "upstream")
    assert (simulator.calls(), second.calls()) == (1, 0)
    assert entries(planned, key, 1) == [("released", "released", 0)]


@STREAMED
def test_retry_01_what_may_have_cost_is_charged_before_the_next_one_is_held(
    planned: World, gateway: Gateway, simulator: Simulator, second: Simulator, stream: bool
) -> None:
    key = planned.key(10**9)
    # The connection goes before the first byte of an answer: it may have been generated.
    if stream:
        simulator.defaults(barrier="never")
        with gateway_of(planned, simulator, second.url, first_byte_seconds="0.5") as hasty:
            answer = planned_call(hasty, key, stream)
    else:
        simulator.defaults(cut_after_chunks=0)
        answer = planned_call(gateway, key, stream)
    assert answer.status_code == 200
    leg, end = entries(planned, key, 2)
    hold = settled(planned, key, 2)[0]["reserved_nano_usd"] // 1000
    # The leg's own worst case, not that of the dear route that was held beside it.
    assert leg[:2] == ("leg", "unknown")
    assert STANDARD <= leg[2] <= hold
    assert end == ("settled", "finished", DEAR)


@STREAMED
def test_retry_01_nothing_is_called_that_does_not_fit(
    planned: World, simulator: Simulator, second: Simulator, stream: bool
) -> None:
    with gateway_of(planned, simulator, second.url, first_byte_seconds="0.5") as gateway:
        simulator.defaults(barrier="never")
        probe = planned.key(10**9)
        planned_call(gateway, probe, stream)
        held = int(settled(planned, probe, 2)[0]["reserved_nano_usd"]) // 1000
        second.reset()
        # Room for the plan, but not for a charged attempt and another one.
        key = planned.key(held + 100)
        answer = planned_call(gateway, key, stream)
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "upstream_error"
    assert second.calls() == 0
    ((kind, outcome, amount),) = entries(planned, key, 1)
    assert (kind, outcome) == ("charged", "unknown")
    assert amount <= held


@STREAMED
def test_a_plan_whose_dear_end_does_not_fit_is_refused_at_once(
    planned: World, gateway: Gateway, simulator: Simulator, second: Simulator, stream: bool
) -> None:
    # Room for the cheap route alone.
    key = planned.key(4000)
    answer = planned_call(gateway, key, stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (402, "request_over_limit")
    assert (simulator.calls(), second.calls()) == (0, 0)


@STREAMED
def test_retry_01_a_provider_that_is_not_reached_costs_nothing(
    planned: World, simulator: Simulator, second: Simulator, stream: bool
) -> None:
    key = planned.key(10**9)
    with gateway_of(planned, simulator, second.url, account_simulator_url="http://127.0.0.1:9/v1") as gateway:
        answer = planned_call(gateway, key, stream)
    assert answer.status_code == 200
    assert entries(planned, key, 1) == [("settled", "finished", DEAR)]


@STREAMED
def test_when_all_fail_the_last_one_is_what_the_client_gets(
    planned: World, gateway: Gateway, simulator: Simulator, second: Simulator, stream: bool
) -> None:
    key = planned.key(10**9)
    simulator.defaults(status=500)
    second.defaults(status=429, error_body={"error": {"message": "second is full"}})
    answer = planned_call(gateway, key, stream)
    assert (answer.status_code, answer.json()["error"]["message"]) == (429, "second is full")
    assert answer.headers["x-pgbudget-error-source"] == "upstream"
    assert entries(planned, key, 1) == [("released", "released", 0)]


def test_an_account_without_a_key_is_passed_over(planned: World, simulator: Simulator, second: Simulator) -> None:
    key = planned.key(10**9)
    with gateway_of(planned, simulator, second.url, account_simulator_key="") as gateway:
        assert planned_call(gateway, key).status_code == 200
        assert entries(planned, key, 1) == [("settled", "finished", DEAR)]
        assert "PGBUDGET_ACCOUNT_SIMULATOR_KEY" in gateway.log()


@STREAMED
def test_an_answer_that_has_begun_is_not_begun_again(
    planned: World, gateway: Gateway, simulator: Simulator, second: Simulator, stream: bool
) -> None:
    key = planned.key(10**9)
    if stream:
        simulator.defaults(error_after_chunks=0)
    else:
        simulator.defaults(end_after_chunks=3)
    planned_call(gateway, key, stream)
    assert second.calls() == 0


def test_a_request_id_stays_taken_once_an_attempt_was_charged(planned: World, simulator: Simulator, second: Simulator) -> None:
    key = planned.key(10**9)
    simulator.defaults(cut_after_chunks=0)
    with gateway_of(planned, simulator, "http://127.0.0.1:9") as gateway:
        request = chat_request(key, model="planned")
        request["headers"]["idempotency-key"] = "one"
        answers = [httpx.post(f"{gateway.url}/v1/chat/completions", timeout=30, **request) for _ in range(2)]
    assert [a.status_code for a in answers] == [502, 409]
    assert simulator.calls() == 1
    kinds = [kind for kind, _, _ in entries(planned, key, 2)]
    assert kinds == ["leg", "released"]


@STREAMED
def test_a_route_is_tried_again_where_that_is_set(
    planned: World, simulator: Simulator, second: Simulator, stream: bool
) -> None:
    key = planned.key(10**9)
    simulator.defaults(status=503)
    with gateway_of(planned, simulator, second.url, upstream_retries="2") as gateway:
        assert planned_call(gateway, key, stream).status_code == 200
        assert (simulator.calls(), second.calls()) == (3, 1)
        # What may have cost something is not made twice under one hold.
        simulator.reset()
        simulator.defaults(cut_after_chunks=0)
        if not stream:
            assert planned_call(gateway, key, stream).status_code == 200
            assert simulator.calls() == 1


def test_a_provider_that_only_fails_is_left_alone_for_a_while(planned: World, simulator: Simulator, second: Simulator) -> None:
    key = planned.key(10**9)
    simulator.defaults(status=500)
    with gateway_of(planned, simulator, second.url, breaker_failures="3", breaker_seconds="5") as gateway:
        for _ in range(6):
            assert planned_call(gateway, key).status_code == 200
        assert (simulator.calls(), second.calls()) == (3, 6)
        simulator.defaults(status=200)
        # The time up, the next call finds it well, and all go there again.
        wait_until(lambda: planned_call(gateway, key).status_code == 200 and simulator.calls() > 3)
        before = second.calls()
        assert planned_call(gateway, key).status_code == 200
        assert second.calls() == before
        # Refusals of single requests say nothing of the provider.
        simulator.defaults(status=400)
        for _ in range(5):
            planned_call(gateway, key)
        assert simulator.calls() >= 10


def test_a_provider_that_is_left_alone_and_has_no_substitute(shared_world: World, simulator: Simulator) -> None:
    key = shared_world.key(10**9)
    simulator.defaults(status=500)
    with Gateway(shared_world.gateway_dsn, simulator.url, breaker_failures="2", breaker_seconds="30") as gateway:
        answers = [gateway.chat(key) for _ in range(3)]
        assert [a.status_code for a in answers] == [500, 500, 502]
        assert 1 <= int(answers[2].headers["retry-after"]) <= 31
        assert answers[2].json()["error"]["code"] == "upstream_error"
        assert simulator.calls() == 2
        assert [row["amount"] for row in settled(shared_world, key, 3)] == [0, 0, 0]


def test_routes_that_do_not_speak_the_api_are_passed_over(
    planned: World, gateway: Gateway, simulator: Simulator, second: Simulator
) -> None:
    planned.execute(
        "select budget.set_model('tongueless', 'm', 1000, 1000),"
        " budget.review_price(budget.add_price('tongueless', 'm', %s, '2020-01-01T00:00:00Z', 'made up'), 'me')",
        json.dumps([{"kind": "input", "usd": 1}, {"kind": "output", "usd": 1}]),
    )
    # A provider that is not known speaks OpenAI's chat: so this one is called.
    planned.execute(
        "select budget.set_routes(null, 'mixed', %s)",
        json.dumps(
            [
                {"provider": "tongueless", "account": "second", "upstream_model": "m"},
                {"provider": "simulator", "account": "simulator", "upstream_model": "t-mini", "priority": 9},
            ]
        ),
    )
    key = planned.key(10**9)
    assert gateway.chat(key, model="mixed").status_code == 200
    assert (simulator.calls(), second.calls()) == (0, 1)
