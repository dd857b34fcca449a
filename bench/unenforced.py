"""This gateway with enforcement off, for comparison only: there is no such setting, and nothing here is installed.

``python -m bench.unenforced no-budgets|passed-on PORT``, with the gateway's environment. The server, its routes and the way to
the provider are the gateway's own.

* ``no-budgets``: every call is granted at once and its settlement is thrown away. Requests are still read, bounded and
  rewritten and answers metered; nothing is asked of the database.
* ``passed-on``: not even that. Bodies go from one side to the other as they are.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from typing import Any

from starlette.types import Receive, Scope, Send

from pgbudget import app
from pgbudget.cli import log_to_stdout
from pgbudget.config import Config
from pgbudget.data_plane import DataPlane
from pgbudget.db import ReserveResult, SettleResult
from pgbudget.http import read_body
from pgbudget.settlements import Settlements
from pgbudget.upstream import returned_headers
from pgbudget.wire.dialect import Dialect
from pgbudget.wire.providers import provider

_SIMULATOR = "simulator"
_NOTHING: dict[str, Any] = dict.fromkeys(
    (
        "code", "message", "reserved_nano_usd", "scope_kind", "scope_name", "budget_name", "limit_nano_usd", "spent_nano_usd",
        "held_nano_usd", "available_nano_usd", "resets_at", "worst_case_nano_usd", "retry_after_seconds", "state",
    )
)  # fmt: skip


class Unsettled(Settlements):
    """Keeps no report."""

    def add(self, report: dict[str, Any]) -> asyncio.Future[SettleResult]:
        self._booked(report["reservation_id"])
        return asyncio.get_running_loop().create_future()


class NoBudgets(DataPlane):
    """Grants everything."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.settlements = Unsettled(self._database, self._booked)

    async def reserve(self, request: dict[str, Any], *_: Any) -> ReserveResult:
        return ReserveResult(
            status="granted",
            reservation_id=str(uuid.uuid4()),
            granted_output_tokens=request["max_output_tokens"],
            cap_output_tokens=request["max_output_tokens"],
            routes=[{"provider": _SIMULATOR, "account": _SIMULATOR, "upstream_model": request["model"]}],
            **_NOTHING,
        )


class PassedOn:
    """A route that sends on what comes, both ways."""

    def __init__(self, plane: DataPlane, dialect: Dialect) -> None:
        self._upstream = plane.upstream
        self._path = dialect.path
        self._config = plane.config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        account = self._config.account(_SIMULATOR, _SIMULATOR)
        assert account is not None
        config = self._config
        body = await read_body(scope["headers"], receive, config.max_body_bytes, config.body_seconds)
        response = await self._upstream.post(account, provider(_SIMULATOR), self._path, body, scope["headers"], True)
        length = [(b"content-length", value.encode())] if (value := response.headers.get("content-length")) else []
        headers = [*returned_headers(response), *length]
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        async for chunk in response.aiter_raw():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await response.aclose()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def main() -> None:
    """Serve."""
    how, port = sys.argv[1:]
    if how == "no-budgets":
        app.DataPlane = NoBudgets  # type: ignore[attr-defined,assignment]
    elif how == "passed-on":
        app.CallEndpoint = PassedOn  # type: ignore[attr-defined,assignment]
    else:
        raise SystemExit(__doc__)
    log_to_stdout()
    app.serve(Config.from_env(), "127.0.0.1", int(port))


if __name__ == "__main__":
    main()
