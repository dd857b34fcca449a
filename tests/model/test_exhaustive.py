"""Small scopes, all of them: every sequence of five operations on two budgets that overlap, against the reference.

The sequences are a tree that is walked in depth in one transaction, a savepoint a level, so that what they begin with in
common happens once. An operation that changes nothing, which is looked at, is not continued: what would follow has been
followed without it. Nor is a state that was reached before with as many operations: see ``State``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest

from tests.model.pair import Pair, Stage, at
from tests.model.reference import Books, Call, Report, Request, Scope
from tests.support.world import MICRO, World

DEPTH = int(os.environ.get("PGBUDGET_MODEL_DEPTH", "5"))
SHARED: Scope = ("project", "p")
OWN: Scope = ("key", "deep")
#: What the reference says of a state, but for which reservations it is made of; days count back from today.
State = tuple[Any, ...]
Operation = Callable[[Pair], str | None]


def state(books: Books) -> State:
    """The state, to know it again."""
    today = books.now.date()
    return (
        tuple((budget.scope, budget.limit) for budget in books.budgets),
        tuple(
            (call.key, call.state, call.charged, call.reserved, (today - call.at.date()).days)
            for call in books.calls
            if call.state == "open" or call.charged
        ),
    )


def reserve(key: str, output: int) -> Operation:
    """A request of a key."""

    def operation(pair: Pair) -> str:
        answer = pair.reserve(Request(key, output_tokens=output))[0]
        return answer.code or answer.status

    return operation


def end_oldest(report: Report) -> Operation:
    """The oldest open call ends."""

    def operation(pair: Pair) -> str | None:
        oldest: Call | None = next((call for call in pair.books.calls if call.state == "open"), None)
        return None if oldest is None else pair.settle((oldest, report))[0]

    return operation


def limit(micro: int) -> Operation:
    """The limit of the shared budget changes."""
    return lambda pair: pair.set_budget(SHARED, micro * MICRO) or "limit"


def next_day(pair: Pair) -> str:
    """Both budgets are in another period."""
    pair.advance(timedelta(days=1))
    return "rolled"


#: 900 and 1800 micro-dollars; half of the smaller one is used.
OPERATIONS: dict[str, Operation] = {
    "small of the key with a budget": reserve("deep", 200),
    "large of the key with a budget": reserve("deep", 425),
    "small of the other": reserve("flat", 200),
    "large of the other": reserve("flat", 425),
    "settle": end_oldest(Report("finished", {"input": 50, "output": 100})),
    "release": end_oldest(Report("released")),
    "lower": limit(1800),
    "raise": limit(5400),
    "roll over": next_day,
}


@pytest.fixture
def pair(world: World) -> Iterator[Pair]:
    with Stage(world).pair(at("2027-01-15T12:00:00")) as fresh:
        yield fresh


def test_every_sequence_of_five_operations(pair: Pair) -> None:
    pair.set_budget(SHARED, 2700 * MICRO)
    pair.set_budget(OWN, 1800 * MICRO)
    known: set[tuple[int, State]] = set()
    outcomes: Counter[str] = Counter()
    steps: list[str] = []

    def walk(left: int) -> None:
        before, books = state(pair.books), pair.books
        pair.world.execute(f"savepoint level_{left}")
        for name, operation in OPERATIONS.items():
            steps.append(name)
            pair.books = deepcopy(books)
            try:
                outcome = operation(pair)
                if outcome is None:
                    continue
                outcomes[outcome] += 1
                pair.check(verify=left > 1)
            except AssertionError as error:
                raise AssertionError(f"after {steps}: {error}") from error
            finally:
                steps.pop()
            after = state(pair.books)
            rolled = pair.books.now.date() != books.now.date()
            if left > 1 and (after != before or rolled) and (left, after) not in known:
                known.add((left, after))
                steps.append(name)
                walk(left - 1)
                steps.pop()
            pair.world.execute(f"rollback to savepoint level_{left}")
        pair.books = books

    walk(DEPTH)
    # Neither all granted nor all refused.
    assert min(outcomes[code] for code in ("granted", "budget_busy", "budget_exceeded", "settled", "released")) > 10, outcomes
