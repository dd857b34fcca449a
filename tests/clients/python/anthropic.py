"""The ``anthropic`` package."""

from __future__ import annotations

import asyncio
from typing import Any

from anthropic import Anthropic, AsyncAnthropic
from pydantic import BaseModel

from tests.clients.python.asked import MAX_TOKENS, MESSAGES, Answer, Ask, serve

TOOLS: Any = [{"name": "f", "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}}}]


class City(BaseModel):
    """A structured answer."""

    city: str


def client(ask: Ask) -> Anthropic:
    """As a user makes it."""
    return Anthropic(base_url=ask.url, api_key=ask.key, **ask.options)


def answered(message: Any) -> Answer:
    """What a message holds."""
    text = "".join(block.text for block in message.content if block.type == "text")
    tools = [[block.name, block.input] for block in message.content if block.type == "tool_use"]
    return {
        "text": text,
        "usage": [message.usage.input_tokens, message.usage.output_tokens],
        "tool": tools[0] if tools else None,
    }


def whole(ask: Ask) -> Answer:
    """An answer."""
    return answered(client(ask).messages.create(model=ask.model, messages=MESSAGES, max_tokens=MAX_TOKENS))


def stream(ask: Ask) -> Answer:
    """An answer in pieces."""
    with client(ask).messages.stream(model=ask.model, messages=MESSAGES, max_tokens=MAX_TOKENS) as events:
        texts = list(events.text_stream)
        return {**answered(events.get_final_message()), "text": "".join(texts), "pieces": len(texts)}


def tool(ask: Ask) -> Answer:
    """A tool that is called."""
    return answered(client(ask).messages.create(model=ask.model, messages=MESSAGES, tools=TOOLS, max_tokens=MAX_TOKENS))


def tool_streamed(ask: Ask) -> Answer:
    """A tool that is called, in pieces."""
    with client(ask).messages.stream(model=ask.model, messages=MESSAGES, tools=TOOLS, max_tokens=MAX_TOKENS) as events:
        return answered(events.get_final_message())


def value(ask: Ask) -> Answer:
    """A structured answer."""
    message = client(ask).messages.parse(model=ask.model, messages=MESSAGES, max_tokens=MAX_TOKENS, output_format=City)
    parsed = message.parsed_output
    return {"value": parsed and parsed.model_dump()}


def leave(ask: Ask) -> Answer:
    """A stream that is left after its first piece."""
    with client(ask).messages.stream(model=ask.model, messages=MESSAGES, max_tokens=MAX_TOKENS) as events:
        for _ in events.text_stream:
            break
    return {}


def count(ask: Ask) -> Answer:
    """The tokens of a prompt."""
    return {"usage": [client(ask).messages.count_tokens(model=ask.model, messages=MESSAGES).input_tokens, 0]}


def async_whole(ask: Ask) -> Answer:
    """An answer, from the asynchronous client."""

    async def run() -> Answer:
        async with AsyncAnthropic(base_url=ask.url, api_key=ask.key, **ask.options) as asynchronous:
            return answered(await asynchronous.messages.create(model=ask.model, messages=MESSAGES, max_tokens=MAX_TOKENS))

    return asyncio.run(run())


def async_stream(ask: Ask) -> Answer:
    """An answer in pieces, from the asynchronous client."""

    async def run() -> Answer:
        async with (
            AsyncAnthropic(base_url=ask.url, api_key=ask.key, **ask.options) as asynchronous,
            asynchronous.messages.stream(model=ask.model, messages=MESSAGES, max_tokens=MAX_TOKENS) as events,
        ):
            texts = [text async for text in events.text_stream]
            return {**answered(await events.get_final_message()), "text": "".join(texts), "pieces": len(texts)}

    return asyncio.run(run())


def async_leave(ask: Ask) -> Answer:
    """A stream of the asynchronous client that is left after its first piece."""

    async def run() -> None:
        async with (
            AsyncAnthropic(base_url=ask.url, api_key=ask.key, **ask.options) as asynchronous,
            asynchronous.messages.stream(model=ask.model, messages=MESSAGES, max_tokens=MAX_TOKENS) as events,
        ):
            async for _ in events.text_stream:
                break

    asyncio.run(run())
    return {}


if __name__ == "__main__":
    serve(
        {
            "messages": {
                "whole": whole, "stream": stream, "tool": tool, "tool_streamed": tool_streamed, "value": value,
                "leave": leave,
            },
            "count": {"whole": count},
            "messages async": {"whole": async_whole, "stream": async_stream, "leave": async_leave},
        }
    )  # fmt: skip
