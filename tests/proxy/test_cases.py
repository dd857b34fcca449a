"""The handed cases (shared/cases) on the chat route, streamed and not. Amounts are micro-dollars, as there."""

from __future__ import annotations

import asyncio
import gzip
import json
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
    world: World, simulator: Simulator, stream: bool, variant: str
) -> None:
    settings: dict[str, Any] = {"pool_size": "2"} if variant == "pool size 2" else {}
    with Gateway(world.gateway_dsn, simulator.url, **settings) as first, Gateway(world.gateway_dsn, simulator.url) as second:
        limit = 10_000
        hold = hold_of(world, first, stream=stream)
        assert hold >= STANDARD
        simulator.reset()
        key = world.key(limit)
        gateways = [first, second] if variant == "two gateways" else [first]
        fits = limit // hold

        def call(i: int) -> httpx.Response:
            return gateways[i % len(gateways)].chat(key, {"barrier": "all"}, stream=stream)

        with ThreadPoolExecutor(50) as pool:
            answers = [pool.submit(call, i) for i in range(50)]
            wait_until(lambda: sum(a.done() for a in answers) == 50 - fits, 30, "refusals of what does not fit")
            row = budget(first, key)
            assert row["spent"] + row["reserved"] <= limit
            assert row["reserved"] == fits * hold
            assert simulator.waiting("all") == fits
            simulator.open("all")
            codes = [a.result().status_code for a in answers]
        assert codes.count(200) == fits
        assert codes.count(429) == 50 - fits
        assert simulator.calls() == fits
        settled(world, key, fits)
        row = budget(first, key)
        assert row == {"limit": limit, "spent": fits * STANDARD, "reserved": 0, "available": limit - fits * STANDARD}
        assert world.verify() == []


# EST-01, EST-02, EST-07, EST-08


@STREAMED
def test_est_01_no_cap_holds_prompt_and_default_output(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    body: dict[str, Any] = {
        "model": "t-pro",
        "max_tokens": ...,
        "messages": [{"role": "user", "content": "x" * 200_000}],
        "stream": stream,
    }
    assert gateway.chat(world.key(1_000_000), **body).json()["error"]["code"] == "request_over_limit"
    assert simulator.calls() == 0

    key = world.key(2_000_000_000)
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(gateway.chat, key, {"barrier": "both"}, **body) for _ in range(2)]
        wait_until(lambda: simulator.waiting("both") == 2)
        held = budget(gateway, key)["reserved"]
        simulator.open("both")
        assert [c.result().status_code for c in calls] == [200, 200]
    # Bytes bound the input; the default cap is 8,192 of the model's 32,768, and it is what is forwarded.
    assert 2 * (200_000 * 5 + 8_192 * 30) <= held <= 2 * (200_000 * 5 + 983_040 + 10_000)
    assert [c["request_body"]["max_tokens"] for c in simulator.tally()["generated"]] == [8_192, 8_192]


EST_02 = [
    ("数据库预算" * 2000, 4000, 3700),
    ("\U0001f468‍\U0001f469‍\U0001f467‍\U0001f466" * 1000, 11000, 10000),
    ("8391720465 " * 2000, 10000, 9000),
    ("a " * 8000, 8001, 7000),
    ("f3a9c1e07b " * 2000, 18001, 12000),
    ("\U0001202d\U00012217\U00012000\U0001223e" * 1500, 24000, 12000),
    # NFKC makes 18 letters of one: bytes as sent would not bound it.
    ("ﷺ" * 2000, 36000, 33000),
]


@STREAMED
@pytest.mark.parametrize(("content", "tokens", "limit"), EST_02)
def test_est_02_dense_text_is_bounded_by_its_bytes(
    world: World, gateway: Gateway, simulator: Simulator, content: str, tokens: int, limit: int, stream: bool
) -> None:
    body: dict[str, Any] = {"max_tokens": 1, "messages": [{"role": "user", "content": content}], "stream": stream}
    answer = gateway.chat(world.key(limit), **body)
    assert answer.status_code == 402
    assert answer.headers["x-should-retry"] == "false"
    assert round(answer.json()["error"]["pgbudget"]["worst_case_usd"] * 1e6) >= tokens + 4
    assert simulator.calls() == 0


@STREAMED
def test_est_07_n_multiplies_the_output(world: World, gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    answer = gateway.chat(world.key(20_000), n=8, max_tokens=1000, stream=stream)
    assert answer.status_code == 402
    assert round(answer.json()["error"]["pgbudget"]["worst_case_usd"] * 1e6) >= 32_000
    key = world.key(10**9)
    bad: list[Any] = [9223372036854775, 0, -1, 1.5, "2", True, []]
    for n in bad:
        answer = gateway.chat(key, n=n, max_tokens=4096, stream=stream)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "n"), n
    assert simulator.calls() == 0
    assert world.held() == 0
    assert gateway.chat(key, n=None, stream=stream).status_code == 200
    assert gateway.chat(key, n=2, stream=stream).status_code == 200
    one, two = settled(world, key, 2)
    assert (one["amount"], two["amount"]) == (STANDARD, 100 + 2 * 200 * 4)


@STREAMED
def test_est_08_the_cap_that_is_priced_is_the_cap_that_is_forwarded(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    # Configured so that an absent cap means the model's maximum, as in the case.
    world.execute("""select budget.set_policy(null, '{"default_max_output_tokens": 1000000}')""")
    key = world.key(10**9)
    refused: list[dict[str, Any]] = [{"max_tokens": 1, "max_completion_tokens": 1000}]
    bad: list[Any] = [0, -1, -2147483648, 1.5, "100", True, [], 1e30, 2**63]
    refused += [{"max_tokens": value} for value in bad]
    refused += [{"max_tokens": ..., "max_completion_tokens": value} for value in bad]
    for body in refused:
        answer = gateway.chat(key, stream=stream, **body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request"), body
    assert simulator.calls() == 0
    assert world.held() == 0

    granted: list[tuple[dict[str, Any], int]] = [
        ({"max_tokens": ..., "max_completion_tokens": 10}, 10),
        ({"max_tokens": 10, "max_completion_tokens": 10}, 10),
        ({"max_tokens": None}, 16_384),
        ({"max_tokens": ...}, 16_384),
        ({"max_tokens": 100_000}, 16_384),
        ({"max_tokens": 4294967295}, 16_384),
        ({"max_tokens": 9223372036854775807}, 16_384),
    ]
    for i, (body, cap) in enumerate(granted):
        assert gateway.chat(key, stream=stream, **body).status_code == 200
        entry = settled(world, key, i + 1)[-1]
        assert entry["reserved_nano_usd"] // 1000 >= cap * 4
        forwarded = simulator.tally()["generated"][-1]["request_body"]
        assert forwarded["max_tokens"] == cap
        assert "max_completion_tokens" not in forwarded


# HOLD-01, HOLD-03, HOLD-04, HOLD-07, HOLD-08


@STREAMED
def test_hold_01_no_hold_is_left_behind(world: World, simulator: Simulator, stream: bool) -> None:
    world.execute("""select budget.set_policy(null, '{"stale_seconds": 4, "heartbeat_seconds": 1}')""")
    settings: dict[str, Any] = {"drain_seconds": "0.2", "reconcile_seconds": "0.5"}
    with Gateway(world.gateway_dsn, simulator.url, **settings) as gateway:
        hold = hold_of(world, gateway, stream=stream)
        key = world.key(20 * hold)
        for _ in range(15):
            _leave_early(simulator, gateway, key, {"barrier": "never"}, stream)
        if not stream:
            # What comes whole is waited for, since it will be billed; here it comes.
            wait_until(lambda: simulator.waiting("never") == 15)
            simulator.open("never")
        rows = settled(world, key, 15)
        assert {row["amount"] for row in rows} == ({hold} if stream else {STANDARD})

        doomed = Gateway(world.gateway_dsn, simulator.url)
        with doomed, ThreadPoolExecutor(1) as pool:
            call = pool.submit(doomed.chat, key, {"silence_after_chunks": 2}, stream=stream)
            wait_until(lambda: world.held() == hold)
            doomed.kill()
            assert call.exception() is not None
        spent_before = sum(row["amount"] for row in rows)
        rows = settled(world, key, 16)
        assert (rows[-1]["kind"], rows[-1]["outcome"], rows[-1]["amount"]) == ("charged", "stale", hold)
        world.execute("select budget.set_policy(null, '{\"stale_seconds\": 90}')")
        org, name = world.key_name(key)
        world.budget(org, "key", name, spent_before + 2 * hold)
        assert gateway.chat(key, stream=stream).status_code == 200
        settled(world, key, 17)
        assert world.verify() == []


def _leave_early(simulator: Simulator, gateway: Gateway, key: str, simulate: dict[str, Any], stream: bool) -> None:
    request = httpx.Request("POST", f"{gateway.url}/v1/chat/completions", **chat_request(key, simulate, stream=stream))
    lines = [b"POST /v1/chat/completions HTTP/1.1"] + [b": ".join(h) for h in request.headers.raw]
    before = simulator.calls()
    with socket.create_connection(("127.0.0.1", gateway.port)) as client:
        client.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + request.content)
        wait_until(lambda: simulator.calls() == before + 1, what="the call upstream")


@STREAMED
def test_hold_03_a_slow_stream_outlives_the_stale_window(world: World, simulator: Simulator, stream: bool) -> None:
    world.execute("""select budget.set_policy(null, '{"stale_seconds": 2, "heartbeat_seconds": 1}')""")
    with Gateway(world.gateway_dsn, simulator.url, reconcile_seconds="0.2") as gateway:
        key = world.key(10_000)
        pause = {"chunk_ms": 25} if stream else {"latency_ms": 5000}
        assert gateway.chat(key, pause, stream=stream).status_code == 200
        (entry,) = settled(world, key)
        assert (entry["kind"], entry["amount"]) == ("settled", STANDARD)
        assert budget(gateway, key) == {"limit": 10_000, "spent": 900, "reserved": 0, "available": 9_100}


def test_hold_03_a_swept_hold_is_trued_up_by_the_late_settle(world: World) -> None:
    key = world.key(10_000)
    grant = world.reserve(key)
    world.execute("update budget_internal.reservations set stale_at = now() - interval '1 s'")
    assert world.value("select charged from budget.reconcile(10)") == 1
    assert world.counters() == [{"spent": 900, "held": 0}]
    late = world.settle(grant["reservation_id"], {"input": 50, "output": 100})
    assert (late["status"], late["charged_nano_usd"]) == ("trued_up", 450_000)
    assert world.counters() == [{"spent": 450, "held": 0}]
    assert world.settle(grant["reservation_id"], {"input": 50, "output": 100})["status"] == "repeated"
    assert world.verify() == []


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
    world: World, gateway: Gateway, simulator: Simulator, limit: int, stream: bool
) -> None:
    key = world.key(limit)
    simulate = {"completion_tokens": 2000, "ignore_cap": True, "chunks": 20}
    answer = gateway.chat(
        key, simulate, max_tokens=100, stream=stream, stream_options={"include_usage": True} if stream else None
    )
    assert answer.status_code == 200
    assert '"completion_tokens":2000' in answer.text.replace(" ", "")
    (entry,) = settled(world, key)
    assert (entry["amount"], entry["overrun"]) == (8_100, True)
    assert budget(gateway, key)["available"] == limit - 8_100
    if limit < 8_100:
        assert gateway.chat(key, stream=stream).json()["error"]["code"] == "budget_exceeded"


# USE-01, USE-03, SSE-01


def frame(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


BASE: list[dict[str, Any]] = [
    {"id": "a", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}], "usage": None},
    {"id": "a", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": None},
    {"id": "a", "choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}},
]
USE_01 = "".join(frame(chunk) for chunk in BASE) + "data: [DONE]\n\n"


@pytest.mark.parametrize(
    "options", [..., None, {"include_usage": False}, {"include_obfuscation": False}, {"include_usage": True}]
)
def test_use_01_usage_is_asked_for_and_hidden_from_who_did_not_ask(
    world: World, gateway: Gateway, simulator: Simulator, options: Any
) -> None:
    key = world.key(10**6)
    answer = gateway.chat(key, {"raw_sse": USE_01}, stream=True, stream_options=options)
    chunks = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    forwarded = simulator.tally()["generated"][-1]["request_body"]["stream_options"]
    assert forwarded["include_usage"] is True
    if isinstance(options, dict) and "include_obfuscation" in options:
        assert forwarded["include_obfuscation"] is False
    if options == {"include_usage": True}:
        assert answer.text == USE_01
    else:
        assert [c["choices"] for c in chunks] == [c["choices"] for c in BASE[:2]]
        assert all("usage" not in c for c in chunks)
        assert answer.text.endswith("data: [DONE]\n\n")
    (entry,) = settled(world, key)
    assert entry["amount"] == 12 + 5 * 4


def test_use_03_cumulative_usage_is_never_added(world: World, gateway: Gateway) -> None:
    def usage(prompt: int, completion: int) -> dict[str, int]:
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    reports = [usage(1000, 10), usage(1000, 50), None, usage(1000, 100)]
    simulate = {"completion_tokens": 4, "chunks": 4, "usages": reports}
    key = world.key(10**6)
    assert gateway.chat(key, simulate, stream=True).status_code == 200
    assert settled(world, key)[0]["amount"] == 1_400
    key = world.key(10**6)
    with pytest.raises(httpx.RemoteProtocolError):
        gateway.chat(key, {**simulate, "cut_after_chunks": 3}, stream=True)
    (entry,) = settled(world, key)
    assert 1_200 <= entry["amount"] <= entry["reserved_nano_usd"] // 1000


SSE_CONTENT = "预算\u2028é😀"


def _sse_transforms() -> dict[str, tuple[str, dict[str, Any]]]:
    chunks = json.loads(json.dumps(BASE))
    chunks[0]["choices"][0]["delta"]["content"] = SSE_CONTENT
    base = "".join(f"data: {json.dumps(c, ensure_ascii=False)}\n\n" for c in chunks) + "data: [DONE]\n\n"
    split = json.dumps(chunks[2])
    middle = split.index('"usage"')
    found: dict[str, tuple[str, dict[str, Any]]] = {
        "one byte a write": (base, {"split": "bytes"}),
        "crlf": (base.replace("\n", "\r\n"), {"split": "bytes"}),
        "cr": (base.replace("\n", "\r"), {"split": "bytes"}),
        "no space": (base.replace("data: ", "data:"), {}),
        "bom": ("\ufeff" + base, {}),
        "comments and pings": (base.replace("data: {", ": ping\n\nevent: ping\ndata: {}\n\ndata: {"), {}),
        "two data lines": (base.replace(f"data: {split}", f"data: {split[:middle]}\ndata: {split[middle:]}"), {}),
        "no end": (base.removesuffix("data: [DONE]\n\n").rstrip("\n"), {}),
        "unknown events": (base.replace("data: {", "event: new.thing\nid: 7\nretry: 5\ndata: {"), {}),
    }
    for seed in range(6):
        found[f"random splits {seed}"] = (base, {"split": f"seed:{seed}"})
    return found


@pytest.mark.parametrize("asked", [False, True], ids=["hidden", "asked"])
@pytest.mark.parametrize("name", _sse_transforms())
def test_sse_01_every_form_of_the_stream_is_metered_alike(world: World, gateway: Gateway, name: str, asked: bool) -> None:
    body, how = _sse_transforms()[name]
    key = world.key(10**6)
    options = {"include_usage": True} if asked else ...
    answer = gateway.chat(key, {"raw_sse": body, **how}, stream=True, stream_options=options)
    assert settled(world, key)[0]["amount"] == 32
    if asked:
        assert answer.content == body.encode()
    else:
        assert SSE_CONTENT in answer.text or json.dumps(SSE_CONTENT)[1:-1] in answer.text
        assert '"completion_tokens"' not in answer.text


# ERR-01, ERR-02


async def _read_some(gateway: Gateway, key: str, simulate: dict[str, Any], pieces: int) -> None:
    """Read so many pieces of a stream, then close the socket."""
    async with (
        httpx.AsyncClient(timeout=30) as client,
        client.stream("POST", f"{gateway.url}/v1/chat/completions", **chat_request(key, simulate, stream=True)) as answer,
    ):
        seen = 0
        async for line in answer.aiter_lines():
            seen += line.startswith("data:")
            if seen >= pieces:
                return


def test_err_01_leaving_a_stream_is_not_free(world: World, simulator: Simulator) -> None:
    with Gateway(world.gateway_dsn, simulator.url, drain_seconds="0") as gateway:
        key = world.key(10**6)
        asyncio.run(_read_some(gateway, key, {"chunk_ms": 20}, 26))
        (entry,) = settled(world, key)
        # The input bound, and a token for each byte of the text that was seen: not less than 26 tokens.
        assert entry["amount"] >= 100 + 26 * 4
        assert entry["amount"] <= entry["reserved_nano_usd"] // 1000
        assert "estimated" in entry["flags"]


def test_err_01_with_time_to_drain_the_real_usage_is_charged(world: World, simulator: Simulator) -> None:
    with Gateway(world.gateway_dsn, simulator.url, drain_seconds="20") as gateway:
        key = world.key(10**6)
        asyncio.run(_read_some(gateway, key, {"chunk_ms": 5}, 26))
        (entry,) = settled(world, key)
        assert (entry["amount"], entry["source"]) == (STANDARD, "usage")


def test_err_01_leaving_an_answer_that_comes_whole_is_charged_as_it_comes(
    world: World, gateway: Gateway, simulator: Simulator
) -> None:
    key = world.key(10**6)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{gateway.url}/v1/chat/completions", timeout=0.3, **chat_request(key, {"barrier": "slow"}))
    simulator.open("slow")
    (entry,) = settled(world, key)
    assert (entry["amount"], entry["source"]) == (STANDARD, "usage")


def test_err_01_a_loop_of_leaving_is_stopped_by_the_budget(world: World, simulator: Simulator) -> None:
    with Gateway(world.gateway_dsn, simulator.url, drain_seconds="0") as gateway:
        key = world.key(20 * STANDARD)
        refused = 0
        for i in range(40):
            answer = _status_then_leave(gateway, key)
            refused += answer == 402
            if answer == 200:
                settled(world, key, i + 1)
        assert refused > 0
        assert simulator.calls() < 40


def _status_then_leave(gateway: Gateway, key: str) -> int:
    with httpx.stream(
        "POST", f"{gateway.url}/v1/chat/completions", timeout=30, **chat_request(key, {"chunk_ms": 20}, stream=True)
    ) as answer:
        return answer.status_code


@pytest.mark.parametrize("deltas", ["content", "tool_calls", "reasoning"])
def test_err_02_a_stream_that_breaks_is_charged_by_its_output(world: World, gateway: Gateway, deltas: str) -> None:
    simulate = {"deltas": deltas, "completion_tokens": 1600, "chunks": 100, "cut_after_chunks": 99, "chunk_ms": 3}
    key = world.key(10**6)
    with pytest.raises(httpx.RemoteProtocolError):
        gateway.chat(key, simulate, stream=True, max_tokens=4000)
    (entry,) = settled(world, key)
    # 1,584 tokens of five bytes: at least the real cost of what was sent, at most the hold.
    assert 100 + 1584 * 4 <= entry["amount"] <= entry["reserved_nano_usd"] // 1000
    assert {"estimated"} <= set(entry["flags"])
    padded = world.key(10**6)
    with pytest.raises(httpx.RemoteProtocolError):
        gateway.chat(padded, {**simulate, "padding": 2000}, stream=True, max_tokens=4000)
    assert settled(world, padded)[0]["amount"] == entry["amount"]


@STREAMED
def test_err_02_nothing_seen_is_charged_in_full(world: World, gateway: Gateway, stream: bool) -> None:
    key = world.key(10**6)
    try:
        answer = gateway.chat(key, {"cut_after_chunks": 0}, stream=stream)
        assert answer.status_code == 502
    except httpx.RemoteProtocolError:
        assert stream
    (entry,) = settled(world, key)
    assert (entry["kind"], entry["amount_nano_usd"]) == ("charged", entry["reserved_nano_usd"])


@STREAMED
@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
def test_err_02_what_the_provider_refused_is_released(world: World, gateway: Gateway, status: int, stream: bool) -> None:
    key = world.key(10**6)
    answer = gateway.chat(key, {"status": status}, stream=stream)
    assert (answer.status_code, answer.json()["error"]["message"]) == (status, f"simulated status {status}")
    assert answer.headers["x-pgbudget-error-source"] == "upstream"
    (entry,) = settled(world, key)
    assert (entry["kind"], entry["amount"]) == ("released", 0)


@STREAMED
@pytest.mark.parametrize("setting", ["account_simulator_key", "account_simulator_key_file"])
def test_a_refused_provider_key_is_named_in_the_log_and_told_from_the_callers(
    world: World, simulator: Simulator, tmp_path: Path, setting: str, stream: bool
) -> None:
    (tmp_path / "key").write_text("sk-wrong")
    # An empty variable is one that is not set.
    settings: dict[str, Any] = {
        "account_simulator_key": "",
        setting: str(tmp_path / "key") if setting.endswith("file") else "sk-wrong",
    }
    with Gateway(world.gateway_dsn, simulator.url, **settings) as gateway:
        theirs = gateway.chat(world.key(10**6), stream=stream)
        own = gateway.chat("pgb_unknown", stream=stream)
        assert (theirs.status_code, own.status_code) == (401, 401)
        assert "Incorrect API key" in theirs.json()["error"]["message"]
        assert [a.headers["x-pgbudget-error-source"] for a in (theirs, own)] == ["upstream", "gateway"]
        (line,) = [line for line in gateway.log().splitlines() if "WARNING" in line]
        assert line.endswith(f"401 to the key in PGBUDGET_{setting.upper()}")
        assert "sk-wrong" not in gateway.log()


@STREAMED
def test_an_account_without_a_key_is_named_in_the_log(world: World, simulator: Simulator, stream: bool) -> None:
    with Gateway(world.gateway_dsn, simulator.url, account_simulator_key="") as gateway:
        answer = gateway.chat(world.key(10**6), stream=stream)
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
def test_every_error_of_the_gateway_says_that_it_is_its_own(gateway: Gateway, method: str, path: str, status: int) -> None:
    answer = httpx.request(method, gateway.url + path)
    assert (answer.status_code, answer.headers["x-pgbudget-error-source"]) == (status, "gateway")


def test_err_02_an_error_event_is_released_only_if_nothing_was_generated(world: World, gateway: Gateway) -> None:
    key = world.key(10**6)
    gateway.chat(key, {"error_after_chunks": 0}, stream=True)
    gateway.chat(key, {"error_after_chunks": 5}, stream=True)
    nothing, some = settled(world, key, 2)
    assert (nothing["kind"], nothing["amount"]) == ("released", 0)
    assert some["amount"] >= 100 + 5 * 4


@STREAMED
@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}])
def test_err_02_missing_or_zero_usage_is_bounded_by_what_was_seen(
    world: World, gateway: Gateway, usage: dict[str, int], stream: bool
) -> None:
    key = world.key(10**6)
    simulate = {"usage": usage} if usage else {"no_usage": True}
    assert gateway.chat(key, simulate, stream=stream).status_code == 200
    (entry,) = settled(world, key)
    assert STANDARD <= entry["amount"] <= entry["reserved_nano_usd"] // 1000
    assert "estimated" in entry["flags"]


@STREAMED
@pytest.mark.parametrize("value", [-5, 1.5, "many", 10**30, True])
def test_err_02_usage_that_cannot_be_is_charged_in_full(world: World, gateway: Gateway, value: Any, stream: bool) -> None:
    key = world.key(10**6)
    usage = {"prompt_tokens": 100, "completion_tokens": value, "total_tokens": 300}
    assert gateway.chat(key, {"usage": usage}, stream=stream).status_code == 200
    (entry,) = settled(world, key)
    assert (entry["kind"], entry["amount_nano_usd"]) == ("charged", entry["reserved_nano_usd"])
    assert "usage_rejected" in entry["flags"]


def test_err_02_an_answer_that_cannot_be_read_is_charged_in_full(world: World, gateway: Gateway) -> None:
    for body in ("", "not json", "[]", '{"choices": 5}', "{"):
        key = world.key(10**6)
        assert gateway.chat(key, {"raw_body": body}).text == body
        (entry,) = settled(world, key)
        assert (entry["kind"], entry["amount_nano_usd"]) == ("charged", entry["reserved_nano_usd"]), body


# LEDGER-01, MODEL-01, SEC-01, SEC-03


@STREAMED
def test_ledger_01_ids_of_others_are_only_noted(world: World, gateway: Gateway, stream: bool) -> None:
    key = world.key(10**6)
    ids = ["chatcmpl-1", "chatcmpl-1", None, None, "", "x" * 10_000]
    request = chat_request(key, {}, stream=stream)
    for value in ids:
        request["headers"] |= {"x-request-id": "same", "x-simulate": json.dumps({"ids": [value]})}
        assert httpx.post(f"{gateway.url}/v1/chat/completions", timeout=30, **request).status_code == 200
    entries = settled(world, key, 6)
    assert sum(e["amount"] for e in entries) == 6 * STANDARD
    assert len({e["reservation_id"] for e in entries}) == 6
    assert all(len(v) <= 200 for e in entries for v in (e["note"] or {}).values())


@STREAMED
def test_model_01_a_model_that_is_not_priced_is_not_served(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = world.key(1_000_000)
    for model in ("t-mini-v2", "t.mini", "T-MINI", "ft:t-mini:acme::x1", "openai/t-mini", "t-mini "):
        answer = gateway.chat(key, model=model, stream=stream)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found"), model
    world.execute("""
      select budget.set_model('simulator', m, 128000, 16384), budget.set_route(null, m, 'simulator', 'simulator')
      from unnest(array['no-price', 'no-input-price', 'unreviewed', 'free']) m;
      select budget.review_price(budget.add_price('simulator', 'no-input-price', '[{"kind": "output", "usd": 1}]'), 'me');
      select budget.add_price('simulator', 'unreviewed', '[{"kind": "input", "usd": 1}, {"kind": "output", "usd": 1}]');
      select budget.review_price(
        budget.add_price('simulator', 'free', '[{"kind": "input", "usd": 0}, {"kind": "output", "usd": 0}]'), 'me');
    """)
    for model in ("no-price", "no-input-price", "unreviewed"):
        answer = gateway.chat(key, model=model, stream=stream)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "model_unpriced"), model
    assert simulator.calls() == 0
    broke = world.key(0)
    assert gateway.chat(broke, stream=stream).json()["error"]["code"] == "request_over_limit"
    # Free is free, also when nothing is left.
    assert gateway.chat(broke, model="free", stream=stream).status_code == 200
    assert settled(world, broke)[0]["amount"] == 0


def test_sec_01_the_callers_key_goes_nowhere(world: World, gateway: Gateway, simulator: Simulator) -> None:
    alive, over, disabled = world.key(10**6), world.key(1), world.key(10**6)
    org, name = world.key_name(disabled)
    world.execute("select budget.disable_key(%s, %s)", org, name)
    expired = world.key(10**6, expires_at="2020-01-01T00:00:00Z")
    unknown = "pgb_" + "0" * 64
    states = {alive: 200, over: 402, disabled: 403, expired: 403, unknown: 401}
    body = chat_request("x")["json"]
    url = f"{gateway.url}/v1/chat/completions"
    seen = ""
    for key, status in states.items():
        for header in ({"authorization": f"Bearer {key}"}, {"x-api-key": key}, {"api-key": key}):
            answer = httpx.post(url, json=body, headers=header, timeout=30)
            assert answer.status_code == status
            # What a call would cost is for those who may call.
            assert ("_usd" in answer.text) == (status == 402)
            seen += answer.text + str(answer.headers)
        for header in ({"x-goog-api-key": key}, {"xi-api-key": key}, {"cookie": f"key={key}"}):
            assert httpx.post(url, json=body, headers=header).status_code == 401
        assert httpx.post(url, params={"key": key}, json=body).status_code == 401
        both = [("authorization", f"Bearer {key}"), ("authorization", "Bearer other")]
        assert httpx.post(url, json=body, headers=both).status_code == 401
        extra = {"authorization": f"Bearer {key}", "cookie": f"key={key}", "x-goog-api-key": key}
        seen += httpx.post(url, params={"key": key}, json=body, headers=extra, timeout=30).text
    simulate = {"redirect": f"http://127.0.0.1:{simulator.port}/v1/models"}
    answer = gateway.chat(alive, simulate)
    assert answer.status_code == 502
    seen += answer.text
    tally = simulator.tally()
    upstream = json.dumps(tally)
    ledger = json.dumps(world.rows("select row_to_json(l) as l from budget_internal.ledger_entries l"), default=str)
    for key in states:
        for place, text in (("answers", seen), ("upstream", upstream), ("log", gateway.log()), ("ledger", ledger)):
            assert key not in text, place
    for call in tally["generated"]:
        assert [v for k, v in call["request_headers"] if k == "authorization"] == [f"Bearer {Simulator.KEY}"]
        assert not {"cookie", "x-api-key", "api-key", "x-goog-api-key"} & {k for k, _ in call["request_headers"]}
    assert Simulator.KEY not in seen
    assert world.verify() == []


def test_sec_03_bodies_that_hurt_are_refused_before_anything_is_held(
    world: World, gateway: Gateway, simulator: Simulator
) -> None:
    key = world.key(10**6)
    url = f"{gateway.url}/v1/chat/completions"
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    head = b'{"model":"t-mini","messages":[]'
    refused = [
        b'{"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        head + b',"tools":' + b"[" * 1000 + b"]" * 1000 + b"}",
        head + b',"a":"\xff\xfe"}',
        head + b',"max_tokens":1,"max_tokens":2}',
        head + b',"a":NaN}',
        head + b',"a":Infinity}',
        head + b',"a":"\\ud800"}',
        head + b',"max_tokens":' + b"9" * 5000 + b"}",
        b"[]",
        b"",
        b"nonsense",
        head + b',"api_key":"sk-1"}',
    ]
    for body in refused:
        answer = httpx.post(url, content=body, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request"), body[:60]
    for body in (b"", b" \n"):
        message = httpx.post(url, content=body, headers=headers).json()["error"]["message"]
        assert message == "the body is empty: send a JSON object"
    assert httpx.post(url, content=b"{}", headers={**headers, "content-type": "text/plain"}).status_code == 415
    bomb = gzip.compress(b" " * (64 << 20))
    assert httpx.post(url, content=bomb, headers={**headers, "content-encoding": "gzip"}).status_code == 413
    good = gzip.compress(json.dumps(chat_request(key)["json"]).encode())
    assert httpx.post(url, content=good, headers={**headers, "content-encoding": "gzip"}, timeout=30).status_code == 200
    for with_key, status in ((False, b"401"), (True, b"413")):
        with socket.create_connection(("127.0.0.1", gateway.port)) as client:
            auth = f"authorization: Bearer {key}\r\n" if with_key else ""
            client.sendall(
                f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{auth}content-type: application/json\r\n"
                f"content-length: {64 << 20}\r\n\r\n".encode()
            )
            # Answered before the body was read: none of it was sent.
            assert client.recv(100).split()[1] == status
    assert simulator.calls() == 1
    assert len(settled(world, key)) == 1


def test_sec_03_a_body_that_stalls_is_timed_out(world: World, simulator: Simulator) -> None:
    with Gateway(world.gateway_dsn, simulator.url, body_seconds="0.5") as gateway:
        key = world.key(10**6)
        with socket.create_connection(("127.0.0.1", gateway.port)) as client:
            client.sendall(
                f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
                "content-type: application/json\r\ncontent-length: 10\r\n\r\n{{}".encode()
            )
            assert client.recv(100).split()[1] == b"408"
        assert world.rows("select * from budget_internal.reservations") == []


# Idempotency over HTTP


@STREAMED
def test_an_idempotency_key_never_calls_or_charges_twice(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = world.key(10**6)
    request = chat_request(key, {"barrier": "once"}, stream=stream)
    request["headers"]["idempotency-key"] = "order-1"
    url = f"{gateway.url}/v1/chat/completions"
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(httpx.post, url, timeout=30, **request)
        wait_until(lambda: simulator.waiting("once") == 1)
        again = httpx.post(url, timeout=30, **request)
        assert again.status_code == 409
        assert again.json()["error"]["pgbudget"]["state"] == "open"
        simulator.open("once")
        assert first.result().status_code == 200
    reservation = first.result().headers["x-pgbudget-reservation"]
    settled(world, key)
    ended = httpx.post(url, timeout=30, **request)
    assert (ended.status_code, ended.headers["x-should-retry"]) == (409, "false")
    assert ended.json()["error"]["pgbudget"] == {"reservation_id": reservation, "state": "settled"}
    request["json"]["max_tokens"] = 5
    assert httpx.post(url, timeout=30, **request).json()["error"]["code"] == "idempotency_conflict"
    assert simulator.calls() == 1
    assert world.spent() == STANDARD


# What one caller or provider sends must not spoil the calls that share its batch.


@STREAMED
def test_text_that_the_database_cannot_take_harms_nobody(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    key = world.key(10**9)
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
        bad = [pool.submit(gateway.chat, key, behaviour, stream=stream) for behaviour in nasty * 3]
        odd = [pool.submit(gateway.chat, key, None, model=name, stream=stream) for name in ("t-mini\0", "m" * 300)]
        good = [pool.submit(gateway.chat, key, None, stream=stream) for _ in range(20)]
        assert [call.result().status_code for call in good] == [200] * 20
        assert [call.result().status_code for call in odd] == [400, 400]
        assert [call.result().status_code for call in bad] == [200] * len(bad)
    entries = settled(world, key, 20 + len(bad))
    assert sum(e["amount"] == STANDARD and e["source"] == "usage" for e in entries) >= 20
    assert world.verify() == []


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
def test_any_number_of_calls_run_at_once(world: World, gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    key = world.key(10**9)
    with ThreadPoolExecutor(130) as pool:
        calls = [pool.submit(gateway.chat, key, {"barrier": "crowd"}, stream=stream) for _ in range(130)]
        wait_until(lambda: simulator.waiting("crowd") == 130, 30, "all calls upstream")
        simulator.open("crowd")
        assert [call.result().status_code for call in calls] == [200] * 130
    assert sum(e["amount"] for e in settled(world, key, 130)) == 130 * STANDARD


@STREAMED
def test_a_provider_that_falls_silent_is_given_up(world: World, simulator: Simulator, stream: bool) -> None:
    with Gateway(world.gateway_dsn, simulator.url, idle_seconds="0.5", first_byte_seconds="0.5") as gateway:
        key = world.key(10**6)
        if stream:
            with pytest.raises(httpx.RemoteProtocolError):
                gateway.chat(key, {"silence_after_chunks": 3}, stream=True)
            (entry,) = settled(world, key)
            assert 100 + 3 * 4 <= entry["amount"] < entry["reserved_nano_usd"] // 1000
            assert "estimated" in entry["flags"]
        else:
            assert gateway.chat(key, {"silence_after_chunks": 0}).status_code == 502
            (entry,) = settled(world, key)
            assert (entry["kind"], entry["amount_nano_usd"]) == ("charged", entry["reserved_nano_usd"])
        # Slow is not silent: every piece begins the wait anew.
        slow = world.key(10**6)
        if stream:
            assert gateway.chat(slow, {"completion_tokens": 5, "chunk_ms": 200}, stream=True).status_code == 200
            assert settled(world, slow)[0]["amount"] == 100 + 5 * 4
