"""docs/ops.md: what it says to type does what it says, at a database where all of that has gone wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import psycopg

from tests.support.world import World

OPS = Path(__file__).parents[2] / "docs" / "ops.md"


def sections() -> dict[str, list[str]]:
    """Heading to the SQL blocks beneath it."""
    parts = re.split(r"^## (.*)$", OPS.read_text(), flags=re.M)
    return {title: re.findall(r"```sql\n(.*?)```", text, re.S) for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def run(world: World, block: str, **variables: object) -> list[list[tuple[object, ...]]]:
    """The rows of each statement of a block, as psql would run it: one transaction each."""
    for name, value in variables.items():
        block = block.replace(f":'{name}'", f"'{value}'")
    assert not re.search(r"(?<!:):'", block), f"a variable without a value: {block}"
    found = []
    with psycopg.connect(world.dsn, autocommit=True) as connection:
        # No semicolon stands within a string of the page.
        for statement in filter(str.strip, block.split(";\n")):
            cursor = connection.execute(statement.encode())
            found.append(cursor.fetchall() if cursor.description else [])
    return found


def test_every_statement_of_the_ops_guide_does_what_it_says(world: World, tmp_path: Path) -> None:
    page = sections()
    world.set_clock("2031-01-15T12:00:00Z")
    world.execute("select budget.upkeep_step()")
    key = world.key(10**6)
    ids = {name: world.reserve(key)["reservation_id"] for name in ("stale", "quarantined", "repaired", "reconciled", "alive")}
    broken = [ids["quarantined"], ids["repaired"]]
    keep = "create table public.lost as select reservation_id, price_ids from budget_internal.reservations"
    world.execute(keep)
    world.execute("update budget_internal.reservations set price_ids = '{-1}' where reservation_id = any (%s)", broken)
    world.settle(ids["stale"], None, "unknown")

    (well,) = page["Is all well?"][:1]
    assert run(world, well) == [[]]
    exposure, overshoot = run(world, page["Is all well?"][1])
    assert [row[1] for row in exposure if row[0] is None] == [4]
    assert [float(row[3]) for row in overshoot] == [45 + 4 * 0.0009]  # type: ignore[arg-type]

    status, by_hand, lockers = page["The schedule"]
    assert run(world, status)[0][0][0] == "proxy"
    world.execute("""select budget.set_policy(null, '{"reconcile_max_attempts": 1}')""")
    world.set_clock("2031-01-15T12:10:00Z")
    run(world, by_hand)
    # The living one has gone stale as well, and one more.
    assert world.value("select count(*) from budget.quarantine") == 2
    assert run(world, lockers) == [[]]

    charges, correct = page["A stale charge"]
    assert {str(row[0]) for row in run(world, charges)[0]} == {str(ids[n]) for n in ("stale", "reconciled", "alive")}
    assert run(world, correct, stale=ids["stale"])[0][0][0] == "trued_up"
    assert str(ids["stale"]) not in {str(row[0]) for row in run(world, charges)[0]}

    show, retry, decide, audit = page["A quarantine"]
    assert {(str(row[0]), row[4]) for row in run(world, show)[0]} == {(str(i), "missing_price") for i in broken}
    world.execute(
        "update budget_internal.reservations r set price_ids = l.price_ids from public.lost l"
        " where l.reservation_id = r.reservation_id and r.reservation_id = %s",
        ids["repaired"],
    )
    # Time goes on between the two.
    statements = retry.strip().split(";\n")
    assert run(world, statements[0], repaired=ids["repaired"]) == [[("retried",)]]
    world.set_clock("2031-01-15T12:11:00Z")
    assert run(world, statements[1]) == [[(1, 0)]]
    assert run(world, decide, quarantined=ids["quarantined"])[0][0][0] == "charged"
    assert run(world, show) == [[]]
    assert [row[4] for row in run(world, audit)[0]] == ["charge", "retry", "charge"]

    (drift,) = page["A drift"]
    world.set_clock("2031-01-16T12:00:00Z")
    changed, days = run(world, drift)
    assert changed == [(1,)]
    assert [str(row[0]) for row in days] == ["2031-01-15"]
    (tmp_path / "costs.csv").write_text("project,day,cost_usd\nweb,2031-01-15,0.0004\napi,2031-01-15,0.0002\n")
    command = re.findall(r"^\$ pgbudget (costs .*)$", OPS.read_text(), re.M)[0].split()
    done = subprocess.run(
        [sys.executable, "-m", "pgbudget.cli", *command, "--dsn", world.dsn], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "2 costs read, 1 new or changed\n2031-01-15: the provider says 0.0006 USD, the ledger 0.0041 USD"
    )

    dead, redrive = page["A dead alert"]
    world.execute(
        "insert into budget_internal.alert_destinations values ('webhook', false, now());"
        " insert into budget_internal.deliveries"
        " (org_id, alert_id, destination, state, attempts, next_attempt_at, last_error)"
        " select org_id, alert_id, 'webhook', 'dead', 10, now(), 'HTTP 500'"
        " from budget_internal.alerts where kind = 'drift'"
    )
    assert [row[1] for row in run(world, dead)[0]] == ["drift"]
    run(world, redrive)
    assert run(world, dead) == [[]]

    (retention,) = page["Retention"]
    policy, dropped = run(world, retention)
    assert len(policy) == len(dropped) == 1
    assert world.value("select ledger_retention_days from budget_internal.policies where scope_id = 0") == 400
    assert world.verify() == []
