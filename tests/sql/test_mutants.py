"""Faults put into the database's functions on purpose: each must turn a probe red that is green without it.

A probe that stays green over a mutant does not test what it seems to; a mutant whose text is gone from ``sql/`` fails too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

import psycopg
import pytest

from tests.support.world import Row, World

SQL = Path(__file__).parents[2] / "sql"
NOON = "2027-01-15T12:00:00Z"
#: What a call of ``world.reserve`` holds, in micro-dollars.
HOLD = 900

Probe = Callable[[World], None]


# Probes.


def attempt(call: Callable[[], Row]) -> str:
    """Code or status of one call; the SQLSTATE where it raises."""
    try:
        row = call()
    except psycopg.Error as error:
        return error.sqlstate or "connection lost"
    return str(row.get("code") or row["status"])


def at_once(world: World, count: int, call: Callable[[psycopg.Connection[Row], int], str]) -> list[str]:
    """What so many connections got that started together."""
    start = Barrier(count)

    def run(number: int) -> str:
        with world.connect_gateway() as connection:
            start.wait()
            return call(connection, number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def reserve_on(connection: psycopg.Connection[Row], key: str) -> str:
    def call() -> Row:
        row = connection.execute("select status, code from budget.reserve(%s, 't-mini', 100, 200)", (key,)).fetchone()
        assert row is not None
        return row

    return attempt(call)


def race_for_ten(world: World) -> None:
    """Of 24 at once the ten that fit are granted, and nothing fails."""
    key = world.key(10 * HOLD)
    outcomes = Counter(at_once(world, 24, lambda connection, _: reserve_on(connection, key)))
    assert outcomes == {"granted": 10, "budget_busy": 14}
    assert world.held() == 10 * HOLD
    assert world.verify() == []


def reserves_and_settlements_at_once(world: World) -> None:
    """Counters move from both sides at once, and nobody decides on what is no longer so."""
    key = world.key(100 * HOLD)
    open_ones = [world.reserve(key)["reservation_id"] for _ in range(8)]

    def call(connection: psycopg.Connection[Row], number: int) -> str:
        if number % 2:
            return reserve_on(connection, key)
        connection.execute("""select budget.settle(%s, '{"output": 1}')""", (open_ones[number // 2],))
        return "settled"

    assert Counter(at_once(world, 16, call)) == {"granted": 8, "settled": 8}
    assert (world.spent(), world.held()) == (8 * 4, 8 * HOLD)
    assert world.verify() == []


def one_id_at_once(world: World) -> None:
    """One request id from many connections is one hold, also where no budget's lock would order the calls."""
    key = world.key()

    def call(connection: psycopg.Connection[Row], _: int) -> str:
        def reserve() -> Row:
            query = "select status, code from budget.reserve(%s, 't-mini', 100, 200, 'x')"
            row = connection.execute(query, (key,)).fetchone()
            assert row is not None
            return row

        return attempt(reserve)

    assert Counter(at_once(world, 12, call)) == {"granted": 1, "granted_again": 11}
    assert world.value("select count(*) from budget_internal.reservations") == 1


def exact_fits(world: World) -> None:
    """What fits to the last nano-dollar is granted, and the next is refused: alone, beside holds, beside spend."""
    alone = world.key(HOLD)
    assert [attempt(lambda: world.reserve(alone)) for _ in range(2)] == ["granted", "budget_busy"]
    beside_holds = world.key(2 * HOLD)
    assert [attempt(lambda: world.reserve(beside_holds)) for _ in range(3)] == ["granted", "granted", "budget_busy"]
    beside_spend = world.key(2 * HOLD)
    world.settle(world.reserve(beside_spend)["reservation_id"], {"input": 100, "output": 200})
    assert attempt(lambda: world.reserve(beside_spend)) == "granted"
    world.settle(world.reserve(world.key(2 * HOLD))["reservation_id"], {"input": 100, "output": 200})
    spent_up = world.key(2 * HOLD - 1)
    world.settle(world.reserve(spent_up)["reservation_id"], {"input": 100, "output": 200})
    assert attempt(lambda: world.reserve(spent_up)) == "budget_exceeded"
    assert attempt(lambda: world.reserve(world.key(HOLD - 1))) == "request_over_limit"
    assert world.verify() == []


def time_passes_in_a_transaction(world: World) -> None:
    """A caller with a long transaction gets no older stamps."""
    key = world.key(10 * HOLD)
    with world.connection.transaction():
        first, second = world.reserve(key)["reservation_id"], world.reserve(key)["reservation_id"]
        stamps = [
            world.value("select reserved_at from budget_internal.reservations where reservation_id = %s", r)
            for r in (first, second)
        ]
    assert stamps[0] < stamps[1]


def ends_once(world: World) -> None:
    """One end: a repeat tells it again, another report is a conflict, and no money moves."""
    key = world.key(10 * HOLD)
    settled, released = world.reserve(key)["reservation_id"], world.reserve(key)["reservation_id"]

    def release(reservation: Any) -> str:
        return attempt(lambda: world.one("select * from budget.release(%s)", reservation))

    usage = {"output": 100}
    assert [attempt(lambda: world.settle(settled, usage)) for _ in range(2)] == ["settled", "repeated"]
    assert release(settled) == "LB302"
    assert attempt(lambda: world.settle(settled, {"output": 99})) == "LB302"
    assert [release(released) for _ in range(2)] == ["released", "repeated"]
    assert attempt(lambda: world.settle(released, usage)) == "LB302"
    assert (world.spent(), world.held(), len(world.ledger())) == (400, 0, 2)
    assert world.verify() == []


def read_committed_only(world: World) -> None:
    """Another isolation level is refused before anything is held."""
    key = world.key(10 * HOLD)
    with world.connect() as connection:
        connection.execute("set default_transaction_isolation to 'repeatable read'")
        assert reserve_on(connection, key) == "LB105"
    assert world.counters() == []


def repeats_hold_once(world: World) -> None:
    """A request id holds once: open, in one batch, and after its end."""
    key = world.key(10 * HOLD)
    first = world.reserve(key, request_id="x")
    assert attempt(lambda: world.reserve(key, request_id="x")) == "granted_again"
    assert attempt(lambda: world.reserve(key, request_id="x", body_hash="other")) == "idempotency_conflict"
    assert world.held() == HOLD
    world.settle(first["reservation_id"], {"output": 100})
    assert attempt(lambda: world.reserve(key, request_id="x")) == "granted_again"
    item = {"key": key, "model": "t-mini", "input_tokens": 100, "max_output_tokens": 200, "request_id": "y"}

    def batch() -> Row:
        return {"status": [r["status"] for r in world.rows("select * from budget.reserve_batch(%s)", json.dumps([item] * 2))]}

    assert attempt(batch) == "['granted', 'granted_again']"
    # A call that never left gives its id back.
    unsent = world.reserve(key, request_id="z")["reservation_id"]
    world.settle(unsent, None, "unsent")
    assert attempt(lambda: world.reserve(key, request_id="z")) == "granted"
    assert (world.spent(), world.held()) == (400, 2 * HOLD)


def prices_round_up_once(world: World) -> None:
    """Exact to the nano-dollar for the smallest and the largest amounts."""
    per = 3600
    nano_usd = 11_000_000_001
    world.execute("select budget.set_model('x', 'm', null, null)")
    rates = json.dumps([{"kind": "input", "usd": "11.000000001", "per": per}])
    world.execute("select budget.review_price(budget.add_price('x', 'm', %s), 'me')", rates)
    # A whole number of nano-dollars and 3 of 3600 parts of one, at 19 digits: a rounded quotient loses them.
    large = next(q for q in range(10**12, 0, -1) if q * nano_usd % per == 3)
    for quantity in (0, 1, 3599, 3600, 3601, large, 10**12):
        found = world.value("select budget.quote('x', 'm', %s)", json.dumps({"input": quantity}))
        assert found == -(-quantity * nano_usd // per), quantity


def stale_is_after_its_moment(world: World) -> None:
    """Until its last instant a reservation lives and can be kept alive; after it, neither."""
    world.set_clock(NOON)
    reservation = world.reserve(world.key(10 * HOLD))["reservation_id"]

    def alive() -> bool:
        return bool(world.value("select alive from budget.heartbeat(array[%s])", reservation))

    def reconcile_one() -> str:
        return attempt(lambda: world.one("select * from budget.reconcile_one(%s)", reservation))

    assert reconcile_one() == "LB304"
    world.set_clock("2027-01-15T12:01:30Z")
    assert reconcile_one() == "LB304"
    assert alive()
    world.set_clock("2027-01-15T12:03:00.001Z")
    assert not alive()
    assert world.value("select charged from budget.reconcile()") == 1
    assert (world.spent(), world.held()) == (HOLD, 0)


def malformed_keeps_its_hold(world: World) -> None:
    """A row that cannot be right is neither charged nor dropped, and does not stop its neighbour."""
    key = world.key(10 * HOLD)
    bad, good = world.reserve(key)["reservation_id"], world.reserve(key)["reservation_id"]
    world.execute("update budget_internal.reservations set price_ids = '{-1}' where reservation_id = %s", bad)
    assert attempt(lambda: world.settle(bad, {"output": 100}, "unknown")) == "reservation_malformed"
    assert attempt(lambda: world.settle(good, {"output": 100})) == "settled"
    assert (world.spent(), world.held()) == (400, HOLD)


def bad_usage_is_never_credited(world: World) -> None:
    """What cannot be believed or is missing is charged in full; an estimate stays within the hold."""
    key = world.key(100 * HOLD)
    for usage, outcome, charged in [
        ({"output": -100, "input": 1000}, "finished", HOLD),
        ({"output": 1.5}, "finished", HOLD),
        (None, "finished", HOLD),
        (None, "unknown", HOLD),
        ({"output": 1000}, "estimated", HOLD),
        ({"output": 10}, "estimated", 40),
        ({"output": 1000}, "finished", 4000),
    ]:
        settled = world.settle(world.reserve(key)["reservation_id"], usage, outcome)
        assert settled["charged_nano_usd"] == charged * 1000, (usage, outcome)
        assert settled["overrun"] is (charged > HOLD)
    report = {
        "reservation_id": str(world.reserve(key)["reservation_id"]),
        "outcome": "unknown",
        "usage_seen": {"output": 500},
    }
    assert world.one("select * from budget.settle_batch(%s)", json.dumps([report]))["charged_nano_usd"] == 2000 * 1000
    assert world.held() == 0
    assert world.verify() == []


def trues_up_once(world: World) -> None:
    """The first real report after a charge in full counts, and only that."""
    reservation = world.reserve(world.key(10 * HOLD))["reservation_id"]
    outcomes = [
        attempt(lambda: world.settle(reservation, None, "unknown")),
        attempt(lambda: world.settle(reservation, {"output": 100})),
        attempt(lambda: world.settle(reservation, {"output": 100})),
        attempt(lambda: world.settle(reservation, {"output": 50})),
    ]
    assert outcomes == ["charged", "trued_up", "repeated", "LB302"]
    assert (world.spent(), world.held()) == (400, 0)
    assert world.verify() == []


def one_true_up_at_once(world: World) -> None:
    """Of different late reports at once one counts, also where no budget's lock would order them."""
    reservation = world.reserve(world.key())["reservation_id"]
    world.settle(reservation, None, "unknown")

    def call(connection: psycopg.Connection[Row], number: int) -> str:
        def settle() -> Row:
            query = "select status from budget.settle(%s, %s)"
            row = connection.execute(query, (reservation, json.dumps({"output": number + 1}))).fetchone()
            assert row is not None
            return row

        return attempt(settle)

    assert Counter(at_once(world, 8, call)) == {"trued_up": 1, "LB302": 7}
    assert world.verify() == []


# Mutants.

RESERVE = "50_reserve/reserve_batch.sql"
GRANTS = "50_reserve/book_grants.sql"
REFUSING = "50_reserve/refusing_slot.sql"
EARLIER = "50_reserve/earlier_grants.sql"
CLOSE = "55_settle/close_reservations.sql"
BOOK = "55_settle/book_closures.sql"
JUDGE = "55_settle/judge_closures.sql"
ENDED = "55_settle/settle_ended.sql"
HEARTBEAT = "60_heartbeat/heartbeat.sql"
PRICE = "40_price/price_usages.sql"

#: File, text in it, text instead.
Change = tuple[str, str, str]

#: Time between a decision and its effect, so that a race that can happen does happen.
WIDER: Change = (RESERVE, "  -- Order decides:", "  perform pg_catalog.pg_sleep(0.05);\n  -- Order decides:")
#: Batches that fit as a whole are decided one by one, too.
ONE_BY_ONE: Change = (RESERVE, "and budget_internal.fits_whole(v_admissions, v_rooms, v_rates)", "and false")
#: The sum of what was granted is not looked at once more.
UNPAIRED: Change = (GRANTS, "if v_broken is not null then", "if false then")
#: The same arguments, and no lock.
UNLOCKED_RESERVE: Change = (RESERVE, "perform budget_internal.take_locks(", "perform cardinality(")


@dataclass(frozen=True)
class Mutant:
    """A fault, and the probe that must see it."""

    name: str
    probe: Probe
    changes: tuple[Change, ...]

    def apply(self, world: World) -> None:
        """Put it into a database, as the owner of its functions."""
        texts: dict[str, str] = {}
        for file, old, new in self.changes:
            text = texts.get(file) or (SQL / file).read_text()
            assert text.count(old) == 1, f"{file} has {text.count(old)} times: {old}"
            texts[file] = text.replace(old, new)
        world.execute("set role budget_owner")
        for text in texts.values():
            # As bytes: a script of several statements, taken as it is.
            world.connection.execute(text.encode())
        world.execute("reset role")


def mutant(name: str, probe: Probe, *changes: Change) -> Mutant:
    """A row of the table."""
    return Mutant(name, probe, changes)


MUTANTS = [
    mutant("reserve takes no locks", race_for_ten, WIDER, UNLOCKED_RESERVE),
    mutant(
        "reserve takes no locks and does not check its pair",
        race_for_ten,
        WIDER,
        UNLOCKED_RESERVE,
        (GRANTS, "if v_broken is not null then", "if false then"),
    ),
    mutant(
        "reserve locks and reads in one statement",
        race_for_ten,
        WIDER,
        UNLOCKED_RESERVE,
        # As one statement: its snapshot is from before the lock.
        (
            RESERVE,
            "v_read := budget_internal.read_rooms(v_slots, v_now);",
            "v_read := (select budget_internal.read_rooms(v_slots, v_now) from ("
            "select budget_internal.take_locks(array(select s.lock_key from unnest(v_slots) s)) offset 0) locked);",
        ),
    ),
    mutant(
        "reserve does not lock the request id",
        one_id_at_once,
        WIDER,
        (RESERVE, "where a.key_id is not null and a.request_id is not null", "where false"),
    ),
    mutant(
        "settle takes no locks",
        reserves_and_settlements_at_once,
        WIDER,
        (CLOSE, "perform budget_internal.take_locks(", "perform cardinality("),
    ),
    mutant(
        "REPEATABLE READ is let in",
        read_committed_only,
        (
            "20_guard/require_read_committed.sql",
            "  if pg_catalog.current_setting(",
            "  if false and pg_catalog.current_setting(",
        ),
    ),
    mutant(
        "over the limit from the limit on",
        exact_fits,
        (REFUSING, "p_cost > v_limit then", "p_cost >= v_limit then"),
    ),
    mutant(
        "no request is over the limit",
        exact_fits,
        (REFUSING, "p_cost > v_limit then", "false then"),
    ),
    mutant(
        "exceeded at an exact fit",
        exact_fits,
        (REFUSING, "else p_cost > v_limit - p_spent[v_slot]\n", "else p_cost >= v_limit - p_spent[v_slot]\n"),
    ),
    mutant(
        "busy at an exact fit",
        exact_fits,
        (
            REFUSING,
            "p_cost > v_limit - p_spent[v_slot] - p_held",
            "p_cost >= v_limit - p_spent[v_slot] - p_held",
        ),
        ONE_BY_ONE,
    ),
    mutant("holds are not counted", exact_fits, (REFUSING, " - p_spent[v_slot] - p_held[v_slot]\n", " - p_spent[v_slot]\n")),
    mutant(
        "the clock is the transaction's",
        time_passes_in_a_transaction,
        ("10_clock/clock.sql", "clock_timestamp() $$", "now() $$"),
    ),
    mutant(
        "a known request id is not looked at",
        repeats_hold_once,
        (RESERVE, "if v_earlier ? v_earlier_key and (", "if false and ("),
    ),
    mutant(
        "a request id is free again after its end",
        repeats_hold_once,
        (
            EARLIER,
            "from budget_internal.ledger_entries l\n        where",
            "from budget_internal.ledger_entries l\n        where false and",
        ),
    ),
    mutant(
        "the id of an unsent call stays taken",
        repeats_hold_once,
        (EARLIER, " and (l.outcome <> 'unsent' or l.kind <> 'released')", ""),
    ),
    mutant(
        "a request id is not looked for within its batch",
        repeats_hold_once,
        (RESERVE, "group by a.key_id, a.request_id having count(*) > 1", "group by a.key_id, a.request_id having false"),
    ),
    mutant(
        "another body gets the first one's grant",
        repeats_hold_once,
        (
            "50_reserve/repeat_grant.sql",
            "if p_earlier ->> 'body_hash' is distinct from p_request.body_hash then",
            "if false then",
        ),
    ),
    mutant(
        "prices are a rounded quotient",
        prices_round_up_once,
        (PRICE, "div(coalesce(sum(p.scaled), 0) + 8999999999, 9000000000)", "ceil(coalesce(sum(p.scaled), 0) / 9000000000)"),
    ),
    mutant("prices round down", prices_round_up_once, (PRICE, " + 8999999999, ", ", ")),
    mutant(
        "a release asks for no state",
        ends_once,
        (
            ENDED,
            "  if v_correction.reservation_id is null and v_entry.kind = 'charged' then",
            "  if v_outcome = 'released' then",
        ),
    ),
    mutant("a conflict is answered as a repeat", ends_once, (ENDED, "'rejected', 'settlement_conflict'", "'repeated', null")),
    mutant(
        "an ended reservation stays",
        ends_once,
        (
            BOOK,
            "delete from budget_internal.reservations r where ",
            "delete from budget_internal.reservations r where false and ",
        ),
        (BOOK, "if v_changed <> cardinality(v_ids) then", "if false then"),
    ),
    mutant("the hold is not given back", ends_once, (BOOK, "held_nano_usd = p.held_nano_usd - m.held, ", "")),
    mutant("the spend is not counted", ends_once, (BOOK, ", spent_nano_usd = p.spent_nano_usd + m.spent", "")),
    mutant(
        "a living reservation is reconciled",
        stale_is_after_its_moment,
        (CLOSE, "where c.outcome <> 'stale' or exists", "where true or exists"),
    ),
    mutant("stale an instant early", stale_is_after_its_moment, (CLOSE, "r.stale_at < v_now", "r.stale_at <= v_now")),
    mutant(
        "a heartbeat revives what is late",
        stale_is_after_its_moment,
        (HEARTBEAT, "and r.stale_at >= budget_internal.clock()", ""),
    ),
    mutant(
        "a heartbeat is late an instant early",
        stale_is_after_its_moment,
        (HEARTBEAT, "r.stale_at >= budget_internal.clock()", "r.stale_at > budget_internal.clock()"),
    ),
    mutant(
        "malformed rows are booked",
        malformed_keeps_its_hold,
        (CLOSE, "where c.defect is null", "where true"),
        (CLOSE, "where c.defect is not null", "where false"),
    ),
    mutant("a lost price is not noticed", malformed_keeps_its_hold, (JUDGE, "then 'missing_price'", "then null")),
    mutant(
        "negative usage is believed",
        bad_usage_is_never_credited,
        (PRICE, "between 0 and", "between -1000000000000 and"),
    ),
    mutant(
        "an estimate may pass the hold",
        bad_usage_is_never_credited,
        (JUDGE, "least(c.cost, c.hold)", "c.cost"),
    ),
    mutant(
        "what is unknown is free",
        bad_usage_is_never_credited,
        (JUDGE, "when 'charged' then greatest(\n        c.hold,", "when 'charged' then greatest(\n        0,"),
    ),
    mutant(
        "an overrun is cut at the hold",
        bad_usage_is_never_credited,
        (JUDGE, "c.outcome = 'finished' then c.cost", "c.outcome = 'finished' then least(c.cost, c.reserved_nano_usd)"),
    ),
    mutant(
        "what was seen of an unknown call does not count",
        bad_usage_is_never_credited,
        (
            JUDGE,
            "c.hold, case when c.seen_cost <= 1000000000000000 then c.seen_cost end\n      )::bigint",
            "c.hold, null)::bigint",
        ),
    ),
    mutant(
        "two reports look for a correction at once",
        one_true_up_at_once,
        (ENDED, "  for update;", ";"),
        (
            ENDED,
            "  if v_correction.reservation_id is null and",
            "  perform pg_sleep(0.05);\n  if v_correction.reservation_id is null and",
        ),
    ),
    mutant(
        "every report trues up",
        trues_up_once,
        (ENDED, "if v_correction.reservation_id is null and v_entry.kind = 'charged' then", "if v_entry.kind = 'charged' then"),
    ),
    mutant("nothing trues up", trues_up_once, (ENDED, "  if v_cost is not null then", "  if false then")),
]

PROBES = sorted({m.probe for m in MUTANTS}, key=lambda probe: probe.__name__)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__)
def test_probe_is_green(world: World, probe: Probe) -> None:
    probe(world)


@pytest.mark.parametrize("probe", [race_for_ten, reserves_and_settlements_at_once, one_id_at_once], ids=lambda p: p.__name__)
def test_a_wider_window_alone_harms_nobody(world: World, probe: Probe) -> None:
    mutant("wider", probe, WIDER).apply(world)
    probe(world)


@pytest.mark.tests_of_tests
@pytest.mark.parametrize("fault", MUTANTS, ids=lambda fault: fault.name)
def test_mutant_turns_its_probe_red(world: World, fault: Mutant) -> None:
    fault.apply(world)
    # Only what a probe asserts counts: a mutant that cannot run at all would prove nothing.
    with pytest.raises(AssertionError) as seen:
        fault.probe(world)
    assert not any(f"'{sqlstate}" in str(seen.value) for sqlstate in ("42", "XX")), seen.value
