"""The gateway as an ASGI app, and the server around it."""

from __future__ import annotations

import contextlib
import gc
import signal
from collections.abc import AsyncIterator, Awaitable, Callable

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pgbudget.admin import ReconcileEndpoint
from pgbudget.alerts.admin import AlertsEndpoint
from pgbudget.alerts.settings import AlertSettings
from pgbudget.alerts.worker import AlertWorker
from pgbudget.answers import AnswersEndpoint
from pgbudget.config import Config
from pgbudget.data_plane import DataPlane
from pgbudget.db import Database
from pgbudget.endpoint import CallEndpoint
from pgbudget.errors import BudgetError, NotFound, NotMetered
from pgbudget.http import dumps, plain, virtual_key
from pgbudget.protocol import StrictProtocol
from pgbudget.runs import RunsEndpoint
from pgbudget.upkeep import Upkeep
from pgbudget.upstream import Upstream
from pgbudget.wire.dialects import DIALECTS
from pgbudget.wire.messages import error_body as anthropic_error
from pgbudget.wire.responses import Responses

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

Handler = Callable[[Request], Awaitable[Response]]


def create_app(config: Config) -> Starlette:
    """The gateway. Starts also while its database is away; it then refuses every call until it is back."""
    database = Database(config.dsn, pool_size=config.pool_size)
    # Heartbeats and upkeep must not queue behind requests.
    background = Database(config.dsn, pool_size=2)
    upstream = Upstream(config)
    alerts = AlertWorker(background, AlertSettings.from_env(config.environment))
    plane = DataPlane(config, database, background, upstream)
    upkeep = Upkeep(background, config.reconcile_seconds)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await database.open()
        await background.open()
        plane.settlements.start()
        plane.heartbeats.start()
        plane.refusals.start()
        alerts.start()
        upkeep.start()
        # What is there by now stays: looking at it again and again cost a tenth of what calls cost.
        gc.collect()
        gc.freeze()
        # What calls make goes without its help, but for a little.
        gc.set_threshold(20_000, 20, 20)
        try:
            yield
        finally:
            upkeep.stop()
            await alerts.stop()
            await plane.settlements.stop(min(config.shutdown_seconds, 10))
            plane.heartbeats.stop()
            await plane.refusals.stop(2)
            await upstream.close()
            await database.close()
            await background.close()

    async def healthz(_: Request) -> Response:
        return Response(dumps({"status": "ok"}), media_type="application/json")

    async def readyz(_: Request) -> Response:
        ready = await database.ready()
        return Response(
            dumps({"status": "ready" if ready else "database unavailable"}),
            200 if ready else 503,
            media_type="application/json",
        )

    async def budget(request: Request) -> Response:
        rows = await database.ask("select * from budget.key_budgets(%s)", virtual_key(request.scope["headers"]))
        budgets = [
            {
                "scope": row["scope_kind"],
                "name": row["scope_name"],
                "budget": row["budget_name"],
                "period": row["period"],
                **{n: plain(row[n]) for n in ("limit_usd", "spent_usd", "reserved_usd", "available_usd", "utilization")},
                "starts_at": row["starts_at"],
                "ends_at": row["ends_at"],
                "binding": row["binding"],
            }
            for row in rows
        ]
        return Response(dumps({"budgets": budgets}), media_type="application/json")

    async def models(request: Request) -> Response:
        rows = await database.ask("select * from budget.key_models(%s)", virtual_key(request.scope["headers"]))
        data = [{"id": r["model"], "object": "model", "created": 0, "owned_by": r["provider"]} for r in rows]
        return Response(dumps({"object": "list", "data": data}), media_type="application/json")

    async def unmetered(request: Request) -> Response:
        raise NotMetered(
            f"{request.method} {request.url.path} is not metered by this gateway, so it is not passed on. "
            f"It serves POST {', '.join(f'/v1{dialect.path}' for dialect in DIALECTS)} and /v1/budget/runs, GET /v1/models and "
            "/v1/budget, and GET, DELETE and cancel of answers that were made in the background"
        )

    async def unknown(request: Request) -> Response:
        raise NotFound(f"there is nothing at {request.url.path}")

    alert_admin = AlertsEndpoint(config, background)
    runs = RunsEndpoint(config, database, plane.refusals)
    app = Starlette(
        routes=[
            *(Route(f"/v1{dialect.path}", CallEndpoint(plane, dialect), methods=["POST"]) for dialect in DIALECTS),
            *_answers(plane, database),
            Route("/v1/models", _guarded(models), methods=["GET"]),
            Route("/v1/budget", _guarded(budget), methods=["GET"]),
            Route("/v1/budget/runs", _guarded(runs.start), methods=["POST"]),
            Route("/v1/budget/runs/{run:path}/end", _guarded(runs.end), methods=["POST"]),
            Route("/admin/reconcile", _guarded(ReconcileEndpoint(config, background).handle), methods=["POST"]),
            Route("/admin/alerts", _guarded(alert_admin.list), methods=["GET"]),
            Route("/admin/alerts/{alert_id}/redrive", _guarded(alert_admin.redrive), methods=["POST"]),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/v1/{path:path}", _guarded(unmetered), methods=_METHODS),
            Route("/{path:path}", _guarded(unknown), methods=_METHODS),
        ],
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


def serve(config: Config, host: str, port: int) -> None:
    """Run the gateway until SIGTERM or SIGINT: then stop accepting, let calls end, book their settlements, exit."""
    # The server handles these itself and then passes them on: an orderly end is no death by a signal.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(config),
            host=host,
            port=port,
            http=StrictProtocol,
            ws="none",
            proxy_headers=False,
            access_log=False,
            server_header=False,
            log_config=None,
            timeout_graceful_shutdown=int(config.shutdown_seconds),
            # Longer than clients (httpx and the SDKs on it: 5) and load balancers (mostly 60) keep theirs: who closes first
            # must be the one that sends, or a request meets a connection that is being closed, and is lost.
            timeout_keep_alive=75,
            backlog=4096,
        )
    )
    server.run()


def _answers(plane: DataPlane, database: Database) -> list[Route]:
    """What is made in the background by :class:`Responses` can be looked at, cancelled and deleted."""
    dialect = next(dialect for dialect in DIALECTS if isinstance(dialect, Responses))
    answers = AnswersEndpoint(plane, database, dialect)
    one = f"/v1{dialect.path}/{{answer_id}}"
    return [
        Route(one, _guarded(answers.show), methods=["GET"]),
        Route(one, _guarded(answers.delete), methods=["DELETE"]),
        Route(f"{one}/cancel", _guarded(answers.cancel), methods=["POST"]),
    ]


def _guarded(handler: Handler) -> Handler:
    async def guarded(request: Request) -> Response:
        try:
            return await handler(request)
        except BudgetError as error:
            headers = {name.decode(): value.decode() for name, value in error.headers()}
            # Their SDKs send this header with every request: they get errors as they know them.
            body = anthropic_error(error) if "anthropic-version" in request.headers else error.body()
            return Response(dumps(body), error.status, headers, media_type="application/json")

    return guarded
