"""Ways to deliver an alert. Each says :class:`Failed` when it did not arrive; none of them ever tells a URL or a secret."""

from __future__ import annotations

import asyncio
import base64
import email.policy
import hashlib
import hmac
import math
import smtplib
import ssl
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import formatdate, parsedate_to_datetime
from typing import Protocol

import aiohttp

from pgbudget.alerts.message import Alert
from pgbudget.alerts.settings import AlertSettings, Chat, Mail, Webhook, is_loopback
from pgbudget.wire import strict_json

#: Connecting and answering, all together.
TIMEOUT_SECONDS = 10.0
_RETRIED = (408, 425, 429)


class Failed(Exception):
    """Not delivered. ``permanent``: trying again is useless. ``retry_after``: the seconds that the receiver asked for."""

    def __init__(self, reason: str, *, permanent: bool = False, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.permanent = permanent
        self.retry_after = retry_after


class Channel(Protocol):
    """A destination. ``name``: as the database knows it."""

    name: str

    async def send(self, alert: Alert) -> None:
        """Deliver; raises :class:`Failed`."""

    async def close(self) -> None:
        """Let go of connections."""


def channels(settings: AlertSettings, timeout: float = TIMEOUT_SECONDS) -> list[Channel]:
    """All that is configured."""
    found: list[Channel] = []
    if settings.chat:
        found.append(ChatChannel(settings.chat, timeout))
    if settings.webhook:
        found.append(WebhookChannel(settings.webhook, timeout))
    if settings.mail:
        found.append(MailChannel(settings.mail, timeout))
    return found


class _Http:
    """POST to one URL. Redirects are failures: who is redirected to was never configured, and may be inside the network."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # One message now and then: a connection that is kept would be closed by the other side just when it is used.
                connector=aiohttp.TCPConnector(force_close=True),
                timeout=aiohttp.ClientTimeout(total=self._timeout),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        try:
            async with self._session.post(
                self._url, data=body, headers={"content-type": "application/json", **headers}, allow_redirects=False
            ) as response:
                # The body is of no use, and not read.
                status, retry_after = response.status, response.headers.get("retry-after")
                response.close()
        except TimeoutError:
            raise Failed(f"no answer within {self._timeout:g} seconds") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Failed(_HTTP_REASONS.get(type(error), type(error).__name__)) from None
        if 200 <= status < 300:
            return
        if 300 <= status < 400:
            raise Failed(f"HTTP {status}: a redirect, which is not followed", permanent=True)
        if status in _RETRIED or status >= 500:
            raise Failed(f"HTTP {status}", retry_after=_seconds(retry_after))
        raise Failed(f"HTTP {status}", permanent=True)

    async def close(self) -> None:
        """Let go of the connection."""
        if self._session is not None:
            await self._session.close()


_HTTP_REASONS: dict[type[BaseException], str] = {
    aiohttp.ClientConnectorDNSError: "the host's name is not known",
    aiohttp.ClientConnectorCertificateError: "the receiver's TLS certificate is not valid",
    aiohttp.ClientConnectorSSLError: "no TLS connection",
    aiohttp.ClientConnectorError: "no connection",
    aiohttp.ServerDisconnectedError: "the connection was cut",
    aiohttp.ClientOSError: "the connection was cut",
}


class ChatChannel(_Http):
    """Slack, or Google Chat."""

    def __init__(self, settings: Chat, timeout: float) -> None:
        super().__init__(settings.url, timeout)
        self.name = settings.kind

    async def send(self, alert: Alert) -> None:
        """Deliver; raises :class:`Failed`."""
        text = alert.text
        if self.name == "slack":
            # Names are anybody's: none of them may call a channel, or pass for a link.
            text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            await self._post(strict_json.dumps({"text": text, "mrkdwn": False, "unfurl_links": False}), {})
        else:
            # It knows no escape; without these there are no mentions and no links of another text.
            text = text.replace("<", "\u2039").replace(">", "\u203a")
            await self._post(strict_json.dumps({"text": text}), {})


class WebhookChannel(_Http):
    """Standard Webhooks (standardwebhooks.com): signed, with an id by which repeats are known."""

    name = "webhook"

    def __init__(self, settings: Webhook, timeout: float) -> None:
        super().__init__(settings.url, timeout)
        self._secret = settings.secret

    async def send(self, alert: Alert) -> None:
        """Deliver; raises :class:`Failed`."""
        body = alert.event()
        await self._post(body, sign(self._secret, alert.message_id, int(time.time()), body))


def sign(secret: bytes, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a Standard Webhook: HMAC-SHA256 over id, time and body, with dots between."""
    signature = hmac.digest(secret, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
    }


class MailChannel:
    """E-mail. The library blocks, so it has a thread for as long as one message takes."""

    name = "smtp"

    def __init__(self, settings: Mail, timeout: float) -> None:
        self._settings = settings
        self._timeout = timeout

    async def send(self, alert: Alert) -> None:
        """Deliver; raises :class:`Failed`."""
        try:
            # Each step has the time-out; all of them together need not be waited for.
            await asyncio.wait_for(asyncio.to_thread(self._send, self._message(alert)), 2 * self._timeout)
        except TimeoutError:
            raise Failed(f"no answer within {self._timeout:g} seconds") from None
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            raise Failed(f"all receivers are refused ({codes[0]})", permanent=all(code >= 500 for code in codes)) from None
        except smtplib.SMTPResponseException as error:
            raise Failed(f"SMTP {error.smtp_code}", permanent=error.smtp_code >= 500) from None
        except smtplib.SMTPNotSupportedError:
            raise Failed("the server offers no TLS, and a password is not sent without it", permanent=True) from None
        except smtplib.SMTPServerDisconnected:
            raise Failed("the connection was cut") from None
        except ssl.SSLError:
            raise Failed("no TLS connection") from None
        except (OSError, smtplib.SMTPException) as error:
            raise Failed(f"no connection ({type(error).__name__})") from None

    async def close(self) -> None:
        """Nothing is kept open."""

    def _message(self, alert: Alert) -> EmailMessage:
        # A folded subject is shown with the fold in it by some.
        message = EmailMessage(policy=email.policy.SMTP.clone(max_line_length=900))
        message["From"] = self._settings.sender
        message["To"] = ", ".join(self._settings.receivers)
        message["Subject"] = f"[pgbudget] {alert.subject}"
        message["Date"] = formatdate(alert.created_at.timestamp())
        message["Message-ID"] = f"<{alert.message_id}@{self._settings.sender.rpartition('@')[2]}>"
        message.set_content(alert.text + "\n")
        return message

    def _send(self, message: EmailMessage) -> None:
        settings, context = self._settings, ssl.create_default_context()
        if settings.tls:
            server: smtplib.SMTP = smtplib.SMTP_SSL(settings.host, settings.port, timeout=self._timeout, context=context)
        else:
            server = smtplib.SMTP(settings.host, settings.port, timeout=self._timeout)
        with server:
            server.ehlo()
            if not settings.tls and (server.has_extn("starttls") or (settings.user and not is_loopback(settings.host))):
                server.starttls(context=context)
            if settings.user:
                server.login(settings.user, settings.password)
            server.send_message(message, settings.sender, list(settings.receivers))


def _seconds(retry_after: str | None) -> int | None:
    """A Retry-After header, in seconds from now: it is a number, or a date."""
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        return min(int(retry_after[:9]), 86400)
    try:
        at = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0, min(86400, math.ceil((at - datetime.now(UTC)).total_seconds())))
