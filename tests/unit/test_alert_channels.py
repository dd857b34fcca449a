"""What arrives, and what is said of what does not."""

from __future__ import annotations

import asyncio
import base64
import email
import email.policy
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import format_datetime
from typing import Any

import pytest

from pgbudget.alerts.channels import Channel, Failed, channels, sign
from pgbudget.alerts.message import Alert
from pgbudget.alerts.settings import AlertSettings
from tests.support.receivers import MailServer, Receiver

KEY = base64.b64encode(b"0123456789" * 3).decode()
AT = datetime(2027, 1, 15, 12, 0, 0, tzinfo=UTC)
PAYLOAD: dict[str, Any] = {
    "org": "acme",
    "scope_kind": "project",
    "scope": "<!channel> & web",
    "budget": "month",
    "period": "month",
    "enforcement": "soft",
    "spent_usd": Decimal("81.200000001"),
    "limit_usd": Decimal("100.00"),
    "percent": Decimal("81.2"),
    "threshold_percent": 80,
    "starts_at": "2027-01-01T00:00:00Z",
    "ends_at": "2027-02-01T00:00:00Z",
}
ALERT = Alert(7, "threshold", PAYLOAD, AT)
TEXT = (
    'budget "month" of project <!channel> & web of acme has reached 80 %: 81.200000001 of 100 USD are spent (81.2 %). '
    "It is soft: no call is refused. Its period ends 2027-02-01 00:00 UTC."
)


def channel(timeout: float = 5, **variables: str) -> Channel:
    environment = {f"PGBUDGET_ALERT_{name}": value for name, value in variables.items()}
    (found,) = channels(AlertSettings.from_env({**environment, "PGBUDGET_ALERT_LOOPBACK_HTTP": "1"}), timeout)
    return found


def webhook(url: str, timeout: float = 5) -> Channel:
    return channel(timeout, WEBHOOK_URL=url, WEBHOOK_SECRET=f"whsec_{KEY}")


def mail(server: MailServer, user: str = "") -> Channel:
    return channel(
        SMTP_URL=f"smtp://{user}127.0.0.1:{server.port}",
        SMTP_FROM="pgbudget@example.com",
        SMTP_TO="a@example.com,b@example.com",
    )


def send(destination: Channel, alert: Alert = ALERT) -> None:
    async def run() -> None:
        try:
            await destination.send(alert)
        finally:
            await destination.close()

    asyncio.run(run())


def failure(destination: Channel) -> Failed:
    with pytest.raises(Failed) as caught:
        send(destination)
    assert "hush" not in str(caught.value)
    # Nor in what a trace would show.
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return caught.value


def test_a_signature_is_as_the_standard_has_it() -> None:
    # The example of the specification's own libraries.
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_webhook_has_the_event_and_is_signed() -> None:
    with Receiver() as receiver:
        send(webhook(receiver.url()))
    (got,) = receiver.received
    assert json.loads(got.body, parse_float=Decimal) == {
        "type": "budget.threshold",
        "timestamp": "2027-01-15T12:00:00.000000Z",
        "data": {**PAYLOAD, "limit_usd": 100, "text": TEXT},
    }
    assert got.headers["webhook-id"] == "pgbudget-1800014400000-7"
    signed = f"{got.headers['webhook-id']}.{got.headers['webhook-timestamp']}.".encode() + got.body
    expected = base64.b64encode(hmac.new(b"0123456789" * 3, signed, hashlib.sha256).digest()).decode()
    assert got.headers["webhook-signature"] == f"v1,{expected}"
    assert got.headers["content-type"] == "application/json"
    assert "cookie" not in got.headers


def test_no_name_calls_a_channel() -> None:
    with Receiver() as receiver:
        send(channel(SLACK_URL=receiver.url()))
        send(channel(GOOGLE_CHAT_URL=receiver.url()))
    slack, google = (json.loads(got.body) for got in receiver.received)
    assert slack["text"] == TEXT.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert google == {"text": TEXT.replace("<", "\u2039").replace(">", "\u203a")}


def test_all_kinds_have_words() -> None:
    burning = {
        **PAYLOAD,
        "projected_usd": Decimal("150.50"),
        "projected_percent": Decimal("150.5"),
        "exhausted_at": "2027-01-20T07:30:00Z",
    }
    assert Alert(1, "burn_rate", burning, AT).text == (
        'budget "month" of project <!channel> & web of acme is spent too fast: 81.200000001 of 100 USD (81.2 %). At this '
        "rate it would be 150.5 USD (150.5 %) at the end, and the limit is reached 2027-01-20 07:30 UTC. "
        "Its period ends 2027-02-01 00:00 UTC."
    )
    nothing = {**PAYLOAD, "scope_kind": "org", "scope": "acme", "limit_usd": 0, "percent": None, "ends_at": None}
    assert Alert(1, "threshold", nothing, AT).text == (
        'budget "month" of org acme has reached 80 %: 81.200000001 of 0 USD are spent. It is soft: no call is refused.'
    )
    assert Alert(1, "test", {"asked_by": "me"}, AT).text == "A test of pgbudget: alerts arrive here."
    drift = {
        "account": "openai",
        "day": "2027-01-14",
        "ledger_usd": Decimal("11.90"),
        "provider_usd": Decimal("12.3"),
        "difference_usd": Decimal("0.4"),
        "difference_percent": Decimal("3.4"),
    }
    assert Alert(1, "drift", drift, AT).text == (
        "The ledger and the provider disagree on account openai, 2027-01-14: 11.9 USD here, 12.3 USD there "
        "(a difference of 0.4 USD, 3.4 %)."
    )
    assert Alert(1, "drift", {**drift, "difference_percent": None}, AT).text.endswith("(a difference of 0.4 USD).")
    assert Alert(1, "upkeep", {"message": "no partition", "hint": "Look."}, AT).text == "no partition Look."
    assert Alert(1, "of_tomorrow", {"usd": Decimal("1.50")}, AT).text == 'of tomorrow: {"usd":1.50}'


@pytest.mark.parametrize(
    ("answer", "reason", "permanent", "retry_after"),
    [
        (500, "HTTP 500", False, None),
        ((503, {"retry-after": "7"}), "HTTP 503", False, 7),
        (408, "HTTP 408", False, None),
        ((429, {"Retry-After": "120"}), "HTTP 429", False, 120),
        ((429, {"retry-after": "999999999999"}), "HTTP 429", False, 86400),
        ((429, {"retry-after": "soon"}), "HTTP 429", False, None),
        ((429, {"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}), "HTTP 429", False, 0),
        (400, "HTTP 400", True, None),
        (404, "HTTP 404", True, None),
        (410, "HTTP 410", True, None),
        ("cut", "the connection was cut", False, None),
    ],
)
def test_what_is_tried_again(answer: Any, reason: str, permanent: bool, retry_after: int | None) -> None:
    with Receiver(answer) as receiver:
        failed = failure(webhook(receiver.url()))
    assert (str(failed), failed.permanent, failed.retry_after) == (reason, permanent, retry_after)
    assert len(receiver.received) == 1


def test_a_date_to_retry_at() -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=300), usegmt=True)
    with Receiver((429, {"retry-after": at})) as receiver:
        failed = failure(webhook(receiver.url()))
    assert failed.retry_after is not None
    assert 280 <= failed.retry_after <= 300


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with Receiver() as inside, Receiver((status, {"location": inside.url("/latest/meta-data")})) as receiver:
        failed = failure(webhook(receiver.url()))
        assert failed.permanent
        assert "not followed" in str(failed)
        assert inside.received == []


def test_who_hangs_is_given_up_and_who_sends_without_end_is_not_read() -> None:
    with Receiver("hang") as receiver:
        assert str(failure(webhook(receiver.url(), 0.3))) == "no answer within 0.3 seconds"
    with Receiver("drip") as receiver:
        send(webhook(receiver.url(), 20))


def test_nobody_there() -> None:
    with Receiver() as receiver:
        pass
    failed = failure(webhook(receiver.url()))
    assert (str(failed), failed.permanent) == ("no connection", False)


def test_a_mail() -> None:
    with MailServer() as server:
        send(mail(server, "me:hush-hush@"))
    (got,) = server.received
    message = email.message_from_bytes(got.body, policy=email.policy.default)
    assert message["Subject"] == '[pgbudget] budget "month" of project <!channel> & web of acme: 80 % reached'
    assert (message["From"], message["To"]) == ("pgbudget@example.com", "a@example.com, b@example.com")
    assert message["Message-ID"] == "<pgbudget-1800014400000-7@example.com>"
    assert message.get_content().splitlines() == [TEXT]


@pytest.mark.parametrize(("code", "permanent"), [(451, False), (554, True)])
def test_a_mail_that_is_refused(code: int, permanent: bool) -> None:
    with MailServer(code) as server:
        failed = failure(mail(server))
    assert (str(failed), failed.permanent) == (f"SMTP {code}", permanent)


def test_no_mail_server() -> None:
    with MailServer() as server:
        pass
    failed = failure(mail(server))
    assert (str(failed), failed.permanent) == ("no connection (ConnectionRefusedError)", False)
