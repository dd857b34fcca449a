"""The table of codes is the design's table."""

from __future__ import annotations

import re

import psycopg
import pytest

from pgbudget.db import as_client_error
from pgbudget.errors import STATUS, EnforcementUnavailable, Refused
from pgbudget.http import dumps, usd
from tests.support.processes import SHARED


def test_codes_status_and_sqlstate_are_those_of_the_design() -> None:
    rows = re.findall(
        r"^\| ([a-z_ /]+) \|.*\| ([0-9 /]+)(?: \(or 429 by setting\))? \| (LB\d+) \|$", (SHARED / "DESIGN.md").read_text(), re.M
    )
    wanted = {}
    for codes, statuses, sqlstate in rows:
        names = codes.split(" / ")
        numbers = [int(n) for n in statuses.split(" / ")]
        for i, name in enumerate(names):
            wanted[name] = (numbers[min(i, len(numbers) - 1)], sqlstate)
    assert len(wanted) == 15
    assert wanted == STATUS


def test_waiting_helps_only_where_it_can() -> None:
    assert (b"x-should-retry", b"false") in Refused("budget_exceeded", "m").headers()
    busy = dict(Refused("budget_busy", "m", retry_after=2).headers())
    assert busy == {b"retry-after": b"2", b"x-pgbudget-error-source": b"gateway"}


def test_amounts_are_written_digit_for_digit() -> None:
    assert dumps({"a": usd(1), "b": usd(5_000_000_000), "c": usd(0), "d": usd(-7_100_000), "e": usd(9007199254740993)}) == (
        b'{"a":0.000000001,"b":5,"c":0,"d":-0.0071,"e":9007199.254740993}'
    )


def test_a_fault_in_the_database_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    fault = psycopg.errors.RaiseException("lost\nCONTEXT:  PL/pgSQL function f() line 3 at RAISE\nSQL statement g()")
    told = as_client_error(fault)
    assert isinstance(told, EnforcementUnavailable)
    assert "PL/pgSQL" not in told.message
    (record,) = caplog.records
    assert (
        record.getMessage() == "database: RaiseException lost CONTEXT: PL/pgSQL function f() line 3 at RAISE SQL statement g()"
    )
