"""The simulated provider: its dialects under ``/v1``, its controls under ``/simulator``, and the server to run it."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pgbudget.simulator.chat import Chat
from pgbudget.simulator.completions import Completions
from pgbudget.simulator.dialect import Dialect, Refused
from pgbudget.simulator.embeddings import Embeddings
from pgbudget.simulator.endpoint import TRANSPORT, Endpoint, Simulator
from pgbudget.simulator.jobs import routes
from pgbudget.simulator.messages import CountTokens, Messages
from pgbudget.simulator.responses import Responses
from pgbudget.simulator.tally import RATES

_CHAT: Final = Chat()
_RESPONSES: Final = Responses()
#: All that is served; a new dialect is a module and a line here.
DIALECTS: Final[tuple[Dialect, ...]] = (_CHAT, _RESPONSES, Completions(), Embeddings(), Messages(), CountTokens())


def create_app(defaults: dict[str, Any] | None = None, key: str | None = None) -> Starlette:
    """The simulator as an app.

    ``defaults``: how the run behaves (see ``behaviour``); raises ValueError if it does not fit.
    ``key``: the only provider key that is let in; by default ``PGBUDGET_SIMULATOR_KEY``, and any key if that is not set.
    """
    simulator = Simulator(defaults, key or os.environ.get("PGBUDGET_SIMULATOR_KEY") or None)

    async def tally(request: Request) -> Response:
        try:
            limit = int(request.query_params.get("limit", "1000"))
        except ValueError:
            return _error(400, "limit must be a whole number")
        return _json(simulator.tally.summary(limit))

    async def show_defaults(_: Request) -> Response:
        return _json(simulator.behaviours.defaults)

    async def set_defaults(request: Request) -> Response:
        try:
            simulator.behaviours.change(json.loads(await request.body()))
        except ValueError as error:
            return _error(400, f"defaults: {error}")
        return _json(simulator.behaviours.defaults)

    async def reset(_: Request) -> Response:
        simulator.reset()
        return JSONResponse({})

    async def barrier(request: Request) -> Response:
        return JSONResponse({"waiting": simulator.waiting(request.path_params["name"])})

    async def open_barrier(request: Request) -> Response:
        simulator.open(request.path_params["name"])
        return JSONResponse({})

    async def models(request: Request) -> Response:
        try:
            _CHAT.check_key(request.headers, simulator.key)
        except Refused as refused:
            return JSONResponse(_CHAT.error(refused, ""), refused.status)
        data = [{"id": m, "object": "model", "created": 0, "owned_by": "simulator"} for m in RATES]
        return JSONResponse({"object": "list", "data": data})

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def unknown(request: Request) -> Response:
        return _error(404, f"Unknown request URL: {request.method} {request.url.path}.", "unknown_url")

    return Starlette(
        routes=[
            *(Route(dialect.path, Endpoint(simulator, dialect), methods=["POST"]) for dialect in DIALECTS),
            *routes(simulator, _RESPONSES),
            Route("/v1/models", models),
            Route("/healthz", healthz),
            Route("/simulator/tally", tally),
            Route("/simulator/defaults", show_defaults, methods=["GET"]),
            Route("/simulator/defaults", set_defaults, methods=["POST"]),
            Route("/simulator/reset", reset, methods=["POST"]),
            Route("/simulator/barrier/{name}", barrier),
            Route("/simulator/barrier/{name}/open", open_barrier, methods=["POST"]),
            Route("/{path:path}", unknown, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ]
    )


def server(host: str, port: int, defaults: dict[str, Any] | None = None, key: str | None = None) -> uvicorn.Server:
    """A server of the simulator that shows each connection to the app, so that it can break it."""
    config = uvicorn.Config(
        create_app(defaults, key),
        host=host,
        port=port,
        http=_Protocol,
        access_log=False,
        log_config=None,
        lifespan="off",
        timeout_graceful_shutdown=1,
        # As providers do: longer than the gateway keeps its own.
        timeout_keep_alive=75,
        backlog=4096,
    )
    return uvicorn.Server(config)


def serve(host: str, port: int, defaults: dict[str, Any] | None = None, key: str | None = None) -> None:
    """Run the simulator until it is told to stop; arguments as for :func:`create_app`."""
    with contextlib.suppress(KeyboardInterrupt):
        server(host, port, defaults, key).run()


class _Protocol(HttpToolsProtocol):
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {TRANSPORT: self.transport}  # type: ignore[dict-item]


def _json(value: Any) -> Response:
    # Requests and behaviours may carry what strict JSON has not: NaN, halves of surrogate pairs.
    return Response(json.dumps(value), media_type="application/json")


def _error(status: int, message: str, code: str | None = None) -> JSONResponse:
    return JSONResponse(_CHAT.error(Refused(status, message, code), ""), status)
