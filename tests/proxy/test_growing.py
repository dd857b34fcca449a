"""Holds that grow with their streams: what is cut and how, what is charged, and that no budget is passed. Micro-dollars."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent

from tests.proxy.calls import settled
from tests.support.processes import Gateway, Simulator, chat_request, messages_request, responses_request, wait_until
from tests.support.world import World

#: What the simulator bills for the input.
INPUT = 100
#: A token of t-mini's output; the simulator's are of five bytes.
TOKEN = 4
PACED = {"chunk_ms": 20, "completion_tokens": 200}


def stream(gateway: Gateway, key: str, simulate: dict[str, Any], **body: Any) -> list[ChatCompletionChunk]:
    """One streamed call by the real SDK: raises what it raises, returns what it makes of the stream."""
    request = chat_request(key, stream=True, max_tokens=2000, **body)
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0) as client:
        return list(
            client.chat.completions.create(**request["json"], extra_headers={"x-simulate": json.dumps(simulate)}, timeout=60)
        )


def text(chunks: list[ChatCompletionChunk], choice: int = 0) -> str:
    """What a choice has said."""
    return "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices if c.index == choice)


def reasons(chunks: list[ChatCompletionChunk]) -> list[str]:
    """The finish reasons, in order."""
    return [c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason]


def bound(world: World, gateway: Gateway, **body: Any) -> int:
    """The input bound of the standard body as the gateway holds it."""
    key = world.key(10**9, first_output_tokens=10)
    answer = gateway.chat(key, {"status": 400}, stream=True, **body)
    assert answer.status_code == 400
    held = int(settled(world, key)[0]["reserved_nano_usd"]) // 1000
    return held - 10 * TOKEN * int(body.get("n", 1))


def test_a_stream_with_room_is_whole_and_begins_with_a_slice(world: World, gateway: Gateway, simulator: Simulator) -> None:
    key = world.key(10**6, first_output_tokens=50)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(stream, gateway, key, {**PACED, "barrier": "first"})
        wait_until(lambda: simulator.waiting("first") == 1)
        assert world.value("select output_tokens from budget_internal.reservations") == 50
        simulator.open("first")
        chunks = call.result()
    assert text(chunks) == "word " * 200
    assert reasons(chunks) == ["stop"]
    assert simulator.tally()["generated"][-1]["request_body"]["max_tokens"] == 2000
    (row,) = settled(world, key)
    assert (row["source"], row["amount"], row["overrun"]) == ("usage", INPUT + 200 * TOKEN, False)
    assert world.verify() == []


@pytest.mark.parametrize("choices", [1, 3])
@pytest.mark.parametrize("asked", [False, True], ids=["usage not asked", "usage asked"])
def test_a_stream_without_room_is_cut_in_the_words_of_its_dialect(
    world: World, gateway: Gateway, simulator: Simulator, choices: int, asked: bool
) -> None:
    room = 600 * choices
    limit = bound(world, gateway, n=choices, max_tokens=2000) + room * TOKEN
    key = world.key(limit, first_output_tokens=50)
    extra: dict[str, Any] = {"stream_options": {"include_usage": True}} if asked else {}
    chunks = stream(gateway, key, PACED, n=choices, **extra)
    assert reasons(chunks) == ["length"] * choices
    assert {c.index for c in chunks[-1 - asked].choices} == set(range(choices))
    assert len({chunk.id for chunk in chunks}) == 1
    (row,) = settled(world, key)
    said = sum(len(text(chunks, choice)) for choice in range(choices))
    assert 0 < said <= room
    assert (row["source"], row["flags"], row["overrun"]) == ("bound", ["estimated"], False)
    assert row["note"]["reason"] == "cut: no room to grow"
    # Charged is what came, passed on or not; never more than was held.
    assert said <= int(row["usage"]["output"])
    assert row["amount"] <= limit
    if asked:
        usage = chunks[-1].usage
        assert usage is not None
        assert said <= usage.completion_tokens <= int(row["usage"]["output"])
    wait_until(lambda: simulator.tally()["states"]["running"] == 0)
    (call,) = [c for c in simulator.tally()["generated"] if c["billed"]]
    assert call["state"] == "left"
    assert call["billed_nano_usd"] <= row["amount"] * 1000
    assert world.verify() == []


def cut_call(world: World, simulator: Simulator, key: str, limit: int) -> dict[str, Any]:
    """The ledger row of a call that was cut, once its provider has stopped: nothing was generated that is not paid for."""
    (row,) = settled(world, key)
    assert (row["source"], row["flags"], row["overrun"]) == ("bound", ["estimated"], False)
    assert row["note"]["reason"] == "cut: no room to grow"
    assert row["amount"] <= limit
    wait_until(lambda: simulator.tally()["states"]["running"] == 0)
    (call,) = [c for c in simulator.tally()["generated"] if c["billed"]]
    assert call["state"] == "left"
    assert call["billed_nano_usd"] <= row["amount_nano_usd"]
    assert world.verify() == []
    return row


def test_a_message_without_room_is_cut_as_one_that_reached_its_max_tokens(
    world: World, gateway: Gateway, simulator: Simulator
) -> None:
    first = world.key(10**9, first_output_tokens=10)
    assert gateway.messages(first, {"status": 400}, stream=True, max_tokens=2000).status_code == 400
    limit = int(settled(world, first)[0]["reserved_nano_usd"]) // 1000 + 590 * 15
    simulator.reset()
    key = world.key(limit, first_output_tokens=50)
    request = messages_request(key, max_tokens=2000)["json"]
    with (
        anthropic.Anthropic(base_url=gateway.url, api_key=key, max_retries=0) as client,
        client.messages.stream(**request, extra_headers={"x-simulate": json.dumps(PACED)}, timeout=60) as stream,
    ):
        kinds = [event.type for event in stream]
        message = stream.get_final_message()
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert kinds.count("content_block_stop") == kinds.count("content_block_start")
    assert message.stop_reason == "max_tokens"
    (block,) = message.content
    assert isinstance(block, anthropic.types.TextBlock)
    row = cut_call(world, simulator, key, limit)
    assert 0 < len(block.text) <= message.usage.output_tokens <= int(row["usage"]["output"])
    # The beginning has told what the input was.
    assert (message.usage.input_tokens, row["usage"]["input"]) == (INPUT, INPUT)


@pytest.mark.parametrize("deltas", ["content", "tool_calls", "reasoning"])
def test_a_response_without_room_is_cut_as_an_incomplete_one(
    world: World, gateway: Gateway, simulator: Simulator, deltas: str
) -> None:
    first = world.key(10**9, first_output_tokens=10)
    assert gateway.respond(first, {"status": 400}, stream=True, max_output_tokens=2000).status_code == 400
    limit = int(settled(world, first)[0]["reserved_nano_usd"]) // 1000 + 590 * TOKEN
    simulator.reset()
    key = world.key(limit, first_output_tokens=50)
    request = responses_request(key, max_output_tokens=2000)["json"]
    headers = {"x-simulate": json.dumps({**PACED, "deltas": deltas})}
    with (
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0) as client,
        client.responses.stream(**request, extra_headers=headers, timeout=60) as stream,
    ):
        events: list[ResponseStreamEvent] = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    end = events[-1]
    assert end.type == "response.incomplete"
    response = end.response
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    said = "".join(str(event.delta) for event in events if event.type.endswith(".delta") and hasattr(event, "delta"))
    (item,) = response.output
    done = [event for event in events if event.type == "response.output_item.done"]
    assert [event.item.to_dict() for event in done] == [item.to_dict()]
    if item.type == "message":
        assert (item.status, response.output_text) == ("incomplete", said)
    elif item.type == "function_call":
        assert (item.status, item.arguments) == ("incomplete", said)
    else:
        assert item.type == "reasoning"
        assert [part.text for part in item.summary] == [said]
    # All that was begun ends, as in a stream that its provider ended at a limit.
    simulate = json.dumps({"completion_tokens": 30, "deltas": deltas})
    with openai.OpenAI(base_url=f"{simulator.url}/v1", api_key=Simulator.KEY, max_retries=0) as client:
        short = {**request, "max_output_tokens": 20}
        whole = client.responses.create(**short, stream=True, extra_headers={"x-simulate": simulate})
        by_itself = [event.type for event in whole if not event.type.endswith(".delta")]
    assert [event.type for event in events if not event.type.endswith(".delta")] == by_itself
    (row,) = settled(world, key)
    assert response.usage is not None
    assert 0 < len(said) <= response.usage.output_tokens <= int(row["usage"]["output"])
    assert (row["source"], row["flags"], row["note"]["reason"]) == ("bound", ["estimated"], "cut: no room to grow")
    assert row["amount"] <= limit
    assert world.verify() == []


def test_many_streams_on_one_budget_and_two_gateways_generate_no_more_than_it(
    world: World, gateway: Gateway, simulator: Simulator
) -> None:
    limit = 20 * (bound(world, gateway, max_tokens=2000) + 300 * TOKEN)
    simulator.reset()
    key = world.key(limit, first_output_tokens=200)
    with Gateway(world.gateway_dsn, simulator.url) as second, ThreadPoolExecutor(40) as pool:

        def call(number: int) -> list[ChatCompletionChunk] | None:
            simulate = {"chunk_ms": 20, "completion_tokens": 5 + 6 * number}
            with contextlib.suppress(openai.APIStatusError):
                return stream((gateway, second)[number % 2], key, simulate)
            return None

        answers = list(pool.map(call, range(40)))
    served = [chunks for chunks in answers if chunks is not None]
    cut = [chunks for chunks in served if reasons(chunks) == ["length"]]
    assert all(len(reasons(chunks)) == 1 for chunks in served)
    assert len(cut) < len(served)
    rows = settled(world, key, len(served))
    assert len(rows) == len(served)
    assert sum(row["flags"] == ["estimated"] for row in rows) == len(cut)
    tally = simulator.tally()
    # The others had generated all they would while their streams waited.
    assert tally["states"]["left"] <= len(cut)
    spent = sum(int(row["amount_nano_usd"]) for row in rows)
    assert tally["cost_nano_usd"] <= spent <= limit * 1000
    assert world.verify() == []


@pytest.mark.parametrize(("provider", "extra"), [("openai", {}), ("simulator", {"reasoning_effort": "low"})])
def test_what_may_think_unseen_does_not_grow(world: World, simulator: Simulator, provider: str, extra: dict[str, Any]) -> None:
    """It is held to its cap before it is called: what there is room for is the cap that is forwarded."""
    world.execute("select budget.set_model(%s, 'thinker', 128000, 16384)", provider)
    world.execute(
        """select budget.review_price(budget.add_price(%s, 'thinker', '[
             {"kind": "input", "usd": 1}, {"kind": "output", "usd": 4}]', '2020-01-01T00:00:00Z'), 'me'),
           budget.set_route(null, 'thinker', %s, 'thinking')""",
        provider, provider,
    )  # fmt: skip
    account: dict[str, Any] = {"account_thinking_url": f"{simulator.url}/v1", "account_thinking_key": Simulator.KEY}
    with Gateway(world.gateway_dsn, simulator.url, **account) as gateway:
        limit = bound(world, gateway, max_tokens=2000) + len("thinker") - len("t-mini") + 150 * TOKEN
        key = world.key(limit, first_output_tokens=50)
        if extra:
            # Never asked to grow: the whole cap is what does not fit.
            with pytest.raises(openai.APIStatusError, match="could cost up to"):
                stream(gateway, key, PACED, model="thinker", **extra)
            return
        # How to behave goes to the simulator only: this one generates its 200.
        chunks = stream(gateway, key, {}, model="thinker")
        assert reasons(chunks) == ["length"]
        assert len(text(chunks)) == 150 * len("word ")
        (row,) = settled(world, key)
        assert (row["source"], row["usage"]["output"]) == ("usage", 150)
        cap = simulator.tally()["generated"][-1]["request_body"]["max_completion_tokens"]
        assert cap == 150


def test_a_client_that_leaves_has_its_stream_cut_where_its_hold_ends(
    world: World, gateway: Gateway, simulator: Simulator
) -> None:
    limit = bound(world, gateway, max_tokens=2000) + 500 * TOKEN
    key = world.key(limit, first_output_tokens=50)
    with socket.create_connection(("127.0.0.1", gateway.port)) as client:
        request = chat_request(key, {**PACED, "completion_tokens": 1500}, stream=True, max_tokens=2000)
        content = json.dumps(request["json"]).encode()
        head = "".join(f"{name}: {value}\r\n" for name, value in request["headers"].items())
        client.sendall(
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{head}"
            f"content-length: {len(content)}\r\n\r\n".encode()
            + content
        )
        assert b"200 OK" in client.recv(100)
    (row,) = settled(world, key)
    assert row["amount"] <= limit
    assert row["flags"] == ["estimated"]
    wait_until(lambda: simulator.tally()["states"]["running"] == 0)
    assert simulator.tally()["generated"][-1]["billed_nano_usd"] <= row["amount_nano_usd"]


def test_a_client_that_does_not_read_keeps_nothing_that_is_not_held(
    world: World, gateway: Gateway, simulator: Simulator
) -> None:
    limit = bound(world, gateway, max_tokens=2000) + 800 * TOKEN
    key = world.key(limit, first_output_tokens=50)
    request = chat_request(key, {"chunk_ms": 50, "completion_tokens": 1000, "padding": 200_000}, stream=True, max_tokens=2000)
    with httpx.Client(timeout=60) as client, client.stream("POST", f"{gateway.url}/v1/chat/completions", **request) as answer:
        assert answer.status_code == 200
        wait_until(lambda: simulator.tally()["states"]["running"] == 0, 40, "end of the stream at the provider")
        (call,) = [c for c in simulator.tally()["generated"] if c["billed"]]
        assert call["state"] == "left"
        assert call["billed_nano_usd"] <= limit * 1000
        assert b"[DONE]" in answer.read()
    assert settled(world, key)[0]["amount"] <= limit


def test_without_the_database_a_stream_goes_on_as_far_as_it_is_held(
    world: World, gateway: Gateway, simulator: Simulator
) -> None:
    key = world.key(10**6, first_output_tokens=400)
    with ThreadPoolExecutor(1) as pool, world.connect() as other:
        call = pool.submit(stream, gateway, key, {**PACED, "barrier": "go"})
        wait_until(lambda: simulator.waiting("go") == 1)
        # No extension gets past this lock.
        other.execute("begin")
        other.execute("select * from budget_internal.reservations for update")
        simulator.open("go")
        started = time.monotonic()
        chunks = call.result()
        assert reasons(chunks) == ["length"]
        assert 0 < len(text(chunks)) <= 400
        assert time.monotonic() - started < 10
        other.execute("rollback")
    (row,) = settled(world, key)
    assert row["flags"] == ["estimated"]
    assert world.verify() == []


def test_a_killed_gateway_leaves_what_was_held_last(world: World, simulator: Simulator) -> None:
    world.execute("select budget.set_policy(null, '{\"stale_seconds\": 10}')")
    key = world.key(10**6, first_output_tokens=50)
    gateway = Gateway(world.gateway_dsn, simulator.url)
    with gateway, ThreadPoolExecutor(1) as pool:
        call = pool.submit(stream, gateway, key, {"chunk_ms": 20, "completion_tokens": 1500})
        wait_until(lambda: int(world.value("select max(output_tokens) from budget_internal.reservations") or 0) > 200)
        gateway.kill()
        with pytest.raises(Exception, match=r".*"):
            call.result()
        held = int(world.value("select reserved_nano_usd from budget_internal.reservations"))
    with Gateway(world.gateway_dsn, simulator.url):
        (row,) = settled(world, key)
    assert row["amount_nano_usd"] == held
    assert simulator.tally()["generated"][-1]["billed_nano_usd"] <= held
