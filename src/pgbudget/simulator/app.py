"""The simulated provider as an ASGI app: ``/v1/chat/completions`` and the controls under ``/simulator``."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import random
import socket
import struct
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pgbudget.simulator.behaviour import Behaviour
from pgbudget.simulator.tally import RATES, Generated, Tally

_TRANSPORT = "pgbudget.simulator.transport"


class _Cut(Exception):
    """The connection is to be reset here."""


class Simulator:
    """State of one simulated provider."""

    def __init__(self, defaults: dict[str, Any] | None = None, key: str | None = None) -> None:
        self.tally = Tally()
        self.key = key
        self._first_defaults = dict(defaults or {})
        self.defaults = dict(self._first_defaults)
        self.barriers: dict[str, asyncio.Event] = {}
        self.waiting: dict[str, int] = {}
        self._next_id = 0

    def reset(self) -> None:
        """Back to how it was started; opens all barriers."""
        for barrier in self.barriers.values():
            barrier.set()
        self.barriers = {}
        self.waiting = {}
        self.defaults = dict(self._first_defaults)
        self.tally.reset()
        self._next_id = 0

    async def at_barrier(self, name: str) -> None:
        """Wait until the barrier is open."""
        barrier = self.barriers.setdefault(name, asyncio.Event())
        self.waiting[name] = self.waiting.get(name, 0) + 1
        try:
            await barrier.wait()
        finally:
            self.waiting[name] = self.waiting.get(name, 1) - 1

    def answer_id(self, behaviour: Behaviour) -> Any:
        """The id of the next answer."""
        if behaviour.ids:
            self._next_id += 1
            return behaviour.ids[(self._next_id - 1) % len(behaviour.ids)]
        return f"chatcmpl-{uuid.uuid4().hex}"


class ChatEndpoint:
    """``POST /v1/chat/completions``."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        answer = await self._begin(request)
        if isinstance(answer, Response):
            await answer(scope, receive, send)
            return
        behaviour, body, call = answer
        watcher = asyncio.create_task(_gone(receive))
        work = asyncio.create_task(self._answer(behaviour, body, call, send))
        try:
            # A client that leaves stops the generation, as it does at providers.
            await asyncio.wait({watcher, work}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        except _Cut:
            _reset(scope)
        finally:
            watcher.cancel()
            work.cancel()

    async def _begin(self, request: Request) -> Response | tuple[Behaviour, dict[str, Any], Generated]:
        simulator = self._simulator
        body = json.loads(await request.body())
        try:
            behaviour = Behaviour.parse(request.headers.get("x-simulate", ""), simulator.defaults)
        except (ValueError, TypeError) as error:
            return _error(400, f"x-simulate: {error}")
        call = Generated(
            id=str(simulator.answer_id(behaviour)),
            model=body.get("model", ""),
            request_headers=[(k.decode(), v.decode("latin-1")) for k, v in request.scope["headers"]],
            request_body=body,
        )
        simulator.tally.add(call)
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not key or (simulator.key and key != simulator.key):
            call.finished = True
            return _error(401, "Incorrect API key provided.")
        if behaviour.redirect:
            call.finished = True
            return Response(status_code=307, headers={"location": behaviour.redirect})
        if behaviour.barrier:
            await simulator.at_barrier(behaviour.barrier)
        if behaviour.latency_ms:
            await asyncio.sleep(behaviour.latency_ms / 1000)
        if behaviour.status != 200:
            call.finished = True
            if behaviour.error_body is not None:
                return JSONResponse(behaviour.error_body, behaviour.status)
            return _error(behaviour.status, f"simulated status {behaviour.status}")
        return behaviour, body, call

    async def _answer(self, behaviour: Behaviour, body: dict[str, Any], call: Generated, send: Send) -> None:
        if behaviour.raw_sse is not None or behaviour.raw_body is not None or behaviour.replay is not None:
            await _verbatim(behaviour, call, send)
            return
        cap = body.get("max_completion_tokens") or body.get("max_tokens")
        tokens = behaviour.completion_tokens
        if cap is not None and not behaviour.ignore_cap:
            tokens = min(tokens, cap)
        choices = body.get("n") or 1
        call.prompt_tokens, call.cached_tokens, call.billed = behaviour.prompt_tokens, behaviour.cached_tokens, True
        answer: dict[str, Any] = {
            "id": call.id if not behaviour.ids or call.id != "None" else None,
            "created": int(time.time()),
            "model": behaviour.model or call.model,
            "system_fingerprint": "fp_simulated",
        }
        if body.get("stream"):
            await _start(send, "text/event-stream; charset=utf-8")
            options = body.get("stream_options") or {}
            pieces = _pieces(tokens, behaviour.chunks)
            count = 0
            async for piece in _paced(pieces, behaviour):
                if count == behaviour.cut_after_chunks:
                    raise _Cut
                if count == behaviour.silence_after_chunks:
                    await asyncio.Event().wait()
                if count == behaviour.error_after_chunks:
                    await _event(send, {"error": {"message": "simulated error", "type": "server_error", "code": None}})
                    break
                chunk = {**answer, "object": "chat.completion.chunk"}
                chunk["choices"] = [_choice(i, _delta(behaviour, piece, count), behaviour) for i in range(choices)]
                if behaviour.usages is not None:
                    chunk["usage"] = behaviour.usages[count] if count < len(behaviour.usages) else None
                elif options.get("include_usage"):
                    chunk["usage"] = None
                call.completion_tokens += piece * choices
                await _event(send, chunk)
                count += 1
            else:
                if count == behaviour.cut_after_chunks:
                    raise _Cut
                if count == behaviour.silence_after_chunks:
                    await asyncio.Event().wait()
                if count == behaviour.error_after_chunks:
                    await _event(send, {"error": {"message": "simulated error", "type": "server_error", "code": None}})
                else:
                    last = {**answer, "object": "chat.completion.chunk"}
                    reason = _finish_reason(behaviour, tokens)
                    last["choices"] = [{"index": i, "delta": {}, "finish_reason": reason} for i in range(choices)]
                    await _event(send, last)
                    if options.get("include_usage") and not behaviour.no_usage and behaviour.usages is None:
                        await _event(
                            send, {**answer, "object": "chat.completion.chunk", "choices": [], "usage": _usage(behaviour, call)}
                        )
                    call.finished = True
                    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": True})
            call.finished = True
            await send({"type": "http.response.body", "body": b""})
            return
        call.completion_tokens = tokens * choices
        if behaviour.cut_after_chunks is not None:
            raise _Cut
        if behaviour.silence_after_chunks is not None:
            await asyncio.Event().wait()
        whole = {**answer, "object": "chat.completion"}
        whole["choices"] = [
            {
                "index": i,
                "message": {"role": "assistant", **_delta(behaviour, tokens, 0)},
                "finish_reason": _finish_reason(behaviour, tokens),
                "logprobs": None,
            }
            for i in range(choices)
        ]
        if not behaviour.no_usage:
            whole["usage"] = _usage(behaviour, call)
        call.finished = True
        await JSONResponse(whole, headers={"x-request-id": f"req_{uuid.uuid4().hex}"})({"type": "http"}, _never, send)


def create_app(defaults: dict[str, Any] | None = None, key: str | None = None) -> Starlette:
    """The simulator as an app; ``defaults`` as :class:`Behaviour`."""
    simulator = Simulator(defaults, key)

    async def tally(request: Request) -> Response:
        return JSONResponse(simulator.tally.summary(int(request.query_params.get("limit", "1000"))))

    async def set_defaults(request: Request) -> Response:
        simulator.defaults = {**simulator.defaults, **(await request.json())}
        return JSONResponse(simulator.defaults)

    async def reset(_: Request) -> Response:
        simulator.reset()
        return JSONResponse({})

    async def barrier(request: Request) -> Response:
        return JSONResponse({"waiting": simulator.waiting.get(request.path_params["name"], 0)})

    async def open_barrier(request: Request) -> Response:
        simulator.barriers.setdefault(request.path_params["name"], asyncio.Event()).set()
        return JSONResponse({})

    async def models(_: Request) -> Response:
        data = [{"id": m, "object": "model", "created": 0, "owned_by": "simulator"} for m in RATES]
        return JSONResponse({"object": "list", "data": data})

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", ChatEndpoint(simulator), methods=["POST"]),
            Route("/v1/models", models),
            Route("/healthz", healthz),
            Route("/simulator/tally", tally),
            Route("/simulator/defaults", set_defaults, methods=["POST"]),
            Route("/simulator/reset", reset, methods=["POST"]),
            Route("/simulator/barrier/{name}", barrier),
            Route("/simulator/barrier/{name}/open", open_barrier, methods=["POST"]),
        ]
    )


def serve(host: str, port: int, defaults: dict[str, Any] | None = None, key: str | None = None) -> None:
    """Run the simulator until it is told to stop."""
    # A reset in the middle of an answer is what was asked for, not a fault to report.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    uvicorn.run(
        create_app(defaults, key),
        host=host,
        port=port,
        http=_Protocol,
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=1,
        # As providers do: longer than the gateway keeps its own.
        timeout_keep_alive=75,
        backlog=4096,
    )


class _Protocol(HttpToolsProtocol):
    """Shows the connection to the app, so that it can reset it."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {**self.scope.get("extensions", {}), _TRANSPORT: self.transport}  # type: ignore[dict-item]


def _reset(scope: Scope) -> None:
    transport = scope.get("extensions", {}).get(_TRANSPORT)
    if transport is None:
        raise RuntimeError("connections can be reset only under pgbudget.simulator.app.serve")
    # No lingering: the peer gets a reset, not an orderly end.
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _never() -> Any:
    await asyncio.Event().wait()


async def _start(send: Send, media: str) -> None:
    headers = [(b"content-type", media.encode()), (b"x-request-id", f"req_{uuid.uuid4().hex}".encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _event(send: Send, value: Any) -> None:
    await send({"type": "http.response.body", "body": b"data: " + json.dumps(value).encode() + b"\n\n", "more_body": True})


def _pieces(tokens: int, chunks: int | None) -> Iterator[int]:
    count = tokens if chunks is None else min(chunks, tokens)
    for i in range(count):
        yield tokens * (i + 1) // count - tokens * i // count


async def _paced(pieces: Iterator[int], behaviour: Behaviour) -> AsyncIterator[int]:
    for piece in pieces:
        if behaviour.chunk_ms:
            await asyncio.sleep(behaviour.chunk_ms / 1000)
        yield piece


def _delta(behaviour: Behaviour, tokens: int, index: int) -> dict[str, Any]:
    text = behaviour.text * tokens
    if behaviour.deltas == "reasoning":
        return {"reasoning_content": text}
    if behaviour.deltas == "tool_calls":
        call: dict[str, Any] = {"index": 0, "function": {"arguments": text}}
        if index == 0:
            call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": text}}
        return {"tool_calls": [call]}
    return {"content": text}


def _choice(index: int, delta: dict[str, Any], behaviour: Behaviour) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": index, "delta": delta, "finish_reason": None}
    if behaviour.padding:
        choice["logprobs"] = {"content": [{"token": "x", "top_logprobs": ["p" * behaviour.padding]}]}
    return choice


def _finish_reason(behaviour: Behaviour, tokens: int) -> str:
    return "stop" if tokens == behaviour.completion_tokens else "length"


def _usage(behaviour: Behaviour, call: Generated) -> Any:
    if behaviour.usage is not None:
        return behaviour.usage
    return {
        "prompt_tokens": call.prompt_tokens,
        "completion_tokens": call.completion_tokens,
        "total_tokens": call.prompt_tokens + call.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": call.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


async def _verbatim(behaviour: Behaviour, call: Generated, send: Send) -> None:
    if behaviour.replay is not None:
        content, status, media = _recorded(behaviour.replay)
    else:
        content = (behaviour.raw_sse if behaviour.raw_sse is not None else behaviour.raw_body or "").encode()
        status, media = 200, "text/event-stream" if behaviour.raw_sse is not None else "application/json"
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", media.encode())]})
    count = 0
    for piece in _cut(content, behaviour.split):
        if count == behaviour.cut_after_chunks:
            raise _Cut
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        count += 1
        # One write a piece: without a turn of the loop the kernel may join them.
        await asyncio.sleep(0)
    if count == behaviour.cut_after_chunks:
        raise _Cut
    call.finished = True
    await send({"type": "http.response.body", "body": b""})


def _recorded(name: str) -> tuple[bytes, int, str]:
    """A recorded body with its status and media type."""
    folder = Path(os.environ.get("PGBUDGET_WIRE") or "../shared/wire").resolve()
    path = (folder / name).resolve()
    if folder not in path.parents:
        raise ValueError("replay must be a file under the wire folder")
    rows = (json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines())
    status = next(row["status"] for row in rows if row["file"] == name)
    return path.read_bytes(), status, "text/event-stream" if path.suffix == ".sse" else "application/json"


def _cut(content: bytes, how: str | None) -> list[bytes]:
    if how is None:
        return [content]
    if how == "bytes":
        return [content[i : i + 1] for i in range(len(content))]
    if how == "lines":
        return content.splitlines(keepends=True)
    chance = random.Random(int(how.removeprefix("seed:")))
    places = sorted({0, len(content), *(chance.randrange(len(content) + 1) for _ in range(len(content) // 40 + 3))})
    return [content[a:b] for a, b in itertools.pairwise(places)]


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}, status)
