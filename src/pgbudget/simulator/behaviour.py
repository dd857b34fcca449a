"""How the simulator is told to behave, by the run or by the request: one JSON object.

prompt_tokens, completion_tokens, cached_tokens    what is generated and reported (100, 200, 0)
text                  the text of one token ("word ")
chunks                in how many pieces a stream is cut (one a token)
deltas                content | tool_calls | reasoning: where the text goes
latency_ms, chunk_ms  before the answer, between two pieces
barrier               wait until POST /simulator/barrier/<name>/open
ignore_cap            generate completion_tokens whatever the request's cap
status, error_body    answer with an error
redirect              answer 307 to this address
cut_after_chunks      reset the connection after so many pieces (also in place of a whole answer: 0)
silence_after_chunks  send no more after so many pieces, and stay
error_after_chunks    send an error event in the stream, then end
no_usage, usage       report none, or this
usages                one report a piece of the stream (cumulative; null allowed)
raw_sse, raw_body     answer with this, to the byte
replay                answer with a recorded body, a file under the wire folder
split                 bytes | lines | seed:<n>: how a raw or replayed body is cut into writes
ids                   ids of the answers, in turn (null: none)
model                 the model that the answer names
padding               add so many bytes of logprobs to each piece
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any


@dataclass(slots=True)
class Behaviour:
    """See the module's docstring."""

    prompt_tokens: int = 100
    completion_tokens: int = 200
    cached_tokens: int = 0
    text: str = "word "
    chunks: int | None = None
    deltas: str = "content"
    latency_ms: float = 0
    chunk_ms: float = 0
    barrier: str | None = None
    ignore_cap: bool = False
    status: int = 200
    error_body: Any = None
    redirect: str | None = None
    cut_after_chunks: int | None = None
    silence_after_chunks: int | None = None
    error_after_chunks: int | None = None
    no_usage: bool = False
    usage: Any = None
    usages: list[Any] | None = None
    raw_sse: str | None = None
    raw_body: str | None = None
    replay: str | None = None
    split: str | None = None
    ids: list[Any] | None = None
    model: str | None = None
    padding: int = 0

    @classmethod
    def parse(cls, text: str, defaults: dict[str, Any]) -> Behaviour:
        """Read a request's header over the run's defaults; raises ValueError for what is not known."""
        given = json.loads(text) if text else {}
        if not isinstance(given, dict):
            raise ValueError("x-simulate must be a JSON object")
        unknown = given.keys() - {f.name for f in fields(cls)}
        if unknown:
            raise ValueError(f"x-simulate has unknown members: {', '.join(sorted(unknown))}")
        return cls(**{**defaults, **given})
