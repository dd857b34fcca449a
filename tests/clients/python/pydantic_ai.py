"""pydantic-ai."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput
from pydantic_ai.embeddings import Embedder
from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import DeferredToolRequests

from tests.clients.python.asked import MAX_TOKENS, PROMPT, Answer, Ask, Route, serve


class City(BaseModel):
    """A structured answer."""

    city: str


def openai(ask: Ask) -> OpenAIProvider:
    """As a user makes it; how often it tries again is a setting of the SDK beneath."""
    if ask.options:
        return OpenAIProvider(openai_client=AsyncOpenAI(base_url=f"{ask.url}/v1", api_key=ask.key, **ask.options))
    return OpenAIProvider(base_url=f"{ask.url}/v1", api_key=ask.key)


def anthropic(ask: Ask) -> AnthropicProvider:
    """Likewise."""
    if ask.options:
        return AnthropicProvider(anthropic_client=AsyncAnthropic(base_url=ask.url, api_key=ask.key, **ask.options))
    return AnthropicProvider(base_url=ask.url, api_key=ask.key)


def routes_of(model: Callable[[Ask], Model], output: type[Any] = NativeOutput) -> dict[str, Route]:
    """Its agents are the same for all."""

    def agent(ask: Ask, **options: Any) -> Agent[None, Any]:
        made: Agent[None, Any] = Agent(model(ask), model_settings={"max_tokens": MAX_TOKENS}, **options)
        return made

    def with_tool(ask: Ask) -> Agent[None, Any]:
        # A tool that is run elsewhere: the agent hands its call back.
        made = agent(ask, output_type=[str, DeferredToolRequests])

        @made.tool_plain(requires_approval=True)
        def f(text: str) -> str:
            """Do f."""
            return text

        return made

    def called(output: Any) -> Answer:
        assert isinstance(output, DeferredToolRequests)
        (call,) = output.approvals
        return {"tool": [call.tool_name, call.args_as_dict()]}

    def whole(ask: Ask) -> Answer:
        result = agent(ask).run_sync(PROMPT)
        return {"text": result.output, "usage": [result.usage.input_tokens, result.usage.output_tokens]}

    def stream(ask: Ask) -> Answer:
        async def run() -> Answer:
            async with agent(ask).run_stream(PROMPT) as result:
                texts = [text async for text in result.stream_text(delta=True, debounce_by=None)]
                return {
                    "text": "".join(texts),
                    "pieces": len(texts),
                    "usage": [result.usage.input_tokens, result.usage.output_tokens],
                }

        return asyncio.run(run())

    def tool_streamed(ask: Ask) -> Answer:
        async def run() -> Answer:
            async with with_tool(ask).run_stream(PROMPT) as result:
                return called(await result.get_output())

        return asyncio.run(run())

    def value(ask: Ask) -> Answer:
        return {"value": agent(ask, output_type=output(City)).run_sync(PROMPT).output.model_dump()}

    def leave(ask: Ask) -> Answer:
        async def run() -> None:
            async with agent(ask).run_stream(PROMPT) as result:
                async for _ in result.stream_text(delta=True, debounce_by=None):
                    break

        asyncio.run(run())
        return {}

    return {
        "whole": whole,
        "stream": stream,
        "tool": lambda ask: called(with_tool(ask).run_sync(PROMPT).output),
        "tool_streamed": tool_streamed,
        "value": value,
        "leave": leave,
    }


def embedded(ask: Ask) -> Answer:
    """An embedding."""
    result = Embedder(OpenAIEmbeddingModel(ask.model, provider=openai(ask))).embed_query_sync(PROMPT)
    return {"numbers": len(result.embeddings[0]), "usage": [result.usage.input_tokens, 0]}


if __name__ == "__main__":
    serve(
        {
            "chat": routes_of(lambda ask: OpenAIChatModel(ask.model, provider=openai(ask))),
            "responses": routes_of(lambda ask: OpenAIResponsesModel(ask.model, provider=openai(ask))),
            "embeddings": {"whole": embedded},
            "messages": routes_of(lambda ask: AnthropicModel(ask.model, provider=anthropic(ask)), PromptedOutput),
        }
    )
