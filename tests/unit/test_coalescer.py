"""While a batch is in flight the next one gathers; nobody waits on a timer, nobody's result is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from pgbudget.coalescer import Coalescer, Overloaded


class Line:
    """A send that waits until it is let go."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go = asyncio.Event()

    async def send(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        await self.go.wait()
        return [item * 10 for item in items]


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_an_idle_one_sends_at_once_and_the_rest_gathers() -> None:
    async def run() -> None:
        line = Line()
        coalescer = Coalescer(line.send, max_batch=3)
        calls = [asyncio.create_task(coalescer(i)) for i in range(8)]
        await _turns()
        assert line.batches == [[0]] or line.batches == [[0, 1, 2]]
        line.go.set()
        assert await asyncio.gather(*calls) == [i * 10 for i in range(8)]
        assert [item for batch in line.batches for item in batch] == list(range(8))
        assert max(map(len, line.batches)) <= 3
        await coalescer.finish()

    asyncio.run(run())


def test_a_batch_that_fails_fails_all_in_it_and_nobody_else() -> None:
    async def run() -> None:
        async def send(items: Sequence[int]) -> list[int]:
            if 1 in items:
                raise ValueError
            return list(items)

        coalescer = Coalescer(send, max_batch=1)
        results = await asyncio.gather(*(coalescer(i) for i in range(3)), return_exceptions=True)
        assert [type(r) for r in results] == [int, ValueError, int]

    asyncio.run(run())


def test_the_result_of_a_caller_that_left_goes_to_the_orphanage_once() -> None:
    async def run() -> None:
        line = Line()
        orphans: list[tuple[int, int]] = []
        coalescer = Coalescer(line.send, orphaned=lambda item, result: orphans.append((item, result)))
        sent = asyncio.create_task(coalescer(1))
        await _turns()
        waiting = asyncio.create_task(coalescer(2))
        await _turns()
        sent.cancel()
        waiting.cancel()
        await _turns()
        line.go.set()
        await coalescer.finish()
        # The first was sent when it left; the second was not, and is not sent any more.
        assert orphans == [(1, 10)]
        assert line.batches == [[1]]

    asyncio.run(run())


def test_the_queue_is_bounded() -> None:
    async def run() -> None:
        line = Line()
        coalescer = Coalescer(line.send, max_batch=1, max_waiting=2)
        calls = [asyncio.create_task(coalescer(i)) for i in range(3)]
        await _turns()
        with pytest.raises(Overloaded):
            await asyncio.gather(*(coalescer(i) for i in range(9)))
        line.go.set()
        await asyncio.gather(*calls, return_exceptions=True)
        await coalescer.finish()

    asyncio.run(run())
