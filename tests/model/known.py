"""Where the database is known to do otherwise than the reference: the machine keeps out of it, ``test_known`` has each alone.

What is mended there is to go from here.
"""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime

from tests.model.reference import Books, Call, Report, Request
from tests.model.reference.prices import believable, price


def odd_report(call: Call, report: Report, now: datetime) -> bool:
    """Whether a report runs into a known disagreement."""
    # Of a call that holds nothing: usage that cannot be priced, or that comes with a release, is charged nothing.
    bad_seen = bool(report.seen) and not believable(report.seen)
    unpriced = bool(report.usage) and price(call.model, report.usage) is None
    gave_up = report.outcome in ("released", "unsent") and bool(report.usage)
    if not call.held and (bad_seen or unpriced or gave_up):
        return True
    # A late report does not correct the minute that it comes in.
    if call.rates and call.state == "charged" and call.at.replace(second=0) == now.replace(second=0, microsecond=0):
        return True
    # A call with usage was sent.
    return report.outcome == "unsent" and bool(report.usage)


def odd_batch(books: Books, batch: list[Request]) -> list[Request]:
    """A batch without what runs into a known disagreement."""
    # The first request that names a new run decides its ceiling even if it is refused.
    named: dict[tuple[str, str], Request] = {}
    kept = []
    for request in batch:
        if request.run and books.run(request.key, request.run.id) is None:
            first = named.setdefault((request.key, request.run.id), request)
            if first.run != request.run:
                continue
        kept.append(request)
    # A call that holds nothing and whose worst case has no price costs 1,000,000 USD when it is charged in full.
    granted = True
    while granted:
        trial, granted = deepcopy(books), False
        for request in kept:
            call = trial.reserve(request)[1]
            if call is not None and call.worst is None:
                granted = True
                kept = [other for other in kept if other is not request]
                break
    return kept
