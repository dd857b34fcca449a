"""HTTP/1.1 as the server reads it, and what it leaves to who stands in front: limits, and one meaning for every request.

What two servers could read in two ways is refused before the app sees it, and the connection is closed.
"""

from __future__ import annotations

import asyncio
import re
import sys
from functools import lru_cache
from typing import Any, cast
from urllib.parse import unquote_to_bytes

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from pgbudget.errors import BudgetError, HeadTooLarge, InvalidRequest, RequestTimeout
from pgbudget.http import LEAVING, dumps

#: Of a request line and its headers together, in bytes and in headers.
MAX_HEAD = 64 << 10
MAX_HEADERS = 100

_TARGET = re.compile(rb"/(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*")
# The name of a run may be anything, and is one segment.
_RUNS = b"/v1/budget/runs/"


class Gathered:
    """A transport that sends what is written in one turn of the loop as one piece: a head with its body, events with their end.

    Each piece is a system call, and a packet that wakes the client.
    """

    #: Not more than this waits: then the transport below says when there is enough.
    most = 64 << 10

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._written: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send this, soon."""
        if not data:
            return
        if not self._written:
            self._loop.call_soon(self._flush)
        self._written.append(data)
        self._size += len(data)
        if self._size > self.most:
            self._flush()

    def close(self) -> None:
        """Close it when all that was written is sent."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        written, self._written, self._size = self._written, [], 0
        if written and not self._transport.is_closing():
            self._transport.writelines(written)


class StrictProtocol(HttpToolsProtocol):
    """uvicorn's protocol, stricter. The parser refuses both lengths, repeated ones, folded lines and odd names by itself."""

    #: How long a connection, and the headers of each request, may take to come. Idle connections have a limit of their own.
    head_seconds: float = 30

    _head_timer: asyncio.TimerHandle | None = None
    _in_head = False
    # Bytes since something was complete or a body went on: of a head, a trailer or the extension of a chunk.
    _waste = 0
    _moved = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, Gathered(transport, self.loop)))
        self._leaving: asyncio.Future[None] = self.loop.create_future()
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._leaving.set_result(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._moved = False
        super().data_received(data)
        self._waste = 0 if self._moved else self._waste + len(data)
        if self._waste > MAX_HEAD and not self.transport.is_closing():
            self._refuse(_too_large())
        if self._head_timer is None and (self._in_head or (self.cycle is not None and self.cycle.response_complete)):
            # Nearly all heads come in one piece, and never have one. What comes after an answer and begins no request, such as
            # a blank line, has ended the wait that idle connections have.
            self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {LEAVING: self._leaving}  # type: ignore[dict-item]
        self._in_head = True
        self._stop_timer()

    def on_header(self, name: bytes, value: bytes) -> None:
        # A trailer comes after its request was judged: it is no header of it.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._in_head, self._moved = False, True
        self._check()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._moved = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._moved = True
        super().on_message_complete()
        if not self.pipeline:
            # A large body has stopped it, and who does not read on never sees a client leave.
            self.flow.resume_reading()

    def send_400_response(self, msg: str) -> None:
        fault = sys.exception()
        reason = fault.__context__ if fault else None
        self._refuse(reason if isinstance(reason, BudgetError) else InvalidRequest("the request is not valid HTTP/1.1"))

    def _check(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MAX_HEAD or len(self.headers) > MAX_HEADERS:
            raise _too_large()
        _check_path(self.url.partition(b"?")[0])
        if self.parser.should_upgrade():
            # The parser reads no body then: what follows would be anything.
            raise InvalidRequest("there is no other protocol to upgrade to: have the client keep to HTTP/1.1", "upgrade")
        version = self.parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise InvalidRequest("the request must be HTTP/1.1")
        if [name for name, _ in self.headers].count(b"host") != 1 and version == "1.1":
            raise InvalidRequest("the header host must stand once", "host")
        for name, value in self.headers:
            if name == b"transfer-encoding" and (value.strip().lower() != b"chunked" or version == "1.0"):
                raise InvalidRequest("transfer-encoding must be chunked or absent", "transfer-encoding")

    def _refuse(self, error: BudgetError) -> None:
        running = self.cycle and not self.cycle.response_complete
        if self.pipeline or (running and (self.cycle.response_started or not self.cycle.more_body)):
            # Not into the middle of an answer, nor as the answer to a request that was all right.
            self.transport.close()
            return
        content = dumps(error.body())
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
            *self.server_state.default_headers,
            *error.headers(),
        ]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(STATUS_LINE[error.status] + lines + b"\r\n" + content)
        self.transport.close()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        if self.pipeline:
            # Nothing is read while requests wait for their turn.
            self._await_head()
            return
        if self._in_head and not self.transport.is_closing():
            self._refuse(RequestTimeout(f"the headers did not arrive within {self.head_seconds:g} seconds"))
        self.transport.close()

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _too_large() -> HeadTooLarge:
    return HeadTooLarge(f"the URL and headers are larger than {MAX_HEAD} bytes, or there are more than {MAX_HEADERS} headers")


@lru_cache(maxsize=64)
def _check_path(path: bytes) -> None:
    """A path in one spelling: whoever guards a path in front of the gateway reads the one that is served here."""
    if not _TARGET.fullmatch(path):
        raise InvalidRequest("the request target must be a path such as /v1/chat/completions, without a scheme and a host")
    for segment in path.split(b"/")[1:] if path != b"/" else ():
        plain = unquote_to_bytes(segment)
        slash = (b"/" in plain or b"\\" in plain) and not path.startswith(_RUNS)
        if plain in (b"", b".", b"..") or slash:
            raise InvalidRequest("the path must have no empty segment, no . or .. and no encoded slash")
