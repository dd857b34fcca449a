"""A metered route as an ASGI app: read the request, bound it, reserve; then the call lives (``pgbudget.call``)."""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.types import Receive, Scope, Send

from pgbudget.call import Call
from pgbudget.client import waits_for_cost
from pgbudget.data_plane import DataPlane
from pgbudget.errors import BudgetError, InvalidRequest
from pgbudget.http import ClientGone, Headers, header, leaving, read_body, respond, virtual_key
from pgbudget.runs import run_of
from pgbudget.wire import strict_json
from pgbudget.wire.dialect import Dialect, ModelRequest

log = logging.getLogger("pgbudget.calls")


class CallEndpoint:
    """``POST`` of one dialect."""

    def __init__(self, plane: DataPlane, dialect: Dialect) -> None:
        self._plane = plane
        self._dialect = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = scope["headers"]
        call: Call | None = None
        try:
            key = virtual_key(headers)
            with self._plane.key_limits.call(key):
                call = await self._admit(key, scope, receive)
                await call.run(send)
        except ClientGone:
            log.info("client left before its request was read")
        except BudgetError as error:
            log.info("refused %d %s", error.status, error.code)
            own = call.own_headers() if call else []
            await respond(send, error.status, self._dialect.error(error), [*error.headers(), *own])

    async def _admit(self, key: str, scope: Scope, receive: Receive) -> Call:
        config = self._plane.config
        headers: Headers = scope["headers"]
        idempotency_key = header(headers, b"idempotency-key")
        if idempotency_key is not None and not (1 <= len(idempotency_key) <= 200 and idempotency_key.isprintable()):
            raise InvalidRequest("Idempotency-Key must be 1 to 200 printable characters", "idempotency-key")
        waits_for_cost(headers)
        run = None if self._dialect.free else run_of(headers)
        body = await read_body(headers, receive, config.max_body_bytes, config.body_seconds)
        if not body.strip():
            raise InvalidRequest("the body is empty: send a JSON object")
        try:
            parsed = strict_json.loads(body)
        except strict_json.InvalidJSON as error:
            raise InvalidRequest(str(error)) from None
        request = self._dialect.read(parsed)
        if request.unbounded is not None and config.unbounded_input == "refuse":
            raise InvalidRequest(
                f"{request.unbounded} is not accepted here: how large it makes the input, and so what the call costs, is not "
                "known beforehand; leave it out, or put what it stands for into the request as text",
                request.unbounded,
            )
        left = leaving(scope, receive)
        holder = secrets.token_hex(16)
        asked: dict[str, Any] = {
            "key": key,
            "model": request.model,
            "input_tokens": request.input_tokens,
            "max_output_tokens": request.cap,
            "request_id": idempotency_key or new_request_id(),
            "options": {
                # The same body on another route is another request.
                "body_hash": hashlib.sha256(self._dialect.path.encode() + b"\n" + body).hexdigest(),
                "holder": holder,
                **_priced(request),
                # Counted only where its bytes do not fit.
                "input_bounds": {**request.input_bounds, "tokenizer": None},
                **({"grow": True} if self._dialect.grows(request) else {}),
                **({"run": run} if run else {}),
            },
        }
        grant = await self._plane.reserve(asked, left, partial(self._plane.tokenizer.count, request))
        # No await between the grant and the Call that must end it.
        if asked["input_tokens"] < request.input_tokens:
            request = replace(request, input_tokens=asked["input_tokens"])
        return Call(self._plane, self._dialect, request, grant, headers, left)


def new_request_id() -> str:
    """A request id for a call that brings none. Later ones sort after earlier ones: an index of them grows at its end."""
    return f"gw-{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def _priced(request: ModelRequest) -> dict[str, Any]:
    """The options of ``budget.reserve`` that the price of a request depends on."""
    return {
        "n": request.choices,
        "features": list(request.features),
        **({"inputs": request.inputs} if request.inputs > 1 else {}),
        **({"uses": request.uses} if request.uses else {}),
        **({"service_tier": request.service_tier} if request.service_tier else {}),
    }
