"""``/admin/alerts``: what became of the alerts, and another try for those that did not arrive."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pgbudget.admin import check_token
from pgbudget.alerts.message import Alert
from pgbudget.config import Config
from pgbudget.db import Database
from pgbudget.errors import InvalidRequest, NotFound
from pgbudget.http import dumps, read_body
from pgbudget.wire import strict_json

_STATES = ("pending", "delivered", "dead")
_MOST = 1000

_LIST = """
  with chosen as (
    select distinct o.alert_id
    from budget.alert_outbox o
    where (%s::text is null or o.state = %s::text) and (%s::bigint is null or o.alert_id < %s::bigint)
    order by o.alert_id desc
    limit %s
  )
  select o.alert_id, o.kind, o.org, o.payload::text as payload, o.created_at, o.destination, o.state, o.attempts,
    o.next_attempt_at, o.delivered_at, o.last_error
  from chosen c
  join budget.alert_outbox o on o.alert_id = c.alert_id
  order by o.alert_id desc, o.destination
"""


class AlertsEndpoint:
    """``GET /admin/alerts`` and ``POST /admin/alerts/{id}/redrive``."""

    def __init__(self, config: Config, database: Database) -> None:
        self._config = config
        self._database = database

    async def list(self, request: Request) -> Response:
        """The latest alerts: ``?state=`` with a delivery in that state, ``?before=`` older than an id, ``?limit=`` (100).

        Raises a :class:`BudgetError`.
        """
        check_token(self._config, request)
        query = request.query_params
        if unknown := set(query) - {"state", "before", "limit"}:
            raise InvalidRequest(f"there is no parameter {min(unknown)}: there are state, before and limit", min(unknown))
        state = query.get("state")
        if state is not None and state not in _STATES:
            raise InvalidRequest(f"state must be one of {', '.join(_STATES)}", "state")
        before, limit = _whole(query.get("before"), "before", 10**18), _whole(query.get("limit"), "limit", _MOST) or 100
        rows = await self._database.ask(_LIST, state, state, before, before, limit)
        return Response(dumps({"alerts": alerts_of(rows)}), media_type="application/json")

    async def redrive(self, request: Request) -> Response:
        """Try again: ``{}`` wherever it is dead or waits, ``{"destination": ...}`` one. Raises a :class:`BudgetError`."""
        check_token(self._config, request)
        alert_id = _whole(request.path_params["alert_id"], "alert_id", 10**18)
        body = b""
        if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
            body = await read_body(request.scope["headers"], request.receive, 1 << 16, self._config.body_seconds)
        try:
            asked = strict_json.loads(body) if body else {}
        except strict_json.InvalidJSON as error:
            raise InvalidRequest(str(error)) from None
        if not isinstance(asked, dict) or asked.keys() - {"destination"}:
            raise InvalidRequest('the body must be {} or {"destination": "<name>"}')
        destination = asked.get("destination")
        if destination is not None and not isinstance(destination, str):
            raise InvalidRequest("destination must be a name", "destination")
        if not await self._database.ask("select 1 from budget.alert_outbox where alert_id = %s limit 1", alert_id):
            raise NotFound(f"there is no alert {alert_id}", "alert_id")
        row = (await self._database.ask("select budget.redrive_alert(%s, %s) as due", alert_id, destination))[0]
        return Response(dumps({"alert_id": alert_id, "due": row["due"]}), media_type="application/json")


def alerts_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the outbox as one object an alert, in their order."""
    found: dict[int, dict[str, Any]] = {}
    for row in rows:
        alert_id = row["alert_id"]
        if alert_id not in found:
            payload = json.loads(row["payload"], parse_float=Decimal)
            found[alert_id] = {
                "alert_id": alert_id,
                "kind": row["kind"],
                "org": row["org"],
                "created_at": row["created_at"],
                "text": Alert(alert_id, row["kind"], payload, row["created_at"]).text,
                "payload": payload,
                "deliveries": [],
            }
        if row["destination"] is not None:
            names = ("destination", "state", "attempts", "next_attempt_at", "delivered_at", "last_error")
            found[alert_id]["deliveries"].append({name: row[name] for name in names})
    return list(found.values())


def _whole(text: str | None, name: str, most: int) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text) or not 1 <= int(text) <= most:
        raise InvalidRequest(f"{name} must be a whole number from 1 to {most}", name)
    return int(text)
