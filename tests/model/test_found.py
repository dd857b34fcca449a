"""What the machine found once, each alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.model.pair import Pair, Stage, at
from tests.model.reference import Report, Request, RunOption
from tests.support.world import MICRO, World

#: 900 micro-dollars.
CALL = Request("bare")


@pytest.fixture
def pair(world: World) -> Iterator[Pair]:
    with Stage(world).pair(at("2027-01-15T12:00:00")) as fresh:
        yield fresh


def test_what_holds_nothing_is_charged_its_worst_case_when_its_usage_cannot_be_believed(pair: Pair) -> None:
    pair.set_budget(("key", "bare"), 5400 * MICRO, enforcement="check")
    pair.reserve(CALL)
    pair.settle((pair.books.calls[-1], Report("finished", {"bogus": 1})))
    pair.check()


def test_a_request_that_is_refused_does_not_set_the_ceiling_of_a_run_for_the_next(pair: Pair) -> None:
    pair.reserve(replace(CALL, run=RunOption("r1", 899 * MICRO)), replace(CALL, run=RunOption("r1", 1800 * MICRO)))
    pair.check()


def test_an_idle_period_passes_on_what_was_carried_into_it(pair: Pair) -> None:
    pair.set_budget(("key", "bare"), 900 * MICRO, carry_cap=1800 * MICRO)
    pair.advance(timedelta(days=3))
    assert [answer.status for answer in pair.reserve(CALL, CALL, CALL)] == ["granted"] * 3


def test_an_unpriced_call_settles(pair: Pair) -> None:
    pair.set_budget(("key", "bare"), 900 * MICRO)
    pair.set_key("bare", allow_unpriced=True)
    pair.reserve(replace(CALL, model="raw"))
    pair.settle((pair.books.calls[-1], Report("finished", {"input": 100})))
    pair.check()


def test_an_unpriced_call_goes_stale(pair: Pair) -> None:
    pair.set_budget(("key", "bare"), 900 * MICRO)
    pair.set_key("bare", allow_unpriced=True)
    pair.reserve(replace(CALL, model="raw"))
    pair.advance(timedelta(seconds=91))
    pair.reconcile()
    pair.check()


def test_a_late_report_in_the_same_minute_corrects_the_minute(pair: Pair) -> None:
    pair.set_rate(("key", "bare"), None, 500)
    pair.reserve(CALL)
    pair.settle((pair.books.calls[-1], Report("unknown")))
    pair.settle((pair.books.calls[-1], Report("finished", {"input": 100, "output": 1})))
    assert pair.found()["minutes"] == [["key", "bare", 1, 101]]


def test_verify_knows_that_what_was_admitted_on_spent_alone_may_pass_a_limit(pair: Pair) -> None:
    pair.set_budget(("key", "bare"), 900 * MICRO)
    pair.set_policy(check_unknown=True, require_output=True)
    pair.reserve(replace(CALL, output_tokens=None))
    pair.settle((pair.books.calls[-1], Report("finished", {"output": 400})))
    pair.check()


def test_a_call_with_usage_was_sent_whatever_its_outcome(pair: Pair) -> None:
    pair.set_rate(("key", "bare"), 5, 500)
    pair.reserve(replace(CALL, request_id="i1"))
    pair.settle((pair.books.calls[-1], Report("unsent", {"input": 100, "output": 1})))
    assert pair.found()["minutes"] == [["key", "bare", 1, 101]]
    again = pair.world.one(
        "select * from budget.reserve_batch(jsonb_build_array(%s::jsonb))",
        json.dumps(pair.item(replace(CALL, request_id="i1"))),
    )
    assert again["status"] == "granted_again"
