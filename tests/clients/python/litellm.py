"""LiteLLM's SDK. Its cost map comes from its package, not from the net: LITELLM_LOCAL_MODEL_COST_MAP."""

from __future__ import annotations

from functools import partial
from typing import Any

import litellm
from pydantic import BaseModel

from tests.clients.python.asked import MAX_TOKENS, MESSAGES, PROMPT, Answer, Ask, Route, serve
from tests.clients.python.openai import TOOLS, responded


class City(BaseModel):
    """A structured answer."""

    city: str


def complete(provider: str, ask: Ask, **more: Any) -> Any:
    """As a user calls it."""
    base = {"openai": f"{ask.url}/v1", "anthropic": ask.url}[provider]
    return litellm.completion(
        model=f"{provider}/{ask.model}", api_base=base, api_key=ask.key, messages=MESSAGES, max_tokens=MAX_TOKENS,
        **more, **ask.options,
    )  # fmt: skip


def answered(answer: Any) -> Answer:
    """What an answer holds."""
    message = answer.choices[0].message
    usage = getattr(answer, "usage", None)
    calls = [[call.function.name, call.function.arguments] for call in message.tool_calls or []]
    return {
        "text": message.content,
        "usage": [usage.prompt_tokens, usage.completion_tokens] if usage else None,
        "tool": calls[0] if calls else None,
    }


def routes_of(provider: str) -> dict[str, Route]:
    """Its calls are the same for all."""
    call = partial(complete, provider)

    def stream(ask: Ask) -> Answer:
        chunks = list(call(ask, stream=True))
        texts = [c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content]
        usages = [c.usage for c in chunks if getattr(c, "usage", None)]
        usage = [usages[-1].prompt_tokens, usages[-1].completion_tokens] if usages else None
        return {"text": "".join(texts), "pieces": len(texts), "usage": usage}

    def leave(ask: Ask) -> Answer:
        chunks = call(ask, stream=True)
        next(iter(chunks))
        chunks.close()
        return {}

    def value(ask: Ask) -> Answer:
        content = call(ask, response_format=City).choices[0].message.content
        return {"value": City.model_validate_json(content).model_dump()}

    return {
        "whole": lambda ask: answered(call(ask)),
        "stream": stream,
        "tool": lambda ask: answered(call(ask, tools=TOOLS)),
        "tool_streamed": lambda ask: answered(litellm.stream_chunk_builder(list(call(ask, tools=TOOLS, stream=True)))),
        "value": value,
        "leave": leave,
    }


def respond(ask: Ask, **more: Any) -> Any:
    """As a user calls the Responses API."""
    return litellm.responses(
        model=f"openai/{ask.model}", api_base=f"{ask.url}/v1", api_key=ask.key, input=PROMPT, max_output_tokens=MAX_TOKENS,
        **more, **ask.options,
    )  # fmt: skip


def responses_stream(ask: Ask) -> Answer:
    """An answer of the Responses API in pieces."""
    events = list(respond(ask, stream=True))
    texts = [event.delta for event in events if event.type == "response.output_text.delta"]
    return {**responded(events[-1].response), "text": "".join(texts), "pieces": len(texts)}


def text_complete(ask: Ask, **more: Any) -> Any:
    """As a user completes a text."""
    return litellm.text_completion(
        model=f"text-completion-openai/{ask.model}", api_base=f"{ask.url}/v1", api_key=ask.key, prompt=PROMPT,
        max_tokens=MAX_TOKENS, **more, **ask.options,
    )  # fmt: skip


def completed(ask: Ask) -> Answer:
    """A completion of a text."""
    answer = text_complete(ask)
    return {"text": answer.choices[0].text, "usage": [answer.usage.prompt_tokens, answer.usage.completion_tokens]}


def completed_in_pieces(ask: Ask) -> Answer:
    """Likewise in pieces."""
    texts = [chunk.choices[0].text for chunk in text_complete(ask, stream=True) if chunk.choices[0].text]
    return {"text": "".join(texts), "pieces": len(texts)}


def embedded(ask: Ask) -> Answer:
    """An embedding."""
    answer = litellm.embedding(
        model=f"openai/{ask.model}", api_base=f"{ask.url}/v1", api_key=ask.key, input=[PROMPT], **ask.options
    )
    return {"numbers": len(answer.data[0]["embedding"]), "usage": [answer.usage.prompt_tokens, 0]}


if __name__ == "__main__":
    serve(
        {
            "chat": routes_of("openai"),
            "messages": routes_of("anthropic"),
            "responses": {"whole": lambda ask: responded(respond(ask)), "stream": responses_stream},
            "completions": {"whole": completed, "stream": completed_in_pieces},
            "embeddings": {"whole": embedded},
        }
    )
