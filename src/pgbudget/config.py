"""The gateway's configuration, from the environment.

PGBUDGET_DSN                    Postgres, as a login of role budget_gateway (and budget_reconciler)
PGBUDGET_ADMIN_TOKEN            opens /admin; unset, /admin is closed
PGBUDGET_ACCOUNT_<NAME>_URL     base URL of a provider account, up to and with /v1
PGBUDGET_ACCOUNT_<NAME>_KEY     its key, or _KEY_FILE: a file that holds it
PGBUDGET_POOL_SIZE              connections for requests (4)
PGBUDGET_MAX_BODY_BYTES         largest request body, decoded (33554432)
PGBUDGET_MAX_CALLS_PER_KEY      calls of one key at once, in this process (4096); 0: any number
PGBUDGET_BODY_SECONDS           how long a body may take to arrive (30)
PGBUDGET_CONNECT_SECONDS        to connect to a provider (10)
PGBUDGET_FIRST_BYTE_SECONDS     until its answer begins (600)
PGBUDGET_IDLE_SECONDS           between two pieces of an answer (300)
PGBUDGET_TOTAL_SECONDS          for a whole call (3600)
PGBUDGET_UPSTREAM_RETRIES       how often a route is tried again when nothing can have been spent (0: clients retry themselves)
PGBUDGET_BREAKER_FAILURES       after so many failures in a row a provider is left alone (20; 0: never)
PGBUDGET_BREAKER_SECONDS        for so long (15)
PGBUDGET_DRAIN_SECONDS          how long a stream is read on after its client left, for its real usage (5)
PGBUDGET_UNBOUNDED_INPUT        input of which the request does not say how large it becomes (stored conversations, files,
                                searches): hold the context window for it (hold), or refuse it (refuse)
PGBUDGET_EXCEEDED_STATUS        what a budget that is spent is answered with (402; or 429)
PGBUDGET_BACKGROUND_SECONDS     how long an answer in the background is waited for (14400)
PGBUDGET_SHUTDOWN_SECONDS       how long running calls may go on after SIGTERM (25)
PGBUDGET_RECONCILE_SECONDS      how often the schedule is looked at, unless pg_cron has it; 0: never (15)

Where alerts go (PGBUDGET_ALERT_...): pgbudget.alerts.settings.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pgbudget.wire.providers import provider

log = logging.getLogger("pgbudget.config")

_WHOLE = ("pool_size", "max_body_bytes", "max_calls_per_key", "upstream_retries", "breaker_failures")


class ConfigError(Exception):
    """A setting is missing or wrong; the message names it."""


@dataclass(frozen=True, slots=True)
class Account:
    """Where a provider account is reached, with which key, and the variable that the key came from."""

    base_url: str
    key: str = field(repr=False)
    variable: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """See the module's docstring."""

    dsn: str = field(repr=False)
    admin_token: str | None = field(default=None, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    pool_size: int = 4
    max_body_bytes: int = 32 << 20
    max_calls_per_key: int = 4096
    body_seconds: float = 30
    connect_seconds: float = 10
    first_byte_seconds: float = 600
    idle_seconds: float = 300
    total_seconds: float = 3600
    upstream_retries: int = 0
    breaker_failures: int = 20
    breaker_seconds: float = 15
    drain_seconds: float = 5
    unbounded_input: str = "hold"
    exceeded_status: int = 402
    background_seconds: float = 14400
    shutdown_seconds: float = 25
    reconcile_seconds: float = 15

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> Config:
        """Read the environment; raises :class:`ConfigError`."""
        env = dict(os.environ if environment is None else environment)
        if not env.get("PGBUDGET_DSN"):
            raise ConfigError("PGBUDGET_DSN is not set: the gateway needs its database")
        numbers: dict[str, float] = {}
        for name in (
            "pool_size", "max_body_bytes", "max_calls_per_key", "body_seconds", "connect_seconds", "first_byte_seconds",
            "idle_seconds", "total_seconds", "upstream_retries", "breaker_failures", "breaker_seconds", "drain_seconds",
            "shutdown_seconds", "reconcile_seconds", "background_seconds",
        ):  # fmt: skip
            text = env.get(f"PGBUDGET_{name.upper()}")
            if text is None:
                continue
            if not re.fullmatch(r"\d{1,9}(\.\d{1,3})?", text):
                raise ConfigError(f"PGBUDGET_{name.upper()} must be a number, not {text!r}")
            numbers[name] = int(text) if name in _WHOLE else float(text)
        unbounded = env.get("PGBUDGET_UNBOUNDED_INPUT", "hold")
        if unbounded not in ("hold", "refuse"):
            raise ConfigError(f"PGBUDGET_UNBOUNDED_INPUT must be hold or refuse, not {unbounded!r}")
        exceeded = env.get("PGBUDGET_EXCEEDED_STATUS", "402")
        if exceeded not in ("402", "429"):
            raise ConfigError(f"PGBUDGET_EXCEEDED_STATUS must be 402 or 429, not {exceeded!r}")
        return cls(
            unbounded_input=unbounded,
            exceeded_status=int(exceeded),
            dsn=env["PGBUDGET_DSN"],
            admin_token=env.get("PGBUDGET_ADMIN_TOKEN") or None,
            environment=env,
            **numbers,  # type: ignore[arg-type]
        )

    def status(self, code: str) -> int | None:
        """What a refusal is answered with; None: with the status of its code."""
        return self.exceeded_status if code == "budget_exceeded" else None

    def account(self, name: str, provider_name: str) -> Account | None:
        """The account of that name; None when its URL or key is not configured."""
        prefix = account_prefix(name)
        url = self.environment.get(f"{prefix}_URL") or provider(provider_name).base_url
        variable = f"{prefix}_KEY"
        key = self.environment.get(variable)
        if not key and (path := self.environment.get(f"{prefix}_KEY_FILE")):
            variable = f"{prefix}_KEY_FILE"
            try:
                key = Path(path).read_text("utf-8").strip()
            except OSError as error:
                log.error("the key file of account %s cannot be read: %s", name, error.strerror)
        return Account(url.rstrip("/"), key, variable) if url and key else None


@cache
def account_prefix(name: str) -> str:
    """How the variables of an account begin."""
    return "PGBUDGET_ACCOUNT_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
