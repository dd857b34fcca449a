"""JSON as a budget needs it: one meaning only.

A duplicate key, a NaN or a lone surrogate may be read one way here and another way upstream; so they are refused.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from itertools import accumulate, islice
from typing import Any, NoReturn

import orjson

MAX_DEPTH = 128
#: Of arrays, objects and what is in them: a body of millions would keep all streams waiting while it is read.
MAX_VALUES = 1_000_000
# A refusal says where, unless that is so far in that the search for it would keep them waiting.
_MAX_TOKENS = 1 << 18

# One pass whatever comes: a string without an end goes to the end, and nothing is tried twice.
_STRING = r'"(?:[^"\\]++|\\.|\\\Z)*+(?:"|\Z)'
_TOKEN = re.compile(rf"({_STRING})(\s*+:)?|[\[\]{{}}]|[^\s,\[\]{{}}]++", re.DOTALL)
_STRINGS = re.compile(_STRING.encode(), re.DOTALL)
_NO_MARKS = bytes(set(range(256)) - set(b"[]{},"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
# To the first half of a surrogate pair that stands alone. What is written without a backslash cannot be one: UTF-8 has none.
_PAIRED = re.compile(r"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+")


class InvalidJSON(ValueError):
    """The text is not JSON, or not the JSON that is accepted; the message says what and where."""


class _Refused(ValueError):
    """Something that JSON has and that is not accepted; where it stands, the decoder does not tell."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Refused
    return found


def _constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if value in (_INFINITY, -_INFINITY):
        raise _Refused(f"the number {text[:40]} is out of range")
    return value


def _decimal(text: str) -> Decimal:
    _float(text)
    try:
        return Decimal(text)
    except ArithmeticError:
        raise _Refused(f"the number {text[:40]} is out of range") from None


_INFINITY = float("inf")
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
_EXACT = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_decimal)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def loads(body: bytes, *, exact: bool = False) -> Any:
    """Parse a body; raises :class:`InvalidJSON`. ``exact``: fractions as :class:`Decimal`, where they are amounts."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        before = body[: error.start].decode("utf-8")
        raise InvalidJSON(f"the body is not UTF-8 at {_place(before, len(before))} (byte {error.start})") from None
    if not text.strip():
        raise InvalidJSON("the body is empty, and a JSON object was expected")
    marks = _marks(body)
    if len(marks) - marks.count(b"]") - marks.count(b"}") > MAX_VALUES:
        raise InvalidJSON(f"the body has more than {MAX_VALUES} values")
    decoder = _EXACT if exact else _DECODER
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        what = error.msg[:1].lower() + error.msg[1:]
        raise InvalidJSON(f"the body is not JSON: {what} at {_place(text, error.pos)}") from None
    except (ValueError, RecursionError):
        raise _refusal(text, decoder) from None
    if _is_deep(marks) or _has_lone_surrogate(text):
        raise _refusal(text, decoder)
    return value


def dumps(value: Any) -> bytes:
    """The compact form, in UTF-8."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        # It takes no whole number beyond 64 bits.
        return _ENCODER.encode(value).encode("utf-8")


def _marks(body: bytes) -> bytes:
    """The brackets and commas outside of strings; nothing when there are too few for any limit."""
    opened = body.count(b"[") + body.count(b"{")
    if opened <= MAX_DEPTH and opened + body.count(b",") <= MAX_VALUES:
        return b""
    return _STRINGS.sub(b"", body).translate(None, _NO_MARKS)


def _is_deep(marks: bytes) -> bool:
    return max(accumulate(map(_STEP.__getitem__, marks.replace(b",", b""))), default=0) > MAX_DEPTH


def _has_lone_surrogate(text: str) -> bool:
    return ("\\ud" in text or "\\uD" in text) and _PAIRED.match(text).end() < len(text)  # type: ignore[union-attr]


def _place(text: str, position: int) -> str:
    return f"line {text.count(chr(10), 0, position) + 1}, column {position - text.rfind(chr(10), 0, position)}"


def _refusal(text: str, decoder: json.JSONDecoder) -> InvalidJSON:
    """The first thing in a text that is not accepted: one is known to be there, and up to it the text is JSON."""
    place = 0
    # The keys seen in each object that is open; None for an array.
    open_: list[set[str] | None] = []
    try:
        for token in islice(_TOKEN.finditer(text), _MAX_TOKENS):
            place = token.start()
            string, colon = token.groups()
            if string is not None:
                if _has_lone_surrogate(string):
                    place += _PAIRED.match(string).end()  # type: ignore[union-attr]
                    raise _Refused("a string has half of a surrogate pair")
                if colon and open_ and (keys := open_[-1]) is not None:
                    key = json.loads(string, strict=False)
                    if key in keys:
                        raise _Refused(f"the key {json.dumps(key)[:80]} stands twice in one object")
                    keys.add(key)
            elif token[0] in "[{":
                if len(open_) == MAX_DEPTH:
                    raise _Refused(f"the body is nested more than {MAX_DEPTH} levels deep")
                open_.append(set() if token[0] == "{" else None)
            elif token[0] in "]}":
                open_.pop()
            else:
                decoder.decode(token[0])
    except _Refused as error:
        return InvalidJSON(f"{error} at {_place(text, place)}")
    except ValueError:
        return InvalidJSON(f"a number has too many digits at {_place(text, place)}")
    return InvalidJSON(
        f"the body has a key twice, NaN or Infinity, half of a surrogate pair, a number out of range or more than {MAX_DEPTH} "
        "levels, too far in to say where"
    )
