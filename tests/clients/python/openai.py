"""The ``openai`` package."""

from __future__ import annotations

import asyncio
from typing import Any

from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from tests.clients.python.asked import MAX_TOKENS, MESSAGES, PROMPT, Answer, Ask, serve

TOOLS: Any = [
    {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}},
    }
]


FLAT_TOOLS: Any = [{"type": "function", "name": "f", "parameters": TOOLS[0]["function"]["parameters"]}]


class City(BaseModel):
    """A structured answer."""

    city: str


def client(ask: Ask) -> OpenAI:
    """As a user makes it."""
    return OpenAI(base_url=f"{ask.url}/v1", api_key=ask.key, **ask.options)


def whole(ask: Ask) -> Answer:
    """An answer."""
    answer = client(ask).chat.completions.create(model=ask.model, messages=MESSAGES, max_tokens=MAX_TOKENS)
    assert answer.usage is not None
    return {
        "text": answer.choices[0].message.content,
        "usage": [answer.usage.prompt_tokens, answer.usage.completion_tokens],
    }


def stream(ask: Ask) -> Answer:
    """An answer in pieces."""
    chunks = list(client(ask).chat.completions.create(model=ask.model, messages=MESSAGES, max_tokens=MAX_TOKENS, stream=True))
    texts = [choice.delta.content for chunk in chunks for choice in chunk.choices if choice.delta.content]
    usages = [[c.usage.prompt_tokens, c.usage.completion_tokens] for c in chunks if c.usage]
    return {"text": "".join(texts), "pieces": len(texts), "usage": usages[-1] if usages else None}


def tool(ask: Ask) -> Answer:
    """A tool that is called."""
    answer = client(ask).chat.completions.create(model=ask.model, messages=MESSAGES, tools=TOOLS, max_tokens=MAX_TOKENS)
    (call,) = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    return {"tool": [call.function.name, call.function.arguments]}


def tool_streamed(ask: Ask) -> Answer:
    """A tool that is called, in pieces."""
    with client(ask).chat.completions.stream(model=ask.model, messages=MESSAGES, tools=TOOLS, max_tokens=MAX_TOKENS) as events:
        (call,) = events.get_final_completion().choices[0].message.tool_calls or []
    return {"tool": [call.function.name, call.function.arguments]}


def value(ask: Ask) -> Answer:
    """A structured answer."""
    answer = client(ask).chat.completions.parse(model=ask.model, messages=MESSAGES, response_format=City, max_tokens=MAX_TOKENS)
    parsed = answer.choices[0].message.parsed
    return {"value": parsed and parsed.model_dump()}


def leave(ask: Ask) -> Answer:
    """A stream that is left after its first piece."""
    with client(ask).chat.completions.create(model=ask.model, messages=MESSAGES, max_tokens=MAX_TOKENS, stream=True) as chunks:
        for _ in chunks:
            break
    return {}


def responses_whole(ask: Ask) -> Answer:
    """An answer of the Responses API."""
    return responded(client(ask).responses.create(model=ask.model, input=PROMPT, max_output_tokens=MAX_TOKENS))


def responses_stream(ask: Ask) -> Answer:
    """An answer in pieces."""
    with client(ask).responses.stream(model=ask.model, input=PROMPT, max_output_tokens=MAX_TOKENS) as events:
        texts = [event.delta for event in events if event.type == "response.output_text.delta"]
        return {**responded(events.get_final_response()), "text": "".join(texts), "pieces": len(texts)}


def responses_tool(ask: Ask) -> Answer:
    """A tool that is called."""
    return responded(
        client(ask).responses.create(model=ask.model, input=PROMPT, tools=FLAT_TOOLS, max_output_tokens=MAX_TOKENS)
    )


def responses_tool_streamed(ask: Ask) -> Answer:
    """A tool that is called, in pieces."""
    with client(ask).responses.stream(model=ask.model, input=PROMPT, tools=FLAT_TOOLS, max_output_tokens=MAX_TOKENS) as events:
        return responded(events.until_done().get_final_response())


def responses_value(ask: Ask) -> Answer:
    """A structured answer."""
    answer = client(ask).responses.parse(model=ask.model, input=PROMPT, text_format=City, max_output_tokens=MAX_TOKENS)
    return {"value": answer.output_parsed and answer.output_parsed.model_dump()}


def responded(response: Any) -> Answer:
    """What a response holds."""
    calls = [[item.name, item.arguments] for item in response.output if item.type == "function_call"]
    return {
        "text": response.output_text,
        "usage": [response.usage.input_tokens, response.usage.output_tokens],
        "tool": calls[0] if calls else None,
    }


def completions_whole(ask: Ask) -> Answer:
    """A completion of a text."""
    answer = client(ask).completions.create(model=ask.model, prompt=PROMPT, max_tokens=MAX_TOKENS)
    assert answer.usage is not None
    return {"text": answer.choices[0].text, "usage": [answer.usage.prompt_tokens, answer.usage.completion_tokens]}


def completions_stream(ask: Ask) -> Answer:
    """A completion in pieces."""
    chunks = list(client(ask).completions.create(model=ask.model, prompt=PROMPT, max_tokens=MAX_TOKENS, stream=True))
    texts = [choice.text for chunk in chunks for choice in chunk.choices if choice.text]
    usages = [[c.usage.prompt_tokens, c.usage.completion_tokens] for c in chunks if c.usage]
    return {"text": "".join(texts), "pieces": len(texts), "usage": usages[-1] if usages else None}


def embeddings_whole(ask: Ask) -> Answer:
    """An embedding; its numbers come as base64, which the SDK asks for."""
    answer = client(ask).embeddings.create(model=ask.model, input=PROMPT)
    return {"numbers": len(answer.data[0].embedding), "usage": [answer.usage.prompt_tokens, 0]}


def async_whole(ask: Ask) -> Answer:
    """An answer, from the asynchronous client."""

    async def run() -> Answer:
        async with AsyncOpenAI(base_url=f"{ask.url}/v1", api_key=ask.key, **ask.options) as asynchronous:
            answer = await asynchronous.chat.completions.create(model=ask.model, messages=MESSAGES, max_tokens=MAX_TOKENS)
        assert answer.usage is not None
        return {
            "text": answer.choices[0].message.content,
            "usage": [answer.usage.prompt_tokens, answer.usage.completion_tokens],
        }

    return asyncio.run(run())


def async_stream(ask: Ask) -> Answer:
    """An answer in pieces, from the asynchronous client."""

    async def run() -> Answer:
        async with (
            AsyncOpenAI(base_url=f"{ask.url}/v1", api_key=ask.key, **ask.options) as asynchronous,
            await asynchronous.chat.completions.create(
                model=ask.model, messages=MESSAGES, max_tokens=MAX_TOKENS, stream=True
            ) as chunks,
        ):
            texts = [choice.delta.content async for chunk in chunks for choice in chunk.choices if choice.delta.content]
        return {"text": "".join(texts), "pieces": len(texts)}

    return asyncio.run(run())


def async_responses_whole(ask: Ask) -> Answer:
    """An answer of the Responses API, from the asynchronous client."""

    async def run() -> Answer:
        async with AsyncOpenAI(base_url=f"{ask.url}/v1", api_key=ask.key, **ask.options) as asynchronous:
            return responded(await asynchronous.responses.create(model=ask.model, input=PROMPT, max_output_tokens=MAX_TOKENS))

    return asyncio.run(run())


def async_responses_stream(ask: Ask) -> Answer:
    """Likewise in pieces."""

    async def run() -> Answer:
        async with (
            AsyncOpenAI(base_url=f"{ask.url}/v1", api_key=ask.key, **ask.options) as asynchronous,
            asynchronous.responses.stream(model=ask.model, input=PROMPT, max_output_tokens=MAX_TOKENS) as events,
        ):
            texts = [event.delta async for event in events if event.type == "response.output_text.delta"]
            return {**responded(await events.get_final_response()), "text": "".join(texts), "pieces": len(texts)}

    return asyncio.run(run())


def async_leave(ask: Ask) -> Answer:
    """A stream of the asynchronous client that is left after its first piece."""

    async def run() -> None:
        async with (
            AsyncOpenAI(base_url=f"{ask.url}/v1", api_key=ask.key, **ask.options) as asynchronous,
            await asynchronous.chat.completions.create(
                model=ask.model, messages=MESSAGES, max_tokens=MAX_TOKENS, stream=True
            ) as chunks,
        ):
            async for _ in chunks:
                break

    asyncio.run(run())
    return {}


if __name__ == "__main__":
    serve(
        {
            "chat": {
                "whole": whole, "stream": stream, "tool": tool, "tool_streamed": tool_streamed, "value": value, "leave": leave,
            },
            "responses": {
                "whole": responses_whole, "stream": responses_stream, "tool": responses_tool,
                "tool_streamed": responses_tool_streamed, "value": responses_value,
            },
            "completions": {"whole": completions_whole, "stream": completions_stream},
            "embeddings": {"whole": embeddings_whole},
            "chat async": {"whole": async_whole, "stream": async_stream, "leave": async_leave},
            "responses async": {"whole": async_responses_whole, "stream": async_responses_stream},
        }
    )  # fmt: skip
