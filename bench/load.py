"""A load generator that costs little: one connection a client, the parser in C, nothing made of an answer but its size.

Runs in its caller's event loop. :attr:`Load.busy` tells how much of one core it took, so that it can be seen that it was not
what was measured.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httptools


@dataclass
class Load:
    """What came of a load. ``took``: seconds of each call that counts, in open loop from when it should have been sent."""

    took: list[float] = field(default_factory=list)
    calls: int = 0
    #: Bytes of bodies, of all calls.
    size: int = 0
    seconds: float = 0
    #: Calls a second, over the time that counts and until the last of them was answered.
    rate: float = 0
    #: Calls of an open loop that were not even sent when it ended; ``took`` has how late they were by then.
    unsent: int = 0
    busy: float = 0


class _Connection(asyncio.Protocol):
    """One call after the other."""

    def __init__(self, ending: bytes) -> None:
        self._ending = ending
        self._parser = httptools.HttpResponseParser(self)
        self._done: asyncio.Future[int] | None = None
        self._size = 0
        self._last = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport

    def call(self, request: bytes) -> asyncio.Future[int]:
        """Send a request; the size of the answer's body."""
        self._done = asyncio.get_running_loop().create_future()
        self._size = 0
        self.transport.write(request)
        return self._done

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, _: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(ConnectionError("the connection was closed in the middle of a call"))

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        self._last = (self._last + body)[-64:]

    def on_message_complete(self) -> None:
        done, status = self._done, self._parser.get_status_code()
        self._parser = httptools.HttpResponseParser(self)
        if done is None or done.done():
            return
        if status == 200 and self._last.rstrip().endswith(self._ending):
            done.set_result(self._size)
        else:
            done.set_exception(AssertionError(f"status {status}, and the answer ends in {self._last!r}"))


def post(url: str, headers: dict[str, str], body: bytes) -> bytes:
    """A request, ready to be sent."""
    parts = urlsplit(url)
    lines = [f"POST {parts.path} HTTP/1.1", f"host: {parts.netloc}", "content-type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


async def drive(
    url: str, request: bytes, ending: bytes, clients: int, seconds: float, *, rate: float = 0, warm: float = 0
) -> Load:
    """Put a load on a server; raises where an answer is not a whole 200. Calls of the first ``warm`` seconds do not count.

    ``rate`` 0: closed loop, each client calls again when it was answered. Else open loop: so many calls a second in all are due
    at moments that do not depend on the answers, each client's in turn, and a late one's time runs from when it was due.
    """
    load = Load()
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    connections = [
        (await loop.create_connection(lambda: _Connection(ending), parts.hostname, parts.port))[1] for _ in range(clients)
    ]
    start = time.perf_counter()
    counts, end = start + warm, start + warm + seconds

    async def client(number: int, connection: _Connection) -> None:
        gap = clients / rate if rate else 0
        due = start + gap * (number + random.random()) / clients  # noqa: S311
        while (now := time.perf_counter()) < end:
            if rate:
                if due >= end:
                    return
                if due > now:
                    await asyncio.sleep(due - now)
            else:
                due = now
            size = await connection.call(request)
            load.size += size
            load.calls += 1
            answered = time.perf_counter()
            if answered >= counts:
                load.took.append(answered - due)
            due += gap
        while rate and due < end:
            load.unsent += 1
            load.took.append(now - due)
            due += gap

    cpu = time.process_time()
    try:
        async with asyncio.TaskGroup() as group:
            for number, connection in enumerate(connections):
                group.create_task(client(number, connection))
    finally:
        for connection in connections:
            connection.transport.close()
    now = time.perf_counter()
    load.seconds = now - start
    load.rate = (len(load.took) - load.unsent) / (now - counts)
    load.busy = (time.process_time() - cpu) / load.seconds
    return load
