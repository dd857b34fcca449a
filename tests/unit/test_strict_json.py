"""One meaning only: what two parsers may read in two ways is refused, with the place."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgbudget.wire.strict_json import MAX_VALUES, InvalidJSON, dumps, loads


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"a":1,"a":2}', '^the key "a" stands twice in one object at line 1, column 8$'),
        (b'{"a":\n{"b":1,\n "b":1}}', '^the key "b" stands twice in one object at line 3, column 2$'),
        (b'{"a":1,"b":{"c":1,"c":2},"a":2}', '^the key "c" .* column 19$'),
        (b'{"a":1,"a":{"c":1,"c":2}}', '^the key "a" .* column 8$'),
        (b'{"a\\u0062":1, "ab" :2}', '^the key "ab" .* column 15$'),
        (b'{"a":[{"b":1},{"b":1}],"c":"a","a":1}', '^the key "a" .* column 32$'),
        (b'{"a":NaN}', "^NaN is not JSON at line 1, column 6$"),
        (b'["NaN", "\\"NaN", NaN]', "^NaN is not JSON at line 1, column 18$"),
        (b'{"a":-Infinity}', "^-Infinity is not JSON at line 1, column 6$"),
        (b'{"a":"\\ud800"}', "^a string has half of a surrogate pair at line 1, column 7$"),
        (b'["\\\\ud800", "\\ud83d\\ude00\\ud83d"]', "surrogate pair at line 1, column 26$"),
        (b'{"\\uDFFF":1}', "surrogate pair at line 1, column 3$"),
        (b'{"a":"\xff"}', r"^the body is not UTF-8 at line 1, column 7 \(byte 6\)$"),
        (b'{"\xc3\xa9":\n"\xff"}', r"^the body is not UTF-8 at line 2, column 2 \(byte 8\)$"),
        (b'{"a":' + b"[" * 200 + b"]" * 200 + b"}", "more than 128 levels deep at line 1, column 133$"),
        (b"[" * 100_000, "128 levels deep at line 1, column 129$"),
        (b"[1e400]", "^the number 1e400 is out of range at line 1, column 2$"),
        (b'{"a":1,}', "^the body is not JSON: .* at line 1, column"),
        (b'{"a":' + b"9" * 5000 + b"}", "^a number has too many digits at line 1, column 6$"),
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


def test_an_amount_is_exact_and_in_range() -> None:
    assert loads(b"[0.1, 1e-9, 3]", exact=True) == [Decimal("0.1"), Decimal("1e-9"), 3]
    with pytest.raises(InvalidJSON, match=r"^the number 1e-9999999999999999999 is out of range at line 1, column 5$"):
        loads(b"[0, 1e-9999999999999999999]", exact=True)


def test_a_body_of_millions_of_values_is_refused_before_it_is_read() -> None:
    most = b"[" + b"0," * (MAX_VALUES - 2) + b"0]"
    assert len(loads(most)) == MAX_VALUES - 1
    for body in (
        b"[" + b"0," * MAX_VALUES + b"0]",
        b"[" + b"[]," * MAX_VALUES + b"0]",
        b"[" * (MAX_VALUES + 1),
        b"," * (MAX_VALUES + 1),
    ):
        with pytest.raises(InvalidJSON, match=r"^the body has more than 1000000 values$"):
            loads(body)
    # In a string they are text.
    assert loads(b'["' + b",[" * MAX_VALUES + b'"]') == [",[" * MAX_VALUES]


def test_what_is_wrong_far_in_is_named_without_its_place() -> None:
    with pytest.raises(InvalidJSON, match=r"NaN .* too far in to say where$"):
        loads(b"[" + b"0," * 300_000 + b"NaN]")


@pytest.mark.parametrize("body", [b'"' + b'\\"' * 500_000, b'{"' + b'\\"[' * 300_000, b"[" * 129 + b'"\\' * 300_000])
def test_no_body_takes_more_than_a_look_at_each_byte(body: bytes) -> None:
    # With a second look for each quote this would be minutes.
    with pytest.raises(InvalidJSON):
        loads(body)
