"""How a call ends: what is reported of it, and so what is charged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pgbudget.wire.dialect import Meter


@dataclass(frozen=True, slots=True)
class Ending:
    """The outcome of an attempt, and what ``budget.settle_batch`` takes beside it."""

    outcome: str
    report: dict[str, Any]


def unsent(reason: str) -> Ending:
    """Nothing has gone to a provider."""
    return Ending("unsent", {"note": {"reason": reason}})


def refused(status: int) -> Ending:
    """The provider refused, which costs nothing: certain with its status, whatever comes after."""
    return Ending("released", {"note": {"status": str(status)}})


def unknown(reason: str) -> Ending:
    """The provider may have been at work, and it cannot be told for how much."""
    return Ending("unknown", {"note": {"reason": reason}})


def ending_of(meter: Meter, *, broken: bool) -> Ending:
    """How a call that reached its provider has ended, by what the meter saw."""
    kinds = meter.kinds()
    said: dict[str, Any] = {
        "note": dict(meter.note),
        **({"service_tier": meter.service_tier} if meter.service_tier else {}),
        **({"clamped": True} if meter.clamped else {}),
    }
    if (
        kinds is not None
        and meter.finished
        and not meter.failed
        and (kinds.get("output", 1) or kinds.get("audio_out") or kinds.get("image_out") or not meter.output_bytes)
    ):
        if "input" not in kinds:
            return Ending("estimated", {"usage": {"input": meter.request.input_tokens, **kinds}, **said})
        if meter.provider_cost_usd is not None:
            said["provider_cost_usd"] = meter.provider_cost_usd
        return Ending("finished", {"usage": kinds, **said})
    if meter.failed and meter.streamed and kinds is None and meter.output_bytes == 0 and not meter.begun:
        return Ending("released", {"note": said["note"]})
    if kinds is not None or meter.output_bytes or (not broken and meter.finished):
        return Ending("estimated", {"usage": meter.bound(), "usage_seen": kinds, **said})
    return Ending("unknown", said)
