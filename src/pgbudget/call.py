"""The life of one granted call: forward, meter, settle; on failure the next route of its plan.

The hold stands before the first byte goes upstream; from the grant on, exactly one report ends it, however the call ends. A
report is queued without an await, so cancellation cannot come between.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import httpx
import psycopg
from psycopg_pool import PoolTimeout
from starlette.types import Receive, Send

from pgbudget.config import Account, account_prefix
from pgbudget.data_plane import DataPlane
from pgbudget.db import ReserveResult, SettleResult
from pgbudget.errors import SOURCE, BudgetError, EnforcementUnavailable, InvalidRequest, Refused, UpstreamFailed
from pgbudget.growing import GrowingHold
from pgbudget.http import Headers, client_left, usd
from pgbudget.upstream import Broken, NotSent, returned_headers
from pgbudget.wire.dialect import CannotTurnOff, Dialect, Meter, ModelRequest
from pgbudget.wire.providers import Provider, provider

log = logging.getLogger("pgbudget.calls")

_MAX_ANSWER = 256 << 20
_SIMULATOR = "simulator"
#: For so long a client may keep a growing stream from being read on; then all that may come meanwhile must be held.
_STALL_SECONDS = 1.0
#: How long an answer waits for its own settlement, where the caller asked for it.
_COST_SECONDS = 5
#: How long an answer in the background waits until all gateways know of it.
_KEPT_SECONDS = 5
#: How often it is looked at, at the least.
_LOOK_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Ending:
    """What is reported of an attempt: the outcome, and what ``budget.settle_batch`` takes beside it."""

    outcome: str
    report: dict[str, Any]


class AttemptFailed(Exception):
    """An attempt that another route may make good: nothing of an answer has gone to the client.

    ``ending``: what is to be charged for it. ``error``: what the client gets if there is no other; None: ``response``, which
    is the provider's own.
    """

    def __init__(self, ending: Ending, error: BudgetError | None, response: httpx.Response | None = None) -> None:
        super().__init__(ending.outcome)
        self.ending = ending
        self.error = error
        self.response = response

    @property
    def final(self) -> bool:
        """Whether the same route cannot be tried again under the same hold, or will not do better."""
        refused = self.response is not None and self.response.status_code in (401, 403, 404)
        return refused or self.ending.outcome not in ("released", "unsent")


class UsageNotAsked(Exception):
    """The provider refused the request because of the question for usage that the gateway put in."""


class Call:
    """One granted call. Reports its end exactly once."""

    def __init__(
        self, plane: DataPlane, dialect: Dialect, request: ModelRequest, grant: ReserveResult, headers: Headers
    ) -> None:
        self._plane = plane
        self._dialect = dialect
        self._request = request
        self._grant = grant
        self._headers = headers
        self._meter = dialect.meter(request, provider(""))
        self._report: asyncio.Future[SettleResult] | None = None
        self._outcome = ""
        self._status = 0
        self._started = time.monotonic()
        #: Whether the attempt that runs may have reached its provider, and whether an earlier one has.
        self._sent = False
        self._attempted = False
        #: How the last attempt has ended, while it is not known if another one follows.
        self._pending: Ending | None = None
        #: Whether usage is asked for in words that are the gateway's own, and not every provider's.
        self._asks_usage = False
        self._route: dict[str, str] = {}
        #: Whether the answer is made in the background, and its end is waited for apart from the request.
        self._followed = False
        self._client_gone = False
        self._response_started = False
        self.reservation_id = str(grant.reservation_id)
        held, cap = grant.granted_output_tokens or 0, grant.cap_output_tokens
        self._growing: GrowingHold | None = None
        #: Whether the attempt that runs may go beyond what is held, by growing.
        self._grows = False
        if cap is not None and held < cap:
            self._growing = GrowingHold(plane.extend, self.reservation_id, held, cap, request.choices)
        plane.heartbeats.add(self.reservation_id)

    async def run(self, receive: Receive, send: Send) -> None:
        """Forward the request and send the answer on; raises a :class:`BudgetError` when there is none to send."""
        watcher: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(self._plane.config.total_seconds) as deadline:
                watcher = asyncio.create_task(self._watch(receive, deadline))
                # A turn for the watcher: a client that left while its hold was taken needs no call any more.
                await asyncio.sleep(0)
                await self._attempts(send)
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

    async def _attempts(self, send: Send) -> None:
        """Go through the plan until a route answers. Routes that do not speak the dialect are passed over."""
        assert self._grant.routes
        plan = [
            (place, route)
            for place, route in enumerate(self._grant.routes, 1)
            if self._dialect.api in provider(route["provider"]).apis
        ]
        if not plan:
            self._end(Ending("unsent", {"note": {"reason": "no route speaks this API"}}))
            raise InvalidRequest(
                f"{self._request.model} is not served on /v1{self._dialect.path}: the providers it is routed to do not have it",
                "model",
            )
        asked = self._request
        failed: AttemptFailed | None = None
        for place, route in plan:
            if self._client_gone or (place > 1 and not await self._next(place, failed)):
                break
            try:
                await self._tries(asked, route, send)
                return
            except AttemptFailed as failure:
                log.info("call %s: account %s failed (%s)", self.reservation_id, route["account"], failure.ending.outcome)
                failed = failure
                self._pending = failure.ending
        if failed is None:
            self._end(Ending("unsent", {"note": {"reason": "caller gone"}}))
            return
        self._end(failed.ending)
        if failed.response is not None:
            await self._pass_on(failed.response, send)
        if failed.error is not None:
            raise failed.error

    async def _next(self, place: int, failed: AttemptFailed | None) -> bool:
        """Have the attempt that failed charged and the next one held; returns whether it may be made."""
        ending = failed.ending if failed else Ending("unsent", {})
        outcome = "released" if ending.outcome == "unsent" else ending.outcome
        try:
            result = await self._plane.next_attempt(self.reservation_id, ending.report.get("usage"), place, outcome)
        except BudgetError as error:
            log.warning("call %s: no next attempt (%s)", self.reservation_id, error.code)
            return False
        finally:
            # It may have been charged, whatever we know of it.
            self._attempted |= outcome != "released"
        if result.status != "granted":
            log.info("call %s: no next attempt (%s)", self.reservation_id, result.code)
            return False
        if failed is not None and failed.response is not None:
            await failed.response.aclose()
        self._sent = False
        self._pending = None
        return True

    async def _tries(self, asked: ModelRequest, route: dict[str, str], send: Send) -> None:
        """Call one route, again if the setting says so and nothing can have been spent; raises :class:`AttemptFailed`."""
        for wait in (*(0.25 * 2**n for n in range(self._plane.config.upstream_retries)), None):
            try:
                await self._attempt(asked, route, send)
                return
            except AttemptFailed as failure:
                if wait is None or failure.final or self._client_gone:
                    raise
                if failure.response is not None:
                    await failure.response.aclose()
            self._sent = False
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311

    async def _attempt(self, asked: ModelRequest, route: dict[str, str], send: Send) -> None:
        """Call one route and send its answer on; raises :class:`AttemptFailed` while another may do better."""
        account = self._plane.config.account(route["account"], route["provider"])
        if account is None:
            log.warning("account %s is not configured: set %s_KEY", route["account"], account_prefix(route["account"]))
            raise AttemptFailed(
                Ending("unsent", {"note": {"reason": "account not configured"}}),
                UpstreamFailed(f"the provider account {route['account']} has no URL or key in the gateway's environment"),
            )
        ways = provider(route["provider"])
        self._route = route
        self._request = self._as_granted(asked, route["upstream_model"])
        self._meter = self._dialect.meter(self._request, ways)
        cap = await self._cap(ways, route["upstream_model"])
        body = self._rewritten(ways, route, cap)
        # Who is asked for usage by the client itself is not asked again without.
        self._asks_usage = self._request.stream and ways.stream_options and self._request.body.get("stream_options") is None
        try:
            await self._post(account, route, ways, body, send)
        except UsageNotAsked:
            # A refusal costs nothing, so the hold is still whole.
            log.info("call %s: account %s takes no stream_options", self.reservation_id, route["account"])
            self._asks_usage, self._pending = False, None
            body = self._rewritten(replace(ways, stream_options=False), route, cap)
            await self._post(account, route, ways, body, send)

    def _rewritten(self, ways: Provider, route: dict[str, str], cap: int) -> bytes:
        return self._dialect.rewrite(self._request, ways, route["upstream_model"], cap)

    async def _post(self, account: Account, route: dict[str, str], ways: Provider, body: bytes, send: Send) -> None:
        """Send a body and pass the answer on; raises as :meth:`_attempt`, or :class:`UsageNotAsked`."""
        if self._client_gone:
            self._end(Ending("unsent", {"note": {"reason": "caller gone"}}))
            return
        self._sent = True
        try:
            response = await self._plane.upstream.post(
                account, ways, self._dialect.path, body, self._headers, route["provider"] == _SIMULATOR
            )
        except NotSent as error:
            self._sent = False
            raise AttemptFailed(
                Ending("unsent", {"note": {"reason": "not reached"}}),
                UpstreamFailed(f"{error}; nothing was charged", retry_after=error.retry_after),
            ) from None
        except Broken as error:
            raise AttemptFailed(self._ending(broken=True), UpstreamFailed(str(error))) from None
        self._status = response.status_code
        if self._status in (401, 403):
            # Who calls cannot mend it: it is not their key that was refused.
            log.warning("a provider answered %d to the key in %s", self._status, account.variable)
        if _elsewhere(self._status):
            # A refusal is certain with its status; what comes after cannot change it.
            raise AttemptFailed(Ending("released", {"note": {"status": str(self._status)}}), None, response)
        await self._pass_on(response, send)

    async def _cap(self, ways: Provider, upstream_model: str) -> int:
        """The output cap that is forwarded: what is held; or all that may be, where it can be seen how far it must grow."""
        growing = self._growing
        if growing is None:
            return self._grant.granted_output_tokens or 0
        self._grows = ways.shows_all(upstream_model)
        if self._grows:
            growing.restart()
            return growing.cap
        await growing.fill()
        return growing.held

    def _as_granted(self, request: ModelRequest, upstream_model: str) -> ModelRequest:
        """The request as its rung has it. What cannot be had so is not sent: the hold does not pay for it."""
        rung, changes = self._grant.rung, self._grant.rung_changes
        if rung is not None and changes is None:
            self._end(Ending("unsent", {"note": {"reason": "rung without its changes"}}))
            raise EnforcementUnavailable(f"what rung {json.dumps(rung)} changes is not known, so nothing was sent; try again")
        try:
            return self._dialect.as_granted(request, upstream_model, changes or {})
        except CannotTurnOff as error:
            self._end(Ending("unsent", {"note": {"reason": "rung cannot be applied"}}))
            raise Refused(
                "budget_config_invalid",
                f"rung {json.dumps(rung)} of the ladder turns {error} off, which cannot be taken out of this request; nothing "
                "was sent; leave it out yourself, or have an admin change the ladder",
            ) from None

    async def _watch(self, receive: Receive, deadline: asyncio.Timeout) -> None:
        await client_left(receive)
        self._client_gone = True
        # A stream is read on for a while, for its real usage; an answer that comes whole is always waited for.
        if self._request.stream and not deadline.expired():
            deadline.reschedule(asyncio.get_running_loop().time() + self._plane.config.drain_seconds)

    async def _pass_on(self, response: httpx.Response, send: Send) -> None:
        try:
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
            # As in _attempt.
            self._pending = Ending("released", {"note": {"status": str(response.status_code)}})
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
        if accepted and not self._meter.whole(body):
            if self._meter.goes_on is not None:
                await self._follow(self._meter.goes_on)
            else:
                self._end(Ending("unknown", {"note": {"reason": "answer not readable"}}))
        elif response.status_code in (400, 422) and b"stream_options" in body and self._asks_usage:
            raise UsageNotAsked
        self._conclude(broken=False)
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
        growing = self._growing if self._grows else None
        try:
            async for chunk in _chunks(response, self._plane.config.idle_seconds):
                if growing is not None:
                    if not await self._grow(growing, response, chunk, send):
                        return
                elif out := self._meter.stream(chunk):
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

    async def _grow(self, growing: GrowingHold, response: httpx.Response, chunk: bytes, send: Send) -> bool:
        """Pass on what is held of a chunk, event by event; returns false when the stream was cut there."""
        meter = self._meter
        out: list[bytes] = []
        pieces = meter.pieces(chunk)
        for piece in pieces:
            # What has ended on its own has nothing on its way.
            if self._ended() or growing.fits(meter.output_bytes):
                out.append(piece)
                continue
            if out:
                await self._body(send, b"".join(out), more=True)
                out.clear()
            if await growing.make_room(meter.output_bytes):
                out.append(piece)
                continue
            end = meter.cut()
            # What has come is charged, passed on or not.
            rest = [piece, *pieces]
            if not self._ended():
                await self._cut(response, end, "no room to grow", send)
                return False
            out = rest
        if not out:
            return True
        sending = asyncio.ensure_future(self._body(send, b"".join(out), more=True))
        try:
            await asyncio.wait({sending}, timeout=_STALL_SECONDS)
            if not sending.done() and not await growing.fill():
                # The client does not read, and its provider does not wait for it.
                await self._cut(response, meter.cut(), "client stalled", send, sending)
                return False
            await sending
        finally:
            sending.cancel()
        return True

    def _ended(self) -> bool:
        """Whether the provider has said that nothing more comes."""
        return self._meter.finished and self._request.choices == 1

    async def _cut(
        self, response: httpx.Response, end: bytes, why: str, send: Send, sending: asyncio.Future[None] | None = None
    ) -> None:
        """End the stream in the dialect's words, but first at its provider: what that goes on to generate is not held."""
        await response.aclose()
        self._meter.note["reason"] = f"cut: {why}"
        self._conclude(broken=True)
        if sending is not None:
            await sending
        await self._body(send, end, more=False)

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
        if self._report is None and not self._followed:
            self._end(self._pending or self._ending(broken=broken))

    async def _follow(self, answer_id: str) -> None:
        """The answer is made in the background: from here on its end is waited for, whether or not the client stays."""
        kept = asyncio.Event()
        self._followed = True
        self._outcome = "background"
        self._plane.spawn(self._until_ended(answer_id, kept))
        # Who is told of the answer may ask for it.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(kept.wait(), _KEPT_SECONDS)

    async def _until_ended(self, answer_id: str, kept: asyncio.Event) -> None:
        """Look at an answer in the background until it has ended, and report it.

        Cancelled when the gateway stops: the hold then goes stale and is charged, and a later look at the answer corrects it.
        """
        config = self._plane.config
        deadline = time.monotonic() + config.background_seconds
        wait = 0.25
        while time.monotonic() < deadline:
            if not kept.is_set():
                try:
                    await self._plane.keep_answer(self.reservation_id, answer_id, self._route)
                    kept.set()
                except (psycopg.Error, PoolTimeout) as error:
                    log.warning("call %s: its answer is not kept yet (%s)", self.reservation_id, type(error).__name__)
            await asyncio.sleep(wait)
            wait = min(wait * 1.5, _LOOK_SECONDS)
            try:
                status, body = await look(self._plane, "GET", self._route, self._dialect, answer_id)
            except UpstreamFailed:
                continue
            meter = self._dialect.meter(self._request, provider(self._route["provider"]))
            if status == 404:
                self._end(Ending("unknown", {"note": {"reason": "answer deleted before its end"}}))
                return
            if 200 <= status < 300 and not meter.whole(body) and meter.goes_on is not None:
                continue
            if 200 <= status < 300:
                self._meter = meter
                self._end(self._ending(broken=not meter.finished))
                return
        self._end(Ending("unknown", {"note": {"reason": "no end of an answer in the background"}}))

    def _ending(self, *, broken: bool) -> Ending:
        """How the attempt that runs has ended, by what the meter saw."""
        if not self._sent:
            return Ending("unsent", {"note": dict(self._meter.note)})
        return ending_of(self._meter, broken=broken)

    def _end(self, ending: Ending) -> None:
        if self._report is not None:
            return
        # An attempt before this one was made and charged: the request id stays taken.
        self._outcome = "released" if ending.outcome == "unsent" and self._attempted else ending.outcome
        self._report = self._plane.settlements.add(
            {"reservation_id": self.reservation_id, "outcome": self._outcome, **ending.report}
        )

    def own_headers(self) -> Headers:
        """What an answer says of the call itself."""
        headers = [(b"x-pgbudget-reservation", self.reservation_id.encode())]
        if self._grant.rung is not None:
            headers.append((b"x-pgbudget-rung", self._grant.rung.encode()))
        if self._grant.warning is not None:
            headers.append((b"x-pgbudget-budget-warning", self._grant.warning.encode()))
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


def ending_of(meter: Meter, *, broken: bool) -> Ending:
    """How a call that reached its provider has ended, by what the meter saw."""
    kinds = meter.kinds()
    said: dict[str, Any] = {
        "note": dict(meter.note),
        **({"service_tier": meter.service_tier} if meter.service_tier else {}),
    }
    if (
        kinds is not None
        and meter.finished
        and not meter.failed
        and (kinds.get("output", 1) or kinds.get("audio_out") or kinds.get("image_out") or not meter.output_bytes)
    ):
        if "input" not in kinds:
            return Ending("estimated", {"usage": {"input": meter.request.input_tokens, **kinds}, **said})
        if meter.provider_cost_usd is not None:
            said["provider_cost_usd"] = meter.provider_cost_usd
        return Ending("finished", {"usage": kinds, **said})
    if meter.failed and meter.streamed and kinds is None and meter.output_bytes == 0 and not meter.begun:
        return Ending("released", {"note": said["note"]})
    if kinds is not None or meter.output_bytes or (not broken and meter.finished):
        return Ending("estimated", {"usage": meter.bound(), "usage_seen": kinds, **said})
    return Ending("unknown", said)


async def look(
    plane: DataPlane, method: str, route: dict[str, str], dialect: Dialect, answer_id: str, rest: str = ""
) -> tuple[int, bytes]:
    """Ask a provider about an answer in the background; returns status and body. Raises :class:`UpstreamFailed`."""
    ways = provider(route["provider"])
    account = plane.config.account(route["account"], route["provider"])
    if account is None:
        raise UpstreamFailed(f"the provider account {route['account']} has no URL or key in the gateway's environment")
    try:
        response = await plane.upstream.send(method, account, ways, f"{dialect.path}/{answer_id}{rest}")
    except (NotSent, Broken) as error:
        raise UpstreamFailed(str(error)) from None
    try:
        body = b""
        async for chunk in _chunks(response, plane.config.idle_seconds):
            body += chunk
            if len(body) > _MAX_ANSWER:
                raise UpstreamFailed("the provider's answer is too large")
    except (httpx.HTTPError, httpx.StreamError):
        raise UpstreamFailed("the provider broke the connection in the middle of its answer") from None
    finally:
        await response.aclose()
    return response.status_code, body


def _elsewhere(status: int) -> bool:
    """Whether another route may do better: the provider fails, is full, or does not take the gateway's key or model."""
    return status >= 500 or status in (401, 403, 404, 408, 429)


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
