"""Requests that wait for room: refused as busy, on a ladder with a rung that waits.

One queue for each budget that is in the way, first come, first served: only its head asks the database, when a call of this
process on that budget has ended, or after a while, since other processes' calls end unseen. A later request of a key and model
that wait joins them, however small it is; requests of other keys that fit are no part of the queue and are let through.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pgbudget.db import ReserveResult

_MOST = 1_000
#: Between two questions of a head that nothing woke.
_LONGEST_SECONDS = 5.0

Request = dict[str, Any]


@dataclass(slots=True, eq=False)
class _Waiter:
    request: Request
    refusal: ReserveResult
    #: Whether the refusal is its own.
    asked: bool
    queue: Hashable
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class Waiting:
    """The queues of a process. ``ask`` is a reserve; ``most`` can wait, who comes then is refused at once."""

    def __init__(self, ask: Callable[[Request], Awaitable[ReserveResult]], *, most: int = _MOST) -> None:
        self._ask = ask
        self._most = most
        self._queues: dict[Hashable, deque[_Waiter]] = {}
        #: Of each key and model, in order of arrival.
        self._alike: dict[Hashable, deque[_Waiter]] = {}
        self._waiting = 0
        self._held: dict[str, tuple[Hashable, ...]] = {}
        #: How many calls of this process have been booked, and of what the last of them held something.
        self.ends = 0
        self._ended: deque[tuple[Hashable, ...]] = deque(maxlen=_MOST)

    @property
    def full(self) -> bool:
        """Whether no more can wait."""
        return self._waiting >= self._most

    def begun(self, reservation_id: str, held: Iterable[Hashable]) -> None:
        """A call holds something of these: ids of budgets, and its key."""
        self._held[reservation_id] = tuple(held)

    def holds(self, reservation_id: str, held: Hashable) -> bool:
        """Whether a call of this process holds something of this."""
        return held in self._held.get(reservation_id, ())

    def ended(self, reservation_id: str) -> None:
        """It is booked: what it held and did not use is room."""
        all_held = self._held.pop(reservation_id, ())
        self.ends += 1
        self._ended.append(all_held)
        for held in all_held:
            if queue := self._queues.get(held):
                queue[0].wake.set()

    def ended_since(self, ends: int, held: Hashable) -> bool:
        """Whether a call that held something of this has been booked since there were so many ``ends``."""
        return any(held in all_held for all_held in islice(reversed(self._ended), self.ends - ends))

    def behind(self, request: Request) -> ReserveResult | None:
        """What those were told that this request has to stand behind; None when it may ask."""
        before = None if self.full else self._alike.get(_alike(request))
        return before[0].refusal if before else None

    async def room(self, request: Request, refusal: ReserveResult, *, asked: bool) -> ReserveResult:
        """Wait for as long as the rung of a refusal says; returns the first answer that is not such a refusal, or the last.

        ``asked``: whether the refusal is this request's own, not that of :meth:`behind`. A grant has the rung that it waited
        on, unless it was granted on another. Nothing is held for who is cancelled.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + (refusal.rung_changes or {})["wait_seconds"]
        waiter = _Waiter(request, refusal, asked, None)
        alike = self._alike.setdefault(_alike(request), deque())
        alike.append(waiter)
        self._waiting += 1
        self._join(waiter)
        try:
            while (left := until - loop.time()) > 0:
                is_head = self._queues[waiter.queue][0] is waiter
                await _woken(waiter, min(left, _pause(waiter.refusal)) if is_head else left)
                if self._queues[waiter.queue][0] is not waiter:
                    continue
                result = await self._ask(request)
                if not waits(result):
                    return _named(result, waiter.refusal)
                waiter.refusal, waiter.asked = result, True
                if _queue(result, request) != waiter.queue:
                    # Another budget is in the way now.
                    self._leave(waiter)
                    self._join(waiter)
            # No answer is given that nobody has asked for.
            return waiter.refusal if waiter.asked else _named(await self._ask(request), waiter.refusal)
        finally:
            self._leave(waiter)
            self._waiting -= 1
            alike.remove(waiter)
            if not alike:
                del self._alike[_alike(request)]

    def _join(self, waiter: _Waiter) -> None:
        waiter.queue = _queue(waiter.refusal, waiter.request)
        self._queues.setdefault(waiter.queue, deque()).append(waiter)

    def _leave(self, waiter: _Waiter) -> None:
        """Leave the queue; if that makes another the head, it asks at once."""
        queue = self._queues[waiter.queue]
        was_head = queue[0] is waiter
        queue.remove(waiter)
        if not queue:
            del self._queues[waiter.queue]
        elif was_head:
            queue[0].wake.set()


def waits(result: ReserveResult) -> bool:
    """Whether this is a refusal that a ladder answers by waiting."""
    return result.status == "denied" and result.code == "budget_busy" and "wait_seconds" in (result.rung_changes or {})


def _named(result: ReserveResult, waited: ReserveResult) -> ReserveResult:
    if result.status != "granted" or result.rung is not None:
        return result
    return result._replace(rung=waited.rung, rung_changes=waited.rung_changes)


def _alike(request: Request) -> Hashable:
    return request["key"], request["model"]


def _queue(refusal: ReserveResult, request: Request) -> Hashable:
    """The budget in the way; a run that is not there yet has none, and is its key's."""
    return refusal.budget_id if refusal.budget_id is not None else (request["key"], refusal.scope_name)


def _pause(refusal: ReserveResult) -> float:
    """Until the head asks again, unless it is woken. Not the same for all, so that processes do not ask in step."""
    return min(_LONGEST_SECONDS, (refusal.retry_after_seconds or 1) * random.uniform(0.25, 0.75))  # noqa: S311


async def _woken(waiter: _Waiter, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await waiter.wake.wait()
    except TimeoutError:
        pass
    waiter.wake.clear()
