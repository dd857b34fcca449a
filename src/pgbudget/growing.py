"""The hold of a stream that grows with it.

What is held is counted in output tokens over all choices; what was seen as :attr:`Meter.seen` has it. Two rules:

* Nothing is passed on that is not held.
* Ahead of what was seen is held what may have been generated meanwhile: as much as came in the last second, at least. A stream
  that cannot have that is cut.

So a provider that is told to stop has generated no more than is held, as long as it goes on no faster than before, and hears
of it within a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pgbudget.db import ReserveResult

#: How long a stream waits for its hold to grow. Meanwhile its provider goes on, which the second ahead pays for.
_WAIT_SECONDS = 1.0
#: Between two questions of a stream that waits.
_AGAIN_SECONDS = 0.25
#: How far marks lie apart; what came since the one before the last is what may be on its way.
_MARK_SECONDS = 1.0

Extend = Callable[[dict[str, Any]], Awaitable[ReserveResult]]


class GrowingHold:
    """What one call may still put out. ``cap``: tokens for each choice, up to where it may grow."""

    def __init__(self, extend: Extend, reservation_id: str, held: int, cap: int, choices: int) -> None:
        self._extend = extend
        self._reservation_id = reservation_id
        self._held = held
        self._slice = held
        self._choices = choices
        self.cap = cap
        self._asking: asyncio.Task[None] | None = None
        self.restart()

    @property
    def held(self) -> int:
        """Tokens for each choice that are held now."""
        return self._held

    def restart(self) -> None:
        """A stream begins, with nothing seen."""
        self._mark = self._mark_before = 0
        self._marked_at = time.monotonic()

    def fits(self, seen: int) -> bool:
        """Whether what was seen, and what may be on its way, is held; asks for more when that will soon not be so."""
        if self._held >= self.cap:
            return True
        now = time.monotonic()
        if now - self._marked_at > _MARK_SECONDS:
            self._mark_before, self._mark, self._marked_at = self._mark, seen, now
        needed = self._needed(seen)
        if needed + self._step(seen) // 2 > self._held and self._asking is None:
            self._ask(needed + self._step(seen))
        return needed <= self._held

    async def make_room(self, seen: int) -> bool:
        """Wait until what was seen fits; returns whether it does. Room may come from calls that end meanwhile."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            if self._asking is None:
                self._ask(self._needed(seen) + self._step(seen))
            assert self._asking is not None
            await asyncio.wait({self._asking}, timeout=left)
            if self._needed(seen) <= self._held:
                return True
            await asyncio.sleep(min(left, _AGAIN_SECONDS))
        return False

    async def fill(self) -> bool:
        """Hold the whole cap, or as much of it as there is; returns whether it is all."""
        if self._held < self.cap:
            if self._asking is not None:
                await asyncio.wait({self._asking}, timeout=_WAIT_SECONDS)
            if self._asking is None:
                self._ask(self.cap)
            assert self._asking is not None
            await asyncio.wait({self._asking}, timeout=_WAIT_SECONDS)
        return self._held >= self.cap

    def _needed(self, seen: int) -> int:
        """Tokens for each choice that must be held, rounded up; never above the cap, which the provider keeps."""
        return min(self.cap, -(-(seen + seen - self._mark_before) // self._choices))

    def _step(self, seen: int) -> int:
        """How far to go beyond what is needed: half as much again as was seen, so that long streams ask rarely."""
        return max(self._slice, seen // self._choices // 2)

    def _ask(self, tokens: int) -> None:
        self._asking = asyncio.create_task(self._ask_for(min(tokens, self.cap)))

    async def _ask_for(self, tokens: int) -> None:
        try:
            result = await self._extend({"reservation_id": self._reservation_id, "output_tokens": tokens})
        except Exception:
            # Said where it happened. What is held stays as it is.
            return
        finally:
            self._asking = None
        if result.status == "granted":
            self._held = max(self._held, result.granted_output_tokens or 0)
