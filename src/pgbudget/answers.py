"""Answers that were made in the background: to look at, cancel and delete them. Free; each key sees only its own."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from pgbudget.background import look
from pgbudget.data_plane import DataPlane
from pgbudget.db import Database
from pgbudget.endings import ending_of
from pgbudget.errors import SOURCE, Conflict, InvalidRequest, NotFound
from pgbudget.http import virtual_key
from pgbudget.wire.dialect import Dialect, ModelRequest
from pgbudget.wire.providers import provider
from pgbudget.wire.skim import skimmed

_ID = re.compile(r"[A-Za-z0-9_-]{1,200}")


class AnswersEndpoint:
    """``GET``, ``DELETE`` and cancel of one dialect's answers."""

    def __init__(self, plane: DataPlane, database: Database, dialect: Dialect) -> None:
        self._plane = plane
        self._database = database
        self._dialect = dialect

    async def show(self, request: Request) -> Response:
        """The answer as it stands."""
        if request.query_params.get("stream") not in (None, "false"):
            raise InvalidRequest("an answer in the background is not served as a stream: leave stream out", "stream")
        wanted = [(name, value) for name, value in request.query_params.multi_items() if name in ("include", "include[]")]
        row = await self._find(request)
        return self._pass_on(*await self._look(row, "GET", f"?{urlencode(wanted)}" if wanted else ""))

    async def cancel(self, request: Request) -> Response:
        """Have the provider stop; what it says then is what is charged."""
        row = await self._find(request)
        return self._pass_on(*await self._look(row, "POST", "/cancel"))

    async def delete(self, request: Request) -> Response:
        """Have the provider forget the answer, once it is known what it cost."""
        row = await self._find(request)
        if row["owed"]:
            status, _ = await self._look(row, "GET")
            if row["owed"] and status != 404:
                raise Conflict("the answer has not ended, or what it cost is not known yet: cancel it, and look until it ends")
        return self._pass_on(*await self._look(row, "DELETE"))

    async def _find(self, request: Request) -> dict[str, Any]:
        answer_id = request.path_params["answer_id"]
        key = virtual_key(request.scope["headers"])
        rows = await self._database.ask("select * from budget.find_answer(%s, %s)", key, answer_id)
        if not rows or not _ID.fullmatch(answer_id):
            raise NotFound("your key has no such answer; only those that were made with background: true can be looked up here")
        return {**rows[0], "answer_id": answer_id}

    async def _look(self, row: dict[str, Any], method: str, rest: str = "") -> tuple[int, bytes]:
        """Ask the provider. An answer that has ended with usage, and is not settled, is settled by it."""
        status, body = await look(self._plane, method, row, self._dialect, row["answer_id"], rest)
        if row["owed"] and 200 <= status < 300:
            # What was asked is not known here, so only what the provider itself reports can be booked.
            asked = ModelRequest({}, row["model"], None, 0, {})
            meter = self._dialect.meter(asked, provider(row["provider"]))
            if meter.whole(await skimmed([body])) and (ending := ending_of(meter, broken=False)).outcome == "finished":
                self._plane.settlements.add(
                    {"reservation_id": str(row["reservation_id"]), "outcome": ending.outcome, **ending.report}
                )
                row["owed"] = False
        return status, body

    def _pass_on(self, status: int, body: bytes) -> Response:
        headers = {SOURCE.decode(): "upstream"} if status >= 400 else {}
        return Response(body, status, headers, media_type="application/json")
