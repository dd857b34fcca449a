"""The input tokens of a request, by the vocabulary that its model is billed by: a closer bound than its bytes.

Text goes into the prompt as it is. What is around it is the provider's: the words between messages, and tools and schemas
written anew, in JSON or as types. So all that stands in the body counts, names of fields too, and around each name and value
what JSON has there; of tools and schemas also what escapes and comment signs can add.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgbudget.wire import strict_json
from pgbudget.wire.bounds import text_of
from pgbudget.wire.dialect import ModelRequest

#: Counts the tokens of each text.
Count = Callable[[list[str]], list[int]]

# Two quotes, or a bracket and its end, and what parts it from the next.
_FRAME_TOKENS = 3
# For a line of a description: its sign of a comment, or its escape.
_ESCAPE_TOKENS = 2
# What providers write anew.
_REWRITTEN = ("tools", "functions", "response_format", "text", "output_config", "output_format")


def input_tokens(request: ModelRequest, count: Count) -> int:
    """The bound of a request's input by a tokenizer, at most that by its bytes."""
    if request.unbounded is not None:
        return request.input_tokens
    body = text_of(request.body)
    texts: list[str] = []
    framed = _gather(body, texts)
    escaped = sum(strict_json.dumps(body[name]).count(b"\\") for name in _REWRITTEN if name in body)
    counted = sum(count(texts)) + framed * _FRAME_TOKENS + escaped * _ESCAPE_TOKENS
    return request.input_tokens - request.text_tokens + min(counted, request.text_tokens)


def _gather(value: Any, texts: list[str]) -> int:
    """Add all names and values to texts; returns how many things have a frame."""
    if isinstance(value, dict):
        texts.extend(value)
        return 1 + len(value) + sum([_gather(item, texts) for item in value.values()])
    if isinstance(value, list):
        return 1 + sum([_gather(item, texts) for item in value])
    texts.append(value if isinstance(value, str) else repr(value))
    return 1
