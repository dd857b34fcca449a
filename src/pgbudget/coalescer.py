"""Many callers, one call: while a batch is in flight the next one gathers. Nothing waits on a timer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Overloaded(Exception):
    """More callers wait than may."""


class Coalescer(Generic[Item, Result]):
    """Sends items in batches, in order of arrival; an idle one sends a batch of one at once.

    ``send`` returns one result (or error) an item, in order, or raises for all. ``orphaned`` is given what came back for
    a caller that was cancelled meanwhile: its item was sent, so somebody must answer for the result.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Item]], Awaitable[Sequence[Result | Exception]]],
        *,
        orphaned: Callable[[Item, Result], None] | None = None,
        max_batch: int = 100,
        max_waiting: int = 10_000,
    ) -> None:
        self._send = send
        self._orphaned = orphaned
        self._max_batch = max_batch
        self._max_waiting = max_waiting
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._flight: asyncio.Task[None] | None = None

    async def __call__(self, item: Item) -> Result:
        """Send one item; raises what its batch raised, or :class:`Overloaded`."""
        if len(self._waiting) >= self._max_waiting:
            raise Overloaded
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._flight is None:
            self._flight = asyncio.create_task(self._fly())
        try:
            return await future
        except asyncio.CancelledError:
            # Cancelled when its result was there already, just not fetched.
            if future.done() and not future.cancelled() and future.exception() is None and self._orphaned is not None:
                self._orphaned(item, future.result())
            raise

    async def finish(self) -> None:
        """Wait until nothing is in flight."""
        while self._flight is not None:
            await asyncio.shield(self._flight)

    async def _fly(self) -> None:
        try:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(self._max_batch, len(self._waiting)))]
                # Who left before its item was sent needs no answer.
                batch = [(item, future) for item, future in batch if not future.cancelled()]
                if batch:
                    await self._one(batch)
                # Two turns of the loop: a request that is here already, and has not been read, comes along with the next.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        finally:
            self._flight = None

    async def _one(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._send([item for item, _ in batch])
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
                    # A caller that is gone does not fetch it.
                    future.exception()
            return
        for (item, future), result in zip(batch, results, strict=True):
            if isinstance(result, Exception):
                if not future.done():
                    future.set_exception(result)
            elif not future.done():
                future.set_result(result)
            elif self._orphaned is not None:
                self._orphaned(item, result)
