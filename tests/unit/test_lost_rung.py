"""A grant that came back without what its rung changes: the hold may not pay for the request as it stands."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Sequence
from typing import Any, cast

from starlette.types import Message

from pgbudget.config import Config
from pgbudget.data_plane import DataPlane
from pgbudget.db import Database, ReserveResult
from pgbudget.endpoint import CallEndpoint
from pgbudget.upstream import Upstream
from pgbudget.wire.chat import Chat
from tests.support.processes import chat_request

RESERVATION = str(uuid.uuid4())


class Granting:
    """A database that grants everything on a rung that it says nothing else of."""

    async def reserve_batch(self, requests: Sequence[dict[str, Any]]) -> list[ReserveResult]:
        grant = ReserveResult(
            status="granted", code=None, message=None, reservation_id=RESERVATION, reserved_nano_usd=7, granted_output_tokens=7,
            routes=[{"provider": "simulator", "account": "a", "upstream_model": "m"}], scope_kind=None, scope_name=None,
            budget_name=None, limit_nano_usd=None, spent_nano_usd=None, held_nano_usd=None, available_nano_usd=None,
            resets_at=None, worst_case_nano_usd=7, retry_after_seconds=None, state=None, rung="plain", rung_changes=None,
        )  # fmt: skip
        return [grant for _ in requests]

    async def extend_batch(self, extensions: Sequence[dict[str, Any]]) -> list[ReserveResult]:
        raise AssertionError


def test_it_is_given_back_and_not_called() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def ask() -> dict[str, Any]:
        # Port 9: a call would fail in another way.
        config = Config(dsn="", environment={"PGBUDGET_ACCOUNT_A_URL": "http://127.0.0.1:9", "PGBUDGET_ACCOUNT_A_KEY": "k"})
        upstream = Upstream(config)
        database = cast(Database, Granting())
        plane = DataPlane(config, database, database, upstream)
        body = json.dumps(chat_request("k")["json"]).encode()
        headers = [(b"authorization", b"Bearer k"), (b"content-type", b"application/json")]

        messages: list[Message] = [{"type": "http.request", "body": body}]

        async def receive() -> Message:
            if not messages:
                # The client stays.
                await asyncio.Event().wait()
            return messages.pop()

        await CallEndpoint(plane, Chat())({"type": "http", "headers": headers}, receive, send)
        await upstream.close()
        (report,) = [report for report, _ in plane.settlements._queue]
        return report

    report = asyncio.run(ask())
    assert (report["reservation_id"], report["outcome"]) == (RESERVATION, "unsent")
    assert sent[0]["status"] == 503
    error = json.loads(sent[1]["body"])["error"]
    assert error["code"] == "enforcement_unavailable"
    assert 'rung "plain"' in error["message"]
