"""JSON as a budget needs it: one meaning only.

A duplicate key, a NaN or a lone surrogate may be read one way here and another way upstream; so they are refused.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

MAX_DEPTH = 128

# One pass whatever comes: a string without an end goes to the end, and nothing is tried twice.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.|\\\Z)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class InvalidJSON(ValueError):
    """The text is not JSON, or not the JSON that is accepted; the message says what and where."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidJSON(f"the key {json.dumps(key)[:80]} stands twice in one object")
            seen.add(key)
    return found


def _constant(name: str) -> Any:
    raise InvalidJSON(f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if value in (_INFINITY, -_INFINITY):
        raise InvalidJSON(f"the number {text[:40]} is out of range")
    return value


def _decimal(text: str) -> Decimal:
    _float(text)
    try:
        return Decimal(text)
    except ArithmeticError:
        raise InvalidJSON(f"the number {text[:40]} is out of range") from None


_INFINITY = float("inf")
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
_EXACT = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_decimal)


def loads(body: bytes, *, exact: bool = False) -> Any:
    """Parse a body; raises :class:`InvalidJSON`. ``exact``: fractions as :class:`Decimal`, where they are amounts."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidJSON(f"the body is not UTF-8 (byte {error.start})") from None
    if not text.strip():
        raise InvalidJSON("the body is empty, and a JSON object was expected")
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(text)
    try:
        value = (_EXACT if exact else _DECODER).decode(text)
    except json.JSONDecodeError as error:
        what = error.msg[:1].lower() + error.msg[1:]
        raise InvalidJSON(f"the body is not JSON: {what} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise InvalidJSON(f"the body is nested more than {MAX_DEPTH} levels deep") from None
    except ValueError as error:
        if isinstance(error, InvalidJSON):
            raise
        raise InvalidJSON("a number has too many digits") from None
    if "\\ud" in text or "\\uD" in text:
        _check_surrogates(value)
    return value


def dumps(value: Any) -> bytes:
    """The compact form, in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")


def _check_depth(text: str) -> None:
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0][0] == '"':
            continue
        depth += 1 if token[0] in "[{" else -1
        if depth > MAX_DEPTH:
            raise InvalidJSON(f"the body is nested more than {MAX_DEPTH} levels deep")


def _check_surrogates(value: Any) -> None:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if _LONE_SURROGATE.search(item):
                raise InvalidJSON("a string has half of a surrogate pair")
        elif isinstance(item, dict):
            stack += item.keys()
            stack += item.values()
        elif isinstance(item, list):
            stack += item
