"""One meaning only: what two parsers may read in two ways is refused, with the place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgbudget.wire.strict_json import InvalidJSON, dumps, loads


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"a":1,"a":2}', "twice"),
        (b'{"a":{"b":1,"b":1}}', "twice"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":-Infinity}', "Infinity"),
        (b'{"a":"\\ud800"}', "surrogate"),
        (b'{"\\uDFFF":1}', "surrogate"),
        (b'{"a":"\xff"}', "byte 6"),
        (b'{"a":' + b"[" * 200 + b"]" * 200 + b"}", "128 levels"),
        (b"[" * 100_000, "128 levels"),
        (b'{"a":1,}', "^the body is not JSON: .* at line 1, column"),
        (b'{"a":' + b"9" * 5000 + b"}", "digits"),
        (b"", "^the body is empty, and a JSON object was expected$"),
        (b" \r\n\t", "^the body is empty"),
        (b"nonsense", "^the body is not JSON: .* at line 1, column 1$"),
        (b'{"a":\n"b}', "^the body is not JSON: .* at line 2, column"),
        (b'{"a" 1}', "^the body is not JSON: .* at line 1, column 6"),
        (b"{} x", "^the body is not JSON: .* at line 1, column 4"),
    ],
)
def test_refused_with_the_reason(body: bytes, says: str) -> None:
    with pytest.raises(InvalidJSON, match=says):
        loads(body)


def test_brackets_in_strings_are_not_depth() -> None:
    assert loads(dumps({"a": "[{" * 500 + '"\\' * 9})) == {"a": "[{" * 500 + '"\\' * 9}


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert loads(b'{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_what_is_written_is_read(value: object) -> None:
    assert loads(dumps(value)) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_json_or_refused(body: bytes) -> None:
    try:
        loads(body)
    except InvalidJSON:
        return
