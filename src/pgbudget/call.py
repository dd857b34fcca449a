"""The life of one granted call: a request and its hold go through a plan of routes until one answers, and the end is reported.

The hold stands before the first byte goes upstream; from the grant on, exactly one report ends it, however the call ends. How
an answer goes on from here: :mod:`pgbudget.streams` for streams, :mod:`pgbudget.background` for what is made in the background.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import time
from dataclasses import replace

import httpx
from starlette.types import Send

from pgbudget.background import BackgroundAnswer
from pgbudget.client import Client
from pgbudget.config import Account, account_prefix
from pgbudget.data_plane import DataPlane
from pgbudget.db import ReserveResult
from pgbudget.endings import Ending, ending_of, refused, unknown, unsent
from pgbudget.errors import SOURCE, BudgetError, EnforcementUnavailable, InvalidRequest, Refused, UpstreamFailed
from pgbudget.http import Headers
from pgbudget.reservation import Reservation
from pgbudget.streams import Stream
from pgbudget.upstream import Broken, NotSent, read, returned_headers
from pgbudget.wire.dialect import CannotTurnOff, Dialect, ModelRequest
from pgbudget.wire.providers import Provider, provider
from pgbudget.wire.skim import skimmed

log = logging.getLogger("pgbudget.calls")

_SIMULATOR = "simulator"


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
        denied = self.response is not None and self.response.status_code in (401, 403, 404)
        return denied or self.ending.outcome not in ("released", "unsent")


class UsageNotAsked(Exception):
    """The provider refused the request because of the question for usage that the gateway put in."""


class Call:
    """One granted call."""

    def __init__(
        self,
        plane: DataPlane,
        dialect: Dialect,
        request: ModelRequest,
        grant: ReserveResult,
        headers: Headers,
        left: asyncio.Future[None],
    ) -> None:
        self._plane = plane
        self._dialect = dialect
        self._request = request
        self._grant = grant
        self._headers = headers
        self._left = left
        self._reservation = Reservation(plane, grant, request.choices)
        self._meter = dialect.meter(request, provider(""))
        self._status = 0
        #: Whether the attempt that runs may have reached its provider.
        self._sent = False
        #: How the last attempt has ended, while it is not known if another one follows, or its answer if no meter can tell.
        self._pending: Ending | None = None
        #: Whether usage is asked for in words that are the gateway's own, and not every provider's.
        self._asks_usage = False
        #: Whether the attempt that runs may go beyond what is held, by growing.
        self._grows = False
        self._route: dict[str, str] = {}

    def own_headers(self) -> Headers:
        """What an answer says of the call itself."""
        return self._reservation.headers

    async def run(self, send: Send) -> None:
        """Forward the request and send the answer on; raises a :class:`BudgetError` when there is none to send."""
        started = time.monotonic()
        client = Client(self._headers, send)
        # A client that left while its hold was taken needs no call any more.
        client.gone = self._left.done()
        deadline = asyncio.timeout(self._plane.config.total_seconds)

        def leave(_: asyncio.Future[None]) -> None:
            self._client_left(client, deadline)

        try:
            async with deadline:
                self._left.add_done_callback(leave)
                await self._attempts(client)
        except TimeoutError:
            if not client.answered:
                raise UpstreamFailed("the provider did not answer in time") from None
        finally:
            self._left.remove_done_callback(leave)
            if not self._reservation.ended and not self._reservation.goes_on:
                # Late, cancelled, or a fault of ours: charged by what was seen, or in full.
                self._reservation.end(self._ending())
            log.info(
                "call %s %s status=%d outcome=%s seconds=%.3f",
                self._reservation.id, self._request.model[:80], self._status, self._reservation.outcome or "background",
                time.monotonic() - started,
            )  # fmt: skip

    def _client_left(self, client: Client, deadline: asyncio.Timeout) -> None:
        client.gone = True
        # A stream is read on for a while, for its real usage; an answer that comes whole is always waited for.
        if self._request.stream:
            # It may have ended in this very turn.
            with contextlib.suppress(RuntimeError):
                deadline.reschedule(asyncio.get_running_loop().time() + self._plane.config.drain_seconds)

    def _ending(self) -> Ending:
        """How the call has ended, should nothing more come of it."""
        if self._pending is not None:
            return self._pending
        if not self._sent:
            return Ending("unsent", {"note": dict(self._meter.note)})
        return ending_of(self._meter, broken=True)

    # The plan: one route after the other, until one answers.

    async def _attempts(self, client: Client) -> None:
        """Go through the plan until a route answers. Routes that do not speak the dialect are passed over."""
        assert self._grant.routes
        plan = [
            (place, route)
            for place, route in enumerate(self._grant.routes, 1)
            if self._dialect.api in provider(route["provider"]).apis
        ]
        if not plan:
            self._reservation.end(unsent("no route speaks this API"))
            raise InvalidRequest(
                f"{self._request.model} is not served on /v1{self._dialect.path}: the providers it is routed to do not have it",
                "model",
            )
        asked = self._request
        if self._reservation.granted_tokens == 0 and asked.cap != 0:
            # Embeddings ask for none; to a cap of 0 each provider has an answer of its own.
            self._reservation.end(unsent("model without output"))
            model = (self._grant.rung_changes or {}).get("model", asked.model)
            raise InvalidRequest(
                f"{model} writes no answers (its maximum output is 0 tokens); it may be one for /v1/embeddings", "model"
            )
        failed: AttemptFailed | None = None
        for place, route in plan:
            if client.gone or (place > 1 and not await self._next(place, failed)):
                break
            try:
                await self._tries(asked, route, client)
                return
            except AttemptFailed as failure:
                log.info("call %s: account %s failed (%s)", self._reservation.id, route["account"], failure.ending.outcome)
                failed = failure
                self._pending = failure.ending
        if failed is None:
            self._reservation.end(unsent("caller gone"))
            return
        self._reservation.end(failed.ending)
        if failed.response is not None:
            await self._pass_on(failed.response, client)
        if failed.error is not None:
            raise failed.error

    async def _next(self, place: int, failed: AttemptFailed | None) -> bool:
        """Have the attempt that failed charged and the next one held; returns whether it may be made."""
        ending = failed.ending if failed else Ending("unsent", {})
        outcome = "released" if ending.outcome == "unsent" else ending.outcome
        try:
            result = await self._plane.next_attempt(self._reservation.id, ending.report.get("usage"), place, outcome)
        except BudgetError as error:
            log.warning("call %s: no next attempt (%s)", self._reservation.id, error.code)
            return False
        finally:
            # It may have been charged, whatever we know of it.
            self._reservation.spent |= outcome != "released"
        if result.status != "granted":
            log.info("call %s: no next attempt (%s)", self._reservation.id, result.code)
            return False
        if failed is not None and failed.response is not None:
            await failed.response.aclose()
        self._sent = False
        self._pending = None
        return True

    async def _tries(self, asked: ModelRequest, route: dict[str, str], client: Client) -> None:
        """Call one route, again if the setting says so and nothing can have been spent; raises :class:`AttemptFailed`."""
        for wait in (*(0.25 * 2**n for n in range(self._plane.config.upstream_retries)), None):
            try:
                await self._attempt(asked, route, client)
                return
            except AttemptFailed as failure:
                if wait is None or failure.final or client.gone:
                    raise
                if failure.response is not None:
                    await failure.response.aclose()
            self._sent = False
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311

    # One attempt: the request as this route is to have it, and its answer.

    async def _attempt(self, asked: ModelRequest, route: dict[str, str], client: Client) -> None:
        """Call one route and send its answer on; raises :class:`AttemptFailed` while another may do better."""
        account = self._plane.config.account(route["account"], route["provider"])
        if account is None:
            what = f"the provider account {route['account']} has no URL or key in the gateway's environment"
            log.warning("account %s is not configured: set %s_KEY", route["account"], account_prefix(route["account"]))
            raise AttemptFailed(
                unsent("account not configured"),
                UpstreamFailed(f"{what}; nothing was charged for that"),
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
            await self._post(account, route, ways, body, client)
        except UsageNotAsked:
            # A refusal costs nothing, so the hold is still whole.
            log.info("call %s: account %s takes no stream_options", self._reservation.id, route["account"])
            self._asks_usage, self._pending = False, None
            body = self._rewritten(replace(ways, stream_options=False), route, cap)
            await self._post(account, route, ways, body, client)

    def _as_granted(self, request: ModelRequest, upstream_model: str) -> ModelRequest:
        """The request as its rung has it. What cannot be had so is not sent: the hold does not pay for it."""
        rung, changes = self._grant.rung, self._grant.rung_changes
        if rung is not None and changes is None:
            self._reservation.end(unsent("rung without its changes"))
            raise EnforcementUnavailable(f"what rung {json.dumps(rung)} changes is not known, so nothing was sent; try again")
        try:
            return self._dialect.as_granted(request, upstream_model, changes or {})
        except CannotTurnOff as error:
            self._reservation.end(unsent("rung cannot be applied"))
            raise Refused(
                "budget_config_invalid",
                f"rung {json.dumps(rung)} of the ladder turns {error} off, which cannot be taken out of this request; nothing "
                "was sent; leave it out yourself, or have an admin change the ladder",
            ) from None

    async def _cap(self, ways: Provider, upstream_model: str) -> int:
        """The output cap that is forwarded: what is held; or all that may be, where it can be seen how far it must grow."""
        growing = self._reservation.growing
        if growing is None:
            return self._reservation.granted_tokens
        self._grows = ways.shows_all(upstream_model)
        if self._grows:
            growing.restart()
            return growing.cap
        await growing.fill()
        return growing.held

    def _rewritten(self, ways: Provider, route: dict[str, str], cap: int) -> bytes:
        return self._dialect.rewrite(self._request, ways, route["upstream_model"], cap)

    async def _post(self, account: Account, route: dict[str, str], ways: Provider, body: bytes, client: Client) -> None:
        """Send a body and pass the answer on; raises as :meth:`_attempt`, or :class:`UsageNotAsked`."""
        if client.gone:
            self._reservation.end(unsent("caller gone"))
            return
        self._sent = True
        try:
            response = await self._plane.upstream.post(
                account, ways, self._dialect.path, body, self._headers, route["provider"] == _SIMULATOR
            )
        except NotSent as error:
            self._sent = False
            raise AttemptFailed(
                unsent("not reached"), UpstreamFailed(f"{error}; nothing was charged", retry_after=error.retry_after)
            ) from None
        except Broken as error:
            raise AttemptFailed(self._ending(), UpstreamFailed(str(error))) from None
        self._status = response.status_code
        if self._status in (401, 403):
            # Who calls cannot mend it: it is not their key that was refused.
            log.warning("a provider answered %d to the key in %s", self._status, account.variable)
        if _elsewhere(self._status):
            raise AttemptFailed(refused(self._status), None, response)
        if not response.is_success:
            self._pending = refused(self._status)
        await self._pass_on(response, client)

    async def _pass_on(self, response: httpx.Response, client: Client) -> None:
        try:
            media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if response.is_success and media == "text/event-stream":
                await client.start(response.status_code, [*returned_headers(response), *self.own_headers()])
                stream = Stream(response, self._meter, client, self._reservation)
                await stream.pass_on(self._reservation.growing if self._grows else None, self._plane.config.idle_seconds)
            else:
                await self._pass_on_whole(response, client)
        finally:
            await response.aclose()

    async def _pass_on_whole(self, response: httpx.Response, client: Client) -> None:
        parts = await read(response, self._plane.config.idle_seconds)
        if response.is_success:
            await self._conclude(parts)
        elif response.status_code in (400, 422) and self._asks_usage and b"stream_options" in b"".join(parts):
            raise UsageNotAsked
        else:
            self._reservation.end(self._ending())
        if response.is_redirect:
            raise UpstreamFailed("the provider answered with a redirect, which is not followed; nothing was charged for that")
        length = b"%d" % sum(map(len, parts))
        headers = [*returned_headers(response), *self.own_headers(), (b"content-length", length)]
        if not response.is_success:
            headers.append((SOURCE, b"upstream"))
        if client.waits_for_cost and self._reservation.ended:
            headers.append((b"x-pgbudget-cost-usd", (await self._reservation.cost()).encode()))
        await client.start(response.status_code, headers)
        *parts, last = parts or [b""]
        for part in parts:
            await client.send(part)
        await client.send(last, more=False)

    async def _conclude(self, parts: list[bytes]) -> None:
        """End with an answer that came whole, or leave that to its end in the background."""
        meter = self._meter
        if meter.whole(await skimmed(parts)):
            self._reservation.end(ending_of(meter, broken=False))
        elif meter.goes_on is not None:
            answer = BackgroundAnswer(self._plane, self._dialect, self._request, self._route, self._reservation, meter.goes_on)
            await answer.follow()
        else:
            self._reservation.end(unknown("answer not readable"))


def _elsewhere(status: int) -> bool:
    """Whether another route may do better: the provider fails, is full, or does not take the gateway's key or model."""
    return status >= 500 or status in (401, 403, 404, 408, 429)
