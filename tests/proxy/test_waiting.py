"""A ladder that waits: fairly, without storms, for as long as it says and no longer. Micro-dollars."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.proxy.calls import STREAMED, hold_of, settled
from tests.support.processes import Gateway, Simulator, chat_request, wait_until
from tests.support.world import World


def key_that_waits(world: World, limit: int, seconds: int = 20) -> str:
    """A key whose ladder is one rung that waits."""
    key = world.key(limit)
    org, name = world.key_name(key)
    rungs = [{"name": "patience", "wait_seconds": seconds}]
    world.execute("select budget.set_ladder(%s, 'key', %s, %s)", org, name, json.dumps(rungs))
    return key


def occupied(pool: ThreadPoolExecutor, gateway: Gateway, simulator: Simulator, key: str) -> Future[httpx.Response]:
    """A call that holds its room until the barrier ``room`` opens."""
    before = simulator.waiting("room")
    call = pool.submit(gateway.chat, key, {"barrier": "room"})
    wait_until(lambda: simulator.waiting("room") == before + 1)
    return call


def waits(gateway: Gateway, count: int = 1) -> None:
    """Wait until so many requests have begun to wait."""
    wait_until(lambda: gateway.log().count("waits for room") == count, what=f"{count} that wait")


@STREAMED
def test_it_is_granted_when_room_is_free_and_names_the_rung(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = key_that_waits(world, hold_of(world, gateway, stream=stream) * 3 // 2)
    with ThreadPoolExecutor(2) as pool:
        first = occupied(pool, gateway, simulator, key)
        second = pool.submit(gateway.chat, key, stream=stream)
        waits(gateway)
        assert not second.done()
        opened = time.monotonic()
        simulator.open("room")
        answer = second.result()
    assert answer.status_code == 200
    assert answer.headers["x-pgbudget-rung"] == "patience"
    assert "x-pgbudget-rung" not in first.result().headers
    # Woken by the settlement, not by a timer.
    assert time.monotonic() - opened < 3
    assert len(settled(world, key, 2)) == 2
    # What was counted is written at the end.
    assert gateway.stop() == 0
    assert world.rows("select * from budget.refusal_count") == []


def test_it_ends_refused_after_its_time_and_counts_once(world: World, gateway: Gateway, simulator: Simulator) -> None:
    key = key_that_waits(world, hold_of(world, gateway) * 3 // 2, seconds=2)
    with ThreadPoolExecutor(2) as pool:
        occupied(pool, gateway, simulator, key)
        started = time.monotonic()
        answer = gateway.chat(key)
        assert 1.9 < time.monotonic() - started < 6
        simulator.open("room")
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "budget_busy")
    assert answer.headers["x-pgbudget-rung"] == "patience"
    assert int(answer.headers["retry-after"]) >= 1
    counts = wait_until(lambda: world.rows("select code, refusals from budget.refusal_count"), 10)
    assert [(row["code"], row["refusals"]) for row in counts] == [("budget_busy", 1)]


def test_first_come_first_served_and_no_late_small_one_slips_by(world: World, gateway: Gateway, simulator: Simulator) -> None:
    small = hold_of(world, gateway)
    large = hold_of(world, gateway, max_tokens=1000)
    limit = large + small
    key = key_that_waits(world, limit, 60)
    order: list[str] = []
    with ThreadPoolExecutor(8) as pool:
        # Two small ones leave no room for the large one, but for one more small one.
        assert 2 * small + small <= limit < 2 * small + large
        calls = [occupied(pool, gateway, simulator, key) for _ in range(2)]

        def ask(name: str, cap: int) -> None:
            answer = gateway.chat(key, max_tokens=cap)
            assert answer.status_code == 200
            order.append(name)

        waiting = [pool.submit(ask, "large", 1000)]
        waits(gateway)
        for number in range(4):
            waiting.append(pool.submit(ask, f"small{number}", 200))
            waits(gateway, number + 2)
        # It would fit, and is not served before its turn.
        assert order == []
        simulator.open("room")
        for call in list[Future[Any]]([*calls, *waiting]):
            call.result()
    # It and the first small one may end in either order.
    assert "large" in order[:2]
    assert len(settled(world, key, 7)) == 7


def test_the_calls_of_another_gateway_are_waited_for_too(world: World, gateway: Gateway, simulator: Simulator) -> None:
    key = key_that_waits(world, hold_of(world, gateway) * 3 // 2, 30)
    with Gateway(world.gateway_dsn, simulator.url) as second, ThreadPoolExecutor(2) as pool:
        occupied(pool, second, simulator, key)
        answer = pool.submit(gateway.chat, key)
        waits(gateway)
        assert not answer.done()
        simulator.open("room")
        assert answer.result().status_code == 200


def test_who_leaves_while_it_waits_holds_nothing_and_frees_its_place(
    world: World, gateway: Gateway, simulator: Simulator
) -> None:
    hold = hold_of(world, gateway)
    key = key_that_waits(world, hold * 3 // 2, 60)
    with ThreadPoolExecutor(2) as pool:
        occupied(pool, gateway, simulator, key)
        request = chat_request(key)
        content = json.dumps(request["json"]).encode()
        with socket.create_connection(("127.0.0.1", gateway.port)) as client:
            client.sendall(
                f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
                f"authorization: Bearer {key}\r\ncontent-length: {len(content)}\r\n\r\n".encode()
                + content
            )
            waits(gateway)
        behind = pool.submit(gateway.chat, key)
        waits(gateway, 2)
        simulator.open("room")
        assert behind.result().status_code == 200
    rows: list[dict[str, Any]] = settled(world, key, 2)
    assert [row["outcome"] for row in rows] == ["finished", "finished"]
    assert world.held() == 0


def test_the_head_alone_asks(world: World, gateway: Gateway, simulator: Simulator) -> None:
    """Thirty that wait five seconds make as many questions as they are, and a few."""
    world.execute("create table public.asked (requests int)")
    world.execute("grant insert on public.asked to public")
    source = world.value("select pg_get_functiondef('budget.reserve_batch(jsonb)'::regprocedure)")
    noted = source.replace("  perform budget_internal.require_read_committed();\n", (
        "  perform budget_internal.require_read_committed();\n"
        "  insert into public.asked values (jsonb_array_length(p_requests));\n"
    ))  # fmt: skip
    assert noted != source
    hold = hold_of(world, gateway)
    key = key_that_waits(world, hold * 3 // 2, 5)
    world.execute(noted)
    with ThreadPoolExecutor(31) as pool:
        occupied(pool, gateway, simulator, key)
        answers = [pool.submit(gateway.chat, key) for _ in range(30)]
        codes = [answer.result().status_code for answer in answers]
        simulator.open("room")
    assert codes == [429] * 30
    asked = int(world.value("select sum(requests) from public.asked"))
    assert 31 <= asked <= 31 + 45


@STREAMED
@pytest.mark.parametrize("what", ["run", "tokens"])
def test_one_call_after_another_is_not_refused_for_what_is_not_booked_yet(
    world: World, gateway: Gateway, simulator: Simulator, what: str, stream: bool
) -> None:
    """Room is for one, in a run that the first of them has made or in the minute of the key; the one before has ended."""
    hold = hold_of(world, gateway, stream=stream)
    with httpx.Client(timeout=60) as client:
        for number in range(5):
            key = world.key(10**9)
            # Refused by the provider, each costs nothing.
            request = chat_request(key, {"status": 400}, stream=stream)
            if what == "run":
                request["headers"] |= {"x-pgbudget-run": f"r{number}", "x-pgbudget-run-ceiling-usd": f"{hold * 1.5e-6:.6f}"}
            else:
                # Of the hold, 200 are of output at 4 a token.
                limit = (hold - 600) * 3 // 2
                world.execute("select budget.set_rate_limit(%s, 'key', %s, null, %s)", *world.key_name(key), limit)
            for _ in range(3):
                answer = client.post(f"{gateway.url}/v1/chat/completions", **request)
                assert answer.status_code == 400, answer.text
