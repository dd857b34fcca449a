"""The way of one request: read, bound, reserve, forward, meter, settle.

The hold comes before the first byte upstream; from the grant on, exactly one report ends it, however the call ends. A
report is queued without an await, so cancellation cannot come between.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import psycopg
from psycopg_pool import PoolTimeout
from starlette.types import Receive, Scope, Send

from pgbudget.coalescer import Coalescer, Overloaded
from pgbudget.config import Account, Config, account_prefix
from pgbudget.db import Database, ReserveResult, SettleResult, as_client_error, was_lost
from pgbudget.errors import (
    SOURCE,
    WITH_AMOUNTS,
    AlreadyCalled,
    BudgetError,
    EnforcementUnavailable,
    InvalidRequest,
    Refused,
    UpstreamFailed,
)
from pgbudget.heartbeats import Heartbeats
from pgbudget.http import ClientGone, Headers, header, read_body, respond_error, usd, virtual_key
from pgbudget.refusals import Refusals
from pgbudget.runs import run_of
from pgbudget.settlements import Settlements
from pgbudget.upstream import Broken, NotSent, Upstream, returned_headers
from pgbudget.wire import openai_chat, strict_json

log = logging.getLogger("pgbudget.calls")

_MAX_ANSWER = 256 << 20
_SIMULATOR = "simulator"
#: How long an answer waits for its own settlement, where the caller asked for it.
_COST_SECONDS = 5


class DataPlane:
    """What all calls of a process share."""

    def __init__(self, config: Config, database: Database, background: Database, upstream: Upstream) -> None:
        self.config = config
        self.upstream = upstream
        self._database = database
        self._tasks: set[asyncio.Task[None]] = set()
        self.heartbeats = Heartbeats(background)
        self.settlements = Settlements(database, self.heartbeats.remove)
        self.refusals = Refusals(background)
        self._reserve = Coalescer(database.reserve_batch, orphaned=self._release)

    async def reserve(self, request: dict[str, Any]) -> ReserveResult:
        """Ask the database for a hold; raises a :class:`BudgetError` for everything but a grant."""
        try:
            result = await self._reserve(request)
        except Overloaded:
            raise EnforcementUnavailable("too many requests wait for their budgets; try again shortly", retry_after=1) from None
        except (psycopg.Error, PoolTimeout) as error:
            if isinstance(error, psycopg.OperationalError) and was_lost(error):
                self._give_back(request)
            raise as_client_error(error) from error
        if result.status == "granted":
            return result
        code = "idempotency_conflict" if result.status == "granted_again" else result.code or "budget_config_invalid"
        self.refusals.add(request["key"], result.scope_kind, result.scope_name, code)
        # Of an Idempotency-Key that was used before: the first call, and what has become of it.
        detail: dict[str, Any] = {}
        if result.reservation_id:
            detail = {"reservation_id": str(result.reservation_id), "state": result.state}
        if result.status == "granted_again":
            raise AlreadyCalled(
                f"this Idempotency-Key was used before: reservation {result.reservation_id} is {result.state}; "
                "use a new key for a new call",
                "idempotency-key",
                detail=detail,
            )
        if code in WITH_AMOUNTS:
            detail |= _numbers(result)
        raise Refused(code, result.message or "", retry_after=result.retry_after_seconds, detail=detail)

    def _give_back(self, request: dict[str, Any]) -> None:
        """The hold may have been taken before the connection was lost, for a call that is never made."""
        task = asyncio.create_task(self._ask_and_release(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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


class ChatEndpoint:
    """``POST /v1/chat/completions``, as an ASGI app."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = scope["headers"]
        call: Call | None = None
        try:
            call = await self._admit(headers, receive)
            await call.run(receive, send)
        except ClientGone:
            log.info("client left before its request was read")
        except BudgetError as error:
            log.info("refused %d %s", error.status, error.code)
            await respond_error(send, error, call.own_headers() if call else [])

    async def _admit(self, headers: Headers, receive: Receive) -> Call:
        config = self._plane.config
        key = virtual_key(headers)
        idempotency_key = header(headers, b"idempotency-key")
        if idempotency_key is not None and not (1 <= len(idempotency_key) <= 200 and idempotency_key.isprintable()):
            raise InvalidRequest("Idempotency-Key must be 1 to 200 printable characters", "idempotency-key")
        run = run_of(headers)
        body = await read_body(headers, receive, config.max_body_bytes, config.body_seconds)
        if not body.strip():
            raise InvalidRequest('the body is empty: send a JSON object with "model" and "messages"')
        try:
            parsed = strict_json.loads(body)
        except strict_json.InvalidJSON as error:
            raise InvalidRequest(str(error)) from None
        request = openai_chat.read(parsed)
        holder = uuid.uuid4().hex
        grant = await self._plane.reserve(
            {
                "key": key,
                "model": request.model,
                "input_tokens": request.input_tokens,
                "max_output_tokens": request.cap,
                "request_id": idempotency_key or f"gw-{holder}",
                "options": {
                    "n": request.choices,
                    "features": list(request.features),
                    "body_hash": hashlib.sha256(body).hexdigest(),
                    "holder": holder,
                    "input_bounds": request.input_bounds,
                    **({"run": run} if run else {}),
                },
            }
        )
        # No await between the grant and the Call that must end it.
        return Call(self._plane, request, grant, headers)


class Call:
    """One granted call. Reports its end exactly once."""

    def __init__(self, plane: DataPlane, request: openai_chat.ChatRequest, grant: ReserveResult, headers: Headers) -> None:
        self._plane = plane
        self._request = request
        self._grant = grant
        self._headers = headers
        self._meter = openai_chat.Meter(request)
        self._report: asyncio.Future[SettleResult] | None = None
        self._outcome = ""
        self._status = 0
        self._started = time.monotonic()
        self._sent = False
        self._client_gone = False
        self._response_started = False
        self.reservation_id = str(grant.reservation_id)
        plane.heartbeats.add(self.reservation_id)

    async def run(self, receive: Receive, send: Send) -> None:
        """Forward the request and send the answer on; raises a :class:`BudgetError` when there is none to send."""
        watcher: asyncio.Task[None] | None = None
        try:
            assert self._grant.routes
            route = self._grant.routes[0]
            account = self._plane.config.account(route["account"], route["provider"])
            if account is None:
                self._end("unsent", note={"reason": "account not configured"})
                log.warning("account %s is not configured: set %s_KEY", route["account"], account_prefix(route["account"]))
                raise UpstreamFailed(f"the provider account {route['account']} has no URL or key in the gateway's environment")
            self._take_granted(route["upstream_model"])
            body = openai_chat.rewrite(
                self._request, route["provider"], route["upstream_model"], self._grant.granted_output_tokens or 0
            )
            async with asyncio.timeout(self._plane.config.total_seconds) as deadline:
                watcher = asyncio.create_task(self._watch(receive, deadline))
                # A turn for the watcher: a client that left while its hold was taken needs no call any more.
                await asyncio.sleep(0)
                if self._client_gone:
                    self._end("unsent", note={"reason": "caller gone"})
                    return
                await self._forward(account, body, route["provider"] == _SIMULATOR, send)
        except TimeoutError:
            self._conclude(broken=True)
            if not self._response_started:
                raise UpstreamFailed("the provider did not answer in time") from None
        finally:
            if watcher is not None:
                watcher.cancel()
            # Cancelled, or a fault of ours: charged by what was seen, or in full.
            self._conclude(broken=True)
            log.info(
                "call %s %s status=%d outcome=%s seconds=%.3f",
                self.reservation_id, self._request.model[:80], self._status, self._outcome,
                time.monotonic() - self._started,
            )  # fmt: skip

    def _take_granted(self, upstream_model: str) -> None:
        """The request as its rung has it. What cannot be had so is not sent: the hold does not pay for it."""
        rung, changes = self._grant.rung, self._grant.rung_changes
        if rung is not None and changes is None:
            self._end("unsent", note={"reason": "rung without its changes"})
            raise EnforcementUnavailable(f"what rung {json.dumps(rung)} changes is not known, so nothing was sent; try again")
        try:
            self._request = openai_chat.as_granted(self._request, upstream_model, changes or {})
        except openai_chat.CannotTurnOff as error:
            self._end("unsent", note={"reason": "rung cannot be applied"})
            raise Refused(
                "budget_config_invalid",
                f"rung {json.dumps(rung)} of the ladder turns {error} off, which cannot be taken out of this request; nothing "
                "was sent; leave it out yourself, or have an admin change the ladder",
            ) from None
        self._meter = openai_chat.Meter(self._request)

    async def _watch(self, receive: Receive, deadline: asyncio.Timeout) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._client_gone = True
        # A stream is read on for a while, for its real usage; an answer that comes whole is always waited for.
        if self._request.stream and not deadline.expired():
            deadline.reschedule(asyncio.get_running_loop().time() + self._plane.config.drain_seconds)

    async def _forward(self, account: Account, body: bytes, simulated: bool, send: Send) -> None:
        self._sent = True
        try:
            async with asyncio.timeout(self._plane.config.first_byte_seconds):
                response = await self._plane.upstream.post(account, openai_chat.PATH, body, self._headers, simulated)
        except NotSent:
            self._end("unsent", note={"reason": "not reached"})
            raise UpstreamFailed("the provider could not be reached; nothing was charged") from None
        except Broken:
            self._conclude(broken=True)
            raise UpstreamFailed("the provider broke the connection before it answered") from None
        try:
            self._status = response.status_code
            if self._status in (401, 403):
                # Who calls cannot mend it: it is not their key that was refused.
                log.warning("a provider answered %d to the key in %s", self._status, account.variable)
            media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if 200 <= response.status_code < 300 and media == "text/event-stream":
                await self._stream(response, send)
            else:
                await self._whole(response, send)
        finally:
            await response.aclose()

    async def _whole(self, response: httpx.Response, send: Send) -> None:
        parts = []
        size = 0
        accepted = 200 <= response.status_code < 300
        if not accepted:
            # A refusal is certain with its status; what comes after cannot change it.
            self._end("released", note={"status": str(response.status_code)})
        try:
            async for chunk in _chunks(response, self._plane.config.idle_seconds):
                size += len(chunk)
                if size > _MAX_ANSWER:
                    raise UpstreamFailed("the provider's answer is too large")
                parts.append(chunk)
        except (httpx.HTTPError, httpx.StreamError):
            self._conclude(broken=True)
            raise UpstreamFailed("the provider broke the connection in the middle of its answer") from None
        body = b"".join(parts)
        if accepted:
            if self._meter.whole(body):
                self._conclude(broken=False)
            else:
                self._end("unknown", note={"reason": "answer not readable"})
        if 300 <= response.status_code < 400:
            raise UpstreamFailed("the provider answered with a redirect, which is not followed")
        headers = [*returned_headers(response), *self.own_headers(), (b"content-length", str(len(body)).encode())]
        if not accepted:
            headers.append((SOURCE, b"upstream"))
        if self._cost_awaited() and self._report is not None:
            headers.append((b"x-pgbudget-cost-usd", str(await self._cost()).encode()))
        await self._start(send, response.status_code, headers)
        await self._body(send, body, more=False)

    async def _stream(self, response: httpx.Response, send: Send) -> None:
        await self._start(send, response.status_code, [*returned_headers(response), *self.own_headers()])
        try:
            async for chunk in _chunks(response, self._plane.config.idle_seconds):
                if out := self._meter.stream(chunk):
                    await self._body(send, out, more=True)
        except (httpx.HTTPError, httpx.StreamError):
            self._conclude(broken=True)
            # The client must see that the stream broke: the response is left unfinished, so the server cuts it.
            return
        rest = self._meter.close()
        self._conclude(broken=False)
        if self._cost_awaited():
            rest += b": pgbudget-cost-usd %s\n\n" % str(await self._cost()).encode()
        await self._body(send, rest, more=False)

    async def _start(self, send: Send, status: int, headers: Headers) -> None:
        self._response_started = True
        if not self._client_gone:
            await send({"type": "http.response.start", "status": status, "headers": headers})

    async def _body(self, send: Send, body: bytes, *, more: bool) -> None:
        if self._client_gone:
            return
        try:
            await send({"type": "http.response.body", "body": body, "more_body": more})
        except OSError:
            self._client_gone = True

    def _conclude(self, *, broken: bool) -> None:
        """Report the end of the call by what the meter saw; the first report counts."""
        meter = self._meter
        kinds = meter.kinds()
        note = dict(meter.note)
        if not self._sent:
            self._end("unsent", note=note)
        elif (
            kinds is not None
            and meter.finished
            and not meter.failed
            and (kinds.get("output", 1) or kinds.get("audio_out") or not meter.output_bytes)
        ):
            self._end("finished", usage=kinds, note=note)
        elif meter.failed and kinds is None and meter.output_bytes == 0:
            self._end("released", note=note)
        elif kinds is not None or meter.output_bytes or (not broken and meter.finished):
            self._end("estimated", usage=meter.bound(), usage_seen=kinds, note=note)
        else:
            self._end("unknown", note=note)

    def _end(self, outcome: str, **report: Any) -> None:
        if self._report is None:
            self._outcome = outcome
            self._report = self._plane.settlements.add({"reservation_id": self.reservation_id, "outcome": outcome, **report})

    def own_headers(self) -> Headers:
        """What an answer says of the call itself."""
        headers = [(b"x-pgbudget-reservation", self.reservation_id.encode())]
        if self._grant.rung is not None:
            headers.append((b"x-pgbudget-rung", self._grant.rung.encode()))
        return headers

    def _cost_awaited(self) -> bool:
        return any(name == b"x-pgbudget-cost" and value.strip() == b"wait" for name, value in self._headers)

    async def _cost(self) -> Any:
        assert self._report is not None
        try:
            result = await asyncio.wait_for(asyncio.shield(self._report), _COST_SECONDS)
        except TimeoutError:
            return "pending"
        return "pending" if result.charged_nano_usd is None else f"{usd(result.charged_nano_usd):f}"


async def _chunks(response: httpx.Response, idle_seconds: float) -> AsyncIterator[bytes]:
    """The bytes of an answer as they come, decoded if the provider compressed them unasked.

    Raises :class:`httpx.ReadTimeout` when nothing comes for ``idle_seconds``.
    """
    plain = response.headers.get("content-encoding", "identity") == "identity"
    pieces = response.aiter_raw() if plain else response.aiter_bytes()
    while True:
        try:
            async with asyncio.timeout(idle_seconds):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise httpx.ReadTimeout("the provider fell silent") from None
        yield piece


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
