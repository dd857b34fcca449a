"""What all calls of a process share: admission in batches, the next attempt, heartbeats, settlements."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import psycopg
from psycopg_pool import PoolTimeout

from pgbudget.coalescer import Coalescer, Overloaded
from pgbudget.config import Config
from pgbudget.db import Database, ReserveResult, as_client_error, was_lost
from pgbudget.errors import WITH_AMOUNTS, AlreadyCalled, EnforcementUnavailable, Refused
from pgbudget.heartbeats import Heartbeats
from pgbudget.http import ClientGone, usd
from pgbudget.key_limits import KeyLimits
from pgbudget.refusals import Refusals
from pgbudget.settlements import Settlements
from pgbudget.tokenizer import Tokenizer
from pgbudget.upstream import Upstream
from pgbudget.waiting import Waiting, waits

log = logging.getLogger("pgbudget.data_plane")

#: The input tokens of a request on whichever of these routes it goes.
CountTokens = Callable[[list[dict[str, str]]], Awaitable[int | None]]

#: How long a refusal waits for what has ended to be booked.
_BOOKED_SECONDS = 1.0


class DataPlane:
    """What all calls of a process share."""

    def __init__(self, config: Config, database: Database, background: Database, upstream: Upstream) -> None:
        self.config = config
        self.key_limits = KeyLimits(config.max_calls_per_key)
        self.upstream = upstream
        self._database = database
        self._tasks: set[asyncio.Task[None]] = set()
        self.heartbeats = Heartbeats(background)
        self.settlements = Settlements(database, self._booked)
        self.waiting = Waiting(self._ask)
        self.refusals = Refusals(background)
        self.tokenizer = Tokenizer()
        self._reserve = Coalescer(database.reserve_batch, orphaned=self._release)
        self._extend = Coalescer(database.extend_batch)

    async def reserve(
        self, request: dict[str, Any], left: asyncio.Future[None], count_tokens: CountTokens | None = None
    ) -> ReserveResult:
        """Ask for a hold, and wait for it where the ladder says so; raises a :class:`BudgetError` for everything but a grant.

        ``left``: done when the client leaves while it waits: :class:`ClientGone`. ``count_tokens``: bounds the input closer
        than its bytes, if it can; what it finds are the ``input_tokens`` of the request from then on.
        """
        told = self.waiting.behind(request)
        result = told or await self._ask_booked(request)
        if result.routes and count_tokens and result.status == "denied":
            # By its bytes it does not fit, and its key goes by a tokenizer. Its ladder is for what does not fit then.
            del request["options"]["input_bounds"]["tokenizer"]
            tokens = await count_tokens(result.routes)
            if tokens is not None:
                request["input_tokens"] = tokens
            result = told or await self._ask_booked(request)
        if waits(result) and not self.waiting.full:
            result = await self._wait(request, result, told is None, left)
        if result.status == "granted":
            self.waiting.begun(str(result.reservation_id), (*(result.budget_ids or ()), request["key"]))
            return result
        code = "idempotency_conflict" if result.status == "granted_again" else result.code or "budget_config_invalid"
        self.refusals.add(request["key"], result.scope_kind, result.scope_name, code)
        # Of an Idempotency-Key that was used before: the first call, and what has become of it.
        detail: dict[str, Any] = {}
        if result.reservation_id:
            detail = {"reservation_id": result.reservation_id, "state": result.state}
        if result.status == "granted_again":
            raise AlreadyCalled(
                f"this Idempotency-Key was used before: reservation {result.reservation_id} is {result.state}; "
                "use a new key for a new call",
                "idempotency-key",
                detail=detail,
            )
        if code in WITH_AMOUNTS:
            detail |= _numbers(result)
        raise Refused(
            code,
            result.message or "",
            retry_after=result.retry_after_seconds,
            detail=detail,
            rung=result.rung,
            status=self.config.status(code),
        )

    async def _ask(self, request: dict[str, Any]) -> ReserveResult:
        try:
            return await self._reserve(request)
        except Overloaded:
            raise EnforcementUnavailable("too many requests wait for their budgets; try again shortly", retry_after=1) from None
        except (psycopg.Error, PoolTimeout) as error:
            if isinstance(error, psycopg.OperationalError) and was_lost(error):
                self._give_back(request)
            raise as_client_error(error) from error

    async def _ask_booked(self, request: dict[str, Any]) -> ReserveResult:
        """Ask, and once more where what was in the way had ended and was only not booked yet."""
        before = self.waiting.ends
        result = await self._ask(request)
        return await self._ask(request) if await self._freed(request, result, before) else result

    async def _freed(self, request: dict[str, Any], refusal: ReserveResult, before: int) -> bool:
        """Whether what was in the way has got room by calls that had ended before, and only since are booked."""
        if refusal.code not in ("budget_busy", "tokens_limit_exceeded"):
            return False
        budget_id = refusal.budget_id
        # Tokens of a minute are no budget's; and of a run that it made itself, a call is not told the budget.
        held = request["key"] if budget_id is None or refusal.scope_kind == "run" else budget_id
        queued = await self.settlements.booked(lambda call: self.waiting.holds(call, held), _BOOKED_SECONDS)
        # Or was booked while the refusal was on its way.
        return queued or self.waiting.ended_since(before, held)

    async def _wait(
        self, request: dict[str, Any], refusal: ReserveResult, asked: bool, left: asyncio.Future[None]
    ) -> ReserveResult:
        log.info("a request waits for room (%s)", refusal.scope_kind)
        room = asyncio.ensure_future(self.waiting.room(request, refusal, asked=asked))
        try:
            await asyncio.wait((room, left), return_when=asyncio.FIRST_COMPLETED)
            if not room.done():
                raise ClientGone
            return room.result()
        except (ClientGone, asyncio.CancelledError):
            # It may have been granted at this very moment.
            room.add_done_callback(
                lambda done: None if done.cancelled() or done.exception() else self._release(request, done.result())
            )
            room.cancel()
            raise

    def _booked(self, reservation_id: str) -> None:
        self.heartbeats.remove(reservation_id)
        self.waiting.ended(reservation_id)

    async def next_attempt(self, reservation_id: str, usage: dict[str, Any] | None, place: int, outcome: str) -> ReserveResult:
        """Charge the attempt that failed and hold for the next route, at ``place`` of the plan."""
        try:
            return await self._database.next_attempt(reservation_id, usage, place, outcome)
        except (psycopg.Error, PoolTimeout) as error:
            raise as_client_error(error) from error

    async def keep_answer(self, reservation_id: str, answer_id: str, route: dict[str, str]) -> None:
        """Remember whose an answer in the background is, and where it is made, for all gateways.

        Raises :class:`psycopg.Error` or :class:`PoolTimeout`.
        """
        await self._database.fetch(
            "select budget.keep_answer(%s::uuid, %s, %s, %s)", reservation_id, answer_id, route["provider"], route["account"]
        )

    async def extend(self, extension: dict[str, Any]) -> ReserveResult:
        """Let a hold grow (see ``budget.extend_batch``), together with all others that want to now; denied is a result."""
        try:
            return await self._extend(extension)
        except (Overloaded, psycopg.Error, PoolTimeout) as error:
            log.warning("hold of %s does not grow (%s)", extension["reservation_id"], type(error).__name__)
            raise

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that no request waits for."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _give_back(self, request: dict[str, Any]) -> None:
        """The hold may have been taken before the connection was lost, for a call that is never made."""
        self.spawn(self._ask_and_release(request))

    async def _ask_and_release(self, request: dict[str, Any]) -> None:
        wait = 0.5
        while True:
            await asyncio.sleep(wait)
            wait = min(wait * 2, 10)
            with contextlib.suppress(psycopg.OperationalError):
                # Its own request id and holder: the hold that was taken, or one that is given back at once.
                (result,) = await self._database.reserve_batch([request])
                if isinstance(result, ReserveResult):
                    self._release(request, result)
                return

    def _release(self, request: dict[str, Any], result: ReserveResult) -> None:
        """The caller was gone when its hold was granted: nothing was sent, so nothing was spent."""
        if result.status == "granted":
            self.settlements.add(
                {"reservation_id": str(result.reservation_id), "outcome": "unsent", "note": {"reason": "caller gone"}}
            )


def _numbers(result: ReserveResult) -> dict[str, Any]:
    found = {
        "scope": result.scope_kind,
        "name": result.scope_name,
        "budget": result.budget_name,
        "limit_usd": usd(result.limit_nano_usd),
        "spent_usd": usd(result.spent_nano_usd),
        "reserved_usd": usd(result.held_nano_usd),
        "available_usd": usd(result.available_nano_usd),
        "worst_case_usd": usd(result.worst_case_nano_usd),
        "resets_at": result.resets_at,
    }
    return {name: value for name, value in found.items() if value is not None}
