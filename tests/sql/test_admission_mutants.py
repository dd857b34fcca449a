"""Faults put into the rules of admission on purpose: each must turn a probe red that is green without it.

As ``test_mutants.py``, whose table is of holds and settlements: here are enforcement, narrowed, raised and carried-over
budgets, rate limits, ladders, runs, units, chains and what they lock.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.sql.test_mutants import HOLD, NOON, ONE_BY_ONE, RESERVE, UNPAIRED, WIDER, Mutant, Probe, at_once, attempt, mutant
from tests.support.processes import wait_until
from tests.support.world import Row, World

USAGE = {"input": 100, "output": 200}
#: What 100 tokens in and 200 out hold with t-pro, in micro-dollars.
PRO = 6500
#: Calls that wait for a lock of ours.
BLOCKED = "select count(*) from pg_locks where not granted and locktype = 'advisory'"


# Short ways.


def ask(world: World, key: str, **rest: Any) -> str:
    """Code or status of one reserve."""
    return attempt(lambda: world.reserve(key, **rest))


def spend(world: World, key: str, usage: dict[str, int] = USAGE, **rest: Any) -> None:
    """A call from its grant to its end."""
    world.settle(world.reserve(key, **rest)["reservation_id"], usage)


def batch(world: World, *items: Row) -> list[str]:
    """Codes or statuses of one batch, each item 100 in, 200 out of t-mini unless it says otherwise."""
    asked = [{"model": "t-mini", "input_tokens": 100, "max_output_tokens": 200, **item} for item in items]
    return [
        r["code"] or r["status"] for r in world.rows("select * from budget.reserve_batch(%s) order by item", json.dumps(asked))
    ]


def rooms(world: World) -> dict[str, tuple[int, int]]:
    """Spent and held in micro-dollars by the name of the scope; for worlds with one period a scope."""
    found = world.rows(
        "select s.name, (p.spent_nano_usd / 1000)::int8 as spent, (p.held_nano_usd / 1000)::int8 as held"
        " from budget_internal.periods p join budget_internal.budgets b on b.budget_id = p.budget_id"
        " join budget_internal.scopes s on s.scope_id = b.scope_id"
    )
    return {row["name"]: (row["spent"], row["held"]) for row in found}


def start_run(world: World, key: str, run: str, micro_usd: int | None = None, parent: str | None = None) -> Row:
    """One start_run."""
    usd = None if micro_usd is None else f"{micro_usd / 1_000_000:.6f}"
    options = {name: value for name, value in [("ceiling_usd", usd), ("parent_run", parent)] if value is not None}
    return world.one("select * from budget.start_run(%s, %s, %s)", key, run, json.dumps(options))


def while_it_waits(world: World, first: str, then: Callable[[World], None], second: str, *arguments: Any) -> str:
    """Run ``first`` in an open transaction, ``second`` beside it, ``then`` once that waits or is done; the outcome of it."""

    def call() -> str:
        with world.connect() as connection:
            row = connection.execute(second.encode(), arguments).fetchone()
            assert row is not None
            return str(row["code"] or row["status"])

    with world.connect() as connection, ThreadPoolExecutor(1) as pool:
        with connection.transaction():
            connection.execute(first.encode(), arguments)
            then(world)
            outcome = pool.submit(call)
            wait_until(lambda: outcome.done() or world.value(BLOCKED) > 0)
        return outcome.result()


# Probes.


def each_enforcement(world: World) -> None:
    """Check refuses on spent alone and holds nothing, soft never refuses, strict holds; side by side."""
    org = world.org()
    key = world.key(10 * HOLD, org=org)
    world.budget(org, "project", "p", 2 * HOLD, "total", enforcement="check")
    world.budget(org, "org", org, 1, "total", enforcement="soft")
    running = [world.reserve(key)["reservation_id"] for _ in range(3)]
    name = world.key_name(key)[1]
    assert rooms(world) == {name: (0, 3 * HOLD), "p": (0, 0), org: (0, 0)}
    world.settle(running[0], USAGE)
    assert ask(world, key) == "granted"
    world.settle(running[1], USAGE)
    assert rooms(world) == {name: (2 * HOLD, 2 * HOLD), "p": (2 * HOLD, 0), org: (2 * HOLD, 0)}
    assert ask(world, key) == "budget_exceeded"
    world.budget(org, "project", "p", 2 * HOLD + 1, "total", enforcement="check")
    assert ask(world, key) == "granted"
    blind = world.key(org=org)
    world.budget(org, "project", "p", None, "total", enforcement="check")
    assert ask(world, blind, input_tokens=None) == "granted"
    assert world.verify() == []


def what_cannot_be_priced(world: World) -> None:
    """Refused unless the key or the policy lets it through; then it holds nothing and needs what they say."""
    world.execute("select budget.set_model('simulator', 'unpriced', 1000, 10)")
    world.execute("select budget.set_route(null, 'unpriced', 'simulator', 'simulator')")
    org = world.org()
    plain, allowed = world.key(HOLD, org=org), world.key(HOLD, org=org, allow_unpriced=True)
    assert ask(world, plain, model="unpriced") == "model_unpriced"
    assert ask(world, allowed, model="unpriced") == "granted"
    assert ask(world, allowed) == "granted"
    assert ask(world, allowed, model="unpriced") == "budget_busy"
    routes = [{"provider": "simulator", "account": "simulator", "upstream_model": m} for m in ("t-mini", "unpriced")]
    world.execute("select budget.set_routes(%s, 'either', %s)", org, json.dumps(routes))
    assert ask(world, plain, model="either") == "model_unpriced"
    world.execute("select budget.set_policy(%s, %s)", org, json.dumps({"on_unknown_cost": "check"}))
    assert ask(world, plain) == "granted"
    assert ask(world, plain, model="unpriced") == "granted"
    assert rooms(world)[world.key_name(plain)[1]] == (0, HOLD)


def narrowed_to_models(world: World) -> None:
    """A budget for a model holds and counts only what is priced as that model."""
    org = world.org()
    key = world.key(org=org)
    world.budget(org, "key", world.key_name(key)[1], PRO, "total", models=["t-pro"])
    world.execute("select budget.set_route(%s, 'fast', 'simulator', 'simulator', 't-pro')", org)
    assert ask(world, key) == "granted"
    assert world.counters() == []
    assert ask(world, key, model="fast") == "granted"
    assert ask(world, key, model="t-pro") == "budget_busy"
    world.execute("select budget.release(r.reservation_id) from budget_internal.reservations r")
    # Held for both, charged as the first: t-mini.
    routes = [
        {"provider": "simulator", "account": "simulator", "upstream_model": model, "priority": place}
        for place, model in enumerate(["t-mini", "t-pro"], 1)
    ]
    world.execute("select budget.set_routes(%s, 'either', %s)", org, json.dumps(routes))
    call = world.reserve(key, model="either")
    assert world.held() == call["reserved_nano_usd"] // 1000 == PRO
    world.settle(call["reservation_id"], None, "unknown")
    assert (world.spent(), world.held()) == (0, 0)
    world.settle(call["reservation_id"], {"output": 2000})
    assert world.spent() == 0
    assert world.verify() == []


def raised_until_it_expires(world: World) -> None:
    """Room on top of the limit, until its last instant."""
    world.set_clock(NOON)
    org = world.org()
    key = world.key(HOLD, org=org)
    until = {"raise_usd": "0.0009", "raise_until": "2027-01-15T13:00:00Z"}
    world.budget(org, "key", world.key_name(key)[1], HOLD, **until)
    assert [ask(world, key) for _ in range(3)] == ["granted", "granted", "budget_busy"]
    world.set_clock("2027-01-15T12:59:59.999999Z")
    assert ask(world, key, output=425) == "budget_busy"
    world.set_clock("2027-01-15T13:00:00Z")
    assert ask(world, key, output=425) == "request_over_limit"


def carried_over(world: World) -> None:
    """What a day has left goes over up to the cap, without what is held, and never from before the budget began."""
    world.set_clock(NOON)
    org = world.org()
    key = world.key(org=org)
    world.budget(org, "key", world.key_name(key)[1], 1000, carry_over_cap_usd="0.0006")
    assert ask(world, key, input_tokens=1001, output=0) == "request_over_limit"
    assert ask(world, key, input_tokens=700, output=0) == "granted"
    world.set_clock("2027-01-16T12:00:00Z")
    assert ask(world, key, input_tokens=1301, output=0) == "request_over_limit"
    assert ask(world, key, input_tokens=1300, output=0) == "granted"
    world.set_clock("2027-01-18T12:00:00Z")
    assert ask(world, key, input_tokens=1601, output=0) == "request_over_limit"
    assert ask(world, key, input_tokens=1600, output=0) == "granted"
    assert world.verify() == []


def the_last_call_of_a_day(world: World) -> None:
    """It and the first of the next day wait for each other; whoever comes second knows of the first."""
    # A row: a session that waits sees it change, where it may keep the function that it knows.
    world.execute("create table public.clock as select timestamptz '2027-01-15T23:59:59Z' as at")
    world.execute("grant select on public.clock to budget_owner")
    world.execute(
        "create or replace function budget_internal.clock() returns timestamptz language sql volatile"
        " set search_path = pg_catalog, pg_temp as 'select at from public.clock'"
    )

    def set_clock(moment: str) -> None:
        world.execute("update public.clock set at = %s", moment)

    org = world.org()
    key = world.key(org=org)
    world.budget(org, "key", world.key_name(key)[1], HOLD, carry_over_cap_usd="0.0009")
    reserve = "select status, code from budget.reserve(%s, 't-mini', 100, 200)"
    midnight = "2027-01-16T00:00:00Z"
    assert while_it_waits(world, reserve, lambda _: set_clock(midnight), reserve, key) == "granted"
    assert world.counters() == [{"spent": 0, "held": HOLD}] * 2
    assert ask(world, key) == "budget_busy"

    # It waits over midnight: its day is closed. Its lock is known from the call before it.
    set_clock("2027-01-16T23:59:59Z")
    hold = "select pg_advisory_xact_lock(p.lock_key), %s from budget_internal.periods p order by p.period_id desc limit 1"
    world.execute("select budget.release(r.reservation_id) from budget_internal.reservations r")

    def call() -> str:
        with world.connect() as connection:
            row = connection.execute(reserve.encode(), (key,)).fetchone()
            assert row is not None
            return str(row["code"] or row["status"])

    with world.connect() as connection, ThreadPoolExecutor(1) as pool:
        with connection.transaction():
            connection.execute(hold.encode(), (key,))
            straggler = pool.submit(call)
            wait_until(lambda: world.value(BLOCKED) > 0)
            set_clock("2027-01-17T00:00:00Z")
        assert straggler.result() == "budget_busy"


def requests_a_minute(world: World) -> None:
    """Exactly so many, refusals none, a new minute is empty; what ends corrects its own minute only."""
    world.set_clock(NOON)
    org = world.org()
    key = world.key(10 * HOLD, org=org)
    name = world.key_name(key)[1]
    world.execute("select budget.set_rate_limit(%s, 'key', %s, 3, 10000)", org, name)

    def window() -> tuple[int, int]:
        row = world.one("select requests, tokens from budget_internal.rate_windows")
        return row["requests"], row["tokens"]

    assert batch(world, {"key": key, "input_tokens": 9001}, {"key": key}) == ["request_over_limit", "granted"]
    assert window() == (1, 300)
    assert batch(world, {"key": key}, {"key": key}, {"key": key}) == ["granted", "granted", "rate_limit_exceeded"]
    assert ask(world, key) == "rate_limit_exceeded"
    assert window() == (3, 900)
    first, second, third = (r["reservation_id"] for r in world.rows("select * from budget_internal.reservations order by 2"))
    world.settle(first, {"input": 100})
    assert window() == (3, 700)
    world.settle(second, None, "unsent")
    assert window() == (2, 400)
    world.set_clock("2027-01-15T12:01:00Z")
    assert ask(world, key) == "granted"
    assert window() == (1, 300)
    world.settle(third, {"input": 1})
    assert window() == (1, 300)


def tokens_a_minute(world: World) -> None:
    """The output shrinks to what is left and is priced so; refused only when one token a choice does not fit."""
    world.set_clock(NOON)
    org = world.org()
    key = world.key(10 * HOLD, org=org)
    world.execute("select budget.set_rate_limit(%s, 'key', %s, null, 1000)", org, world.key_name(key)[1])
    granted = world.reserve(key, output=5000)
    assert (granted["granted_output_tokens"], granted["reserved_nano_usd"]) == (900, 3_700_000)
    assert ask(world, key, input_tokens=1) == "tokens_limit_exceeded"
    world.settle(granted["reservation_id"], None, "unsent")
    assert world.reserve(key, input_tokens=994, output=50, n=3)["granted_output_tokens"] == 2
    world.execute("select budget.settle(reservation_id, null, 'unsent') from budget_internal.reservations")
    assert ask(world, key, input_tokens=998, output=50, n=3) == "request_over_limit"
    assert ask(world, key, input_tokens=997, output=50, n=3) == "granted"


def rate_limit_at_once(world: World) -> None:
    """Of 24 at once, on chains without a budget, the ten that a minute may have."""
    # Hours from the end of the minute.
    world.set_clock(NOON)
    org = world.org()
    keys = [world.key(org=org) for _ in range(3)]
    world.execute("select budget.set_rate_limit(%s, 'project', 'p', 10, null)", org)

    def call(connection: psycopg.Connection[Row], number: int) -> str:
        def reserve() -> Row:
            query = "select status, code from budget.reserve(%s, 't-mini', 100, 200)"
            row = connection.execute(query, (keys[number % 3],)).fetchone()
            assert row is not None
            return row

        return attempt(reserve)

    assert Counter(at_once(world, 24, call)) == {"granted": 10, "rate_limit_exceeded": 14}
    assert world.value("select requests from budget_internal.rate_windows") == 10


def batches_at_their_limits(world: World) -> None:
    """A batch up to the last call that fits, and one call more: decided at once or one by one, it comes to the same."""
    world.set_clock(NOON)
    org = world.org()

    def one_too_many(key: str, room: int, refusal: str, **rest: Any) -> None:
        item = {"key": key, **rest}
        for calls in (room, room + 1):
            expected = ["granted"] * room + [refusal] * (calls - room)
            assert batch(world, *[item] * calls) == expected
            # What was not sent gives back all that it took.
            world.execute(
                "select budget.settle(r.reservation_id, null, 'unsent') from budget_internal.reservations r"
                " where holder is distinct from 'stays'"
            )

    key = world.key(6 * HOLD, org=org)
    one_too_many(key, 6, "budget_busy")
    spend(world, key)
    one_too_many(key, 5, "budget_busy")
    assert ask(world, key, holder="stays") == "granted"
    one_too_many(key, 4, "budget_busy")

    limited = world.key(100 * HOLD, org=org)
    world.execute("select budget.set_rate_limit(%s, 'key', %s, 3, null)", org, world.key_name(limited)[1])
    one_too_many(limited, 3, "rate_limit_exceeded")
    tokens = world.key(100 * HOLD, org=org)
    world.execute("select budget.set_rate_limit(%s, 'key', %s, null, 1000)", org, world.key_name(tokens)[1])
    one_too_many(tokens, 3, "tokens_limit_exceeded")

    stepped = world.key(100 * HOLD, org=org, run_max_steps=4)
    assert ask(world, stepped, run={"id": "r"}) == "granted"
    assert batch(world, *[{"key": stepped, "options": {"run": {"id": "r"}}}] * 4) == ["granted"] * 3 + ["budget_exceeded"]

    assert (
        batch(world, *[{"key": world.key(100 * HOLD, org=org, request_ceiling_usd="0.0008")}] * 2) == ["request_over_limit"] * 2
    )
    checked = world.key(org=org)
    world.budget(org, "key", world.key_name(checked)[1], HOLD, enforcement="check")
    assert batch(world, *[{"key": checked}] * 3) == ["granted"] * 3
    spend(world, checked)
    assert batch(world, *[{"key": checked}] * 2) == ["budget_exceeded"] * 2
    assert world.verify() == []


def a_ladder(world: World) -> None:
    """In order, the first rung that fits, named; wait only for holds; refuse ends it; the key's before its project's."""
    org = world.org()
    key = world.key(4000, org=org, allowed_models=["t-pro", "t-mini"])
    name = world.key_name(key)[1]

    def ladder(*rungs: Row, kind: str = "key", of: str = name) -> None:
        world.execute("select budget.set_ladder(%s, %s, %s, %s)", org, kind, of, json.dumps(rungs))

    def climb(model: str = "t-pro", **rest: Any) -> tuple[str, str | None]:
        try:
            row = world.reserve(key, model=model, **rest)
        except psycopg.Error as error:
            return str(error.sqlstate), None
        return row["code"] or row["status"], row["rung"]

    ladder({"name": "org", "max_output_tokens": 1}, kind="org", of=org)
    ladder({"name": "project", "max_output_tokens": 1}, kind="project", of="p")
    ladder(
        {"name": "short", "max_output_tokens": 100},
        {"name": "wait", "wait_seconds": 5},
        {"name": "cheap", "model": "t-mini"},
        {"name": "stop", "refuse": True},
    )
    assert climb() == ("granted", "short")
    assert world.held() == 3500
    # 500 are left: as asked it is over the whole limit, so nothing to wait for, and cheap does not fit.
    assert climb() == ("request_over_limit", "stop")
    assert climb(output=100) == ("budget_busy", "wait")
    world.settle(world.value("select reservation_id from budget_internal.reservations"), {"input": 120})
    assert climb() == ("granted", "cheap")
    # Wrong in itself: no rung helps.
    assert climb(model="c-son") == ("model_not_allowed", None)
    ladder()
    assert climb() == ("granted", "project")
    features = world.key(1000, org=org)
    world.execute(
        "select budget.set_ladder(%s, 'key', %s, %s)",
        org,
        world.key_name(features)[1],
        json.dumps([{"name": "plain", "features_off": ["cache_write_1h"]}]),
    )
    # 200 x 6 with the feature, 200 x 3 without.
    plain = world.reserve(features, model="c-son", input_tokens=200, output=0, features=["cache_write_1h"])
    assert (plain["rung"], plain["reserved_nano_usd"]) == ("plain", 600_000)
    assert world.verify() == []


def a_tighter_bound(world: World) -> None:
    """The tokenizer's bound is tried when bytes do not fit, and never when it is the looser one."""
    key = world.key(1000, input_bound="tokenizer")
    bounds = {"tokenizer": 100}
    assert world.reserve(key, input_tokens=800, output=0, input_bounds=bounds)["reserved_nano_usd"] == 800_000
    assert world.reserve(key, input_tokens=800, output=0, input_bounds=bounds)["reserved_nano_usd"] == 100_000
    assert ask(world, key, input_tokens=101, output=0, input_bounds={"tokenizer": 50}) == "granted"


def a_run_keeps_its_bounds(world: World) -> None:
    """Ceiling and steps of the first use, within what the key allows, over all calls of the run."""
    org = world.org()
    key = world.key(100 * HOLD, org=org, run_ceiling_usd="0.0036", run_max_steps=5)
    assert ask(world, key, run={"id": "r", "ceiling_usd": "0.0037"}) == "invalid_request"
    assert ask(world, key, run={"id": "r", "max_steps": 6}) == "invalid_request"
    assert attempt(lambda: start_run(world, key, "r", 3700)) == "LB101"
    run = {"id": "r", "ceiling_usd": "0.0027", "max_steps": 2}
    options = {"key": key, "options": {"run": run}}
    assert batch(world, options, options, options) == ["granted", "granted", "budget_exceeded"]
    assert ask(world, key, input_tokens=0, output=0, run=run) == "budget_exceeded"
    # What the key allows is what a run has that asks for nothing.
    assert [ask(world, key, run={"id": "s"}) for _ in range(5)] == ["granted"] * 4 + ["budget_busy"]
    assert [ask(world, key, input_tokens=0, output=0, run={"id": "t"}) for _ in range(6)] == ["granted"] * 5 + [
        "budget_exceeded"
    ]
    # Another key's run of that name.
    assert ask(world, world.key(org=org), run={"id": "r"}) == "granted"
    assert world.value("select count(*) from budget_internal.runs") == 4
    world.execute("select budget.end_run(%s, 's')", key)
    assert ask(world, key, run={"id": "s"}) == "invalid_request"
    assert world.verify() == []


def a_carved_run(world: World) -> None:
    """It holds its ceiling on the parent, less what it spends there; its end gives the rest back, its calls settle."""
    key = world.key(100 * HOLD)
    start_run(world, key, "top", 9000)
    assert start_run(world, key, "child", 6000, "top")["status"] == "started"
    assert start_run(world, key, "more", 3001, "top")["code"] == "budget_busy"
    run = {"id": "child"}
    spend(world, key, run=run)
    assert rooms(world)["top"] == (HOLD, 6000 - HOLD)
    late, open_one = (world.reserve(key, run=run)["reservation_id"] for _ in range(2))
    world.settle(late, None, "unknown")
    assert rooms(world)["top"] == (2 * HOLD, 6000 - 2 * HOLD)
    world.settle(late, {"input": 100})
    assert rooms(world)["top"] == (1000, 5000)
    world.execute("select budget.end_run(%s, 'child')", key)
    assert rooms(world)["top"] == (1000, HOLD)
    world.settle(open_one, {"input": 50})
    assert rooms(world)["top"] == (1050, 0)
    assert start_run(world, key, "rest", 7950, "top")["status"] == "started"
    assert world.verify() == []


def first_uses_at_once(world: World) -> None:
    """Of 12 first calls of a run at once the four that its steps allow; one run."""
    key = world.key()
    options = json.dumps({"run": {"id": "r", "max_steps": 4}})

    def call(connection: psycopg.Connection[Row], _: int) -> str:
        def reserve() -> Row:
            query = "select status, code from budget.reserve(%s, 't-mini', 100, 200, null, %s)"
            row = connection.execute(query, (key, options)).fetchone()
            assert row is not None
            return row

        return attempt(reserve)

    assert Counter(at_once(world, 12, call)) == {"granted": 4, "budget_exceeded": 8}
    assert world.value("select count(*) from budget_internal.runs") == 1
    assert world.verify() == []


def carves_at_once(world: World) -> None:
    """Of eight runs carved at once the three that the parent has room for."""
    key = world.key()
    start_run(world, key, "top", 3500)

    def call(connection: psycopg.Connection[Row], number: int) -> str:
        def start() -> Row:
            query = "select status, code from budget.start_run(%s, %s, %s)"
            options = json.dumps({"ceiling_usd": "0.001", "parent_run": "top"})
            row = connection.execute(query, (key, f"r{number}", options)).fetchone()
            assert row is not None
            return row

        return attempt(start)

    assert Counter(at_once(world, 8, call)) == {"started": 3, "budget_busy": 5}
    assert world.verify() == []


def an_end_while_a_call_waits(world: World) -> None:
    """A call that waited for the end of its run comes too late."""
    key = world.key()
    start_run(world, key, "r", 9000)
    end = "select budget.end_run(%s, 'r')"
    reserve = """select status, code from budget.reserve(%s, 't-mini', 100, 200, null, '{"run": {"id": "r"}}')"""
    assert while_it_waits(world, end, lambda _: None, reserve, key) == "budget_busy"
    assert world.value("select count(*) from budget_internal.reservations") == 0


def units_count(world: World) -> None:
    """Every unit above the key when it was admitted counts its cost in the month of that, wherever the key is now."""
    world.set_clock("2027-01-31T23:59:00Z")
    org = world.org()
    for unit in ("u", "v"):
        world.execute("select budget.create_scope(%s, 'unit', %s, 'project', 'p')", org, unit)
    key = world.key(org=org, unit="u")
    settled, charged = (world.reserve(key)["reservation_id"] for _ in range(2))
    world.set_clock("2027-02-01T00:01:00Z")
    world.execute("select budget.move_key(%s, %s, %s)", org, world.key_name(key)[1], json.dumps({"unit": "v"}))
    world.settle(settled, USAGE)
    world.settle(charged, None, "unknown")
    world.settle(charged, {"input": 100})
    spend(world, key)
    query = "select s.name, u.month_on::text, (u.spent_nano_usd / 1000)::int8 as spent from budget_internal.unit_months u"
    found = world.rows(f"{query} join budget_internal.scopes s on s.scope_id = u.unit_id order by 1")
    assert [tuple(row.values()) for row in found] == [("u", "2027-01-01", 1000), ("v", "2027-02-01", HOLD)]
    assert world.verify() == []


def a_reset_forgives(world: World) -> None:
    """What was spent before it, and corrections of that; nothing else."""
    world.set_clock(NOON)
    org = world.org()
    key = world.key(2 * HOLD, org=org)
    charged = world.reserve(key)["reservation_id"]
    world.settle(charged, None, "unknown")
    assert ask(world, key) == "granted"
    world.set_clock("2027-01-15T12:01:00Z")
    world.execute("select budget.reset_budget(%s, 'key', %s, 'day')", org, world.key_name(key)[1])
    assert [ask(world, key) for _ in range(2)] == ["granted", "budget_busy"]
    world.settle(charged, {"input": 100})
    assert ask(world, key, input_tokens=1, output=0) == "budget_busy"


def broken_chains(world: World) -> None:
    """A chain with a scope that is gone, five units or eleven budgets is never served."""
    org = world.org()
    for unit, above in zip("abcd", [("project", "p"), ("unit", "a"), ("unit", "b"), ("unit", "c")], strict=True):
        world.execute("select budget.create_scope(%s, 'unit', %s, %s, %s)", org, unit, *above)
    key = world.key(org=org, unit="d")
    name = world.key_name(key)[1]
    set_budget = "select budget.set_budget(%s, 'key', %s, 1, 'total', %s)"
    for number in range(10):
        world.execute(set_budget, org, name, json.dumps({"name": f"b{number}"}))
    assert ask(world, key) == "granted"
    assert ask(world, key, run={"id": "r"}) == "budget_config_invalid"
    world.execute(set_budget, org, name, json.dumps({"name": "b10"}))
    assert ask(world, key) == "budget_config_invalid"
    world.execute("select budget.delete_budget(%s, 'key', %s, 'b10')", org, name)
    world.execute("update budget_internal.scopes set deleted_at = now() where name = 'b' and kind = 'unit'")
    assert ask(world, key) == "budget_config_invalid"
    world.execute("update budget_internal.scopes set deleted_at = null where name = 'b'")
    world.execute(
        "with five as (insert into budget_internal.scopes (org_id, kind, name, parent_id, created_at)"
        " select org_id, 'unit', 'e', scope_id, now() from budget_internal.scopes where name = 'd' and kind = 'unit'"
        " returning scope_id) update budget_internal.keys set chain = chain[1:1] || scope_id || chain[2:] from five"
    )
    assert ask(world, key) == "budget_config_invalid"


def over_all_routes(world: World) -> None:
    """The dearest route counts, wherever it stands in the plan; the key's ceiling is for that."""
    org = world.org()
    key = world.key(10 * PRO, org=org, request_ceiling_usd="0.0065")
    routes = [
        {"provider": "simulator", "account": "simulator", "upstream_model": model, "priority": place}
        for place, model in enumerate(["t-mini", "t-pro", "c-son"], 1)
    ]
    world.execute("select budget.set_routes(%s, 'm', %s)", org, json.dumps(routes))
    assert world.reserve(key, model="m")["reserved_nano_usd"] == PRO * 1000
    assert ask(world, key, model="m", input_tokens=101) == "request_over_limit"


def overlapping_chains_at_once(world: World) -> None:
    """16 callers on chains that share budgets in every way: all are granted, nobody waits in a circle."""
    org = world.org()
    tags = ["t0", "t1", "t2", "t3", "t4", "t5"]
    for tag in tags:
        world.execute("select budget.create_scope(%s, 'tag', %s)", org, tag)
        world.budget(org, "tag", tag, 10**6, "total")
    keys = [world.key(org=org, tags=tags[n:] + tags[: n // 2]) for n in range(4)]

    def call(connection: psycopg.Connection[Row], number: int) -> str:
        items = [
            {"key": keys[(number + n) % 4], "model": "t-mini", "input_tokens": 1, "max_output_tokens": 0}
            for n in range(number % 3 + 1)
        ]

        def reserve() -> Row:
            for _ in range(5):
                rows = connection.execute("select * from budget.reserve_batch(%s)", (json.dumps(items),)).fetchall()
            return {"status": {row["status"] for row in rows}.pop()}

        return attempt(reserve)

    assert Counter(at_once(world, 16, call)) == {"granted": 16}
    assert world.verify() == []


def first_calls_of_a_budget_that_only_counts(world: World) -> None:
    """Budgets that are not strict are not locked; their period is made once all the same."""
    org = world.org()
    key = world.key(org=org)
    world.budget(org, "project", "p", 10**6, "total", enforcement="check")
    world.budget(org, "org", org, 1, "total", enforcement="soft")

    def call(connection: psycopg.Connection[Row], _: int) -> str:
        def reserve() -> Row:
            row = connection.execute("select status, code from budget.reserve(%s, 't-mini', 1, 1)", (key,)).fetchone()
            assert row is not None
            return row

        return attempt(reserve)

    assert Counter(at_once(world, 12, call)) == {"granted": 12}
    assert world.counters() == [{"spent": 0, "held": 0}] * 2


def busy_tells_when(world: World) -> None:
    """What is left of the hold in the way, by how long holds last."""
    world.set_clock(NOON)
    key = world.key(HOLD)
    first = world.reserve(key)["reservation_id"]
    world.set_clock("2027-01-15T12:00:10Z")
    world.settle(first, {"input": 0})
    world.reserve(key)
    world.set_clock("2027-01-15T12:00:14Z")
    assert world.reserve(key)["retry_after_seconds"] == 6


# Mutants.

REFUSING = "50_reserve/refusing_slot.sql"
PREPARE = "50_reserve/prepare_admissions.sql"
ROOMS = "50_reserve/read_rooms.sql"
TAKE = "50_reserve/take_room.sql"
GRANTS = "50_reserve/book_grants.sql"
DECIDE = "50_reserve/decide.sql"
WORST_RATES = "40_price/worst_rates.sql"
WORST_COST = "40_price/worst_cost.sql"
WHOLE = "50_reserve/fits_whole.sql"
LIMIT = "35_budget/limit_in_force.sql"
CARRIED = "35_budget/carried_room.sql"
START = "52_run/start_run.sql"
END = "52_run/end_run.sql"
BOOK = "55_settle/book_closures.sql"
ENDED = "55_settle/settle_ended.sql"
RATES = "55_settle/correct_rates.sql"
UNITS = "55_settle/count_units.sql"

MUTANTS = [
    # Enforcement.
    mutant(
        "check is treated as soft", each_enforcement, (REFUSING, "= 'soft' or p_cost = 0", "in ('soft', 'check') or p_cost = 0")
    ),
    mutant(
        "soft is treated as check",
        each_enforcement,
        (REFUSING, "p_enforcements[v_slot] = 'soft' or p_cost = 0", "p_cost = 0"),
        ONE_BY_ONE,
    ),
    mutant(
        "check holds",
        each_enforcement,
        (ROOMS, "then 'strict' else 'check' end", "then 'strict' else 'strict' end"),
    ),
    mutant(
        "check lets in at its limit",
        each_enforcement,
        (REFUSING, "then p_spent[v_slot] >= v_limit", "then p_spent[v_slot] > v_limit"),
    ),
    mutant(
        "an estimate is needed without a strict budget",
        each_enforcement,
        (
            PREPARE,
            "b.strict or w.makes_run or w.request_ceiling_nano_usd is not null or cardinality",
            "true or w.request_ceiling_nano_usd is not null or cardinality",
        ),
    ),
    mutant(
        "an unpriced call does not look at holds",
        what_cannot_be_priced,
        (REFUSING, "then p_fits_around and v_limit", "then false and v_limit"),
    ),
    mutant("allow_unpriced allows nothing", what_cannot_be_priced, (PREPARE, " and not p.allow_unpriced then", " then")),
    mutant(
        "on_unknown_cost is always refuse",
        what_cannot_be_priced,
        (PREPARE, " and w.on_unknown_cost = 'refuse' as needs_cost", " as needs_cost"),
    ),
    mutant(
        "what has no price is let in",
        what_cannot_be_priced,
        (PREPARE, "when p.cost is null and p.needs_cost and", "when false and"),
    ),
    mutant(
        "one priced route is enough",
        what_cannot_be_priced,
        (WORST_RATES, "or array_position(p_price_ids, null) is not null then", "then"),
        (WORST_COST, "if v_scaled is null then", "if false then"),
    ),
    # Narrowed, raised, carried over, reset.
    mutant(
        "models are not looked at when holding",
        narrowed_to_models,
        (PREPARE, "where b.models is null or b.models && o.priced_models", "where true"),
    ),
    mutant(
        "models are looked for by the typed name",
        narrowed_to_models,
        (PREPARE, "b.models && o.priced_models", "w.model = any (b.models)"),
    ),
    mutant(
        "models are not looked at when charging",
        narrowed_to_models,
        (BOOK, "where b.models is null or m.model = any (b.models)", "where true"),
    ),
    mutant(
        "models are not looked at when correcting",
        narrowed_to_models,
        ("55_settle/charged_period_ids.sql", "where b.models is null\n", "where true\n"),
    ),
    mutant(
        "a raise never expires",
        raised_until_it_expires,
        (LIMIT, "case when p_raise_until > p_at then p_raise else 0 end", "coalesce(p_raise, 0)"),
    ),
    mutant(
        "a raise lasts an instant longer", raised_until_it_expires, (LIMIT, "p_raise_until > p_at", "p_raise_until >= p_at")
    ),
    mutant("a raise is no room", raised_until_it_expires, (LIMIT, "then p_raise else", "then 0 else")),
    mutant(
        "room is carried over without a cap",
        carried_over,
        (CARRIED, "return least(v_budget.carry_over_cap_nano_usd, v_idle)::bigint", "return v_idle::bigint"),
    ),
    mutant("idle periods pass nothing on", carried_over, (CARRIED, "v_idle := v_idle + v_budget.limit_nano_usd;", "")),
    mutant("what is held is carried over", carried_over, (CARRIED, " - v_period.held_nano_usd\n", "\n")),
    mutant(
        "room is carried from before the budget", carried_over, (CARRIED, "v_budget.created_at < v_before loop", "true loop")
    ),
    mutant(
        "a refusal does not know what is carried over",
        carried_over,
        (ROOMS, "then budget_internal.carried_room(b.budget_id, s.starts_at) else", "then 0 else"),
    ),
    mutant(
        "the period before is not locked",
        the_last_call_of_a_day,
        (RESERVE, "    || array(select s.carry_lock_key from unnest(v_slots) s where s.carry_lock_key is not null)\n", ""),
    ),
    mutant(
        "a closed period is not looked at",
        the_last_call_of_a_day,
        (ROOMS, "is not null and s.ends_at <= p_now", "is not null and false"),
    ),
    mutant(
        "what is forgiven still counts", a_reset_forgives, (ROOMS, "p.spent_nano_usd - p.forgiven_nano_usd", "p.spent_nano_usd")
    ),
    mutant(
        "a correction of what is forgiven gives room",
        a_reset_forgives,
        (ENDED, "when v_entry.booked_at < p.reset_at then", "when false then"),
    ),
    # Batches that fit as a whole.
    *(
        mutant(f"a batch that fits as a whole looks at no {what}", batches_at_their_limits, (WHOLE, old, new), UNPAIRED)
        for what, old, new in [
            ("hold of others", " - greatest(0, r.held)", ""),
            ("spend", " - greatest(0, r.spent)", ""),
            ("cost but the last", "sum(a.cost_nano_usd) end as cost", "max(a.cost_nano_usd) end as cost"),
            ("steps of runs", "p_rooms.grants[t.slot] + t.grants > p_rooms.max_grants[t.slot]", "false"),
            ("requests a minute", "w.requests + t.requests > w.rpm or ", ""),
            ("tokens a minute", " or w.tokens + t.tokens > w.tpm", ""),
            ("ceiling", " or a.cost_nano_usd > a.ceiling_nano_usd", ""),
            ("budget that is only checked", "when 'check' then r.spent >= r.limit_nano_usd", "when 'check' then false"),
        ]
    ),
    # Rate limits.
    mutant(
        "one request a minute too many",
        requests_a_minute,
        (DECIDE, "p_rates.requests[v_decision.rate] >= p_rates.rpm", "p_rates.requests[v_decision.rate] > p_rates.rpm"),
    ),
    mutant(
        "a refusal counts as a request",
        requests_a_minute,
        (
            RESERVE,
            "    v_decision := budget_internal.decide(",
            "    v_rates := budget_internal.take_rate(v_rates, v_request);\n    v_decision := budget_internal.decide(",
        ),
    ),
    mutant(
        "a batch does not see its own requests",
        requests_a_minute,
        ("50_reserve/take_rate.sql", "p_rates.requests[v_rate] := p_rates.requests[v_rate] + 1;", ""),
    ),
    mutant(
        "a minute never begins anew",
        requests_a_minute,
        (GRANTS, "requests = case when w.minute_at = excluded.minute_at then w.requests else 0 end", "requests = w.requests"),
    ),
    mutant("another minute is corrected", requests_a_minute, (RATES, " and w.minute_at = d.rate_minute_at", "")),
    mutant("no minute is corrected", requests_a_minute, (RATES, "greatest(0, w.tokens + d.tokens)", "w.tokens")),
    mutant("an unsent call stays a request", requests_a_minute, (RATES, "greatest(0, w.requests - d.requests)", "w.requests")),
    mutant(
        "the output does not shrink",
        tokens_a_minute,
        (DECIDE, "      v_decision.output_tokens := least(v_decision.output_tokens, v_room / p_request.choices);\n", ""),
    ),
    mutant(
        "a shrunk output is not priced anew",
        tokens_a_minute,
        (DECIDE, "if v_decision.output_tokens < p_request.output_tokens and", "if false and"),
    ),
    mutant(
        "what could shrink is refused",
        tokens_a_minute,
        (
            DECIDE,
            "v_room < least(1, p_request.output_tokens) * p_request.choices",
            "v_room < p_request.output_tokens * p_request.choices",
        ),
    ),
    mutant(
        "one token for all choices",
        tokens_a_minute,
        (
            DECIDE,
            "v_room < least(1, p_request.output_tokens) * p_request.choices",
            "v_room < least(1, p_request.output_tokens)",
        ),
        (DECIDE, "p_request.input_tokens + least(1, p_request.output_tokens) * p_request.choices", "p_request.input_tokens"),
    ),
    mutant(
        "what no minute can have is for later",
        tokens_a_minute,
        (DECIDE, "      v_decision.code := 'request_over_limit';", "      v_decision.code := 'tokens_limit_exceeded';"),
    ),
    mutant(
        "what fills a minute is over its limit",
        tokens_a_minute,
        (
            DECIDE,
            "if p_rates.tpm[v_decision.rate] < p_request",
            "if p_rates.tpm[v_decision.rate] - p_rates.tokens[v_decision.rate] < p_request",
        ),
    ),
    mutant("choices share what shrinks", tokens_a_minute, (DECIDE, "v_room / p_request.choices);", "v_room);")),
    mutant(
        "a rate limit is not locked",
        rate_limit_at_once,
        WIDER,
        (RESERVE, "    || array(select budget_internal.rate_lock_key(r) from unnest(v_rate_scope_ids) r)\n", ""),
    ),
    # Ladders and bounds.
    mutant(
        "a ladder waits for what will not come",
        a_ladder,
        (RESERVE, "if v_request.action = 'refuse' or v_result.code = 'budget_busy' then", "if true then"),
    ),
    mutant(
        "a rung that refuses is passed over",
        a_ladder,
        (
            RESERVE,
            "if v_request.action = 'refuse' or v_result.code = 'budget_busy' then",
            "if v_request.action = 'wait' and v_result.code = 'budget_busy' then",
        ),
    ),
    mutant(
        "a ladder never waits",
        a_ladder,
        (
            RESERVE,
            "if v_request.action = 'refuse' or v_result.code = 'budget_busy' then",
            "if v_request.action = 'refuse' then",
        ),
    ),
    mutant(
        "a rung is granted that does not fit",
        a_ladder,
        (RESERVE, "if v_decision.code is not null then", "if v_decision.code is not null and v_request.rung_place = 0 then"),
    ),
    mutant(
        "the last rung is tried first",
        a_ladder,
        (
            "50_reserve/place_admissions.sql",
            "order by a.item, a.rung_place\n",
            "order by a.item, a.rung_place > 0, a.rung_place desc\n",
        ),
    ),
    mutant("the ladder of the org comes first", a_ladder, (PREPARE, "order by g.place\n", "order by g.place desc\n")),
    mutant("the rung is not named", a_ladder, ("50_reserve/describe_grants.sql", "g.rung, g.routes", "null, g.routes")),
    mutant("features stay on", a_ladder, (PREPARE, "where f <> all (r.features_off)", "where true")),
    mutant(
        "a ladder helps whatever is wrong",
        a_ladder,
        (RESERVE, "elsif v_undecided and v_result.code not in (", "elsif false and v_result.code not in ("),
    ),
    mutant("the tokenizer is never asked", a_tighter_bound, (PREPARE, "then n.tokenizer_tokens < n.bound", "then false")),
    mutant(
        "the tokenizer is asked first",
        a_tighter_bound,
        (
            PREPARE,
            "when t.rung_place = 0 then n.bound",
            "when t.rung_place = 0 then coalesce(n.tokenizer_tokens, n.bound)",
        ),
    ),
    # Runs.
    mutant(
        "one step too many",
        a_run_keeps_its_bounds,
        (REFUSING, "p_grants[v_slot] >= p_max_grants[v_slot]", "p_grants[v_slot] > p_max_grants[v_slot]"),
    ),
    mutant("a batch is one step", a_run_keeps_its_bounds, (TAKE, "p_rooms.grants[v_slot] := p_rooms.grants[v_slot] + 1;", "")),
    mutant("steps are not kept", a_run_keeps_its_bounds, (GRANTS, "grants = p.grants + t.grants,", "")),
    mutant(
        "the key's ceiling for runs is not looked at",
        a_run_keeps_its_bounds,
        (PREPARE, "when w.run_ceiling_usd * 1000000000 > w.key_run_ceiling then", "when false then"),
    ),
    mutant(
        "the key's ceiling is not looked at by start_run",
        a_run_keeps_its_bounds,
        (START, "if v_limit > v_key.run_ceiling_nano_usd then", "if false then"),
    ),
    mutant(
        "the key's steps for runs are not looked at",
        a_run_keeps_its_bounds,
        (PREPARE, "when w.run_max_steps > w.key_run_max_steps then", "when false then"),
    ),
    mutant(
        "a run without a ceiling has none",
        a_run_keeps_its_bounds,
        (
            PREPARE,
            "coalesce((w.run_ceiling_usd * 1000000000)::bigint, w.key_run_ceiling::bigint)",
            "(w.run_ceiling_usd * 1000000000)::bigint",
        ),
    ),
    mutant(
        "a run without steps has all",
        a_run_keeps_its_bounds,
        (PREPARE, "coalesce(w.run_max_steps, w.key_run_max_steps)", "w.run_max_steps"),
    ),
    mutant(
        "two keys share a run",
        a_run_keeps_its_bounds,
        ("50_reserve/named_run.sql", "s.parent_id = p_key_id and s.name = p_name", "s.name = p_name"),
    ),
    mutant("an ended run goes on", a_run_keeps_its_bounds, (PREPARE, "when w.run_ended_at is not null\n", "when false\n")),
    mutant(
        "a carve holds nothing",
        a_carved_run,
        (START, "set held_nano_usd = p.held_nano_usd + v_limit", "set held_nano_usd = p.held_nano_usd"),
    ),
    mutant(
        "a carve may be more than is left",
        a_carved_run,
        (START, "if v_limit > v_parent_run.available_nano_usd then", "if false then"),
    ),
    mutant(
        "a parent does not count what its child spends",
        a_carved_run,
        (GRANTS, "case when g.run_id is not null then", "case when false then"),
    ),
    mutant("a carve does not shrink", a_carved_run, (BOOK, "perform budget_internal.shrink_carves(", "perform cardinality(")),
    mutant(
        "a correction does not shrink the carve",
        a_carved_run,
        (ENDED, "perform budget_internal.shrink_carves(", "perform cardinality("),
    ),
    mutant("end_run gives nothing back", a_carved_run, (END, "perform budget_internal.shrink_carves(v_below);", "")),
    mutant(
        "a run that a call makes is not locked",
        first_uses_at_once,
        WIDER,
        (
            RESERVE,
            "from unnest(v_slots) s where s.strict)",
            "from unnest(v_slots) s where s.strict and s.budget_id is not null)",
        ),
    ),
    mutant(
        "a run that was made meanwhile is not looked up",
        first_uses_at_once,
        WIDER,
        (RESERVE, "v_slots := budget_internal.made_runs(v_slots);", ""),
    ),
    mutant(
        "start_run takes no locks",
        carves_at_once,
        (START, "perform budget_internal.take_locks(\n", "perform cardinality(\n"),
        (
            START,
            "    if v_limit > v_parent_run.available_nano_usd then",
            "    perform pg_sleep(0.05);\n    if v_limit > v_parent_run.available_nano_usd then",
        ),
    ),
    mutant(
        "an end is not looked at under the lock",
        an_end_while_a_call_waits,
        (ROOMS, "or b.deleted_at is not null and exists", "or false and exists"),
    ),
    # Units, chains, routes.
    mutant("units do not count", units_count, (BOOK, "perform budget_internal.count_units(p_closures);", "")),
    mutant(
        "the units of now count",
        units_count,
        (
            UNITS,
            "s.scope_id = any (r.scope_ids)",
            "s.scope_id in (select unnest(k.chain) from budget_internal.keys k where k.key_id = r.key_id)",
        ),
    ),
    mutant(
        "the month of the end counts",
        units_count,
        (UNITS, "date_trunc('month', r.reserved_at at", "date_trunc('month', budget_internal.clock() at"),
    ),
    mutant("units do not see corrections", units_count, (ENDED, "perform budget_internal.correct_units(", "perform concat(")),
    mutant(
        "a scope that is gone is passed over", broken_chains, (PREPARE, "c.alive is distinct from cardinality(k.chain) or", "")
    ),
    mutant("five units are let in", broken_chains, (PREPARE, "when c.units > 4 then", "when false then")),
    mutant("eleven budgets are let in", broken_chains, (PREPARE, "w.makes_run::integer > 10", "w.makes_run::integer > 11")),
    mutant(
        "a new run is no budget",
        broken_chains,
        (
            PREPARE,
            "cardinality(b.budget_ids) + w.makes_run::integer > 10",
            "cardinality(b.budget_ids) > 10",
        ),
    ),
    mutant("the cheapest route counts", over_all_routes, (WORST_COST, "greatest(v_most, v_scaled)", "least(v_most, v_scaled)")),
    mutant(
        "the ceiling of the key is not looked at",
        over_all_routes,
        (DECIDE, "if v_decision.cost_nano_usd > p_request.ceiling_nano_usd then", "if false then"),
    ),
    mutant(
        "the ceiling of the key is below itself",
        over_all_routes,
        (DECIDE, "v_decision.cost_nano_usd > p_request.ceiling", "v_decision.cost_nano_usd >= p_request.ceiling"),
        ONE_BY_ONE,
    ),
    # What is locked, and what busy says.
    mutant(
        "locks are taken in any order",
        overlapping_chains_at_once,
        (
            "20_guard/take_locks.sql",
            "array(select distinct k from pg_catalog.unnest(p_lock_keys) k order by k)",
            "array(select k from pg_catalog.unnest(p_lock_keys) k order by random())",
        ),
        (
            "20_guard/take_locks.sql",
            "perform pg_catalog.pg_advisory_xact_lock(k) from",
            "perform pg_catalog.pg_advisory_xact_lock(k), pg_catalog.pg_sleep(0.001) from",
        ),
    ),
    mutant(
        "a race for a new period is lost",
        first_calls_of_a_budget_that_only_counts,
        WIDER,
        # Time between the row and its commit, for others to run into it.
        (GRANTS, "unnest(v_missing) s));", "unnest(v_missing) s)); perform pg_catalog.pg_sleep(0.2);"),
        ("50_reserve/open_periods.sql", "  on conflict do nothing;", ";"),
    ),
    mutant(
        "the age of a hold does not matter",
        busy_tells_when,
        ("50_reserve/busy_seconds.sql", "then v_hold_ms - v_age_ms", "then v_hold_ms"),
    ),
    mutant(
        "how long holds last does not matter",
        busy_tells_when,
        (BOOK, "when p.hold_ms = 0 then greatest(1, v_now_ms - m.since_ms / m.holds)", "when p.hold_ms = 0 then 1"),
    ),
]

PROBES = sorted({m.probe for m in MUTANTS}, key=lambda probe: probe.__name__)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__)
def test_probe_is_green(world: World, probe: Probe) -> None:
    probe(world)


@pytest.mark.tests_of_tests
@pytest.mark.parametrize("fault", MUTANTS, ids=lambda fault: fault.name)
def test_mutant_turns_its_probe_red(world: World, fault: Mutant) -> None:
    fault.apply(world)
    with pytest.raises(AssertionError) as seen:
        fault.probe(world)
    assert not any(f"'{sqlstate}" in str(seen.value) for sqlstate in ("42", "XX")), seen.value
