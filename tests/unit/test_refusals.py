"""What an answer without a grant tells its caller: amounts only where a budget refused."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any, cast

import pytest

from pgbudget.config import Config
from pgbudget.data_plane import DataPlane
from pgbudget.db import Database, ReserveResult
from pgbudget.errors import STATUS, BudgetError
from pgbudget.upstream import Upstream

BUDGETS = ("request_over_limit", "budget_exceeded", "budget_busy")


class Refusing:
    """A database that refuses everything with one code, and tells all it has."""

    def __init__(self, code: str) -> None:
        self._result = ReserveResult(
            status="denied", code=code, message="no", reservation_id=None, reserved_nano_usd=7, granted_output_tokens=7,
            routes=[], scope_kind="key", scope_name="ci", budget_name="day", limit_nano_usd=7, spent_nano_usd=7,
            held_nano_usd=7, available_nano_usd=7, resets_at=None, worst_case_nano_usd=7, retry_after_seconds=None, state=None,
        )  # fmt: skip

    async def reserve_batch(self, requests: Sequence[dict[str, Any]]) -> list[ReserveResult]:
        return [self._result for _ in requests]

    async def extend_batch(self, extensions: Sequence[dict[str, Any]]) -> list[ReserveResult]:
        raise AssertionError("nothing is held, so nothing grows")


def refusal(code: str) -> dict[str, Any]:
    """The error of a body that is refused with a code."""

    async def ask() -> dict[str, Any]:
        config = Config(dsn="")
        upstream = Upstream(config)
        database = cast(Database, Refusing(code))
        request = {"key": "k", "model": "m", "request_id": str(uuid.uuid4())}
        stays = asyncio.get_running_loop().create_future()
        try:
            with pytest.raises(BudgetError) as caught:
                await DataPlane(config, database, database, upstream).reserve(request, stays)
        finally:
            await upstream.close()
        error: dict[str, Any] = caught.value.body()["error"]
        return error

    return asyncio.run(ask())


@pytest.mark.parametrize("code", STATUS)
def test_only_a_budget_tells_amounts(code: str) -> None:
    error = refusal(code)
    assert error["code"] == code
    assert ("pgbudget" in error) == (code in BUDGETS)
    assert ("usd" in str(error)) == (code in BUDGETS)


@pytest.mark.parametrize("code", [code for code in STATUS if code.startswith("model_")])
def test_a_refused_model_is_named_as_the_field(code: str) -> None:
    assert refusal(code)["param"] == "model"
