"""Usage as Anthropic reports it, as disjoint charge kinds.

``input_tokens`` leaves out what was read from the cache and what was written to it. Where a call went in rounds
(``iterations``), the numbers beside them leave out whole rounds: the sum of all is what is billed.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from pgbudget.wire.usage import whole_number

_MAX = 10**12
_COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def is_empty(usage: dict[str, Any] | None) -> bool:
    """Whether a report says nothing: absent, or zero tokens in all."""
    return not usage or not any(usage.get(name) for name in (*_COUNTS, "iterations"))


def charge_kinds(usage: dict[str, Any], model: str | None) -> tuple[dict[str, Any], bool]:
    """Charge kinds with their quantities; ``model``: the one that answered.

    What cannot be priced, such as a number that cannot be one or a round of another model, is passed on as text: the database
    rejects it and charges the whole hold. Without ``input`` where nothing tells how much that was. And whether more is said to
    be written to the cache for some time than in all; it is charged as no more than that.
    """
    kinds: Counter[str] = Counter()
    clamped = False
    rounds = usage.get("iterations") or [usage]
    if not isinstance(rounds, list):
        return _unpriced(rounds), False
    for part in rounds:
        if not isinstance(part, dict) or (part is not usage and part.get("model") not in (None, model)):
            return _unpriced(part), False
        creation = _dict(part, "cache_creation")
        read = {name: whole_number(part.get(name) or 0) for name in _COUNTS}
        split = {ttl: whole_number(creation.get(f"ephemeral_{ttl}_input_tokens") or 0) for ttl in ("5m", "1h")}
        for value in (*read.values(), *split.values()):
            if type(value) is not int or not 0 <= value <= _MAX:
                return _unpriced(value), False
        written = read["cache_creation_input_tokens"]
        if part.get("cache_creation_input_tokens") is None:
            written = sum(split.values())
        clamped |= sum(split.values()) > written
        for_an_hour = min(split["1h"], written)
        kinds.update(
            {
                "input": read["input_tokens"],
                "cache_read": read["cache_read_input_tokens"],
                # All that is not said to be for an hour: older answers tell the total only.
                "cache_write_5m": written - for_an_hour,
                "cache_write_1h": for_an_hour,
                "output": read["output_tokens"],
            }
        )
    searches = whole_number(_dict(usage, "server_tool_use").get("web_search_requests") or 0)
    if type(searches) is not int or not 0 <= searches <= _MAX:
        return _unpriced(searches), False
    kinds["web_search"] = searches
    told = all(part.get("input_tokens") is not None for part in rounds)
    kept = {kind: quantity for kind, quantity in kinds.items() if quantity or kind == "output" or (kind == "input" and told)}
    return kept, clamped


def _unpriced(value: Any) -> dict[str, Any]:
    return {"input": ascii(value)[:100]}


def _dict(usage: dict[str, Any], name: str) -> dict[str, Any]:
    value = usage.get(name)
    return value if isinstance(value, dict) else {}
