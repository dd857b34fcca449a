"""What an alert says, to people and to programs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pgbudget.http import dumps, plain


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert of the outbox; amounts in its payload are Decimal USD."""

    alert_id: int
    kind: str
    payload: dict[str, Any]
    created_at: datetime

    @property
    def message_id(self) -> str:
        """The same at every try and after a redrive: receivers drop what they have."""
        return f"pgbudget-{int(self.created_at.timestamp() * 1000)}-{self.alert_id}"

    @property
    def subject(self) -> str:
        """In a few words."""
        if self.kind == "threshold":
            return f"{self._budget()}: {_number(self.payload['threshold_percent'])} % reached"
        if self.kind == "burn_rate":
            return f"{self._budget()}: spent too fast"
        return "a test" if self.kind == "test" else self.kind.replace("_", " ")

    @property
    def text(self) -> str:
        """In a sentence or two."""
        p = self.payload
        if self.kind == "threshold":
            share = f" ({_number(p['percent'])} %)" if p.get("percent") is not None else ""
            return (
                f"{self._budget()} has reached {_number(p['threshold_percent'])} %: "
                f"{_number(p['spent_usd'])} of {_number(p['limit_usd'])} USD are spent{share}. {_STRICTNESS[p['enforcement']]}"
                f"{self._reset()}"
            )
        if self.kind == "burn_rate":
            return (
                f"{self._budget()} is spent too fast: {_number(p['spent_usd'])} of {_number(p['limit_usd'])} USD "
                f"({_number(p['percent'])} %). At this rate it would be {_number(p['projected_usd'])} USD "
                f"({_number(p['projected_percent'])} %) at the end, and the limit is reached {_moment(p['exhausted_at'])}."
                f"{self._reset()}"
            )
        if self.kind == "test":
            return "A test of pgbudget: alerts arrive here."
        if self.kind == "drift":
            share = f", {_number(p['difference_percent'])} %" if p.get("difference_percent") is not None else ""
            return (
                f"The ledger and the provider disagree on account {p['account']}, {p['day']}: "
                f"{_number(p['ledger_usd'])} USD here, {_number(p['provider_usd'])} USD there "
                f"(a difference of {_number(p['difference_usd'])} USD{share})."
            )
        if "message" in p:
            return " ".join(str(p[name]) for name in ("message", "hint") if p.get(name))
        return f"{self.subject}: {dumps(p).decode()}"

    def event(self) -> bytes:
        """The body of a Standard Webhook."""
        at = self.created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return dumps({"type": f"budget.{self.kind}", "timestamp": at, "data": {**_exact(self.payload), "text": self.text}})

    def _budget(self) -> str:
        p = self.payload
        org = f" of {p['org']}" if p.get("org") and p["scope_kind"] != "org" else ""
        return f'budget "{p["budget"]}" of {p["scope_kind"]} {p["scope"]}{org}'

    def _reset(self) -> str:
        return f" Its period ends {_moment(self.payload['ends_at'])}." if self.payload.get("ends_at") else ""


_STRICTNESS = {
    "strict": "Calls that do not fit are refused.",
    "check": "Calls are refused once all of it is spent.",
    "soft": "It is soft: no call is refused.",
}


def _number(value: Any) -> str:
    return f"{plain(Decimal(value)):f}"


def _exact(payload: dict[str, Any]) -> dict[str, Any]:
    return {name: plain(value) if isinstance(value, Decimal) else value for name, value in payload.items()}


def _moment(text: str) -> str:
    return f"{text[:10]} {text[11:16]} UTC"
