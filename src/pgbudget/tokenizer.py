"""Counts the input of requests whose bytes do not fit, for keys that go by a tokenizer: in a thread, within limits.

What is not counted is bounded by its bytes: without the library, of a model whose vocabulary is not known, too large, or when
too much is to be counted already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

from pgbudget.wire.dialect import ModelRequest
from pgbudget.wire.providers import provider
from pgbudget.wire.tokens import input_tokens

try:
    from toktok import batch_count as batch_count
except ImportError:  # the extra ``tokenizer`` is not installed
    batch_count = None

log = logging.getLogger("pgbudget.tokenizer")

#: More bytes of text than the largest context window of these models has room for.
_MOST_BYTES = 8 << 20
_MOST_WAITING = 64
_SECONDS = 2.0


class Tokenizer:
    """One for a process: what is counted stands in line for one thread, which leaves the others to the calls."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "tokenizer")
        self._waiting = 0
        self._told = False

    async def count(self, request: ModelRequest, routes: Iterable[dict[str, str]]) -> int | None:
        """A bound of the input that is closer than its bytes, on whichever of these routes it goes; None where there is none.

        ``routes``: with ``provider`` and ``upstream_model``.
        """
        names = {provider(route["provider"]).tokenizer(route["upstream_model"]) for route in routes}
        known = [name for name in names if name is not None]
        if len(known) < len(names) or request.unbounded is not None or request.text_tokens > _MOST_BYTES:
            return None
        if batch_count is None:
            self._tell_once()
            return None
        if self._waiting >= _MOST_WAITING:
            return None
        self._waiting += 1
        in_thread = partial(asyncio.get_running_loop().run_in_executor, self._thread)
        try:
            # Once a process, half a second of work and 60 MB each: no part of the time that a count may take.
            for name in known:
                await in_thread(_load, name)
            async with asyncio.timeout(_SECONDS):
                tokens = await in_thread(_largest, request, known)
        except TimeoutError:
            log.warning("the input of a request was not counted within %s seconds", _SECONDS)
            return None
        finally:
            self._waiting -= 1
        return tokens if tokens < request.input_tokens else None

    def _tell_once(self) -> None:
        if not self._told:
            log.warning("a key goes by a tokenizer and is held by bytes: install pgbudget[tokenizer]")
        self._told = True


@cache
def _load(vocabulary: str) -> None:
    batch_count([""], encoding=vocabulary, threads=1)


def _largest(request: ModelRequest, names: list[str]) -> int:
    return max(input_tokens(request, partial(batch_count, encoding=name, threads=1)) for name in names)
