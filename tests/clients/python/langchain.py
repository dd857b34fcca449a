"""LangChain: ``langchain-openai`` and ``langchain-anthropic``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from tests.clients.python.asked import MAX_TOKENS, PROMPT, Answer, Ask, Route, serve


class City(BaseModel):
    """A structured answer."""

    city: str


def f(text: str) -> str:
    """Does f."""
    return text


def openai(ask: Ask, **more: Any) -> BaseChatModel:
    """As a user makes it."""
    settings: dict[str, Any] = {"max_tokens": MAX_TOKENS, **more, **ask.options}
    return ChatOpenAI(model=ask.model, base_url=f"{ask.url}/v1", api_key=ask.key, **settings)  # type: ignore[arg-type]


def responses(ask: Ask) -> BaseChatModel:
    """As a user makes it for the Responses API."""
    return openai(ask, use_responses_api=True)


def anthropic(ask: Ask) -> BaseChatModel:
    """As a user makes it."""
    settings: dict[str, Any] = {"max_tokens": MAX_TOKENS, **ask.options}
    return ChatAnthropic(model=ask.model, base_url=ask.url, api_key=ask.key, **settings)  # type: ignore[call-arg,arg-type]


def answered(message: AIMessage) -> Answer:
    """What a message holds."""
    usage = message.usage_metadata
    calls = [[call["name"], call["args"]] for call in message.tool_calls]
    return {
        "text": str(message.text),
        "usage": [usage["input_tokens"], usage["output_tokens"]] if usage else None,
        "tool": calls[0] if calls else None,
    }


def routes_of(model: Callable[[Ask], BaseChatModel]) -> dict[str, Route]:
    """LangChain's own calls are the same for all."""

    def streamed(chat: Any) -> Answer:
        message: Any = None
        texts = []
        for chunk in chat.stream(PROMPT):
            message = chunk if message is None else message + chunk
            if chunk.text:
                texts.append(str(chunk.text))
        return {**answered(message), "pieces": len(texts)}

    def leave(ask: Ask) -> Answer:
        pieces = model(ask).stream(PROMPT)
        next(pieces)
        pieces.close()  # type: ignore[attr-defined]
        return {}

    def value(ask: Ask) -> Answer:
        city = model(ask).with_structured_output(City, method="json_schema").invoke(PROMPT)
        assert isinstance(city, City)
        return {"value": city.model_dump()}

    return {
        "whole": lambda ask: answered(model(ask).invoke(PROMPT)),
        "stream": lambda ask: streamed(model(ask)),
        "tool": lambda ask: answered(model(ask).bind_tools([f]).invoke(PROMPT)),
        "tool_streamed": lambda ask: streamed(model(ask).bind_tools([f])),
        "value": value,
        "leave": leave,
    }


if __name__ == "__main__":
    serve({"chat": routes_of(openai), "responses": routes_of(responses), "messages": routes_of(anthropic)})
