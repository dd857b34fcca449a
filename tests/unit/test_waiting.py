"""The order in which requests that wait are served, and who asks."""

from __future__ import annotations

import asyncio
from typing import Any

from pgbudget.db import ReserveResult
from pgbudget.waiting import Waiting, waits


def result(code: str | None = None, budget: int | None = 1, seconds: int = 30) -> ReserveResult:
    """A grant, or a refusal on a ladder that waits."""
    return ReserveResult(
        status="denied" if code else "granted", code=code, message=None, reservation_id=None, reserved_nano_usd=None,
        granted_output_tokens=None, routes=None, scope_kind=None, scope_name="k", budget_name=None, limit_nano_usd=None,
        spent_nano_usd=None, held_nano_usd=None, available_nano_usd=None, resets_at=None, worst_case_nano_usd=None,
        retry_after_seconds=60, state=None, budget_id=budget,
        rung="patience" if code else None, rung_changes={"wait_seconds": seconds} if code else None,
    )  # fmt: skip


BUSY = result("budget_busy")


class Desk:
    """A database with so much room."""

    def __init__(self, room: int = 0) -> None:
        self.room = room
        self.asked: list[str] = []
        self.refusal = BUSY

    async def ask(self, request: dict[str, Any]) -> ReserveResult:
        self.asked.append(request["id"])
        await asyncio.sleep(0)
        if self.room < request.get("size", 1):
            return self.refusal
        self.room -= request.get("size", 1)
        return result()


def request(name: str, key: str = "k", size: int = 1) -> dict[str, Any]:
    return {"id": name, "key": key, "model": "m", "size": size}


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def stand(waiting: Waiting, *requests: dict[str, Any]) -> list[asyncio.Task[ReserveResult]]:
    """Let them queue up in this order."""
    tasks = []
    for one in requests:
        told = waiting.behind(one)
        tasks.append(asyncio.create_task(waiting.room(one, told or BUSY, asked=told is None)))
        await turns()
    return tasks


def test_room_goes_to_the_first_however_small_the_others_are() -> None:
    async def run() -> None:
        desk = Desk()
        waiting = Waiting(desk.ask)
        waiting.begun("r", [7, 1])
        large, *small = await stand(waiting, request("large", size=3), request("a"), request("b"))
        assert desk.asked == []
        desk.room = 2
        waiting.ended("r")
        await turns()
        # It alone asked; the others would have fitted.
        assert desk.asked == ["large"]
        desk.room = 4
        waiting.begun("s", [1])
        waiting.ended("s")
        await turns()
        assert large.done()
        assert desk.asked == ["large", "large", "a", "b"]
        assert (await large).rung == "patience"
        assert small[0].done()
        assert not small[1].done()
        small[1].cancel()

    asyncio.run(run())


def test_the_end_of_a_call_on_another_budget_wakes_nobody() -> None:
    async def run() -> None:
        desk = Desk(room=1)
        waiting = Waiting(desk.ask)
        waiting.begun("other", [2])
        (task,) = await stand(waiting, request("a"))
        waiting.ended("other")
        waiting.ended("never heard of")
        await turns()
        assert desk.asked == []
        task.cancel()

    asyncio.run(run())


def test_who_leaves_makes_the_next_one_ask_and_leaves_nothing_behind() -> None:
    async def run() -> None:
        desk = Desk(room=1)
        waiting = Waiting(desk.ask)
        first, second = await stand(waiting, request("first", size=2), request("second"))
        first.cancel()
        await turns()
        assert (await second).status == "granted"
        assert waiting.behind(request("third")) is None
        assert not waiting._queues
        assert not waiting._alike
        assert not waiting._waiting

    asyncio.run(run())


def test_a_request_of_another_key_may_ask_first() -> None:
    async def run() -> None:
        waiting = Waiting(Desk().ask)
        (task,) = await stand(waiting, request("a"))
        assert waiting.behind(request("b", key="other")) is None
        assert waiting.behind(request("c")) is BUSY
        task.cancel()

    asyncio.run(run())


def test_a_refusal_that_waiting_does_not_help_ends_it() -> None:
    async def run() -> None:
        desk = Desk()
        desk.refusal = result("budget_exceeded")
        waiting = Waiting(desk.ask)
        waiting.begun("r", [1])
        (task,) = await stand(waiting, request("a"))
        waiting.ended("r")
        assert (await task).code == "budget_exceeded"

    asyncio.run(run())


def test_another_budget_in_the_way_is_another_queue() -> None:
    async def run() -> None:
        desk = Desk()
        desk.refusal = result("budget_busy", budget=2)
        waiting = Waiting(desk.ask)
        waiting.begun("r", [1])
        waiting.begun("s", [2])
        (task,) = await stand(waiting, request("a"))
        waiting.ended("r")
        await turns()
        desk.room = 1
        waiting.ended("s")
        assert (await task).status == "granted"

    asyncio.run(run())


def test_its_time_is_up_and_who_was_never_asked_for_is_asked_for_once() -> None:
    async def run() -> None:
        desk = Desk()
        desk.refusal = short = result("budget_busy", seconds=0)
        waiting = Waiting(desk.ask)
        assert await waiting.room(request("a"), short, asked=True) is short
        assert desk.asked == []
        assert waits(await waiting.room(request("b"), short, asked=False))
        assert desk.asked == ["b"]

    asyncio.run(run())


def test_no_more_wait_than_can() -> None:
    async def run() -> None:
        waiting = Waiting(Desk().ask, most=2)
        tasks = await stand(waiting, request("a"), request("b"))
        assert waiting.full
        assert waiting.behind(request("c")) is None
        for task in tasks:
            task.cancel()

    asyncio.run(run())
