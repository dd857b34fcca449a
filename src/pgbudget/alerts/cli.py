"""``pgbudget alerts``: what became of the alerts, another try, and whether they arrive at all."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

import psycopg
import typer

from pgbudget.alerts.message import Alert
from pgbudget.terminal import Dsn, Failed, database, out, table

alerts_app = typer.Typer(no_args_is_help=True, help="Alerts: what arrived, what did not, and another try.")


class State(StrEnum):
    """Of a delivery."""

    pending = "pending"
    delivered = "delivered"
    dead = "dead"


@alerts_app.command("list")
def alerts_list(
    state: Annotated[State | None, typer.Option(help="Only deliveries in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many, the latest.")] = 20,
    dsn: Dsn = "",
) -> None:
    """Show the latest alerts and how they went; the newest is last."""
    with database(dsn) as connection:
        rows = connection.execute(
            "select alert_id, created_at, kind, payload::text, destination, state, attempts, next_attempt_at, last_error"
            " from budget.alert_outbox where %s::text is null or state = %s::text"
            " order by alert_id desc, destination desc limit %s",
            (state and state.value, state and state.value, limit),
        ).fetchall()
    shown = []
    for alert_id, created_at, kind, payload, *delivery in reversed(rows):
        alert = Alert(alert_id, kind, json.loads(payload, parse_float=Decimal), created_at)
        shown.append((alert_id, created_at, alert.subject, *delivery))
    out.print(table(["id", "time", "alert", "to", "state", "tries", "next try", "last error"], shown))


@alerts_app.command("redrive")
def alerts_redrive(
    alert_id: Annotated[int | None, typer.Argument(help="The id that list shows.")] = None,
    destination: Annotated[str | None, typer.Option(help="Only there: slack, google_chat, webhook or smtp.")] = None,
    all_dead: Annotated[bool, typer.Option("--all-dead", help="Every alert that is dead, instead of one.")] = False,
    dsn: Dsn = "",
) -> None:
    """Try an alert again that is dead or waits for its next try."""
    if (alert_id is None) != all_dead:
        raise Failed("give the id of an alert, or --all-dead")
    with database(dsn) as connection:
        if alert_id is not None:
            row = connection.execute("select budget.redrive_alert(%s, %s)", (alert_id, destination)).fetchone()
        else:
            row = connection.execute(
                "select coalesce(sum(budget.redrive_alert(o.alert_id, o.destination)), 0) from budget.alert_outbox o"
                " where o.state = 'dead' and (%s::text is null or o.destination = %s)"
                # What is no longer configured cannot be tried.
                " and o.destination = any (budget.alert_destinations())",
                (destination, destination),
            ).fetchone()
    assert row is not None
    out.print(
        f"{row[0]} due again" if row[0] else "nothing to try again: delivered, being delivered, or not configured any more"
    )


@alerts_app.command("test")
def alerts_test(
    seconds: Annotated[int, typer.Option(min=1, max=3600, help="How long to wait for it.")] = 30, dsn: Dsn = ""
) -> None:
    """Send a test through the outbox and a running gateway, and see whether it arrives."""
    with database(dsn) as connection:
        row = connection.execute("select budget.test_alert()").fetchone()
        assert row is not None
        deadline = time.monotonic() + seconds
        deliveries = _deliveries(connection, row[0])
        if not deliveries:
            raise Failed("alerts go nowhere: no gateway with a PGBUDGET_ALERT_... setting has started (docs/alerts.md)")
        # Until each has ended or failed once: what fails is tried again later, and need not be waited for.
        while any(state == "pending" and not error for _, state, error in deliveries) and time.monotonic() < deadline:
            time.sleep(0.2)
            deliveries = _deliveries(connection, row[0])
    for destination, state, error in deliveries:
        out.print(f"{destination}: {state}{f' ({error})' if error else ''}")
    if any(state != "delivered" for _, state, _ in deliveries):
        waiting = any(state == "pending" and not error for _, state, error in deliveries)
        raise Failed("not delivered" + (f" within {seconds} seconds: does a gateway run?" if waiting else ""))


def _deliveries(connection: psycopg.Connection[Any], alert_id: int) -> list[tuple[str, str, str | None]]:
    return connection.execute(
        "select destination, state, last_error from budget.alert_outbox"
        " where alert_id = %s and destination is not null order by 1",
        (alert_id,),
    ).fetchall()
