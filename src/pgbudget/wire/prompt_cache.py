"""What a request asks to be written to the provider's cache of prompts, in Anthropic's words: ``cache_control``."""

from __future__ import annotations

from typing import Any, Final

from pgbudget.errors import InvalidRequest

_FEATURES: Final = {"5m": "cache_write_5m", "1h": "cache_write_1h"}
#: The features that writing is priced as, by how long it is kept.
CACHE_WRITES: Final = frozenset(_FEATURES.values())


def cache_writes(body: dict[str, Any]) -> set[str]:
    """The features that a body asks for so; raises :class:`InvalidRequest`."""
    found: set[str] = set()
    _gather(body, found)
    return found


def turn_off_cache(body: dict[str, Any], feature: str) -> None:
    """Take what asks for a feature out of a copy of the body."""
    body |= {name: _without_cache(value, feature) for name, value in body.items()}
    if (ttl := _ttl(body)) is not None and _FEATURES[ttl] == feature:
        del body["cache_control"]


def _ttl(block: dict[str, Any]) -> Any:
    """For how long a block is to be cached, None if it is not."""
    control = block.get("cache_control")
    if not isinstance(control, dict) or control.get("type") != "ephemeral":
        return None
    ttl = control.get("ttl")
    if ttl is not None and (not isinstance(ttl, str) or ttl not in _FEATURES):
        raise InvalidRequest("cache_control.ttl must be 5m or 1h", "cache_control")
    return ttl or "5m"


def _gather(value: Any, found: set[str]) -> None:
    """Add the features that a part of a body asks for so; raises :class:`InvalidRequest`."""
    if isinstance(value, dict):
        if ttl := _ttl(value):
            found.add(_FEATURES[ttl])
        for item in value.values():
            _gather(item, found)
    elif isinstance(value, list):
        for item in value:
            _gather(item, found)


def _without_cache(value: Any, feature: str) -> Any:
    if isinstance(value, dict):
        off = (ttl := _ttl(value)) is not None and _FEATURES[ttl] == feature
        return {name: _without_cache(item, feature) for name, item in value.items() if not (off and name == "cache_control")}
    if isinstance(value, list):
        return [_without_cache(item, feature) for item in value]
    return value
