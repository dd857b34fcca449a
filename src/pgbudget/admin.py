"""``/admin``: what ops do by hand."""

from __future__ import annotations

import hmac
import logging
import uuid
from typing import Any

import psycopg
from starlette.requests import Request
from starlette.responses import Response

from pgbudget.config import Config
from pgbudget.db import Database, as_client_error
from pgbudget.errors import Forbidden, InvalidRequest, NotFound, Unauthorized
from pgbudget.http import dumps, header, read_body, usd
from pgbudget.wire import strict_json

log = logging.getLogger("pgbudget.admin")

_BATCH = 500
_MAX_BATCHES = 1000
#: Unknown, and still alive.
_REFUSALS = {"LB301": NotFound, "LB304": InvalidRequest}


def check_token(config: Config, request: Request) -> None:
    """Let the admin token in and nobody else."""
    if config.admin_token is None:
        raise Forbidden("/admin is closed: PGBUDGET_ADMIN_TOKEN is not set")
    scheme, _, token = (header(request.scope["headers"], b"authorization") or "").partition(" ")
    # Bytes as they came: a header is read as Latin-1, and a token may be UTF-8.
    if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode("latin-1"), config.admin_token.encode()):
        raise Unauthorized("the admin token is missing or wrong: send Authorization: Bearer <token>")


class ReconcileEndpoint:
    """``POST /admin/reconcile``: all that is due, or ``{"reservation_id": ...}``."""

    def __init__(self, config: Config, database: Database) -> None:
        self._config = config
        self._database = database

    async def handle(self, request: Request) -> Response:
        """One request; raises a :class:`BudgetError`."""
        check_token(self._config, request)
        body = b""
        if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
            body = await read_body(request.scope["headers"], request.receive, 1 << 16, self._config.body_seconds)
        try:
            asked = strict_json.loads(body) if body else {}
        except strict_json.InvalidJSON as error:
            raise InvalidRequest(str(error)) from None
        if not isinstance(asked, dict) or asked.keys() - {"reservation_id"}:
            raise InvalidRequest('the body must be {} or {"reservation_id": "<id>"}')
        if "reservation_id" not in asked:
            return Response(dumps(await self._all()), media_type="application/json")
        try:
            reservation = uuid.UUID(asked["reservation_id"])
        except (ValueError, TypeError, AttributeError):
            raise InvalidRequest("reservation_id must be a UUID", "reservation_id") from None
        return Response(dumps(await self._one(reservation)), media_type="application/json")

    async def _all(self) -> dict[str, Any]:
        done = {"charged": 0, "failed": 0, "quarantined": 0, "more": False}
        for _ in range(_MAX_BATCHES):
            row = (await self._database.ask("select charged, failed, quarantined, more from budget.reconcile(%s)", _BATCH))[0]
            for name in ("charged", "failed", "quarantined"):
                done[name] += row[name]
            done["more"] = row["more"]
            if not row["more"]:
                break
        return done

    async def _one(self, reservation: uuid.UUID) -> dict[str, Any]:
        try:
            row = (await self._database.fetch("select * from budget.reconcile_one(%s)", reservation))[0]
        except psycopg.Error as error:
            refusal = _REFUSALS.get(error.sqlstate or "")
            if refusal is None:
                raise as_client_error(error) from error
            message = error.diag.message_primary or ""
            log.info("reconcile refused: %s", message)
            raise refusal(message, "reservation_id") from None
        return {
            "reservation_id": str(reservation),
            "status": row["status"],
            "code": row["code"],
            "message": row["message"],
            "charged_usd": usd(row["charged_nano_usd"]),
            "reserved_usd": usd(row["reserved_nano_usd"]),
            "source": row["source"],
            "flags": row["flags"],
        }
