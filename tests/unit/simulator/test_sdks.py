"""The real SDKs against the simulator itself, with nothing between them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.unit.simulator.conftest import Running

MESSAGES: Any = [{"role": "user", "content": "hi"}]
TOOL: Any = {"name": "weather", "description": "of a place", "input_schema": {"type": "object", "properties": {}}}
FUNCTION: Any = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}, "strict": False}


def told(**behaviour: Any) -> dict[str, str]:
    """Headers that tell how to behave."""
    return {"x-simulate": json.dumps(behaviour)}


@pytest.fixture
def claude(simulator: Running) -> Iterator[anthropic.Anthropic]:
    """Anthropic's client."""
    with anthropic.Anthropic(base_url=simulator.url, api_key="sk-test", max_retries=0) as client:
        yield client


@pytest.fixture
def gpt(simulator: Running) -> Iterator[openai.OpenAI]:
    """OpenAI's client."""
    with openai.OpenAI(base_url=f"{simulator.url}/v1", api_key="sk-test", max_retries=0) as client:
        yield client


def test_a_message(claude: anthropic.Anthropic) -> None:
    behaviour = {"completion_tokens": 3, "cached_tokens": 10, "cache_write_5m_tokens": 5, "cache_write_1h_tokens": 7}
    message = claude.messages.create(
        model="c-son", max_tokens=20, messages=MESSAGES, extra_headers=told(**behaviour, web_searches=1)
    )
    assert [block.type for block in message.content] == ["server_tool_use", "web_search_tool_result", "text"]
    assert (message.stop_reason, message.model, message.role) == ("end_turn", "c-son", "assistant")
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (78, 10, 12)
    assert usage.cache_creation is not None
    assert usage.cache_creation.ephemeral_5m_input_tokens == 5
    assert usage.cache_creation.ephemeral_1h_input_tokens == 7
    assert usage.server_tool_use is not None
    assert (usage.output_tokens, usage.service_tier, usage.server_tool_use.web_search_requests) == (3, "standard", 1)


@pytest.mark.parametrize(
    ("deltas", "kind", "stop"),
    [("content", "text", "end_turn"), ("tool_calls", "tool_use", "tool_use"), ("reasoning", "thinking", "end_turn")],
)
def test_a_streamed_message(claude: anthropic.Anthropic, deltas: str, kind: str, stop: str) -> None:
    headers = told(completion_tokens=4, reasoning_tokens=1, deltas=deltas, web_searches=1, padding=7)
    with claude.messages.stream(model="c-son", max_tokens=20, messages=MESSAGES, tools=[TOOL], extra_headers=headers) as stream:
        message = stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking", "server_tool_use", "web_search_tool_result", kind]
    assert message.stop_reason == stop
    assert (message.usage.input_tokens, message.usage.output_tokens) == (100, 4)
    last: Any = message.content[-1]
    text = "word " * 3
    if kind == "tool_use":
        assert (last.name, last.input) == ("weather", {"text": text})
    elif kind == "thinking":
        assert (last.thinking, last.signature) == (text, "c2ln")
    else:
        assert last.text == text


def test_a_message_that_its_cap_ends(claude: anthropic.Anthropic) -> None:
    message = claude.messages.create(model="c-son", max_tokens=5, messages=MESSAGES)
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 5)


def test_counting_tokens_is_free(simulator: Running, claude: anthropic.Anthropic) -> None:
    count = claude.messages.count_tokens(model="c-son", messages=MESSAGES, extra_headers=told(prompt_tokens=33))
    assert count.input_tokens == 33
    assert (simulator.last()["state"], simulator.last()["billed"]) == ("finished", False)
    tally = simulator.tally()
    assert (tally["requests"], tally["input_tokens"], tally["cost_nano_usd"]) == (1, 0, 0)


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (401, anthropic.AuthenticationError, "authentication_error"),
        (403, anthropic.PermissionDeniedError, "permission_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (413, anthropic.APIStatusError, "request_too_large"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (500, anthropic.InternalServerError, "api_error"),
        (529, anthropic.APIStatusError, "overloaded_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_of_messages(
    claude: anthropic.Anthropic, status: int, error: type[anthropic.APIStatusError], kind: str, stream: bool
) -> None:
    with pytest.raises(error) as caught:
        claude.messages.create(model="c-son", max_tokens=5, messages=MESSAGES, stream=stream, extra_headers=told(status=status))
    body: Any = caught.value.body
    assert (caught.value.status_code, body["type"], body["error"]["type"]) == (status, "error", kind)
    assert body["request_id"] == caught.value.request_id


def test_an_error_in_a_streamed_message(claude: anthropic.Anthropic) -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    stream = claude.messages.create(
        model="c-son", max_tokens=9, messages=MESSAGES, stream=True,
        extra_headers=told(error_after_chunks=2, error_body=overloaded),
    )  # fmt: skip
    seen = []
    with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
        seen.extend(event.type for event in stream)
    assert seen == ["message_start", "content_block_start", "content_block_delta", "content_block_delta"]


@pytest.mark.parametrize("deltas", ["content", "tool_calls", "reasoning"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_response(gpt: openai.OpenAI, deltas: str, stream: bool) -> None:
    headers = told(completion_tokens=4, reasoning_tokens=1, deltas=deltas, web_searches=1, cached_tokens=9)
    asked: dict[str, Any] = {"model": "t-mini", "input": "hi", "tools": [FUNCTION], "extra_headers": headers}
    response: Any
    if stream:
        with gpt.responses.stream(**asked) as events:
            response = events.get_final_response()
    else:
        response = gpt.responses.create(**asked)
    kind = {"content": "message", "tool_calls": "function_call", "reasoning": "reasoning"}[deltas]
    assert [item.type for item in response.output] == ["reasoning", "web_search_call", kind]
    assert (response.status, response.incomplete_details) == ("completed", None)
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (100, 4, 104)
    assert usage.input_tokens_details.cached_tokens == 9
    last, text = response.output[-1], "word " * 3
    if deltas == "content":
        assert response.output_text == text
    elif deltas == "reasoning":
        assert last.summary[0].text == text
    else:
        assert (last.name, json.loads(last.arguments)) == ("weather", {"text": text})


def test_a_response_that_its_cap_ends(gpt: openai.OpenAI) -> None:
    response = gpt.responses.create(model="t-mini", input="hi", max_output_tokens=16)
    assert response.incomplete_details is not None
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    *_, last = gpt.responses.create(model="t-mini", input="hi", max_output_tokens=16, stream=True)
    assert last.type == "response.incomplete"
    assert last.response.usage is not None
    assert last.response.usage.output_tokens == 16


def test_errors_of_responses(gpt: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="expected from 16 to 16384, got 3"):
        gpt.responses.create(model="t-mini", input="hi", max_output_tokens=3)
    with pytest.raises(openai.RateLimitError):
        gpt.responses.create(model="t-mini", input="hi", stream=True, extra_headers=told(status=429))
    with pytest.raises(openai.APIError, match="simulated error"):
        list(gpt.responses.create(model="t-mini", input="hi", stream=True, extra_headers=told(error_after_chunks=2)))
    failed = gpt.responses.create(model="t-mini", input="hi", extra_headers=told(error_after_chunks=2))
    assert failed.error is not None
    assert (failed.status, failed.error.code, failed.error.message) == ("failed", "server_error", "simulated error")


def test_completions(gpt: openai.OpenAI) -> None:
    whole = gpt.completions.create(model="t-mini", prompt=["a ", "b "], n=2, echo=True, max_tokens=2)
    assert [(c.index, c.text, c.finish_reason) for c in whole.choices] == [
        (i, text, "length") for i, text in enumerate(["a word word ", "a word word ", "b word word ", "b word word "])
    ]
    assert whole.usage is not None
    assert (whole.usage.completion_tokens, whole.usage.total_tokens) == (8, 108)
    *chunks, last = gpt.completions.create(
        model="t-mini", prompt="a ", max_tokens=2, echo=True, stream=True, stream_options={"include_usage": True}
    )
    assert "".join(c.choices[0].text for c in chunks) == "a word word "
    assert (chunks[-1].choices[0].finish_reason, last.choices) == ("length", [])
    assert last.usage is not None
    assert last.usage.completion_tokens == 2


def test_embeddings(gpt: openai.OpenAI) -> None:
    # The SDK asks for base64 and gives numbers; asked for numbers it hands on what came.
    packed = gpt.embeddings.create(model="e-small", input=["a", "b"], dimensions=8)
    plain = gpt.embeddings.create(model="e-small", input=["a", "b"], dimensions=8, encoding_format="float")
    assert [len(e.embedding) for e in packed.data] == [8, 8]
    for one, other in zip(packed.data, plain.data, strict=True):
        assert one.embedding == pytest.approx(other.embedding, rel=1e-6)
    assert packed.data[0].embedding != packed.data[1].embedding
    assert len(gpt.embeddings.create(model="e-small", input=[[1, 2], [3]]).data[1].embedding) == 1536
    assert (packed.usage.prompt_tokens, packed.usage.total_tokens) == (100, 100)
    with pytest.raises(openai.PermissionDeniedError):
        gpt.embeddings.create(model="t-mini", input="a")


def test_the_asynchronous_clients(simulator: Running) -> None:
    async def calls() -> None:
        async with anthropic.AsyncAnthropic(base_url=simulator.url, api_key="sk-test", max_retries=0) as claude:
            message = await claude.messages.create(model="c-son", max_tokens=3, messages=MESSAGES)
            assert message.usage.output_tokens == 3
            async with claude.messages.stream(model="c-son", max_tokens=3, messages=MESSAGES) as stream:
                assert await stream.get_final_text() == "word " * 3
            with pytest.raises(anthropic.RateLimitError):
                await claude.messages.create(model="c-son", max_tokens=3, messages=MESSAGES, extra_headers=told(status=429))
        async with openai.AsyncOpenAI(base_url=f"{simulator.url}/v1", api_key="sk-test", max_retries=0) as gpt:
            response = await gpt.responses.create(model="t-mini", input="hi", extra_headers=told(completion_tokens=3))
            assert response.output_text == "word " * 3
            events = await gpt.responses.create(
                model="t-mini", input="hi", stream=True, extra_headers=told(completion_tokens=3)
            )
            assert [e.type async for e in events][-1] == "response.completed"
            completion = await gpt.completions.create(model="t-mini", prompt="a", max_tokens=3)
            assert completion.choices[0].text == "word " * 3
            chunks = await gpt.completions.create(model="t-mini", prompt="a", max_tokens=3, stream=True)
            assert "".join([c.choices[0].text async for c in chunks]) == "word " * 3
            assert len((await gpt.embeddings.create(model="e-small", input="a")).data[0].embedding) == 1536

    asyncio.run(calls())


def test_anthropic_takes_a_bearer_token_too(simulator: Running) -> None:
    with anthropic.Anthropic(base_url=simulator.url, auth_token="sk-test", api_key=None, max_retries=0) as client:
        assert client.messages.create(model="c-son", max_tokens=3, messages=MESSAGES).usage.output_tokens == 3
