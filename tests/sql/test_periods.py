"""Where periods begin and end, against boundaries worked out with Python's zoneinfo and dateutil: fifty years, twenty zones.

A period begins at the first moment at which the zone's clock shows its first local midnight or a time after it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from dateutil.relativedelta import relativedelta
from dateutil.rrule import DAILY, MO, MONTHLY, WEEKLY, YEARLY, rrule

from tests.support.servers import Server
from tests.support.world import World

ZONES = [
    "UTC",
    "America/New_York",
    "America/Havana",  # back at 01:00, over midnight
    "America/Sao_Paulo",  # forward at midnight, which is skipped
    "America/St_Johns",  # half an hour, and changes at one past midnight
    "America/Caracas",  # half an hour back and forward again
    "Europe/Berlin",
    "Atlantic/Azores",  # back at 01:00, over midnight
    "Africa/Cairo",  # midnights skipped and doubled, none for years
    "Africa/Casablanca",  # goes back for a month each year
    "Asia/Gaza",
    "Asia/Tehran",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Australia/Lord_Howe",  # half an hour of summer time
    "Pacific/Apia",  # 30 December 2011 never was
    "Pacific/Chatham",
    "Pacific/Kiritimati",  # 31 December 1994 never was
    "Antarctica/Troll",  # two hours of summer time
    "Antarctica/Casey",  # three hours, once back over midnight
]
FIRST, LAST = 1995, 2045
#: (kind, fiscal month, fiscal day)
KINDS = [
    *((kind, 1, 1) for kind in ("day", "week", "month", "quarter", "year")),
    *((kind, month, day) for kind in ("quarter", "year") for month, day in ((4, 6), (2, 29), (8, 31), (1, 31), (7, 1))),
]
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Stretch:
    """From ``begin`` (UTC, no zone) the clock is ``offset`` ahead of UTC, until the next one begins."""

    begin: datetime
    offset: timedelta


def _stretches(zone: ZoneInfo, first: int, last: int) -> list[Stretch]:
    """The changes of a clock, to the second."""

    def offset(at: datetime) -> timedelta:
        found = at.replace(tzinfo=UTC).astimezone(zone).utcoffset()
        assert found is not None
        return found

    at = datetime(first - 2, 1, 1)
    found = [Stretch(at, offset(at))]
    while at.year < last + 2:
        later = at + timedelta(hours=12)
        if offset(later) != found[-1].offset:
            low, high = at, later
            while high - low > timedelta(seconds=1):
                middle = (low + (high - low) / 2).replace(microsecond=0)
                low, high = (middle, high) if offset(middle) == found[-1].offset else (low, middle)
            found.append(Stretch(high, offset(high)))
        at = later
    return found


def _first_moment(stretches: list[Stretch], local: datetime) -> datetime:
    """The first moment, in UTC, at which the clock shows a local time or a later one."""
    near = bisect_right(stretches, local - timedelta(days=3), key=lambda s: s.begin)
    for this, following in pairwise([*stretches[max(near - 1, 0) :], Stretch(datetime.max, timedelta())]):
        moment = max(this.begin, local - this.offset)
        if moment < following.begin:
            return moment
    raise AssertionError(local)


@cache
def _local_starts(kind: str, month: int, day: int, first: int, last: int) -> list[datetime]:
    """The first midnights of all periods, by the wall."""
    begin, end = datetime(first - 1, 1, 1), datetime(last + 2, 1, 1)
    if (month, day) == (1, 1):
        rule = {
            "day": rrule(DAILY, dtstart=begin, until=end),
            "week": rrule(WEEKLY, byweekday=MO, dtstart=begin, until=end),
            "month": rrule(MONTHLY, dtstart=begin, until=end),
            "quarter": rrule(MONTHLY, interval=3, dtstart=begin, until=end),
            "year": rrule(YEARLY, dtstart=begin, until=end),
        }
        return list(rule[kind])
    step = {"quarter": 3, "year": 12}[kind]
    # relativedelta takes the last day of a month that has no such day.
    return [
        datetime(first - 1, month, 1) + relativedelta(months=months, day=day)
        for months in range(0, (last - first + 3) * 12, step)
    ]


def _starts(stretches: list[Stretch], kind: str, month: int, day: int, first: int, last: int) -> list[datetime]:
    """The moments at which periods begin, without those that are over before they begin."""
    moments = sorted({_first_moment(stretches, local) for local in _local_starts(kind, month, day, first, last)})
    return [m for m in moments if first <= m.year <= last]


def _zone_folder(server: Server) -> Path | None:
    """The zone files that a server of ours reads."""
    if server.binaries is None:
        return None
    places = [server.binaries.parent / share / "timezone" for share in ("share", "share/postgresql")]
    return next((place for place in places if place.is_dir()), Path("/usr/share/zoneinfo"))


def _load(server: Server, name: str) -> ZoneInfo:
    folder = _zone_folder(server)
    if folder is None:
        return ZoneInfo(name)
    with (folder / name).open("rb") as file:
        return ZoneInfo.from_file(file, name)


def _agree(world: World, name: str, stretches: list[Stretch]) -> bool:
    """Whether the server's clock changes when ours does, and as much."""
    return bool(
        world.value(
            "select coalesce(bool_and(timezone(%s, timezone('UTC', c.begin)) = c.begin + c.ahead"
            "  and timezone(%s, timezone('UTC', c.eve)) <> c.eve + c.ahead), true)"
            " from (select begin, begin - interval '1 second' as eve, ahead"
            "  from unnest(%s::timestamp[], %s::interval[]) u (begin, ahead)) c",
            name,
            name,
            [s.begin for s in stretches[1:]],
            [s.offset for s in stretches[1:]],
        )
    )


def differences(
    world: World, name: str, stretches: list[Stretch], kind: str, month: int, day: int, first: int, last: int
) -> list[str]:
    """What period_bounds says otherwise: on each boundary, halfway, just before the next, around each change of the clock."""
    starts = _starts(stretches, kind, month, day, first, last)
    changes = [
        moment
        for change in stretches
        for moment in (change.begin - MICROSECOND, change.begin, change.begin + timedelta(minutes=20))
        if starts[0] <= moment < starts[-1]
    ]
    periods = [bisect_right(starts, moment) for moment in changes]
    rows = world.connection.execute(
        """
        with period as (
          select s.starts, lead(s.starts) over (order by s.place) as ends
          from unnest(%(starts)s::timestamp[]) with ordinality s (starts, place)
        ), moment as (
          select p.starts, p.ends, m.at
          from period p
          cross join lateral (
            values (p.starts), (p.starts + (p.ends - p.starts) / 2), (p.ends - interval '1 microsecond')
          ) m (at)
          where p.ends is not null
          union all
          select (%(starts)s::timestamp[])[c.place], (%(starts)s::timestamp[])[c.place + 1], c.at
          from unnest(%(changes)s::timestamp[], %(periods)s::integer[]) c (at, place)
        )
        select m.at, m.starts as right_starts, m.ends as right_ends,
          b.starts_at at time zone 'UTC' as starts, b.ends_at at time zone 'UTC' as ends
        from moment m
        cross join lateral budget_internal.period_bounds(
          %(kind)s::budget.period_kind, 'epoch', %(name)s, %(month)s::smallint, %(day)s::smallint, m.at at time zone 'UTC'
        ) b
        where b.starts_at <> m.starts at time zone 'UTC' or b.ends_at <> m.ends at time zone 'UTC'
        limit 5
        """,
        {
            "starts": starts,
            "changes": changes,
            "periods": periods,
            "kind": kind,
            "name": name,
            "month": month,
            "day": day,
        },
    ).fetchall()
    return [
        f"{name} {kind} {month}/{day} at {r['at']}: [{r['starts']}, {r['ends']}), not [{r['right_starts']}, {r['right_ends']})"
        for r in rows
    ]


@pytest.mark.parametrize("name", ZONES)
def test_periods_begin_and_end_where_the_calendar_says(world: World, server: Server, name: str) -> None:
    stretches = _stretches(_load(server, name), FIRST, LAST)
    if not _agree(world, name, stretches):
        assert _zone_folder(server) is None, "the zone files are not those of the server"
        pytest.xfail("this server has other rules for the zone than Python")
    found = [d for kind, month, day in KINDS for d in differences(world, name, stretches, kind, month, day, FIRST, LAST)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("kind", "days"), [("1d", 1), ("7d", 7), ("30d", 30)])
def test_fixed_lengths_are_counted_from_the_anchor_in_whole_days_of_24_hours(world: World, kind: str, days: int) -> None:
    anchor = datetime(2020, 2, 29, 23, 59, 59)
    count = (LAST - FIRST) * 365 // days // 2
    starts = [anchor + timedelta(days=days * n) for n in range(-count, count)]
    at = [start + shift for start in starts for shift in (timedelta(0), timedelta(days=days) - MICROSECOND)]
    # Neither the session's zone nor the budget's makes a day longer or shorter.
    world.execute("set time zone 'America/New_York'")
    wrong = world.rows(
        "select m.at, b.* from unnest(%s::timestamp[], %s::timestamp[]) m (at, starts_at)"
        " cross join lateral budget_internal.period_bounds("
        "  %s::budget.period_kind, '2020-02-29 23:59:59+00', 'Europe/Paris', 1::smallint, 1::smallint, m.at at time zone 'UTC'"
        " ) b"
        " where b.starts_at <> m.starts_at at time zone 'UTC' or b.ends_at <> (m.starts_at + %s) at time zone 'UTC'",
        at, [start for start in starts for _ in range(2)], kind, timedelta(days=days),
    )  # fmt: skip
    assert wrong == []
