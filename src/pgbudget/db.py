"""The database, as the gateway sees it: its functions, batched. No amount is compared here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import orjson
import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.rows import AsyncRowFactory, DictRow, args_row, dict_row
from psycopg.types.json import Jsonb, set_json_dumps, set_json_loads
from psycopg.types.string import TextLoader
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from pgbudget.errors import STATUS, EnforcementUnavailable, Refused
from pgbudget.http import dumps
from pgbudget.wire import strict_json

log = logging.getLogger("pgbudget.db")

_RESERVE_TRIES = 4
#: Lock time-out and statement time-out: rolled back, nothing is left behind.
_WAITED_TOO_LONG = ("55P03", "57014")
_TIMED_OUT = (PoolTimeout, psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled)


class ReserveResult(NamedTuple):
    """``budget.reserve_result``; amounts in nano-USD. See the type's comment in the database.

    ``routes`` of a refusal: all that the request may go, where the key goes by a tokenizer and a closer bound may fit.
    """

    status: str
    code: str | None
    message: str | None
    reservation_id: str | None
    reserved_nano_usd: int | None
    granted_output_tokens: int | None
    routes: list[dict[str, str]] | None
    scope_kind: str | None
    scope_name: str | None
    budget_name: str | None
    limit_nano_usd: int | None
    spent_nano_usd: int | None
    held_nano_usd: int | None
    available_nano_usd: int | None
    resets_at: Any
    worst_case_nano_usd: int | None
    retry_after_seconds: int | None
    state: str | None
    rung: str | None = None
    rung_changes: dict[str, Any] | None = None
    cap_output_tokens: int | None = None
    warning: str | None = None
    budget_id: int | None = None
    budget_ids: list[int] | None = None


class SettleResult(NamedTuple):
    """``budget.settle_result``; amounts in nano-USD."""

    status: str
    code: str | None
    message: str | None
    reservation_id: str | None
    charged_nano_usd: int | None
    reserved_nano_usd: int | None
    overrun: bool
    source: str | None
    flags: list[str]


_RESERVE_COLUMNS = ", ".join(ReserveResult._fields)
_RESERVE = f"select {_RESERVE_COLUMNS} from budget.reserve_batch(%s) order by item"
_NEXT = f"select {_RESERVE_COLUMNS} from budget.next_attempt(%s::uuid, %s, %s, %s)"
_EXTEND = f"select {_RESERVE_COLUMNS} from budget.extend_batch(%s) order by item"
_SETTLE = f"select {', '.join(SettleResult._fields)} from budget.settle_batch(%s) order by item"
#: Holds and settles nothing.
_NOTHING = "select from budget.reserve_batch('[]') union all select from budget.settle_batch('[]')"

#: Ids are only ever told on, and most JSON is read and written for each call.
_ADAPTERS = AdaptersMap(psycopg.adapters)
_ADAPTERS.register_loader("uuid", TextLoader)
set_json_loads(orjson.loads, _ADAPTERS)
set_json_dumps(strict_json.dumps, _ADAPTERS)

Pool = AsyncConnectionPool[psycopg.AsyncConnection[DictRow]]
Row = TypeVar("Row")


async def _check_alive(connection: psycopg.AsyncConnection[DictRow]) -> None:
    """Raise :class:`psycopg.OperationalError` where the server has ended the connection while it was idle; asks it nothing."""
    # Neither waits. The first may find the server's last words, the second then finds the end.
    connection.pgconn.consume_input()
    connection.pgconn.consume_input()


async def _plan_ahead(connection: psycopg.AsyncConnection[DictRow]) -> None:
    """Let a new session plan what it will be asked most, before a call waits for it: that takes it as long as a dozen calls."""
    # Not migrated yet, or not allowed: who asks is told.
    with contextlib.suppress(psycopg.Error):
        await connection.execute(_NOTHING)


class Database:
    """A pool, used one statement a transaction, so that PgBouncer in transaction mode may stand between.

    A statement that was begun is never cancelled, only left: it is over soon, and PgBouncer 1.18, which Debian 12 has, may end
    with all its connections when it is asked to cancel one by a client that then leaves.
    """

    def __init__(self, dsn: str, *, pool_size: int = 4, timeout: float = 5) -> None:
        self._pool: Pool = AsyncConnectionPool(
            dsn,
            min_size=1,
            max_size=pool_size,
            timeout=timeout,
            open=False,
            # Short: given up, the pool tries anew for the next caller; otherwise its pauses would grow with the outage.
            reconnect_timeout=1,
            check=_check_alive,
            configure=_plan_ahead,
            kwargs={
                "autocommit": True,
                "prepare_threshold": None,
                "row_factory": dict_row,
                "connect_timeout": 5,
                "context": _ADAPTERS,
            },
        )
        self._running: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Start connecting; a database that is away is waited for in the background."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Close all connections, when what runs on them has ended; it is given a moment."""
        if self._running:
            await asyncio.wait(self._running, timeout=2)
        await self._pool.close(timeout=2)

    async def fetch(self, query: str, *parameters: object) -> list[DictRow]:
        """Run one statement; raises :class:`psycopg.Error` or :class:`PoolTimeout`. Who is cancelled leaves it running."""
        return await self._left_running(dict_row, query, parameters)

    async def _left_running(self, made: AsyncRowFactory[Row], query: str, parameters: Sequence[object]) -> list[Row]:
        statement = asyncio.create_task(self._run(made, query, parameters))
        self._running.add(statement)
        statement.add_done_callback(self._running.discard)
        return await asyncio.shield(statement)

    async def _run(self, made: AsyncRowFactory[Row], query: str, parameters: Sequence[object]) -> list[Row]:
        # Not the pool's context manager: there is never a transaction to end.
        connection = await self._pool.getconn()
        try:
            cursor = connection.cursor(row_factory=made)
            await cursor.execute(query.encode(), parameters)
            return await cursor.fetchall()
        finally:
            await self._pool.putconn(connection)

    async def _reserved(self, query: str, *parameters: object) -> list[ReserveResult]:
        return await self._left_running(args_row(ReserveResult), query, parameters)

    async def ask(self, query: str, *parameters: object) -> list[DictRow]:
        """As :meth:`fetch`, for a client: errors of class LB become refusals, all others 503 without detail."""
        try:
            return await self.fetch(query, *parameters)
        except (psycopg.Error, PoolTimeout) as error:
            raise as_client_error(error) from error

    async def ready(self) -> bool:
        """Whether the database answers and has our functions."""
        try:
            await self.fetch("select * from budget.gateway_settings()")
        except (psycopg.Error, PoolTimeout):
            return False
        return True

    async def reserve_batch(self, requests: Sequence[dict[str, Any]]) -> list[ReserveResult | Exception]:
        """One result a request. A batch that failed as a whole is sent again: its request ids make that safe.

        A batch that the database cannot take is sent one by one, so that only the one that is at fault fails.
        """
        lost: psycopg.OperationalError | None = None
        for attempt in range(1, _RESERVE_TRIES + 1):
            try:
                return [*await self._reserved(_RESERVE, Jsonb(list(requests)))]
            except psycopg.OperationalError as error:
                if len(requests) > 1 and error.sqlstate in _WAITED_TOO_LONG:
                    # One chain is stuck: the calls on other chains must not share its fate.
                    return [r for part in await asyncio.gather(*map(self._reserve_alone, requests)) for r in part]
                # A time-out is not tried again: it is all that a caller, and those behind it, should wait. What an earlier
                # try may have left behind is told by the earlier error.
                if isinstance(error, _TIMED_OUT) or attempt == _RESERVE_TRIES:
                    raise lost or error from None
                lost = lost or (error if was_lost(error) else None)
                log.warning("reserve of %d failed (%s), trying again", len(requests), type(error).__name__)
                await asyncio.sleep(random.uniform(0.01, 0.05) * attempt)  # noqa: S311
            except psycopg.Error as error:
                if len(requests) == 1:
                    return [error]
                return [result for request in requests for result in await self._reserve_alone(request)]
        raise AssertionError

    async def _reserve_alone(self, request: dict[str, Any]) -> list[ReserveResult | Exception]:
        try:
            return await self.reserve_batch([request])
        except (psycopg.Error, PoolTimeout) as error:
            return [error]

    async def next_attempt(self, reservation_id: str, usage: dict[str, Any] | None, place: int, outcome: str) -> ReserveResult:
        """See ``budget.next_attempt``. What was lost is sent again: the same place again changes nothing."""
        for attempt in range(1, _RESERVE_TRIES + 1):
            try:
                (result,) = await self._reserved(_NEXT, reservation_id, None if usage is None else Jsonb(usage), place, outcome)
                return result
            except psycopg.OperationalError as error:
                if isinstance(error, _TIMED_OUT) or attempt == _RESERVE_TRIES:
                    raise
                await asyncio.sleep(random.uniform(0.01, 0.05) * attempt)  # noqa: S311
        raise AssertionError

    async def extend_batch(self, extensions: Sequence[dict[str, Any]]) -> list[ReserveResult | Exception]:
        """See ``budget.extend_batch``. What was lost is not sent again here: whoever still needs it asks anew.

        As with :meth:`reserve_batch`, a chain that is stuck is not shared by the calls on others.
        """
        try:
            return [*await self._reserved(_EXTEND, Jsonb(list(extensions)))]
        except psycopg.OperationalError as error:
            if len(extensions) == 1 or error.sqlstate not in _WAITED_TOO_LONG:
                raise
            return [r for part in await asyncio.gather(*map(self._extend_alone, extensions)) for r in part]

    async def _extend_alone(self, extension: dict[str, Any]) -> list[ReserveResult | Exception]:
        try:
            return await self.extend_batch([extension])
        except (psycopg.Error, PoolTimeout) as error:
            return [error]

    async def settle_batch(self, reports: Sequence[dict[str, Any]]) -> list[SettleResult]:
        """One result a report; raises when the batch failed as a whole."""
        # An amount goes over as the number that it is.
        exact = any("provider_cost_usd" in report for report in reports)
        batch = Jsonb(list(reports), dumps if exact else None)
        return await self._left_running(args_row(SettleResult), _SETTLE, [batch])

    async def heartbeat(self, reservation_ids: Iterable[str]) -> dict[str, bool]:
        """Which of the reservations are still alive."""
        rows = await self.fetch("select reservation_id, alive from budget.heartbeat(%s::uuid[])", list(reservation_ids))
        return {row["reservation_id"]: row["alive"] for row in rows}


def was_lost(error: psycopg.Error) -> bool:
    """Whether the connection was lost, so that it is not known if the statement was committed."""
    return not isinstance(error, PoolTimeout) and (error.sqlstate is None or error.sqlstate.startswith(("08", "57P")))


def as_client_error(error: Exception) -> Exception:
    """What a client may know of a database error."""
    if isinstance(error, psycopg.Error) and error.sqlstate and error.sqlstate.startswith("LB"):
        hint = error.diag.message_hint or ""
        code = hint if hint in STATUS else next((c for c, (_, s) in STATUS.items() if s == error.sqlstate), "")
        if code:
            return Refused(code, error.diag.message_primary or code)
    # Where in the functions it was is said on more lines.
    log.error("database: %s %s", type(error).__name__, " ".join(str(error).split()))
    return EnforcementUnavailable(
        "budgets cannot be checked at the moment, so the request was not sent; try again shortly", retry_after=5
    )
