"""How many calls of one key may run in this process at once, so that no key can take all of its memory and connections."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from pgbudget.errors import TooManyCalls


class KeyLimits:
    """Counts the calls of each key. ``most``: calls of a key at once; 0: any number."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: Counter[str] = Counter()

    def keys(self) -> int:
        """How many keys have calls running."""
        return len(self._running)

    @contextlib.contextmanager
    def call(self, key: str) -> Iterator[None]:
        """One call, from before its body is read until its answer is sent; raises :class:`TooManyCalls`."""
        if self._most and self._running[key] >= self._most:
            raise TooManyCalls(
                f"this key has {self._most} calls running, as many as may run at once in one gateway; try again when one ends",
                retry_after=1,
            )
        self._running[key] += 1
        try:
            yield
        finally:
            self._running[key] -= 1
            # Keys that nobody knows are counted too: none is kept when its calls have ended.
            if not self._running[key]:
                del self._running[key]
