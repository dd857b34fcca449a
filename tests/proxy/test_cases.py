"""The handed cases (shared/cases) that are of the gateway, not of a route; here on chat. Amounts are micro-dollars, as there.

Those of the routes are in the table of test_cases_by_route.
"""

from __future__ import annotations

import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.proxy.calls import STANDARD, STREAMED, budget, hold_of, settled
from tests.support.processes import Gateway, Simulator, chat_request, wait_until
from tests.support.world import World

# CONC-01


@STREAMED
@pytest.mark.parametrize("variant", ["one gateway", "two gateways", "pool size 2"])
def test_conc_01_a_burst_is_let_in_only_as_far_as_it_fits(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, stream: bool, variant: str
) -> None:
    limit = 10_000
    hold = hold_of(shared_world, shared_gateway, stream=stream)
    assert hold >= STANDARD
    simulator.reset()
    key = shared_world.key(limit)
    fits = limit // hold
    settings: dict[str, Any] = {"pool_size": "2"} if variant == "pool size 2" else {}
    with contextlib.ExitStack() as stack:
        gateways = [shared_gateway]
        if variant != "one gateway":
            other = stack.enter_context(Gateway(shared_world.gateway_dsn, simulator.url, **settings))
            gateways = [other] if settings else [shared_gateway, other]

        def call(i: int) -> httpx.Response:
            return gateways[i % len(gateways)].chat(key, {"barrier": "all"}, stream=stream)

        with ThreadPoolExecutor(50) as pool:
            answers = [pool.submit(call, i) for i in range(50)]
            wait_until(lambda: sum(a.done() for a in answers) == 50 - fits, 30, "refusals of what does not fit")
            row = budget(shared_gateway, key)
            assert row["spent"] + row["reserved"] <= limit
            assert row["reserved"] == fits * hold
            assert simulator.waiting("all") == fits
            simulator.open("all")
            codes = [a.result().status_code for a in answers]
        assert codes.count(200) == fits
        assert codes.count(429) == 50 - fits
        assert simulator.calls() == fits
        settled(shared_world, key, fits)
        row = budget(shared_gateway, key)
        assert row == {"limit": limit, "spent": fits * STANDARD, "reserved": 0, "available": limit - fits * STANDARD}


# HOLD-03, HOLD-04, HOLD-07


def test_hold_03_a_slow_call_outlives_the_stale_window(world: World, simulator: Simulator) -> None:
    world.execute("""select budget.set_policy(null, '{"stale_seconds": 2, "heartbeat_seconds": 1}')""")
    with Gateway(world.gateway_dsn, simulator.url, reconcile_seconds="0.2") as gateway, ThreadPoolExecutor(2) as pool:
        keys = {stream: world.key(10_000) for stream in (False, True)}
        calls = [
            pool.submit(gateway.chat, key, {"chunk_ms": 25} if stream else {"latency_ms": 5000}, stream=stream)
            for stream, key in keys.items()
        ]
        assert [call.result().status_code for call in calls] == [200, 200]
        for key in keys.values():
            (entry,) = settled(world, key)
            assert (entry["kind"], entry["amount"]) == ("settled", STANDARD)
            assert budget(gateway, key) == {"limit": 10_000, "spent": 900, "reserved": 0, "available": 9_100}


def test_hold_04_no_reader_sees_a_gap_between_hold_and_spend(world: World, gateway: Gateway, simulator: Simulator) -> None:
    hold = hold_of(world, gateway)
    key = world.key(hold + 100)
    seen: set[tuple[int, int]] = set()
    with ThreadPoolExecutor(1) as pool, world.connect() as probe:
        call = pool.submit(gateway.chat, key, {"barrier": "gap"})
        wait_until(lambda: simulator.waiting("gap") == 1)
        simulator.open("gap")
        while not call.done() or world.held():
            row = probe.execute(
                "select spent_nano_usd / 1000 as spent, held_nano_usd / 1000 as held from budget_internal.periods"
                " where budget_id = (select max(budget_id) from budget_internal.budgets)"
            ).fetchone()
            assert row is not None
            seen.add((row["spent"], row["held"]))
            # What it would take to slip into a gap: another call of the same size.
            assert world.reserve(key, output=hold // 4)["status"] == "denied"
    settled(world, key)
    assert seen <= {(0, hold), (900, 0)}
    assert world.spent() == 900


def test_hold_04_a_failed_booking_is_tried_again_and_a_deleted_budget_is_still_charged(
    world: World, gateway: Gateway, simulator: Simulator
) -> None:
    key = world.key(1_000_000)
    world.execute("""
      create function public.fail_twice() returns trigger language plpgsql as $$
      begin
        if nextval('public.tries') <= 2 then raise exception using errcode = '40001', message = 'simulated'; end if;
        return new;
      end $$;
      create sequence public.tries; grant all on sequence public.tries to public;
      create trigger fail_twice before insert on budget_internal.ledger_entries
      for each row execute function public.fail_twice();
    """)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(gateway.chat, key, {"barrier": "deleted"})
        wait_until(lambda: simulator.waiting("deleted") == 1)
        world.execute("update budget_internal.budgets set deleted_at = now()")
        simulator.open("deleted")
        assert call.result().status_code == 200
    (entry,) = settled(world, key)
    assert entry["amount"] == 900
    assert world.counters() == [{"spent": 900, "held": 0}]
    assert world.verify() == []


@STREAMED
@pytest.mark.parametrize("limit", [10_000, 5_000])
def test_hold_07_an_overrun_is_charged_in_full(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, limit: int, stream: bool
) -> None:
    key = shared_world.key(limit)
    simulate = {"completion_tokens": 2000, "ignore_cap": True, "chunks": 20}
    answer = shared_gateway.chat(
        key, simulate, max_tokens=100, stream=stream, stream_options={"include_usage": True} if stream else None
    )
    assert answer.status_code == 200
    assert '"completion_tokens":2000' in answer.text.replace(" ", "")
    (entry,) = settled(shared_world, key)
    assert (entry["amount"], entry["overrun"]) == (8_100, True)
    assert budget(shared_gateway, key)["available"] == limit - 8_100
    if limit < 8_100:
        assert shared_gateway.chat(key, stream=stream).json()["error"]["code"] == "budget_exceeded"


# Whose error it is


@STREAMED
@pytest.mark.parametrize("setting", ["account_simulator_key", "account_simulator_key_file"])
def test_a_refused_provider_key_is_named_in_the_log_and_told_from_the_callers(
    shared_world: World, simulator: Simulator, tmp_path: Path, setting: str, stream: bool
) -> None:
    (tmp_path / "key").write_text("sk-wrong")
    # An empty variable is one that is not set.
    settings: dict[str, Any] = {
        "account_simulator_key": "",
        setting: str(tmp_path / "key") if setting.endswith("file") else "sk-wrong",
    }
    with Gateway(shared_world.gateway_dsn, simulator.url, **settings) as gateway:
        theirs = gateway.chat(shared_world.key(10**6), stream=stream)
        own = gateway.chat("pgb_unknown", stream=stream)
        assert (theirs.status_code, own.status_code) == (401, 401)
        assert "Incorrect API key" in theirs.json()["error"]["message"]
        assert [a.headers["x-pgbudget-error-source"] for a in (theirs, own)] == ["upstream", "gateway"]
        (line,) = [line for line in gateway.log().splitlines() if "WARNING" in line]
        assert line.endswith(f"401 to the key in PGBUDGET_{setting.upper()}")
        assert "sk-wrong" not in gateway.log()


@STREAMED
def test_an_account_without_a_key_is_named_in_the_log(shared_world: World, simulator: Simulator, stream: bool) -> None:
    with Gateway(shared_world.gateway_dsn, simulator.url, account_simulator_key="") as gateway:
        answer = gateway.chat(shared_world.key(10**6), stream=stream)
        assert (answer.status_code, answer.headers["x-pgbudget-error-source"]) == (502, "gateway")
        assert "set PGBUDGET_ACCOUNT_SIMULATOR_KEY" in gateway.log()
    assert simulator.calls() == 0


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/chat/completions", 404),
        ("POST", "/v1/chat/completions", 401),
        ("GET", "/v1/models", 401),
        ("GET", "/v1/budget", 401),
        ("POST", "/v1/images/generations", 404),
        ("POST", "/admin/reconcile", 401),
        ("GET", "/nothing", 404),
    ],
)
def test_every_error_of_the_gateway_says_that_it_is_its_own(
    shared_gateway: Gateway, method: str, path: str, status: int
) -> None:
    answer = httpx.request(method, shared_gateway.url + path)
    assert (answer.status_code, answer.headers["x-pgbudget-error-source"]) == (status, "gateway")


def test_what_cannot_be_reconciled_is_said_to_who_asks_and_in_one_line_of_the_log(world: World, simulator: Simulator) -> None:
    alive = str(world.reserve(world.key(10**6))["reservation_id"])
    unknown = alive[:-4] + "0000"
    with Gateway(world.gateway_dsn, simulator.url, reconcile_seconds="0") as gateway:
        before = len(gateway.log().splitlines())
        answers = [
            httpx.post(
                f"{gateway.url}/admin/reconcile",
                json={"reservation_id": one},
                headers={"authorization": f"Bearer {Gateway.ADMIN}"},
            )
            for one in (alive, unknown)
        ]
        told = gateway.log().splitlines()[before:]
    assert [(a.status_code, a.json()["error"]["param"]) for a in answers] == [(400, "reservation_id"), (404, "reservation_id")]
    messages = [a.json()["error"]["message"] for a in answers]
    assert [f"reservation {alive} is alive" in messages[0], messages[1]] == [True, f"there is no reservation {unknown}"]
    assert len(told) == 2
    for line, message in zip(told, messages, strict=True):
        assert line.endswith(f"reconcile refused: {message}")
    assert world.ledger() == []


# Idempotency over HTTP


@STREAMED
def test_an_idempotency_key_never_calls_or_charges_twice(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = shared_world.key(10**6)
    request = chat_request(key, {"barrier": "once"}, stream=stream)
    request["headers"]["idempotency-key"] = "order-1"
    url = f"{shared_gateway.url}/v1/chat/completions"
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(httpx.post, url, timeout=30, **request)
        wait_until(lambda: simulator.waiting("once") == 1)
        again = httpx.post(url, timeout=30, **request)
        assert again.status_code == 409
        assert again.json()["error"]["pgbudget"]["state"] == "open"
        simulator.open("once")
        assert first.result().status_code == 200
    reservation = first.result().headers["x-pgbudget-reservation"]
    (entry,) = settled(shared_world, key)
    assert entry["amount"] == STANDARD
    ended = httpx.post(url, timeout=30, **request)
    assert (ended.status_code, ended.headers["x-should-retry"]) == (409, "false")
    assert ended.json()["error"]["pgbudget"] == {"reservation_id": reservation, "state": "settled"}
    request["json"]["max_tokens"] = 5
    assert httpx.post(url, timeout=30, **request).json()["error"]["code"] == "idempotency_conflict"
    assert simulator.calls() == 1


# What one caller or provider sends must not spoil the calls that share its batch.


@STREAMED
def test_text_that_the_database_cannot_take_harms_nobody(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = shared_world.key(10**9)
    nasty: list[dict[str, Any]] = [
        {"ids": ["a\0b"], "model": "m\0"},
        {"raw_body": '{"id": "\\ud800", "choices": [], "usage": {"prompt_tokens": NaN, "completion_tokens": 1}}'},
        {"raw_body": '{"choices": [], "usage": {"prompt_tokens": "\\u0000", "completion_tokens": 1}}'},
        {"raw_body": '{"choices": [], "error": {"message": "\\u0000\\ud800"}}'},
        {"raw_sse": 'data: {"id": "\\u0000", "choices": [], "usage": {"prompt_tokens": Infinity}}\n\ndata: [DONE]\n\n'},
        {"usage": {"prompt_tokens": 10**9, "completion_tokens": 10**12, "total_tokens": 10**12}},
        {"usage": {"prompt_tokens": [1], "completion_tokens": {"a": "\0"}}},
    ]
    with ThreadPoolExecutor(16) as pool:
        bad = [pool.submit(shared_gateway.chat, key, behaviour, stream=stream) for behaviour in nasty * 3]
        odd = [pool.submit(shared_gateway.chat, key, None, model=name, stream=stream) for name in ("t-mini\0", "m" * 300)]
        good = [pool.submit(shared_gateway.chat, key, None, stream=stream) for _ in range(20)]
        assert [call.result().status_code for call in good] == [200] * 20
        assert [call.result().status_code for call in odd] == [400, 400]
        assert [call.result().status_code for call in bad] == [200] * len(bad)
    entries = settled(shared_world, key, 20 + len(bad))
    assert sum(e["amount"] == STANDARD and e["source"] == "usage" for e in entries) >= 20


@STREAMED
def test_who_leaves_before_the_hold_is_taken_calls_nobody(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = world.key(10**6)
    request = httpx.Request("POST", f"{gateway.url}/v1/chat/completions", **chat_request(key, stream=stream))
    lines = [b"POST /v1/chat/completions HTTP/1.1"] + [b": ".join(h) for h in request.headers.raw]
    with world.connect() as blocker, blocker.transaction():
        # Reserve waits for this, at the first row that it writes.
        blocker.execute("lock table budget_internal.periods in exclusive mode")
        with socket.create_connection(("127.0.0.1", gateway.port)) as client:
            client.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + request.content)
            wait_until(
                lambda: world.rows(
                    "select 1 from pg_locks where not granted and relation = 'budget_internal.periods'::regclass"
                )
            )
        # Answered only by who is still read from: the gateway has seen the other one leave by then.
        assert httpx.get(f"{gateway.url}/healthz").status_code == 200
    (entry,) = settled(world, key)
    assert (entry["kind"], entry["outcome"], entry["amount"]) == ("released", "unsent", 0)
    assert simulator.calls() == 0


@STREAMED
def test_any_number_of_calls_run_at_once(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = shared_world.key(10**9)
    with ThreadPoolExecutor(130) as pool:
        calls = [pool.submit(shared_gateway.chat, key, {"barrier": "crowd"}, stream=stream) for _ in range(130)]
        wait_until(lambda: simulator.waiting("crowd") == 130, 30, "all calls upstream")
        simulator.open("crowd")
        assert [call.result().status_code for call in calls] == [200] * 130
    assert sum(e["amount"] for e in settled(shared_world, key, 130)) == 130 * STANDARD
