"""The life of one call, whatever its dialect: what happens on the wire, and what is counted of it.

Tokens are counted before they are written and a call is ended before its last bytes are, so the tally is never behind
what a client can have seen. A client that leaves stops the generation, as it does at providers; what was generated
until then is billed.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import socket
import struct
import sys
import termios
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from pgbudget.simulator.behaviour import Behaviour, Behaviours
from pgbudget.simulator.dialect import Ask, Deferred, Dialect, Refused, Rendering
from pgbudget.simulator.encoding import ENCODERS, Encoder
from pgbudget.simulator.jobs import Job
from pgbudget.simulator.replay import Recording, cut, recorded
from pgbudget.simulator.tally import Call, State, Tally

#: Where the server shows the connection to the app, in the scope's extensions.
TRANSPORT: Final = "pgbudget.simulator.transport"
#: Pieces without a pause between them share writes of about this size.
_WRITE_BYTES: Final = 16_384
#: macOS: bytes in the send queue.
_SO_NWRITE: Final = 0x1024
_SSE: Final = "text/event-stream; charset=utf-8"
_JSON: Final = "application/json"


class Simulator:
    """State of one simulated provider."""

    def __init__(self, defaults: dict[str, Any] | None, key: str | None) -> None:
        self._started_with = dict(defaults or {})
        self.key = key
        self.tally = Tally()
        #: Answers in the background, by id.
        self.jobs: dict[str, Job] = {}
        self._barriers: dict[str, asyncio.Event] = {}
        self._waiting: dict[str, int] = {}
        self._requests = 0
        self._answers = 0
        # Ids are not given again by another process.
        self._run = uuid.uuid4().hex[:16]
        self.behaviours = Behaviours(self._started_with)

    def reset(self) -> None:
        """Back to how it was started: defaults, tally, ids, no jobs. What waits at a barrier goes on, uncounted."""
        for barrier in self._barriers.values():
            barrier.set()
        self._barriers = {}
        self._waiting = {}
        self._answers = 0
        for job in self.jobs.values():
            job.cancel()
        self.jobs = {}
        self.tally.reset()
        self.behaviours = Behaviours(self._started_with)

    def open(self, name: str) -> None:
        """Let all pass that wait at a barrier or will come to it."""
        self._barriers.setdefault(name, asyncio.Event()).set()

    def waiting(self, name: str) -> int:
        """How many wait at a barrier."""
        return self._waiting.get(name, 0)

    async def pass_barrier(self, name: str) -> None:
        """Wait until a barrier is open."""
        barrier, waiting = self._barriers.setdefault(name, asyncio.Event()), self._waiting
        waiting[name] = waiting.get(name, 0) + 1
        try:
            await barrier.wait()
        finally:
            waiting[name] -= 1

    def next_request(self) -> str:
        """What a request is known by."""
        self._requests += 1
        return f"{self._run}{self._requests:016x}"

    def answer_id(self, dialect: Dialect, behaviour: Behaviour, request: str) -> Any:
        """The id of an answer."""
        if not behaviour.ids:
            return f"{dialect.id_prefix}{request}"
        number, self._answers = self._answers, self._answers + 1
        return behaviour.ids[number % len(behaviour.ids)]


class _Broken(Exception):
    """The connection ends here: by a reset, or in the middle of the answer."""

    def __init__(self, reset: bool) -> None:
        super().__init__(reset)
        self.reset = reset


class _Ended(Exception):
    """The answer ends here, too early; ``error`` is what it carries at its end."""

    def __init__(self, error: Any = None) -> None:
        super().__init__()
        self.error = error


class _Left(Exception):
    """The client is gone."""


class Endpoint:
    """The ASGI app of one dialect."""

    def __init__(self, simulator: Simulator, dialect: Dialect) -> None:
        self._simulator = simulator
        self._dialect = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = await _body(receive)
        if content is not None:
            await _Exchange(self._simulator, self._dialect, scope, send).run(content, receive)


class _Exchange:
    """One request and its answer."""

    def __init__(self, simulator: Simulator, dialect: Dialect, scope: Scope, send: Send) -> None:
        self._simulator = simulator
        self._dialect = dialect
        self._headers = Headers(scope=scope)
        self._request = simulator.next_request()
        self._wire = _Wire(scope, send, dialect.request_header, f"req_{self._request}")
        self._job: Job | None = None
        self._call = Call("", request_headers=scope["headers"])

    async def run(self, content: bytes, receive: Receive) -> None:
        """Answer, unless the client leaves."""
        tally, call = self._simulator.tally, self._call
        work = asyncio.ensure_future(self._answer(content))
        watch = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            if work.cancelled():
                raise _Broken(reset=False)
            if work.done():
                work.result()
        except _Left:
            await watch
        except _Broken as broken:
            tally.end(call, "broken")
            await self._wire.break_off(broken.reset)
            # Until the server knows, it would take the missing end for a fault.
            await watch
        finally:
            watch.cancel()
            if self._job is None:
                work.cancel()
                tally.end(call, "left")

    async def _answer(self, content: bytes) -> None:
        try:
            await self._accept(content)
        except Refused as refused:
            await self._whole("refused", refused.status, json.dumps(self._error(refused)).encode())

    async def _accept(self, content: bytes) -> None:
        simulator, dialect, call = self._simulator, self._dialect, self._call
        body, problem = _parse(content)
        call.request_body = content.decode(errors="replace") if problem else body
        if not problem and isinstance(body.get("model"), str):
            call.model = body["model"]
        simulator.tally.begin(call)
        dialect.check_key(self._headers, simulator.key)
        try:
            behaviour = simulator.behaviours.of(self._headers.get("x-simulate", ""))
            recording = recorded(behaviour.replay) if behaviour.replay is not None else None
        except ValueError as error:
            raise Refused(400, f"x-simulate: {error}", param="x-simulate") from None
        self._wire.split = behaviour.split
        self._wire.encoding = behaviour.encoding
        call.id = simulator.answer_id(dialect, behaviour, self._request)
        if problem:
            raise Refused(400, problem)
        for name in behaviour.refuse_parameters or ():
            if name in body:
                raise Refused(400, f"Unknown parameter: '{name}'.", "unknown_parameter", str(name))
        ask = dialect.read(body, self._headers)
        if behaviour.redirect is not None:
            await self._whole("refused", 307, b"", {"location": behaviour.redirect})
            return
        if behaviour.barrier is not None and behaviour.barrier_after_chunks is None:
            await simulator.pass_barrier(behaviour.barrier)
        await pause(behaviour.latency_ms)
        if behaviour.status != 200:
            if behaviour.error_body is None:
                raise Refused(behaviour.status, f"simulated status {behaviour.status}")
            await self._whole("refused", behaviour.status, json.dumps(behaviour.error_body).encode())
            return
        call.service_tier = behaviour.service_tier
        if recording is not None:
            if ask.background and not ask.stream and recording.status < 400:
                await self._defer(ask, behaviour, recording)
                return
            self._bill_recording(ask, recording)
            await self._verbatim(ask, behaviour, recording.status, recording.media, recording.body)
            return
        raw = behaviour.raw_body if behaviour.raw_sse is None else behaviour.raw_sse
        if raw is not None:
            if ask.billed and (behaviour.prompt_tokens is not None or behaviour.completion_tokens is not None):
                call.bill({**_counts(behaviour), "completion_tokens": behaviour.completion_tokens})
            media = _JSON if behaviour.raw_sse is None else _SSE
            await self._verbatim(ask, behaviour, 200, media, raw.encode(errors="surrogatepass"))
            return
        await self._generate(ask, behaviour)

    async def _generate(self, ask: Ask, behaviour: Behaviour) -> None:
        call = self._call
        rendering = self._dialect.render(ask, behaviour, call.id)
        if ask.background and not ask.stream:
            await self._defer(ask, behaviour, None)
            return
        if ask.background:
            self._promise(rendering, asyncio.current_task())
        tokens = self._bill(ask, behaviour)
        if ask.stream:
            await self._start(200, _SSE)
            await pause(behaviour.first_byte_ms)
            self._wire.put(rendering.begin(call))
            if behaviour.chunk_ms:
                await self._wire.flush()
        try:
            await self._pieces(ask, behaviour, rendering, tokens)
        except _Ended as ended:
            if self._job is not None:
                self._job.fail(ended.error)
            if ask.stream:
                await self._end("broken", b"" if ended.error is None else rendering.error(ended.error))
            elif ended.error is None:
                body = rendering.whole(call, tokens)
                await self._whole("broken", 200, body[: len(body) // 2])
            else:
                await self._whole("broken", 200, rendering.error(ended.error))
            return
        if self._job is not None:
            self._job.end(rendering.whole(call, tokens))
        if ask.stream:
            await self._end("finished", rendering.end(call, tokens))
        else:
            await self._whole("finished", 200, rendering.whole(call, tokens))

    def _promise(self, rendering: Rendering, task: asyncio.Task[Any] | None) -> Job:
        """From now on the answer is made whether or not anybody reads it."""
        assert isinstance(rendering, Deferred)
        call, tally = self._call, self._simulator.tally
        self._wire.kept = True
        self._job = self._simulator.jobs[str(call.id)] = Job(rendering, task, lambda: tally.end(call, "left"))
        return self._job

    async def _defer(self, ask: Ask, behaviour: Behaviour, recording: Recording | None) -> None:
        """Answer that it is queued; generate it afterwards, or pretend that a recorded answer is made."""
        call, tally = self._call, self._simulator.tally
        rendering = self._dialect.render(ask, behaviour, call.id)

        async def generate() -> None:
            await pause(behaviour.background_ms)
            job.body = job.rendering.pending("in_progress")
            tokens = self._bill(ask, behaviour) if recording is None else self._bill_recording(ask, recording)
            try:
                await self._pieces(ask, behaviour, rendering, tokens)
            except _Ended as ended:
                job.fail(ended.error)
                tally.end(call, "broken")
            else:
                job.end(rendering.whole(call, tokens) if recording is None else recording.body)
                tally.end(call, "finished")

        job = self._promise(rendering, None)
        job.task = asyncio.ensure_future(generate())
        call.status = 200
        await self._wire.start(200, {"content-type": _JSON, "content-length": str(len(job.body))})
        await self._wire.end(job.body, lambda: None)

    async def _pieces(self, ask: Ask, behaviour: Behaviour, rendering: Rendering, tokens: int) -> None:
        """So many tokens a choice, those that are not shown at once."""
        call, wire = self._call, self._wire
        index = 0
        tokens -= min(tokens, behaviour.reasoning_tokens)
        faults = _faults(behaviour)
        at_once = not ask.stream and not behaviour.chunk_ms and not faults
        for index, piece in enumerate(_sizes(tokens, 1 if at_once else behaviour.chunks)):
            if index in faults:
                await self._fault(behaviour, index)
            if behaviour.chunk_ms:
                await pause(behaviour.chunk_ms)
            call.completion_tokens += piece * ask.choices
            if behaviour.deltas == "reasoning":
                call.reasoning_tokens += piece * ask.choices
            if ask.stream:
                wire.put(rendering.piece(index, piece))
                if behaviour.chunk_ms or wire.full:
                    await wire.flush()
        end = index + 1 if tokens else 0
        if end in faults:
            await self._fault(behaviour, end)

    async def _verbatim(self, ask: Ask, behaviour: Behaviour, status: int, media: str, content: bytes) -> None:
        """A body as it is. Billed from its start: a provider has made it, however much of it arrives."""
        wire = self._wire
        await self._start(status, media)
        await pause(behaviour.first_byte_ms)
        faults = _faults(behaviour)
        index = 0
        try:
            for index, piece in enumerate(cut(content, behaviour.split), 1):
                if index - 1 in faults:
                    await self._fault(behaviour, index - 1)
                await pause(behaviour.chunk_ms)
                await wire.write(piece)
            if index in faults:
                await self._fault(behaviour, index)
        except _Ended as ended:
            rendering = self._dialect.render(ask, behaviour, self._call.id)
            await self._end("broken", b"" if ended.error is None else rendering.error(ended.error))
        else:
            await self._end("finished")

    async def _fault(self, behaviour: Behaviour, index: int) -> None:
        """What is to happen after so many pieces."""
        await self._wire.flush()
        if index == behaviour.barrier_after_chunks and behaviour.barrier is not None:
            await self._simulator.pass_barrier(behaviour.barrier)
        if index == behaviour.silence_after_chunks:
            await asyncio.Event().wait()
        if index in (behaviour.cut_after_chunks, behaviour.close_after_chunks):
            # When the next piece would be due: who reads at that pace has read the last one.
            await pause(behaviour.chunk_ms)
            broken = _Broken(reset=index == behaviour.cut_after_chunks)
            if not self._wire.kept:
                raise broken
            await self._wire.break_off(broken.reset)
        if index == behaviour.error_after_chunks:
            given = behaviour.error_body
            raise _Ended(self._error(Refused(500, "simulated error")) if given is None else given)
        if index == behaviour.end_after_chunks:
            raise _Ended

    def _bill(self, ask: Ask, behaviour: Behaviour) -> int:
        """Bill what is there before the first piece; returns how many tokens a choice has."""
        tokens = behaviour.completion
        if ask.cap is not None and not behaviour.ignore_cap:
            tokens = min(tokens, ask.cap)
        hidden = min(tokens, behaviour.reasoning_tokens) * ask.choices
        if ask.billed:
            generated = {"reasoning_tokens": hidden, "completion_tokens": hidden}
            # Where no text is generated the prompt is all.
            self._call.bill({**_counts(behaviour), **generated} if ask.choices else {"prompt_tokens": behaviour.prompt})
        return tokens

    def _bill_recording(self, ask: Ask, recording: Recording) -> int:
        """Bill it as it says, unless it is an error; what is generated is all in it, so that no token is left."""
        if recording.status < 400 and ask.billed:
            self._call.bill(recording.counts)
            for model, counts in recording.others.items():
                other = Call(model)
                other.bill(counts)
                self._call.others.append(other)
        return 0

    def _error(self, refused: Refused) -> Any:
        return self._dialect.error(refused, f"req_{self._request}")

    async def _start(self, status: int, media: str, headers: dict[str, str] | None = None) -> None:
        self._call.status = status
        await self._wire.start(status, {"content-type": media, **(headers or {})})

    async def _whole(self, state: State, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        await self._start(status, _JSON, {"content-length": str(len(body)), **(headers or {})})
        await self._end(state, body)

    async def _end(self, state: State, data: bytes = b"") -> None:
        await self._wire.end(data, lambda: self._simulator.tally.end(self._call, state))


class _Wire:
    """The way back to the client."""

    def __init__(self, scope: Scope, send: Send, header: str, request_id: str) -> None:
        self._send = send
        self._request_id = header.encode(), request_id.encode()
        self._transport: asyncio.Transport | None = scope.get("extensions", {}).get(TRANSPORT)
        self._waiting: list[bytes] = []
        self._size = 0
        self.split: str | None = None
        #: The coding that the answer is sent in, by its name.
        self.encoding: str | None = None
        self._encoder: Encoder | None = None
        #: Whether the answer goes on when its client is gone.
        self.kept = False
        self._ended = False

    async def start(self, status: int, headers: dict[str, str]) -> None:
        """Send the status and headers."""
        if self.encoding is not None:
            self._encoder = ENCODERS[self.encoding]()
            headers = {name: value for name, value in headers.items() if name != "content-length"}
            headers["content-encoding"] = self.encoding
        rows = [(name.encode(), value.encode()) for name, value in headers.items()]
        rows.append(self._request_id)
        await self._send({"type": "http.response.start", "status": status, "headers": rows})

    def put(self, data: bytes) -> None:
        """Add to the next write."""
        if data:
            self._waiting.append(data)
            self._size += len(data)

    @property
    def full(self) -> bool:
        """Whether the next write is as large as a write should be."""
        return self._size >= _WRITE_BYTES

    async def flush(self) -> None:
        """Send what waits; one write, or as many as the split asks for."""
        if self._waiting:
            for piece in cut(self._take(), self.split):
                await self.write(piece)

    async def write(self, data: bytes) -> None:
        """Send this in a write of its own."""
        if self._is_left():
            return
        data = data if self._encoder is None else self._encoder.write(data)
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        if self.split is not None:
            # The loop joins the writes of one turn, so a write of its own takes a turn of its own.
            await asyncio.sleep(0)

    async def end(self, data: bytes, before: Callable[[], None]) -> None:
        """Send the rest, and end the answer; calls ``before`` when nothing but the end is left to be sent."""
        self.put(data)
        if self.split is not None:
            await self.flush()
        left, self._ended = self._is_left(), True
        before()
        if left:
            return
        rest = self._take()
        if self._encoder is not None:
            rest = self._encoder.write(rest) + self._encoder.end()
        await self._send({"type": "http.response.body", "body": rest, "more_body": False})

    async def break_off(self, reset: bool) -> None:
        """End the connection, after what was written has left; it is not this answer's any more if that has ended."""
        if self._ended:
            return
        transport = self._transport
        if transport is None:
            raise RuntimeError("a connection can be broken only under pgbudget.simulator.serve")
        connection = transport.get_extra_info("socket")
        # A reset throws away what the peer's kernel has not taken; of that queue nobody tells when it is empty.
        while not transport.is_closing() and (transport.get_write_buffer_size() or _unsent(connection)):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        if transport.is_closing():
            return
        if reset:
            # Without lingering the peer gets a reset, not an orderly end.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()

    def _take(self) -> bytes:
        data = b"".join(self._waiting)
        self._waiting, self._size = [], 0
        return data

    def _is_left(self) -> bool:
        left = self._transport is not None and self._transport.is_closing()
        if left and not self.kept:
            raise _Left
        return left


def _unsent(connection: socket.socket) -> int:
    """Bytes that the kernel keeps for the peer."""
    if sys.platform == "darwin":
        return connection.getsockopt(socket.SOL_SOCKET, _SO_NWRITE)
    queued = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0" * 4)
    return int.from_bytes(queued, sys.byteorder)


def _sizes(tokens: int, chunks: int | None) -> Iterator[int]:
    """Tokens of each piece."""
    count = tokens if chunks is None else min(chunks, tokens)
    for i in range(count):
        yield tokens * (i + 1) // count - tokens * i // count


def _counts(behaviour: Behaviour) -> dict[str, int | None]:
    """What is billed of the input."""
    return {
        "prompt_tokens": behaviour.prompt,
        "cached_tokens": behaviour.cached_tokens,
        "cache_write_5m_tokens": behaviour.cache_write_5m_tokens,
        "cache_write_1h_tokens": behaviour.cache_write_1h_tokens,
        "web_searches": behaviour.web_searches,
    }


def _faults(behaviour: Behaviour) -> set[int | None]:
    """After how many pieces something is to happen."""
    return {
        behaviour.barrier_after_chunks,
        behaviour.cut_after_chunks,
        behaviour.close_after_chunks,
        behaviour.silence_after_chunks,
        behaviour.end_after_chunks,
        behaviour.error_after_chunks,
    } - {None}


async def _body(receive: Receive) -> bytes | None:
    """The request's body; None if the client left before its end."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def pause(milliseconds: float) -> None:
    if milliseconds:
        await asyncio.sleep(milliseconds / 1000)


def _parse(content: bytes) -> tuple[Any, str | None]:
    """A JSON object, or what is wrong with it."""
    try:
        body = json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None, "We could not parse the JSON body of your request."
    return (body, None) if isinstance(body, dict) else (None, "The body of your request must be a JSON object.")


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not JSON")
