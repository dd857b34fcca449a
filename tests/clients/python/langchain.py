"""LangChain: ``langchain-openai`` and ``langchain-anthropic``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
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


def completions(ask: Ask) -> OpenAI:
    """As a user makes it for texts."""
    options: dict[str, Any] = ask.options
    return OpenAI(model=ask.model, base_url=f"{ask.url}/v1", api_key=ask.key, max_tokens=MAX_TOKENS, **options)  # type: ignore[arg-type]


def completed(ask: Ask) -> Answer:
    """A completion of a text."""
    result = completions(ask).generate([PROMPT])
    usage = (result.llm_output or {})["token_usage"]
    return {"text": result.generations[0][0].text, "usage": [usage["prompt_tokens"], usage["completion_tokens"]]}


def completed_in_pieces(ask: Ask) -> Answer:
    """Likewise in pieces."""
    texts = [text for text in completions(ask).stream(PROMPT) if text]
    return {"text": "".join(texts), "pieces": len(texts)}


def embedded(ask: Ask) -> Answer:
    """An embedding. Unless told so it sends tokens, of a table that it fetches from the net."""
    options: dict[str, Any] = ask.options
    embeddings = OpenAIEmbeddings(
        model=ask.model, base_url=f"{ask.url}/v1", api_key=ask.key, check_embedding_ctx_length=False, **options  # type: ignore[arg-type]
    )  # fmt: skip
    return {"numbers": len(embeddings.embed_query(PROMPT))}


def counted(ask: Ask) -> Answer:
    """The tokens of a prompt."""
    return {"usage": [anthropic(ask).get_num_tokens_from_messages([HumanMessage(PROMPT)]), 0]}


if __name__ == "__main__":
    serve(
        {
            "chat": routes_of(openai),
            "responses": routes_of(responses),
            "messages": routes_of(anthropic),
            "completions": {"whole": completed, "stream": completed_in_pieces},
            "embeddings": {"whole": embedded},
            "count": {"whole": counted},
        }
    )
