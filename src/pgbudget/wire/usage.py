"""Usage as OpenAI-compatible providers report it, as disjoint charge kinds.

Providers disagree on what ``prompt_tokens`` and ``completion_tokens`` include; ``total_tokens`` tells. What the total has
beyond the two was generated (hidden thinking: Gemini, xAI) unless it is just the audio that the prompt leaves out (Mistral).
Predicted tokens that were rejected are in ``completion_tokens``, as reasoning is.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

_MAX = 10**12


def merge(seen: dict[str, Any] | None, found: Any) -> dict[str, Any] | None:
    """Usage seen so far, with a later report over it key by key; null never erases."""
    if not isinstance(found, dict):
        return seen
    merged = dict(seen or {})
    for key, value in found.items():
        if value is not None:
            merged[key] = value
    return merged


def is_empty(usage: dict[str, Any] | None) -> bool:
    """Whether a report says nothing: absent, or zero tokens in all."""
    return not usage or not any(usage.get(k) for k in ("prompt_tokens", "completion_tokens", "total_tokens"))


def charge_kinds(usage: dict[str, Any], reasoning_apart: bool = False) -> tuple[dict[str, Any], bool]:
    """Charge kinds with their quantities. ``reasoning_apart``: what tells where there is no total, see :class:`Provider`.

    A number that cannot be one is passed on as text: the database rejects it and charges the whole hold. Without ``input``
    where nothing tells how much that was. And whether a part is said to be more than what it is part of; it is charged as no
    more than that.
    """
    details = _dict(usage, "prompt_tokens_details")
    completion_details = _dict(usage, "completion_tokens_details")
    numbers = {
        "prompt": usage.get("prompt_tokens", 0),
        "completion": usage.get("completion_tokens", 0),
        "total": usage.get("total_tokens", 0),
        "cached": (
            details.get("cached_tokens")
            or usage.get("prompt_cache_hit_tokens")
            or usage.get("num_cached_tokens")
            or usage.get("cached_tokens")
            or 0
        ),
        "written": details.get("cache_write_tokens") or 0,
        "audio_in": details.get("audio_tokens") or usage.get("prompt_audio_tokens") or 0,
        "audio_out": completion_details.get("audio_tokens") or 0,
        "reasoning": completion_details.get("reasoning_tokens") or usage.get("reasoning_tokens") or 0,
        "image_out": completion_details.get("image_tokens") or 0,
        "searches": (
            _dict(usage, "server_tool_use_details").get("web_search_requests") or usage.get("num_search_queries") or 0
        ),
        "cited": usage.get("citation_tokens") or 0,
    }
    for name, told_number in numbers.items():
        value = numbers[name] = whole_number(told_number)
        if type(value) is not int or not 0 <= value <= _MAX:
            return {"input": ascii(value)[:100]}, False
    told = "prompt_tokens" in usage
    if not told and numbers["total"] > numbers["completion"]:
        told, numbers["prompt"] = True, numbers["total"] - numbers["completion"]
    prompt, completion = numbers["prompt"], numbers["completion"]
    audio_in = numbers["audio_in"]
    hidden = max(numbers["total"] - prompt - completion, 0)
    if not numbers["total"] and (reasoning_apart or numbers["reasoning"] > completion):
        hidden = numbers["reasoning"]
    if hidden and hidden == audio_in:
        prompt += hidden
    else:
        completion += hidden
    apart = "citation_tokens" in usage
    # Sound may come from the cache, too: these two are parts that overlap.
    clamped = (
        max(numbers["cached"] + numbers["written"], audio_in) > prompt
        or max(numbers["audio_out"] + numbers["image_out"], 0 if apart else numbers["reasoning"]) > completion
    )
    audio_in = min(audio_in, prompt)
    cached = min(numbers["cached"], prompt - audio_in)
    written = min(numbers["written"], prompt - audio_in - cached)
    audio_out = min(numbers["audio_out"], completion)
    image_out = min(numbers["image_out"], completion - audio_out)
    kinds = {
        "input": prompt - audio_in - cached - written + numbers["cited"],
        "cache_read": cached,
        "cache_write": written,
        "audio_in": audio_in,
        "output": completion - audio_out - image_out,
        "audio_out": audio_out,
        "image_out": image_out,
        # Research counts its reasoning beside all else (Perplexity).
        "reasoning": numbers["reasoning"] if apart else 0,
        "web_search": numbers["searches"],
    }
    kept = {kind: quantity for kind, quantity in kinds.items() if quantity or kind == "output" or (kind == "input" and told)}
    return kept, clamped


def whole_number(value: Any) -> Any:
    """The whole number that a count is, also where it is written as ``12.0`` or ``"12"``; anything else as it is."""
    if type(value) is int:
        return value
    if isinstance(value, str) and len(value) < len(str(_MAX)) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, float | Decimal) and 0 <= value <= _MAX and value == int(value):
        return int(value)
    return value


def _dict(usage: dict[str, Any], name: str) -> dict[str, Any]:
    value = usage.get(name)
    return value if isinstance(value, dict) else {}
