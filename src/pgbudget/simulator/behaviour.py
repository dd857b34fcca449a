"""How the simulator is told to behave, by the run or by the request: one JSON object.

A piece is one server-sent event a choice that carries text; by default one token. Answers that come whole are generated in
the same pieces, so that every fault below happens to them too, with nothing on the wire yet.

prompt_tokens, completion_tokens    what is generated and billed (100, 200); the output ends at the request's cap
cached_tokens         how many of the prompt's tokens come from the cache (0)
cache_write_5m_tokens, cache_write_1h_tokens    how many are written to it, for so long (0)
web_searches          how many searches are made and billed (0); where the dialect shows them, it does
service_tier          the tier that the answer names, and that prices it
reasoning_tokens      how many of the completion's tokens are thought and not shown (0)
text                  the text of one token ("word ")
chunks                in how many pieces the output comes (one a token)
deltas                content | tool_calls | reasoning: where the text goes
padding               add so many bytes to each piece: of logprobs, or as the dialect pads
model                 the model that the answer names
ids                   ids of the answers, in turn (null: the member is null)
omit                  members that are left out of the answer, such as "id"

latency_ms            before the answer begins
first_byte_ms         between the headers of a stream and its first piece
chunk_ms              before each piece, which then is a write of its own; without it pieces share a write
background_ms         how long an answer in the background is queued before it is generated
barrier               wait until POST /simulator/barrier/<name>/open
barrier_after_chunks  wait there after so many pieces, not before the answer
ignore_cap            generate completion_tokens whatever the request's cap

status, error_body    answer with an error; generates and bills nothing
redirect              answer 307 to this address
refuse_parameters     answer 400 to a request that has one of these members

cut_after_chunks      reset the connection after so many pieces
close_after_chunks    close it there, in the middle of the answer
silence_after_chunks  send no more from there, and stay
end_after_chunks      end the answer there: no finish, no usage, no end mark; a whole answer ends in its middle
error_after_chunks    send an error (error_body if given) there, in the stream or as the whole answer, and end

no_usage              report none, whatever is asked
usage                 report this, whatever is true
usages                one report a piece of the stream (cumulative; null allowed)

raw_sse, raw_body     answer with this, to the byte. Billed as what prompt_tokens and completion_tokens say, else nothing
replay                answer with a recorded body, a file under the wire folder. Billed as the recording says
encoding              gzip | deflate | br | zstd: compress the answer, whatever is accepted; what was written can be read
split                 bytes | lines | seed:<n> | at:<n>,<n>...: how a body is cut into writes. The pieces of a raw or
                      replayed body are its writes, and chunk_ms is waited before each
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final

from pgbudget.simulator.encoding import ENCODERS

_SPLIT: Final = re.compile(r"bytes|lines|seed:[0-9]+|at:[0-9]+(,[0-9]+)*")
_DELTAS: Final = ("content", "tool_calls", "reasoning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """See the module's docstring."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    web_searches: int = 0
    service_tier: str | None = None
    reasoning_tokens: int = 0
    text: str = "word "
    chunks: int | None = None
    deltas: str = "content"
    padding: int = 0
    model: str | None = None
    ids: list[Any] | None = None
    omit: list[Any] | None = None
    latency_ms: float = 0
    first_byte_ms: float = 0
    chunk_ms: float = 0
    background_ms: float = 0
    barrier: str | None = None
    barrier_after_chunks: int | None = None
    ignore_cap: bool = False
    status: int = 200
    error_body: Any = None
    redirect: str | None = None
    refuse_parameters: list[Any] | None = None
    cut_after_chunks: int | None = None
    close_after_chunks: int | None = None
    silence_after_chunks: int | None = None
    end_after_chunks: int | None = None
    error_after_chunks: int | None = None
    no_usage: bool = False
    usage: Any = None
    usages: list[Any] | None = None
    raw_sse: str | None = None
    raw_body: str | None = None
    replay: str | None = None
    encoding: str | None = None
    split: str | None = None

    def __post_init__(self) -> None:
        for name, fits, what in _checks():
            if not fits(getattr(self, name)):
                raise ValueError(f"{name} must be {what}")
        if self.deltas not in _DELTAS:
            raise ValueError(f"deltas must be one of {', '.join(_DELTAS)}")
        if self.encoding is not None and self.encoding not in ENCODERS:
            raise ValueError(f"encoding must be one of {', '.join(ENCODERS)}")
        if self.chunks == 0:
            raise ValueError("chunks must be at least 1")
        if not 200 <= self.status <= 599:
            raise ValueError("status must be from 200 to 599")
        if self.split is not None and not _SPLIT.fullmatch(self.split):
            raise ValueError("split must be bytes, lines, seed:<n> or at:<n>,<n>...")
        if self.barrier_after_chunks is not None and self.barrier is None:
            raise ValueError("barrier_after_chunks needs a barrier")
        if self.cached_tokens > self.prompt:
            raise ValueError("cached_tokens must not be above prompt_tokens")
        if self.cached_tokens + self.cache_writes > self.prompt:
            raise ValueError("cached_tokens and cache_write_*_tokens together must not be above prompt_tokens")

    @property
    def prompt(self) -> int:
        """Tokens of the prompt."""
        return 100 if self.prompt_tokens is None else self.prompt_tokens

    @property
    def cache_writes(self) -> int:
        """Tokens of the prompt that are written to the cache."""
        return self.cache_write_5m_tokens + self.cache_write_1h_tokens

    @property
    def completion(self) -> int:
        """Tokens that a choice has if no cap ends it."""
        return 200 if self.completion_tokens is None else self.completion_tokens

    @classmethod
    def of(cls, members: dict[str, Any]) -> Behaviour:
        """Read a JSON object; raises ValueError for what is not known or does not fit."""
        if unknown := members.keys() - {f.name for f in fields(cls)}:
            raise ValueError(f"it has unknown members: {', '.join(sorted(unknown))}")
        return cls(**members)


class Behaviours:
    """The behaviour of the run, and of each request over it."""

    def __init__(self, defaults: dict[str, Any] | None = None) -> None:
        self.defaults: dict[str, Any] = {}
        self._read: dict[str, Behaviour] = {}
        self.change(defaults or {})

    def change(self, members: Any) -> None:
        """Put members over the run's; raises ValueError and changes nothing if they do not fit."""
        changed = self._over(members)
        Behaviour.of(changed)
        self.defaults, self._read = changed, {}

    def of(self, header: str) -> Behaviour:
        """The behaviour for a request with this ``x-simulate``; raises ValueError."""
        known = self._read.get(header)
        if known is None:
            known = Behaviour.of(self._over(json.loads(header) if header else {}))
            # Loads repeat a few headers; a run that has thousands need not keep them.
            if len(self._read) >= 1000:
                self._read.clear()
            self._read[header] = known
        return known

    def _over(self, members: Any) -> dict[str, Any]:
        if not isinstance(members, dict):
            raise ValueError("it must be a JSON object")
        return {**self.defaults, **members}


@cache
def _checks() -> tuple[tuple[str, Callable[[Any], bool], str], ...]:
    """The declared types of the members, as checks."""
    kinds: dict[str, tuple[Callable[[Any], bool], str]] = {
        "int": (lambda v: type(v) is int and v >= 0, "a whole number, not negative"),
        "float": (lambda v: type(v) in (int, float) and 0 <= v < float("inf"), "a number, not negative"),
        "bool": (lambda v: type(v) is bool, "true or false"),
        "str": (lambda v: isinstance(v, str), "a string"),
        "list[Any]": (lambda v: isinstance(v, list), "a list"),
    }

    def check(declared: str) -> tuple[Callable[[Any], bool], str]:
        kind, _, optional = declared.partition(" | ")
        fits, what = kinds[kind]
        return (lambda v: v is None or fits(v)) if optional else fits, what

    return tuple((f.name, *check(str(f.type))) for f in fields(Behaviour) if f.type != "Any")
