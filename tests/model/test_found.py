"""Where the database was found to do otherwise than the reference, the shortest way there, one test each."""

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


@pytest.mark.parametrize(
    "report",
    [
        Report("finished", {"bogus": 1}),
        Report("finished", {"output": -1}),
        Report("finished", {"web_search": 1}),
        Report("finished", {"output": 1}, seen={"output": -1}),
        Report("released", {"output": 100}),
        Report("unsent", {"output": 100}),
    ],
    ids=lambda report: f"{report.outcome} {report.usage} {report.seen}",
)
def test_what_holds_nothing_is_never_free_whatever_is_reported(pair: Pair, report: Report) -> None:
    pair.set_budget(("key", "bare"), 5400 * MICRO, enforcement="check")
    pair.reserve(CALL)
    pair.settle((pair.books.calls[-1], report))
    pair.check()


@pytest.mark.parametrize("model", ["raw", "t-mini"])
def test_a_call_whose_worst_case_has_no_price_is_not_charged_a_million(pair: Pair, model: str) -> None:
    pair.set_budget(("key", "bare"), 900 * MICRO)
    pair.set_key("bare", allow_unpriced=True)
    # t-mini has a price, but none for this feature.
    features = frozenset({"cache_write_5m"}) if model == "t-mini" else frozenset[str]()
    pair.reserve(replace(CALL, model=model, features=features))
    pair.advance(timedelta(seconds=91))
    pair.reconcile()
    pair.check()


def test_an_unpriced_call_settles(pair: Pair) -> None:
    pair.set_budget(("key", "bare"), 900 * MICRO)
    pair.set_key("bare", allow_unpriced=True)
    pair.reserve(replace(CALL, model="raw"))
    pair.settle((pair.books.calls[-1], Report("finished", {"input": 100})))
    pair.check()


def test_verify_knows_that_what_was_admitted_on_spent_alone_may_pass_a_limit(pair: Pair) -> None:
    pair.set_budget(("key", "bare"), 900 * MICRO)
    pair.set_policy(check_unknown=True, require_output=True)
    pair.reserve(replace(CALL, output_tokens=None))
    pair.settle((pair.books.calls[-1], Report("finished", {"output": 400})))
    pair.check()


def test_a_request_that_is_refused_does_not_set_the_ceiling_of_a_run_for_the_next(pair: Pair) -> None:
    pair.reserve(replace(CALL, run=RunOption("r1", 899 * MICRO)), replace(CALL, run=RunOption("r1", 1800 * MICRO)))
    pair.check()


def test_an_idle_period_passes_on_what_was_carried_into_it(pair: Pair) -> None:
    pair.set_budget(("key", "bare"), 900 * MICRO, carry_cap=1800 * MICRO)
    pair.advance(timedelta(days=3))
    assert [answer.status for answer in pair.reserve(CALL, CALL, CALL)] == ["granted"] * 3


def test_a_late_report_in_the_same_minute_corrects_the_minute(pair: Pair) -> None:
    pair.set_rate(("key", "bare"), None, 500)
    pair.reserve(CALL)
    pair.settle((pair.books.calls[-1], Report("unknown")))
    pair.settle((pair.books.calls[-1], Report("finished", {"input": 100, "output": 1})))
    pair.check()


def test_a_call_with_usage_stays_a_request_of_its_minute(pair: Pair) -> None:
    pair.set_budget(("key", "bare"), 5400 * MICRO)
    pair.set_rate(("key", "bare"), 5, 500)
    pair.reserve(CALL)
    pair.settle((pair.books.calls[-1], Report("unsent", {"input": 100, "output": 1})))
    pair.check()


def test_a_call_with_usage_keeps_its_request_id(pair: Pair) -> None:
    pair.set_budget(("key", "bare"), 5400 * MICRO)
    pair.reserve(replace(CALL, request_id="i1"))
    pair.settle((pair.books.calls[-1], Report("unsent", {"input": 100, "output": 1})))
    pair.reserve(replace(CALL, request_id="i1"))


def test_a_busy_budget_asks_to_wait_a_minute_at_most(pair: Pair) -> None:
    pair.set_budget(("key", "bare"), 900 * MICRO)
    pair.reserve(CALL)
    pair.advance(timedelta(seconds=90))
    pair.settle((pair.books.calls[-1], Report("released")))
    item = pair.item(CALL)
    rows = pair.world.rows("select code, retry_after_seconds from budget.reserve_batch(%s)", json.dumps([item, item]))
    assert rows[1]["code"] == "budget_busy"
    assert 1 <= rows[1]["retry_after_seconds"] <= 60


def test_an_estimate_without_a_price_corrects_nothing(pair: Pair) -> None:
    pair.set_budget(("key", "bare"), 900 * MICRO)
    pair.reserve(CALL)
    call = pair.books.calls[-1]
    pair.settle((call, Report("unknown")))
    # Nothing is known that was not known before,
    assert pair.settle((call, Report("estimated", {"web_search": 1}))) == ["repeated"]
    # and so the report that knows it counts.
    assert pair.settle((call, Report("finished", {"input": 100, "output": 1}))) == ["trued_up"]
    pair.check()


def test_a_token_limit_that_can_never_be_met_is_named_before_one_that_is_full(pair: Pair) -> None:
    pair.set_rate(("project", "q"), None, 350)
    pair.reserve(CALL)
    pair.set_rate(("key", "bare"), None, 99)
    pair.reserve(CALL)
