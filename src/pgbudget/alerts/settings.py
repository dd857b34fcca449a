"""Where alerts go, from the environment, read once at start. Each URL and secret may come from a private file instead (_FILE).

PGBUDGET_ALERT_SLACK_URL        an incoming webhook of Slack, or of what speaks its format
PGBUDGET_ALERT_GOOGLE_CHAT_URL  a webhook of a Google Chat space; instead of Slack, not besides it
PGBUDGET_ALERT_WEBHOOK_URL      any receiver of Standard Webhooks
PGBUDGET_ALERT_WEBHOOK_SECRET   what its messages are signed with: whsec_ and 24 to 64 bytes in base64
PGBUDGET_ALERT_SMTP_URL         smtp://user:password@host:587 (STARTTLS) or smtps://...:465
PGBUDGET_ALERT_SMTP_FROM        sender
PGBUDGET_ALERT_SMTP_TO          receivers, with commas between them
PGBUDGET_ALERT_SMTP_BUDGETS     soft (the default): e-mail says nothing of strict and check budgets; all: of every budget
PGBUDGET_ALERT_LOOPBACK_HTTP    1: http:// to this machine is allowed, for tests
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.headerregistry import Address
from urllib.parse import SplitResult, unquote, urlsplit

from pgbudget.config import ConfigError

_PREFIX = "PGBUDGET_ALERT_"
_SECRETS = ("SLACK_URL", "GOOGLE_CHAT_URL", "WEBHOOK_URL", "WEBHOOK_SECRET", "SMTP_URL")
_PLAIN = ("SMTP_FROM", "SMTP_TO", "SMTP_BUDGETS", "LOOPBACK_HTTP")
_KNOWN = {f"{_PREFIX}{name}" for name in (*_PLAIN, *_SECRETS, *(f"{secret}_FILE" for secret in _SECRETS))}
_MAX_FILE = 8192


@dataclass(frozen=True, slots=True)
class Chat:
    """A room. ``kind``: slack or google_chat."""

    kind: str
    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Webhook:
    """A receiver of Standard Webhooks."""

    url: str = field(repr=False)
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail server, and who is written to. ``soft_only``: not of strict and check budgets."""

    host: str
    port: int
    tls: bool
    sender: str
    receivers: tuple[str, ...]
    soft_only: bool
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """See the module's docstring. None of its texts, nor of its errors, has a URL or a secret in it."""

    chat: Chat | None = None
    webhook: Webhook | None = None
    mail: Mail | None = None

    @classmethod
    def from_env(cls, environment: Mapping[str, str]) -> AlertSettings:
        """Read the environment and the files that it names; raises :class:`ConfigError`."""
        for name in environment:
            if name.startswith(_PREFIX) and name not in _KNOWN:
                raise ConfigError(f"{name} is not a setting; there are {', '.join(sorted(_KNOWN))}")
        loopback = _get(environment, "LOOPBACK_HTTP") == "1"
        return cls(_chat(environment, loopback), _webhook(environment, loopback), _mail(environment))

    @property
    def destinations(self) -> list[str]:
        """Names of what is configured, as the database knows them."""
        names = [self.chat.kind] if self.chat else []
        return names + ["webhook"] * (self.webhook is not None) + ["smtp"] * (self.mail is not None)


def _chat(environment: Mapping[str, str], loopback: bool) -> Chat | None:
    names = [
        f"{_PREFIX}{name}{suffix}"
        for name in ("SLACK_URL", "GOOGLE_CHAT_URL")
        for suffix in ("", "_FILE")
        if environment.get(f"{_PREFIX}{name}{suffix}")
    ]
    if not names:
        return None
    if len(names) > 1:
        raise ConfigError(f"{' and '.join(names)} are set: alerts go to one room, by one of them")
    name = "SLACK_URL" if "_SLACK_" in names[0] else "GOOGLE_CHAT_URL"
    variable, value = _secret(environment, name)
    return Chat("slack" if name == "SLACK_URL" else "google_chat", _https(variable, value, loopback))


def _webhook(environment: Mapping[str, str], loopback: bool) -> Webhook | None:
    variable, url = _secret(environment, "WEBHOOK_URL")
    secret_variable, secret = _secret(environment, "WEBHOOK_SECRET")
    if not url and not secret:
        return None
    if not url or not secret:
        raise ConfigError(f"{_PREFIX}WEBHOOK_URL and {_PREFIX}WEBHOOK_SECRET belong together: one of them is not set")
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith("whsec_") or not 24 <= len(key) <= 64:
        raise ConfigError(
            f"{secret_variable} must be whsec_ and 24 to 64 bytes in base64: echo whsec_$(openssl rand -base64 32) makes one"
        )
    return Webhook(_https(variable, url, loopback), key)


def _mail(environment: Mapping[str, str]) -> Mail | None:
    variable, url = _secret(environment, "SMTP_URL")
    sender, receivers = _get(environment, "SMTP_FROM"), _get(environment, "SMTP_TO")
    if not url and not sender and not receivers:
        return None
    if not url or not sender or not receivers:
        raise ConfigError(
            f"{_PREFIX}SMTP_URL, {_PREFIX}SMTP_FROM and {_PREFIX}SMTP_TO belong together: not all of them are set"
        )
    budgets = _get(environment, "SMTP_BUDGETS") or "soft"
    if budgets not in ("soft", "all"):
        raise ConfigError(f"{_PREFIX}SMTP_BUDGETS must be soft or all")
    parts = _split(variable, url)
    tls = parts.scheme == "smtps"
    if parts.scheme not in ("smtp", "smtps") or parts.path not in ("", "/") or parts.query:
        raise ConfigError(f"{variable} must be smtp://user:password@host:port or smtps://user:password@host:port")
    port = parts.port if parts.port is not None else 465 if tls else 587
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if bool(user) != bool(password):
        raise ConfigError(f"{variable} has a user or a password, but not both of them")
    return Mail(
        parts.hostname or "",
        port,
        tls,
        _address("SMTP_FROM", sender),
        tuple(_address("SMTP_TO", receiver.strip()) for receiver in receivers.split(",")),
        budgets == "soft",
        user,
        password,
    )


def _get(environment: Mapping[str, str], name: str) -> str:
    return environment.get(f"{_PREFIX}{name}", "")


def _secret(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """The variable that a secret came from, and the secret; empty when it is not set."""
    variable = f"{_PREFIX}{name}"
    value, path = environment.get(variable, ""), environment.get(f"{variable}_FILE", "")
    if value and path:
        raise ConfigError(f"{variable} and {variable}_FILE are set: it must be one of them")
    return (f"{variable}_FILE", read_private(f"{variable}_FILE", path)) if path else (variable, value)


def read_private(variable: str, path: str) -> str:
    """The one line of a file that nobody else can read; raises :class:`ConfigError`."""
    try:
        # Not waiting, should it be a pipe; looked at once it is open, so that nobody can put another one in its place.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{variable}: {path} cannot be read: {getattr(error, 'strerror', error)}") from None
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise ConfigError(f"{variable}: {path} is not a regular file")
        if state.st_uid not in (os.geteuid(), 0):
            raise ConfigError(f"{variable}: {path} belongs to another user; it must be the gateway's own or root's")
        if stat.S_IMODE(state.st_mode) & 0o177:
            raise ConfigError(f"{variable}: {path} is open to others: chmod 600 {path}")
        content = os.read(descriptor, _MAX_FILE + 1)
    finally:
        os.close(descriptor)
    try:
        lines = [line.strip() for line in content.decode().splitlines() if line.strip()]
    except UnicodeDecodeError:
        lines = []
    if len(content) > _MAX_FILE or len(lines) != 1:
        raise ConfigError(f"{variable}: {path} must hold one line and nothing else")
    return lines[0]


def _https(variable: str, url: str, loopback: bool) -> str:
    parts = _split(variable, url)
    if parts.scheme != "https" and not (loopback and parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise ConfigError(f"{variable} must be one https:// URL")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{variable} must not have a user or a password in it")
    return url


def _split(variable: str, url: str) -> SplitResult:
    """The parts of an absolute URL with a host. The text of the error never has the URL."""
    wrong = ConfigError(f"{variable} is not a URL")
    if not re.fullmatch(r"[\x21-\x7e]{1,4096}", url):
        raise wrong
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong from None
    if not parts.hostname or port == 0 or parts.fragment:
        raise wrong
    return parts


def _address(name: str, text: str) -> str:
    try:
        address = Address(addr_spec=text)
    except Exception:
        address = Address()
    if not address.username or not address.domain or not text.isascii():
        raise ConfigError(f"{_PREFIX}{name} must be of addresses such as ops@example.com, without names")
    return text


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its very name."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
