"""The gateway as the ``openai`` SDK meets it: only the base URL and the key change."""

from __future__ import annotations

import asyncio
import contextlib
import json
from http.client import HTTPConnection
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam, ChatCompletionToolParam

from tests.support.processes import Gateway, Simulator, wait_until
from tests.support.world import World

STANDARD = 900  # 100 input + 200 x 4 output, in micro-dollars
TEXT = "word " * 200
MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "word " * 120}]
TOOLS: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "description": "does f",
            "parameters": {"type": "object", "properties": {"x": {"type": "string"}}},
        },
    }
]


def client_of(gateway: Gateway, key: str, **options: Any) -> OpenAI:
    return OpenAI(base_url=f"{gateway.url}/v1", api_key=key, timeout=30, **options)


def simulate(**behaviour: Any) -> dict[str, str]:
    return {"x-simulate": json.dumps(behaviour)}


def spent(world: World) -> int:
    """What the world's one budget has spent, once nothing is held."""
    wait_until(lambda: world.held() == 0, what="the settlements")
    assert world.verify() == []
    return world.spent()


def text_of(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def test_a_whole_answer(world: World, gateway: Gateway) -> None:
    with client_of(gateway, world.key(10_000)) as client:
        raw = client.chat.completions.with_raw_response.create(model="t-mini", messages=MESSAGES, max_tokens=200)
        answer = raw.parse()
    assert answer.choices[0].message.content == TEXT
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (100, 200)
    assert answer.model == "t-mini"
    assert spent(world) == STANDARD
    (entry,) = world.ledger()
    assert raw.headers["x-pgbudget-reservation"] == str(entry["reservation_id"])


@pytest.mark.parametrize("asked", [False, True], ids=["usage not asked", "usage asked"])
def test_a_stream_shows_usage_to_who_asked_and_is_charged_alike(world: World, gateway: Gateway, asked: bool) -> None:
    options: Any = {"include_usage": True} if asked else openai.omit
    with (
        client_of(gateway, world.key(10_000)) as client,
        client.chat.completions.create(
            model="t-mini", messages=MESSAGES, max_tokens=200, stream=True, stream_options=options
        ) as stream,
    ):
        chunks = list(stream)
    assert text_of(chunks) == TEXT
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] in ("stop", "length")
    usages = [c.usage for c in chunks if c.usage is not None]
    assert [u.completion_tokens for u in usages] == ([200] if asked else [])
    assert all(c.choices for c in chunks) is not asked
    assert spent(world) == STANDARD


def test_the_streaming_helper_assembles_the_answer(world: World, gateway: Gateway) -> None:
    with (
        client_of(gateway, world.key(10_000)) as client,
        client.chat.completions.stream(
            model="t-mini", messages=MESSAGES, max_tokens=300, stream_options={"include_usage": True}
        ) as stream,
    ):
        answer = stream.get_final_completion()
    assert answer.choices[0].message.content == TEXT
    assert answer.usage is not None
    assert answer.usage.total_tokens == 300
    assert spent(world) == STANDARD


def test_tools_come_through_whole_and_streamed(world: World, gateway: Gateway, simulator: Simulator) -> None:
    with client_of(gateway, world.key(10_000)) as client:
        chat = client.chat.completions
        headers = simulate(deltas="tool_calls", completion_tokens=20)
        whole = chat.create(
            model="t-mini", messages=MESSAGES, tools=TOOLS, tool_choice="auto", max_tokens=200, extra_headers=headers
        )
        with chat.create(
            model="t-mini", messages=MESSAGES, tools=TOOLS, max_tokens=200, stream=True, extra_headers=headers
        ) as stream:
            deltas = [call for chunk in stream for c in chunk.choices for call in c.delta.tool_calls or []]
    assert whole.choices[0].message.tool_calls is not None
    (call,) = whole.choices[0].message.tool_calls
    assert call.type == "function"
    assert (call.function.name, call.function.arguments) == ("f", "word " * 20)
    assert [d.function.name for d in deltas if d.function and d.function.name] == ["f"]
    assert "".join(d.function.arguments or "" for d in deltas if d.function) == "word " * 20
    assert spent(world) == 2 * (100 + 20 * 4)
    assert [c["request_body"]["tools"] for c in simulator.tally()["generated"]] == [TOOLS, TOOLS]


def test_the_async_client_runs_many_at_once(world: World, gateway: Gateway) -> None:
    key = world.key(1_000_000)

    async def run() -> list[str]:
        async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, timeout=30) as client:

            async def whole() -> str:
                answer = await client.chat.completions.create(model="t-mini", messages=MESSAGES, max_tokens=200)
                return answer.choices[0].message.content or ""

            async def streamed() -> str:
                stream = await client.chat.completions.create(model="t-mini", messages=MESSAGES, max_tokens=200, stream=True)
                async with stream:
                    return text_of([chunk async for chunk in stream])

            return await asyncio.gather(*(call() for _ in range(10) for call in (whole, streamed)))

    assert asyncio.run(run()) == [TEXT] * 20
    assert spent(world) == 20 * STANDARD
    assert len(world.ledger()) == 20


def test_an_async_stream_that_is_left_is_not_free(world: World, gateway: Gateway) -> None:
    key = world.key(10_000)

    async def run() -> None:
        async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, timeout=30) as client:
            stream = await client.chat.completions.create(
                model="t-mini", messages=MESSAGES, max_tokens=200, stream=True, extra_headers=simulate(chunk_ms=5)
            )
            async with stream:
                async for _ in stream:
                    break

    asyncio.run(run())
    # Read on to its end, within the time to drain: the real usage.
    assert spent(world) == STANDARD


def test_an_idle_connection_is_kept_longer_than_the_sdk_keeps_it(gateway: Gateway) -> None:
    # httpx, and the SDK on it, use a connection again for 5 seconds: closed by then, the next request would be lost.
    connection = HTTPConnection("127.0.0.1", gateway.port, timeout=7)
    with contextlib.closing(connection):
        connection.request("GET", "/healthz")
        assert connection.getresponse().read()
        with pytest.raises(TimeoutError):
            connection.sock.recv(1)


def test_models(world: World, gateway: Gateway) -> None:
    with client_of(gateway, world.key(10_000)) as client:
        assert {m.id for m in client.models.list()} == {"t-mini", "t-pro", "c-son", "e-small"}
    with client_of(gateway, world.key(10_000, allowed_models=["t-pro"])) as client:
        assert [m.id for m in client.models.list()] == ["t-pro"]


def refusals(gateway: Gateway) -> list[str]:
    """Status and code of all refusals that the gateway logged."""
    return [line.partition("refused ")[2].strip() for line in gateway.log().splitlines() if "refused " in line]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_budget_that_is_spent_is_not_tried_again(world: World, gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    with client_of(gateway, world.key(3_000)) as client:
        assert client.max_retries == 2
        client.chat.completions.create(model="t-mini", messages=MESSAGES, max_tokens=200)
        assert spent(world) == STANDARD
        with pytest.raises(openai.APIStatusError) as caught:
            client.chat.completions.create(model="t-mini", messages=MESSAGES, max_tokens=200, stream=stream)
    error = caught.value
    assert (error.status_code, error.code, error.type) == (402, "budget_exceeded", "insufficient_quota")
    assert isinstance(error.body, dict)
    assert error.body["pgbudget"]["scope"] == "key"
    assert error.body["pgbudget"]["spent_usd"] == pytest.approx(STANDARD / 1e6)
    assert refusals(gateway) == ["402 budget_exceeded"]
    assert simulator.calls() == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_rate_limit_is_the_sdks_own_error_with_our_words(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    # Stopped 20 seconds into a minute.
    world.set_clock("2030-01-01T12:00:20Z")
    key = world.key(1_000_000)
    org, name = world.key_name(key)
    world.execute("select budget.set_rate_limit(%s, 'key', %s, 1, null)", org, name)
    with client_of(gateway, key, max_retries=0) as client:
        client.chat.completions.create(model="t-mini", messages=MESSAGES, max_tokens=200)
        with pytest.raises(openai.RateLimitError) as caught:
            client.chat.completions.create(model="t-mini", messages=MESSAGES, max_tokens=200, stream=stream)
    assert (caught.value.code, caught.value.type) == ("rate_limit_exceeded", "rate_limit_error")
    assert f'key "{name}" may make 1 requests a minute' in caught.value.message
    assert caught.value.response.headers["retry-after"] == "40"
    # What can never fit is not tried again, with all the tries the SDK has by itself.
    world.execute("select budget.set_rate_limit(%s, 'key', %s, null, 50)", org, name)
    with client_of(gateway, key) as client, pytest.raises(openai.APIStatusError, match="can never fit") as never:
        client.chat.completions.create(model="t-mini", messages=MESSAGES, max_tokens=200, stream=stream)
    assert (never.value.status_code, never.value.code) == (402, "request_over_limit")
    assert refusals(gateway) == ["429 rate_limit_exceeded", "402 request_over_limit"]
    assert simulator.calls() == 1


def test_a_wrong_key_is_an_authentication_error(gateway: Gateway, simulator: Simulator) -> None:
    with client_of(gateway, "pgb-not-a-key") as client:
        with pytest.raises(openai.AuthenticationError) as caught:
            client.chat.completions.create(model="t-mini", messages=MESSAGES)
        with pytest.raises(openai.AuthenticationError):
            client.models.list()
    assert caught.value.code == "invalid_key"
    assert "pgb-not-a-key" not in str(caught.value)
    assert refusals(gateway) == ["401 invalid_key"]
    assert simulator.calls() == 0


def test_an_unknown_model_is_a_not_found_error(world: World, gateway: Gateway, simulator: Simulator) -> None:
    with client_of(gateway, world.key(10_000)) as client, pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-of-tomorrow", messages=MESSAGES)
    assert caught.value.code == "model_not_found"
    assert refusals(gateway) == ["404 model_not_found"]
    assert simulator.calls() == 0


def test_a_bad_parameter_is_a_bad_request_error(world: World, gateway: Gateway, simulator: Simulator) -> None:
    with client_of(gateway, world.key(10_000)) as client, pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="t-mini", messages=MESSAGES, max_tokens=-1)
    assert (caught.value.code, caught.value.param) == ("invalid_request", "max_tokens")
    assert simulator.calls() == 0


def test_an_error_of_the_provider_is_the_providers_own(world: World, gateway: Gateway) -> None:
    with client_of(gateway, world.key(10_000), max_retries=0) as client, pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(model="t-mini", messages=MESSAGES, max_tokens=200, extra_headers=simulate(status=429))
    assert "simulated status 429" in str(caught.value)
    assert spent(world) == 0


def test_a_busy_budget_is_a_rate_limit_and_the_sdk_comes_back_for_it(
    world: World, gateway: Gateway, simulator: Simulator
) -> None:
    # Room for one hold of this request beside one charge, not for two holds.
    key = world.key(4_000)

    async def run() -> None:
        async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, timeout=30) as client:
            ask: dict[str, Any] = {"model": "t-mini", "messages": MESSAGES, "max_tokens": 200}
            first = asyncio.create_task(client.chat.completions.create(**ask, extra_headers=simulate(barrier="busy")))
            await asyncio.to_thread(wait_until, lambda: simulator.waiting("busy") == 1)
            with pytest.raises(openai.RateLimitError) as caught:
                await client.with_options(max_retries=0).chat.completions.create(**ask)
            assert caught.value.code == "budget_busy"
            assert 1 <= int(caught.value.response.headers["retry-after"]) <= 60
            assert refusals(gateway) == ["429 budget_busy"]
            # With the SDK's own tries: refused once more, then let in when the first has ended.
            second = asyncio.create_task(client.chat.completions.create(**ask))
            await asyncio.to_thread(wait_until, lambda: refusals(gateway) == ["429 budget_busy"] * 2)
            await asyncio.to_thread(simulator.open, "busy")
            for answer in (await first, await second):
                assert answer.choices[0].message.content == TEXT

    asyncio.run(run())
    assert spent(world) == 2 * STANDARD
    assert simulator.calls() == 2
