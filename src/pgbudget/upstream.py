"""Calls to providers."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import TYPE_CHECKING

import aiohttp
import certifi
from aiohttp.http import HttpProcessingError
from circuitbreaker import CircuitBreaker

from pgbudget.errors import UpstreamFailed

if TYPE_CHECKING:
    from pgbudget.config import Account, Config
    from pgbudget.wire.providers import Provider

#: Headers of a client that go on to the provider. Everything else stays: keys, cookies, addresses.
_FORWARDED = frozenset(
    {b"accept", b"anthropic-beta", b"anthropic-version", b"openai-beta", b"user-agent", b"x-client-request-id"}
)
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
#: What a lost connection, or an answer that is no HTTP, is raised as.
_LOST = (aiohttp.ClientError, HttpProcessingError, OSError)
#: That the connection never stood.
_NEVER_STOOD = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
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
        self._config = config
        self._session: aiohttp.ClientSession | None = None
        self._breakers: dict[str, CircuitBreaker] = {}

    async def post(
        self, account: Account, provider: Provider, path: str, body: bytes, client_headers: Headers, simulated: bool
    ) -> aiohttp.ClientResponse:
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
    ) -> aiohttp.ClientResponse:
        """As :meth:`post`, with any method."""
        headers = [
            (provider.key_header, f"Bearer {account.key}" if provider.key_header == "authorization" else account.key),
            ("content-type", "application/json"),
            ("accept-encoding", "identity"),
        ]
        for name, value in client_headers or ():
            # How to behave is for the simulator only: no provider needs to see it.
            if name in _FORWARDED or (simulated and name == b"x-simulate"):
                headers.append((name.decode(), value.decode("utf-8", "replace")))
        if provider.headers:
            sent = {name for name, _ in headers}
            headers += [(name, value) for name, value in provider.headers if name not in sent]
        breaker = self._breaker(account)
        if breaker.opened:
            raise NotSent("the provider has failed again and again and is left alone for a while", breaker.open_remaining + 1)
        session = self._session or self._open()
        response: aiohttp.ClientResponse | None = None
        try:
            with breaker:
                async with asyncio.timeout(self._config.first_byte_seconds):
                    response = await session.request(
                        method, account.base_url + path, headers=headers, data=body or None, allow_redirects=False
                    )
                if response.status >= 500:
                    raise _Failing
        except _Failing:
            assert response is not None
        except _NEVER_STOOD as error:
            raise NotSent("the provider could not be reached") from error
        except TimeoutError:
            raise Broken("the provider did not answer in time") from None
        except _LOST as error:
            raise Broken("the provider broke the connection before it answered") from error
        return response

    def _open(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            # 0: as many as there are calls; budgets are what limits calls. Short of the five seconds at which the hastiest
            # servers close: a request on a connection that is being closed is lost, and counts as sent.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=4, ssl=_authorities()),
            # Until the first byte and between two pieces there are limits of their own.
            timeout=aiohttp.ClientTimeout(connect=self._config.connect_seconds, sock_connect=self._config.connect_seconds),
            # What a provider lets one caller keep is no other's.
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self._session

    def _breaker(self, account: Account) -> CircuitBreaker:
        """What keeps calls from a provider that only fails. After its time is up the next calls show if it is back."""
        if account.base_url not in self._breakers:
            self._breakers[account.base_url] = CircuitBreaker(
                # Nothing counts as often as this.
                failure_threshold=self._config.breaker_failures or 2**63,
                recovery_timeout=max(1, int(self._config.breaker_seconds)),
                name=account.base_url,
            )
        return self._breakers[account.base_url]

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()


def _authorities() -> ssl.SSLContext:
    """Who vouches for providers: whom the environment names, else the system's authorities and certifi's."""
    context = ssl.create_default_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        context.load_verify_locations(certifi.where())
    return context


def returned_headers(said: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers of an answer that a client may see, of those as they came."""
    headers = [(name.lower(), value) for name, value in said]
    return [(name, value) for name, value in headers if name not in _WITHHELD and not name.startswith(_OWN)]


async def read(response: aiohttp.ClientResponse, idle_seconds: float) -> list[bytes]:
    """A whole answer, in the pieces that it came in: put together, a large one would be there twice.

    Raises :class:`UpstreamFailed`.
    """
    parts: list[bytes] = []
    size = 0
    try:
        async for piece in pieces(response.content.iter_any(), idle_seconds):
            size += len(piece)
            if size > _MAX_ANSWER:
                raise UpstreamFailed("the provider's answer is too large")
            parts.append(piece)
    except Broken:
        raise UpstreamFailed("the provider broke the connection in the middle of its answer") from None
    return parts


async def pieces(content: AsyncIterable[bytes], idle_seconds: float) -> AsyncIterator[bytes]:
    """The bytes of an answer as they come; raises :class:`Broken`, also when nothing comes for ``idle_seconds``."""
    silence = Silence(idle_seconds)
    try:
        async for piece in content:
            silence.pause()
            yield piece
            silence.begin()
    except asyncio.CancelledError:
        if silence.over():
            raise Broken("the provider fell silent") from None
        raise
    except _LOST as error:
        raise Broken("the provider broke the connection in the middle of its answer") from error
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
