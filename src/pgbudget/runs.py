"""Runs: one piece of work of a key, with a ceiling over all its calls. Named by a header of each call, or started by hand."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from psycopg.types.json import Jsonb
from starlette.requests import Request
from starlette.responses import Response

from pgbudget.config import Config
from pgbudget.db import Database
from pgbudget.errors import BudgetError, InvalidRequest, NotFound, Refused
from pgbudget.http import Headers, dumps, header, read_body, usd, virtual_key
from pgbudget.refusals import Refusals
from pgbudget.wire import strict_json

_RUN, _CEILING, _STEPS = "x-pgbudget-run", "x-pgbudget-run-ceiling-usd", "x-pgbudget-run-max-steps"
_MEMBERS = ("run", "ceiling_usd", "max_steps", "parent_run")
_MAX_BODY = 1 << 16
_END_TRIES = 3

# As the database has them: whether they may be is decided there.
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
_AMOUNT = re.compile(r"[0-9]{1,10}(\.[0-9]{1,9})?")
_COUNT = re.compile(r"[1-9][0-9]{0,17}")


def run_of(headers: Headers) -> dict[str, Any] | None:
    """The run that a call says it belongs to, as an option of ``reserve``; raises :class:`InvalidRequest`."""
    name, ceiling, steps = (header(headers, n.encode()) for n in (_RUN, _CEILING, _STEPS))
    if name is None:
        for field, value in ((_CEILING, ceiling), (_STEPS, steps)):
            if value is not None:
                raise InvalidRequest(f"{field} is for a run: send its id as {_RUN}", field)
        return None
    try:
        name = name.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest(f"{_RUN} is not UTF-8", _RUN) from None
    run: dict[str, Any] = {"id": _name(name, _RUN)}
    if ceiling is not None:
        run["ceiling_usd"] = _amount(ceiling, _CEILING)
    if steps is not None:
        run["max_steps"] = _count(steps, _STEPS)
    return run


class RunsEndpoint:
    """``POST /v1/budget/runs`` and ``POST /v1/budget/runs/{run}/end``, with the key that the run is of."""

    def __init__(self, config: Config, database: Database, refusals: Refusals) -> None:
        self._config = config
        self._database = database
        self._refusals = refusals

    async def start(self, request: Request) -> Response:
        """Start a run, or say how the one of that name stands; raises a :class:`BudgetError`."""
        headers: Headers = request.scope["headers"]
        key = virtual_key(headers)
        body = await read_body(headers, request.receive, _MAX_BODY, self._config.body_seconds)
        run, options = _asked(body)
        row = (await self._database.ask("select * from budget.start_run(%s, %s, %s)", key, run, Jsonb(options)))[0]
        if row["status"] == "denied":
            self._refusals.add(key, "run", row["parent_run"], row["code"])
            raise Refused(row["code"], row["message"], status=self._config.status(row["code"]))
        return Response(dumps(_shown(row)), 201 if row["status"] == "started" else 200, media_type="application/json")

    async def end(self, request: Request) -> Response:
        """End a run; raises a :class:`BudgetError`."""
        key = virtual_key(request.scope["headers"])
        run = _name(request.path_params["run"], "run")
        for attempt in range(1, _END_TRIES + 1):
            try:
                row = (await self._database.ask("select * from budget.end_run(%s, %s)", key, run))[0]
                break
            except BudgetError as error:
                sqlstate = getattr(error.__cause__, "sqlstate", None)
                if sqlstate == "LB101":
                    raise NotFound(error.message, "run") from error
                # Another was carved from it at this moment: it ends with the next try.
                if sqlstate != "LB305" or attempt == _END_TRIES:
                    raise
        return Response(dumps(_shown(row)), media_type="application/json")


def _asked(body: bytes) -> tuple[str, dict[str, Any]]:
    try:
        asked = strict_json.loads(body, exact=True)
    except strict_json.InvalidJSON as error:
        raise InvalidRequest(str(error)) from None
    if not isinstance(asked, dict):
        raise InvalidRequest('the body must be a JSON object: {"run": "<id>"}')
    for name in asked:
        if name not in _MEMBERS:
            raise InvalidRequest(f"unknown member {ascii(name)[:60]}; known are {', '.join(_MEMBERS)}", name[:60])
    run = _name(asked.get("run"), "run")
    given = {name: value for name, value in asked.items() if name != "run" and value is not None}
    options: dict[str, Any] = {}
    if "ceiling_usd" in given:
        options["ceiling_usd"] = _amount(given["ceiling_usd"], "ceiling_usd")
    if "max_steps" in given:
        options["max_steps"] = _count(given["max_steps"], "max_steps", json=True)
    if "parent_run" in given:
        options["parent_run"] = _name(given["parent_run"], "parent_run")
    return run, options


def _name(value: Any, field: str) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value) and value == value.strip(" "):
        return value
    raise InvalidRequest(f"{field} must be an id of 1 to 200 printable characters without blanks at the ends", field)


def _amount(value: Any, field: str) -> str:
    """Digit for digit as it came."""
    text = value
    if isinstance(value, Decimal) and -30 <= value.adjusted() <= 30:
        text = f"{value:f}"
    elif type(value) is int:
        text = str(value)
    if isinstance(text, str) and _AMOUNT.fullmatch(text):
        return text
    raise InvalidRequest(f"{field} must be an amount in USD from 0 to 9000000000 with at most nine decimals", field)


def _count(value: Any, field: str, *, json: bool = False) -> int:
    if (type(value) is int if json else isinstance(value, str)) and _COUNT.fullmatch(str(value)):
        return int(value)
    raise InvalidRequest(f"{field} must be a whole number above 0", field)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": row["run"],
        "status": row["status"],
        "parent_run": row["parent_run"],
        "ceiling_usd": usd(row["ceiling_nano_usd"]),
        "spent_usd": usd(row["spent_nano_usd"]),
        "reserved_usd": usd(row["held_nano_usd"]),
        "available_usd": usd(row["available_nano_usd"]),
        "steps": row["steps"],
        "max_steps": row["max_steps"],
        "started_at": row["started_at"],
        "ended_at": row["ended_at"],
    }
