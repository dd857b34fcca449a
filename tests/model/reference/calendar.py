"""Periods: the window of a budget that holds a moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

#: Fixed lengths, counted from the anchor.
FIXED = {"1d": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
#: Days that a period counts for where budgets are compared; total is compared with total only.
DAYS = {"1d": 1, "day": 1, "7d": 7, "week": 7, "30d": 30, "month": 30, "quarter": 90, "year": 360, "total": 1}
KINDS = tuple(DAYS)


@dataclass(frozen=True)
class Window:
    """From a moment until another; None: for ever."""

    start: datetime | None
    end: datetime | None


def window(kind: str, anchor: datetime, zone: str, at: datetime) -> Window:
    """The window of a budget at a moment. For zones that never skip or repeat a midnight; ``test_periods`` has the others."""
    if kind == "total":
        return Window(None, None)
    if length := FIXED.get(kind):
        start = anchor + (at - anchor) // length * length
        return Window(start, start + length)
    first = _first_day(kind, at.astimezone(ZoneInfo(zone)).date())
    return Window(_midnight(first, zone), _midnight(_next_first_day(kind, first), zone))


def _first_day(kind: str, day: date) -> date:
    if kind == "day":
        return day
    if kind == "week":
        return day - timedelta(days=day.weekday())
    months = {"month": 1, "quarter": 3, "year": 12}[kind]
    return date(day.year, (day.month - 1) // months * months + 1, 1)


def _next_first_day(kind: str, first: date) -> date:
    # Long enough to be in the next one, too short for the one after it.
    later = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}[kind]
    return _first_day(kind, first + timedelta(days=later))


def _midnight(day: date, zone: str) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)
