"""Alerts from the spend to the receiver, through the gateway: ALERT-01 and ALERT-03 of the handed cases, and what ops do."""

from __future__ import annotations

import base64
import email
import email.policy
import hashlib
import hmac
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.processes import Gateway, Simulator, wait_until
from tests.support.receivers import MailServer, Receiver
from tests.support.world import Row, World

KEY = b"a key of thirty-two random bytes"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
ADMIN = {"authorization": f"Bearer {Gateway.ADMIN}"}


def settings(slack: Receiver | None = None, webhook: Receiver | None = None, mail: MailServer | None = None) -> dict[str, Any]:
    """For a gateway that delivers to these, and leaves the schedule alone: it would tell of speed, by the time of day."""
    found = {"alert_loopback_http": "1", "reconcile_seconds": "0"}
    if slack:
        found["alert_slack_url"] = slack.url()
    if webhook:
        found |= {"alert_webhook_url": webhook.url(), "alert_webhook_secret": SECRET}
    if mail:
        found |= {"alert_smtp_url": f"smtp://me:hush-hush@127.0.0.1:{mail.port}"}
        found |= {"alert_smtp_from": "pgbudget@example.com", "alert_smtp_to": "ops@example.com"}
    return found


def ready(world: World, *destinations: str) -> None:
    """Wait until the gateway has said where alerts go."""
    wait_until(lambda: world.value("select budget.alert_destinations()") == sorted(destinations), what="destinations")


def spend(world: World, key: str, micro_usd: int) -> None:
    """Have so much settled, at 4 micro-dollars a token."""
    grant = world.reserve(key, input_tokens=0, output=micro_usd // 4)
    assert grant["status"] == "granted", grant
    assert world.settle(grant["reservation_id"], {"output": micro_usd // 4})["charged_nano_usd"] == micro_usd * 1000


def told(world: World) -> list[tuple[int, int]]:
    """Thresholds with their arming, in the order they were crossed."""
    rows = world.rows("select threshold, arming from budget_internal.crossings order by crossing_id")
    return [(row["threshold"], row["arming"]) for row in rows]


def delivery(world: World, destination: str = "webhook") -> Row:
    return world.one("select * from budget.alert_outbox where destination = %s", destination)


def reaches(world: World, state: str, attempts: int, destination: str = "webhook") -> Row:
    """Wait until the delivery is so, and nobody is at it."""

    def so() -> bool:
        row = delivery(world, destination)
        return (row["state"], row["attempts"], row["claimed_by"]) == (state, attempts, None)

    wait_until(so, 30, f"{state} after {attempts} tries")
    return delivery(world, destination)


def due_now(world: World) -> None:
    """As when the backoff, or the lease of a worker that died, is over."""
    world.execute("update budget_internal.deliveries set next_attempt_at = clock_timestamp() where state = 'pending'")


# ALERT-01


def test_alert_01_each_threshold_is_told_once(world: World, simulator: Simulator) -> None:
    with Receiver() as receiver, Gateway(world.gateway_dsn, simulator.url, **settings(webhook=receiver)) as gateway:
        ready(world, "webhook")
        key = world.key()
        org, name = world.key_name(key)
        world.budget(org, "key", name, 1_000, "month", enforcement="soft", thresholds=[50, 80, 100])
        spend(world, key, 700)
        assert told(world) == [(50, 0)]
        spend(world, key, 500)
        assert told(world) == [(50, 0), (80, 0), (100, 0)]
        world.budget(org, "key", name, 1_000, "month", enforcement="strict")
        for _ in range(20):
            assert gateway.chat(key).status_code == 402
        assert len(told(world)) == 3
        world.budget(org, "key", name, 2_000, "month", enforcement="soft")
        spend(world, key, 500)
        assert told(world)[3:] == [(80, 1)]
        world.set_clock("2099-01-01T00:00:00Z")
        spend(world, key, 1_100)
        assert told(world)[4:] == [(50, 0)]
        world.budget(org, "key", name, 1_300, "month")
        assert world.one("select * from budget.check_alerts()") == {"crossings": 1, "burn_rates": 0}
        assert told(world)[5:] == [(80, 0)]
        world.set_clock(None)
        # Their deliveries wait for the year 2099.
        due_now(world)
        wait_until(lambda: len(receiver.received) == 6, what="all alerts")
        events = [json.loads(got.body)["data"] for got in receiver.received]
        assert sorted(e["threshold_percent"] for e in events) == [50, 50, 80, 80, 80, 100]
        assert len({got.headers["webhook-id"] for got in receiver.received}) == 6


def test_alert_01_ten_settlements_at_once_tell_once(world: World) -> None:
    key = world.key(10_000)
    open_ones = [world.reserve(key, input_tokens=0, output=225)["reservation_id"] for _ in range(10)]

    def settle(reservation: Any) -> str:
        with world.connect_gateway() as connection:
            row = connection.execute("select status from budget.settle(%s, %s)", (reservation, '{"output": 225}')).fetchone()
            assert row is not None
            return str(row["status"])

    with ThreadPoolExecutor(10) as pool:
        assert list(pool.map(settle, open_ones)) == ["settled"] * 10
    # 9,000 of 10,000
    assert told(world) == [(80, 0)]
    assert world.verify() == []


# ALERT-03


def test_alert_03_fails_twice_and_arrives_as_one_alert(world: World, simulator: Simulator) -> None:
    with Receiver(500, 500, 200) as receiver, Gateway(world.gateway_dsn, simulator.url, **settings(webhook=receiver)):
        ready(world, "webhook")
        spend(world, world.key(1_000), 800)
        for attempt in (1, 2):
            row = reaches(world, "pending", attempt)
            assert row["last_error"] == "HTTP 500"
            due_now(world)
        row = reaches(world, "delivered", 3)
        assert row["last_error"] is None
        assert len(receiver.received) == 3
        assert len({got.headers["webhook-id"] for got in receiver.received}) == 1
        assert len({got.body for got in receiver.received}) == 1
        for got in receiver.received:
            signed = f"{got.headers['webhook-id']}.{got.headers['webhook-timestamp']}.".encode() + got.body
            signature = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
            assert got.headers["webhook-signature"] == f"v1,{signature}"
            assert abs(int(got.headers["webhook-timestamp"]) - time.time()) < 60


@pytest.mark.parametrize("answer", [400, "redirect"])
def test_alert_03_what_cannot_help_is_not_tried_again(world: World, simulator: Simulator, answer: Any) -> None:
    with Receiver() as inside:
        first = (307, {"location": inside.url("/latest/meta-data")}) if answer == "redirect" else answer
        with (
            Receiver(first, 200) as receiver,
            Gateway(world.gateway_dsn, simulator.url, **settings(webhook=receiver)) as gateway,
        ):
            ready(world, "webhook")
            spend(world, world.key(1_000), 800)
            alert_id = reaches(world, "dead", 1)["alert_id"]
            dead = httpx.get(f"{gateway.url}/admin/alerts", params={"state": "dead"}, headers=ADMIN).json()["alerts"]
            assert [(a["alert_id"], a["kind"], a["payload"]["spent_usd"]) for a in dead] == [(alert_id, "threshold", 0.0008)]
            (found,) = dead[0]["deliveries"]
            assert (found["state"], found["attempts"]) == ("dead", 1)
            assert found["last_error"].startswith("HTTP 307: a redirect" if answer == "redirect" else "HTTP 400")
            assert len(receiver.received) == 1

            # Repaired, and tried again by hand.
            url = f"{gateway.url}/admin/alerts/{alert_id}/redrive"
            assert httpx.post(url, headers=ADMIN).json() == {"alert_id": alert_id, "due": 1}
            reaches(world, "delivered", 1)
            assert httpx.post(url, json={"destination": "webhook"}, headers=ADMIN).json()["due"] == 0
            assert len({got.headers["webhook-id"] for got in receiver.received}) == 1
        assert inside.received == []


def test_alert_03_who_hangs_holds_up_nobody(world: World, simulator: Simulator) -> None:
    with (
        Receiver("hang") as slack,
        Receiver() as webhook,
        Gateway(world.gateway_dsn, simulator.url, **settings(slack, webhook)) as gateway,
    ):
        ready(world, "slack", "webhook")
        key = world.key(50_000)
        spend(world, key, 40_000)
        wait_until(lambda: slack.received, what="the one that hangs")
        # While it does, calls are admitted and settled, and the other one is told.
        assert gateway.chat(key).status_code == 200
        wait_until(lambda: world.held() == 0 and world.spent() == 40_900, 5, "the settlement")
        wait_until(lambda: len(webhook.received) == 1, 5, "the other one")
        spend(world, key, 9_100)
        wait_until(lambda: len(webhook.received) == 2, 5, "the next alert")
        assert len(slack.received) == 1
        given_up = "select last_error from budget.alert_outbox where destination = 'slack' and last_error is not null"
        assert (
            wait_until(lambda: world.rows(given_up), what="the end of its time")[0]["last_error"]
            == "no answer within 10 seconds"
        )
        assert world.value("select count(*) from budget.alert_outbox where state = 'delivered'") == 2


def test_alert_03_a_gateway_killed_in_between_leaves_it_to_the_next(world: World, simulator: Simulator) -> None:
    with Receiver("hang", 200) as receiver:
        with Gateway(world.gateway_dsn, simulator.url, **settings(webhook=receiver)) as doomed:
            ready(world, "webhook")
            spend(world, world.key(1_000), 800)
            wait_until(lambda: receiver.received, what="the first try")
            doomed.kill()
        row = delivery(world)
        assert (row["state"], row["attempts"]) == ("pending", 1)
        assert row["claimed_by"] is not None
        due_now(world)
        with Gateway(world.gateway_dsn, simulator.url, **settings(webhook=receiver)):
            reaches(world, "delivered", 2)
        first, second = receiver.received
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert first.body == second.body


def test_who_asks_to_be_left_alone_is(world: World, simulator: Simulator) -> None:
    with (
        Receiver((429, {"retry-after": "3600"})) as receiver,
        Gateway(world.gateway_dsn, simulator.url, **settings(slack=receiver)),
    ):
        ready(world, "slack")
        spend(world, world.key(1_000), 800)
        assert reaches(world, "pending", 1, "slack")["last_error"] == "HTTP 429"
        wait = world.value("select extract(epoch from next_attempt_at - clock_timestamp()) from budget_internal.deliveries")
        assert 3500 < wait <= 3600


def test_two_gateways_deliver_each_alert_once(world: World, simulator: Simulator) -> None:
    with (
        Receiver() as receiver,
        Gateway(world.gateway_dsn, simulator.url, **settings(webhook=receiver)),
        Gateway(world.gateway_dsn, simulator.url, **settings(webhook=receiver)),
    ):
        ready(world, "webhook")
        for _ in range(20):
            spend(world, world.key(1_000), 800)
        outstanding = "select 1 from budget.alert_outbox where state <> 'delivered'"
        wait_until(lambda: not world.rows(outstanding), what="all alerts")
        assert len(receiver.received) == 20
        assert len({got.headers["webhook-id"] for got in receiver.received}) == 20


def test_a_soft_budget_writes_an_e_mail_and_a_strict_one_does_not(world: World, simulator: Simulator) -> None:
    with MailServer(451, 250) as server, Gateway(world.gateway_dsn, simulator.url, **settings(mail=server)):
        ready(world, "smtp")
        spend(world, world.key(1_000), 800)
        key = world.key()
        org, name = world.key_name(key)
        world.budget(org, "key", name, 1_000, enforcement="soft")
        spend(world, key, 800)
        assert reaches(world, "pending", 1, "smtp")["last_error"] == "SMTP 451"
        due_now(world)
        reaches(world, "delivered", 2, "smtp")
        assert world.value("select count(*) from budget.alert_outbox where destination is null") == 1
        mails = [email.message_from_bytes(got.body, policy=email.policy.default) for got in server.received]
        assert len(mails) == 2
        assert mails[0]["Message-ID"] == mails[1]["Message-ID"]
        assert mails[1]["Subject"] == f'[pgbudget] budget "day" of key {name} of {org}: 80 % reached'


def test_no_secret_is_told_to_anybody(world: World, simulator: Simulator, tmp_path: Path) -> None:
    secret = tmp_path / "slack"
    with Receiver(500, "cut", (302, {"location": "http://x/hush-hush"})) as slack, MailServer(554) as server:
        secret.touch(mode=0o600)
        secret.write_text(slack.url() + "\n")
        with_file = settings(webhook=slack, mail=server) | {"alert_slack_url_file": str(secret)}
        with Gateway(world.gateway_dsn, simulator.url, **with_file) as gateway:
            ready(world, "slack", "webhook", "smtp")
            world.value("select budget.test_alert()")
            for attempt in (1, 2):
                wait_until(
                    lambda: not world.rows("select 1 from budget.alert_outbox where attempts = 0 or claimed_by is not null")
                )
                if attempt == 1:
                    due_now(world)
            admin = httpx.get(f"{gateway.url}/admin/alerts", headers=ADMIN).text
            log = gateway.log()
        outbox = str(world.rows("select * from budget.alert_outbox"))
        assert "alerts go to slack, webhook, smtp" in log
        assert "SMTP 554" in log
        for text in (admin, log, outbox):
            assert "hush" not in text
            assert str(slack.port) not in text
            assert SECRET.removeprefix("whsec_") not in text


def test_the_admin_api_wants_the_token_and_names_what_is_wrong(world: World, gateway: Gateway) -> None:
    url = f"{gateway.url}/admin/alerts"
    assert httpx.get(url).status_code == 401
    assert httpx.post(f"{url}/1/redrive").status_code == 401
    assert httpx.get(url, headers=ADMIN).json() == {"alerts": []}
    for query, parameter in (
        ("state=lost", "state"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("before=x", "before"),
        ("x=1", "x"),
    ):
        answer = httpx.get(f"{url}?{query}", headers=ADMIN)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, parameter)
    assert httpx.post(f"{url}/1/redrive", headers=ADMIN).status_code == 404
    assert httpx.post(f"{url}/x/redrive", headers=ADMIN).status_code == 400
    # Nothing is configured here, so an alert has nowhere to go.
    first, second = world.value("select budget.test_alert()"), world.value("select budget.test_alert()")
    assert httpx.get(url, params={"limit": 1}, headers=ADMIN).json()["alerts"][0] | {"created_at": ""} == {
        "alert_id": second, "kind": "test", "org": None, "created_at": "", "text": "A test of pgbudget: alerts arrive here.",
        "payload": {"asked_by": "postgres"}, "deliveries": [],
    }  # fmt: skip
    page = httpx.get(url, params={"limit": 1, "before": second}, headers=ADMIN).json()["alerts"]
    assert [alert["alert_id"] for alert in page] == [first]
    for body, status in (
        ({"destination": "slack"}, 400),
        ({"destination": 1}, 400),
        ({"to": "slack"}, 400),
        ([], 400),
        ({}, 200),
    ):
        assert httpx.post(f"{url}/{first}/redrive", json=body, headers=ADMIN).status_code == status, body


def test_bad_configuration_is_an_error_at_start(world: World, tmp_path: Path) -> None:
    secret = tmp_path / "slack"
    secret.write_text("https://hooks.slack.com/services/hush-hush")
    secret.chmod(0o644)
    done = subprocess.run(
        [sys.executable, "-m", "pgbudget.cli", "serve", "--port", "0"],
        env={**os.environ, "PGBUDGET_DSN": world.gateway_dsn, "PGBUDGET_ALERT_SLACK_URL_FILE": str(secret)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert done.stderr == f"pgbudget: PGBUDGET_ALERT_SLACK_URL_FILE: {secret} is open to others: chmod 600 {secret}\n"
    assert "hush" not in done.stdout


def alerts(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``pgbudget alerts ...``, as wide as it needs to be."""
    return subprocess.run(
        [sys.executable, "-m", "pgbudget.cli", "alerts", *arguments],
        env={**os.environ, "PGBUDGET_DSN": world.dsn, "COLUMNS": "240"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_command(world: World, simulator: Simulator) -> None:
    nowhere = alerts(world, "test")
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert "alerts go nowhere" in nowhere.stderr
    with (
        Receiver(200, 404, 404, 200) as slack,
        Gateway(world.gateway_dsn, simulator.url, **settings(slack)) as gateway,
    ):
        ready(world, "slack")
        arrived = alerts(world, "test")
        assert (arrived.returncode, arrived.stdout) == (0, "slack: delivered\n"), arrived.stderr
        failed = alerts(world, "test")
        assert (failed.returncode, failed.stdout) == (1, "slack: dead (HTTP 404)\n")
        assert failed.stderr == "pgbudget: not delivered\n"
        key = world.key(1_000)
        spend(world, key, 800)
        wait_until(lambda: len(slack.received) == 3)
        wait_until(lambda: len(world.rows("select 1 from budget.alert_outbox where state = 'dead'")) == 2)
        listed = alerts(world, "list", "--state", "dead").stdout
        org, name = world.key_name(key)
        assert f'budget "day" of key {name} of {org}: 80 % reached' in listed
        assert listed.count("HTTP 404") == 2
        newest = world.value("select max(alert_id) from budget.alert_outbox")
        assert alerts(world, "redrive", str(newest)).stdout == "1 due again\n"
        wait_until(lambda: len(world.rows("select 1 from budget.alert_outbox where state = 'dead'")) == 1)
        assert alerts(world, "redrive", "--all-dead", "--destination", "slack").stdout == "1 due again\n"
        wait_until(lambda: not world.rows("select 1 from budget.alert_outbox where state = 'dead'"))
        wait_until(lambda: len(world.rows("select 1 from budget.alert_outbox where state = 'delivered'")) == 3)
        assert alerts(world, "redrive", str(newest)).stdout.startswith("nothing to try again")
        assert gateway.stop() == 0
    for arguments in (["redrive"], ["redrive", "1", "--all-dead"], ["redrive", "999999"]):
        wrong = alerts(world, *arguments)
        assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1), wrong.stderr
    unanswered = alerts(world, "test", "--seconds", "1")
    assert unanswered.returncode == 1
    assert "does a gateway run?" in unanswered.stderr
