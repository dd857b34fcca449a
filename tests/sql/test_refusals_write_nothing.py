"""A refused request takes nothing and writes nothing: a runaway loop must not fill the disk."""

from __future__ import annotations

import json

from tests.support.world import Row, World


def test_a_batch_of_refusals_writes_no_wal_and_takes_no_transaction_id(world: World) -> None:
    org = world.org()
    small, spent, busy = world.key(1, org=org), world.key(900, org=org), world.key(900, org=org)
    checked, rated, run = world.key(org=org), world.key(org=org), world.key(org=org, run_ceiling_usd="0.000001")
    world.settle(world.reserve(spent)["reservation_id"], {"input": 900})
    world.reserve(busy)
    world.budget(org, "key", world.key_name(checked)[1], 0, enforcement="check")
    world.execute("select budget.set_rate_limit(%s, 'key', %s, null, 1)", org, world.key_name(rated)[1])
    # With room carried over from a period that nobody has opened, and one that is refused on every rung of a ladder.
    carried = world.key(org=org)
    world.budget(org, "key", world.key_name(carried)[1], 1, carry_over_cap_usd="0.000001")
    ladder = json.dumps([{"name": "short", "max_output_tokens": 1}, {"name": "stop", "refuse": True}])
    world.execute("select budget.set_ladder(%s, 'key', %s, %s)", org, world.key_name(carried)[1], ladder)
    refused: list[Row] = [
        {"key": "nobody", "code": "invalid_key"},
        {"key": small, "code": "request_over_limit"},
        {"key": spent, "code": "budget_exceeded"},
        {"key": busy, "code": "budget_busy"},
        {"key": checked, "code": "budget_exceeded"},
        {"key": rated, "code": "request_over_limit"},
        {"key": run, "code": "request_over_limit", "options": {"run": {"id": "r"}}},
        {"key": carried, "code": "request_over_limit", "request_id": "x"},
    ]
    items = [{"model": "t-mini", "input_tokens": 100, "max_output_tokens": 200, **item} for item in refused for _ in range(5)]
    requests = json.dumps([{name: value for name, value in item.items() if name != "code"} for item in items])

    with world.connect_gateway() as connection:

        def refuse() -> None:
            rows = connection.execute("select code from budget.reserve_batch(%s) order by item", (requests,)).fetchall()
            assert [row["code"] for row in rows] == [item["code"] for item in items]

        # The first reads of a page may leave a hint on it.
        refuse()
        with connection.transaction():
            refuse()
            row = connection.execute("select pg_current_xact_id_if_assigned() as xid").fetchone()
            assert row is not None
            assert row["xid"] is None
        # In a quiet database: another process of the server may write now and then, so one of some tries must be silent.
        written = set()
        for _ in range(5):
            before = world.value("select pg_current_wal_insert_lsn()")
            refuse()
            written.add(world.value("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)", before))
        assert 0 in written, written
    assert world.value("select count(*) from budget_internal.runs") == 0
    assert world.value("select count(*) from budget_internal.rate_windows") == 0
    assert world.verify() == []
