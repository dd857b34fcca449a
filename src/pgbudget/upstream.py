"""Calls to providers, on the transport itself: the stock client costs ten times as much and follows redirects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import TYPE_CHECKING

import aiohttp
import httpx
from circuitbreaker import CircuitBreaker
from httpx_aiohttp import AiohttpTransport

from pgbudget.errors import UpstreamFailed

if TYPE_CHECKING:
    from pgbudget.config import Account, Config
    from pgbudget.wire.providers import Provider

#: Headers of a client that go on to the provider. Everything else stays: keys, cookies, addresses.
_FORWARDED = (b"accept", b"anthropic-beta", b"anthropic-version", b"openai-beta", b"user-agent", b"x-client-request-id")
#: Headers of a provider's answer that do not go back to the client.
_WITHHELD = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
        b"transfer-encoding", b"upgrade", b"content-length", b"content-encoding", b"set-cookie", b"server", b"date",
        b"alt-svc", b"strict-transport-security", b"openai-organization", b"openai-project",
    }
)  # fmt: skip

#: Larger answers are not read to their end, where they must be read whole.
_MAX_ANSWER = 256 << 20
#: Only the gateway says these: what a caller reads in them is never a provider's word.
_OWN = b"x-pgbudget-"

Headers = list[tuple[bytes, bytes]]


class NotSent(Exception):
    """The provider was not reached: nothing can have been spent. ``retry_after``: seconds until it is called again."""

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Broken(Exception):
    """The request may have been received: what it cost is not known."""


class _Failing(Exception):
    """The provider answers that it fails."""


class Upstream:
    """One connection pool for all accounts. Redirects are answers, never followed."""

    def __init__(self, config: Config) -> None:
        self._transport: httpx.AsyncBaseTransport = AiohttpTransport(client=_connections)
        self._timeout = {
            "connect": config.connect_seconds,
            # Until the first byte and between two pieces there are limits of their own, kept by the caller.
            "read": None,
            "write": config.idle_seconds,
            "pool": config.connect_seconds,
        }
        self._first_byte_seconds = config.first_byte_seconds
        self._breaker_failures = config.breaker_failures
        self._breaker_seconds = config.breaker_seconds
        self._breakers: dict[str, CircuitBreaker] = {}

    async def post(
        self, account: Account, provider: Provider, path: str, body: bytes, client_headers: Headers, simulated: bool
    ) -> httpx.Response:
        """Send a JSON body; returns the answer with its body unread. Raises :class:`NotSent` or :class:`Broken`."""
        return await self.send("POST", account, provider, path, body, client_headers, simulated)

    async def send(
        self,
        method: str,
        account: Account,
        provider: Provider,
        path: str,
        body: bytes = b"",
        client_headers: Headers | None = None,
        simulated: bool = False,
    ) -> httpx.Response:
        """As :meth:`post`, with any method."""
        key = account.key.encode()
        headers = [
            (provider.key_header, b"Bearer " + key if provider.key_header == b"authorization" else key),
            (b"content-type", b"application/json"),
            (b"accept-encoding", b"identity"),
        ]
        for name, value in client_headers or ():
            # How to behave is for the simulator only: no provider needs to see it.
            if name in _FORWARDED or (simulated and name == b"x-simulate"):
                headers.append((name, value))
        sent = {name for name, _ in headers}
        headers += [(name, value) for name, value in provider.headers if name not in sent]
        # As a stream that was read: what goes with the content, such as its length, aiohttp knows by itself.
        request = httpx.Request(
            method,
            _url(account.base_url + path),
            headers=headers,
            stream=httpx.ByteStream(body),
            extensions={"timeout": self._timeout},
        )
        request.read()
        breaker = self._breaker(account)
        if breaker.opened:
            raise NotSent("the provider has failed again and again and is left alone for a while", breaker.open_remaining + 1)
        response: httpx.Response | None = None
        try:
            with breaker:
                async with asyncio.timeout(self._first_byte_seconds):
                    response = await self._transport.handle_async_request(request)
                if response.status_code >= 500:
                    raise _Failing
        except _Failing:
            assert response is not None
        except TimeoutError:
            raise Broken("the provider did not answer in time") from None
        except (httpx.HTTPError, aiohttp.ClientError) as error:
            # What is no HTTP comes as it is. Every lost connection is called a connect error; the cause tells which ones
            # never stood.
            if isinstance(error.__cause__, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | aiohttp.InvalidURL):
                raise NotSent("the provider could not be reached") from error
            raise Broken("the provider broke the connection before it answered") from error
        return response

    def _breaker(self, account: Account) -> CircuitBreaker:
        """What keeps calls from a provider that only fails. After its time is up the next calls show if it is back."""
        if account.base_url not in self._breakers:
            self._breakers[account.base_url] = CircuitBreaker(
                # Nothing counts as often as this.
                failure_threshold=self._breaker_failures or 2**63,
                recovery_timeout=max(1, int(self._breaker_seconds)),
                name=account.base_url,
            )
        return self._breakers[account.base_url]

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


def _connections() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            # As many as there are calls: budgets are what limits calls.
            limit=0,
            # Short of the five seconds at which the hastiest servers close: a request on a connection that is being closed is
            # lost, and counts as sent.
            keepalive_timeout=4,
            ssl=httpx.create_ssl_context(),
        ),
        # One caller's cookies must not come back with the next one's call.
        cookie_jar=aiohttp.DummyCookieJar(),
    )


@lru_cache(maxsize=256)
def _url(text: str) -> httpx.URL:
    """Parsed once: providers have few addresses, answers in the background many."""
    return httpx.URL(text)


def returned_headers(response: httpx.Response) -> Headers:
    """The headers of an answer that a client may see."""
    headers = ((name.lower(), value) for name, value in response.headers.raw)
    return [(name, value) for name, value in headers if name not in _WITHHELD and not name.startswith(_OWN)]


async def read(response: httpx.Response, idle_seconds: float) -> list[bytes]:
    """A whole answer, in the pieces that it came in: put together, a large one would be there twice.

    Raises :class:`UpstreamFailed`.
    """
    parts: list[bytes] = []
    size = 0
    try:
        async for piece in pieces(response, idle_seconds):
            size += len(piece)
            if size > _MAX_ANSWER:
                raise UpstreamFailed("the provider's answer is too large")
            parts.append(piece)
    except (httpx.HTTPError, httpx.StreamError):
        raise UpstreamFailed("the provider broke the connection in the middle of its answer") from None
    return parts


async def pieces(response: httpx.Response, idle_seconds: float) -> AsyncIterator[bytes]:
    """The bytes of an answer as they come, decoded if the provider compressed them unasked.

    Raises :class:`httpx.ReadTimeout` when nothing comes for ``idle_seconds``.
    """
    plain = response.headers.get("content-encoding", "identity") == "identity"
    assert isinstance(response.stream, httpx.AsyncByteStream)
    silence = Silence(idle_seconds)
    try:
        async for piece in response.stream if plain else response.aiter_bytes():
            silence.pause()
            yield piece
            silence.begin()
    except asyncio.CancelledError:
        if silence.over():
            raise httpx.ReadTimeout("the provider fell silent") from None
        raise
    except aiohttp.ClientError as error:
        # What the transport has no name for.
        raise httpx.ReadError("the provider does not speak HTTP") from error
    finally:
        silence.stop()


class Silence:
    """Cancels the task that made it when it waits for more than so many seconds; it waits as soon as this is made.

    As :func:`asyncio.timeout` around each wait would, but with one timer for all of them: there is one for every token.
    """

    def __init__(self, seconds: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._over = False
        self.begin()
        self._timer = self._loop.call_at(self._since + seconds, self._look)

    def begin(self) -> None:
        """It waits."""
        self._since = self._loop.time()

    def pause(self) -> None:
        """It waits no more."""
        self._since = float("inf")

    def over(self) -> bool:
        """Whether it was cancelled for its silence, and for nothing else."""
        return self._over and self._task.uncancel() <= self._cancelling

    def stop(self) -> None:
        """It does not wait again."""
        self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        if now >= self._since + self._seconds:
            self._over = True
            self._task.cancel()
        else:
            self._timer = self._loop.call_at(min(self._since, now) + self._seconds, self._look)
