"""hypothesis over what comes from outside, and again all that was found or is worth to begin with."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pgbudget.wire.content_coding import CODINGS, decode
from pgbudget.wire.sse import EventParser
from pgbudget.wire.strict_json import InvalidJSON, loads
from tests.fuzz.properties import PROPERTIES, content_coding, sse, strict_json

HERE = Path(__file__).parent
BODIES = sorted(path for folder in ("corpus", "found") for path in HERE.glob(f"{folder}/*/*") if path.is_file())
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstandard.compress,
}  # fmt: skip


@pytest.mark.parametrize("path", BODIES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_body_that_was_kept_does_no_harm(path: Path) -> None:
    PROPERTIES[path.parent.name](path.read_bytes())


def test_every_property_has_bodies_to_begin_with() -> None:
    assert {path.parent.name for path in BODIES} == PROPERTIES.keys()


lines = st.sampled_from(
    [b"data: ", b"data:", b"event: ", b"id: 1", b": x", b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"a", b"[DONE]", b"\0"]
)


@given(st.lists(lines, max_size=40), st.binary(min_size=1, max_size=1))
def test_streams(pieces: list[bytes], step: bytes) -> None:
    sse(step + b"".join(pieces))


@given(st.lists(lines, max_size=30), st.lists(st.integers(0, 200), max_size=8))
def test_streams_cut_anywhere(pieces: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(pieces)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    parser, whole = EventParser(), EventParser()
    found = [e for a, b in pairwise(places) for e in parser.feed(stream[a:b])] + parser.close()
    wanted = whole.feed(stream) + whole.close()
    assert b"".join(e.raw for e in found) == stream
    assert [(e.data, e.name) for e in found if e.data is not None] == [(e.data, e.name) for e in wanted if e.data is not None]


escapes = [r'"\ud83d\ude00"', r'"\udc00"', r'"\\ud800"', "\\"]
numbers = ["1", "-0", "1.5e3", "1e999", "1e-999999999999999999999", "NaN", "-Infinity"]
tokens = st.sampled_from([*'{}[],:"é😀 \n', '"a"', '"b"', "true", "null", *escapes, *numbers])


@given(st.lists(tokens, max_size=30).map("".join) | st.text(max_size=50))
def test_json_texts(text: str) -> None:
    strict_json(text.encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=100))
def test_json_bytes(data: bytes) -> None:
    strict_json(data)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_what_json_writes_is_read(value: object, ascii_only: bool, indent: int | str | None) -> None:
    assert loads(json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()) == value


@given(
    values, st.sampled_from(['{"k": 1, "k": 2}', "NaN", "-Infinity", '"\\ud800"', "1e400", "[" * 128 + "]" * 128, "9" * 5000])
)
def test_what_is_wrong_is_found_where_it_stands(value: object, wrong: str) -> None:
    before = json.dumps(value, indent=1)
    text = f"[{before}, {wrong}]"
    with pytest.raises(InvalidJSON) as refused:
        loads(text.encode())
    # Within what is wrong: at the second key, at the escape, at the bracket too many.
    offset = {"{": 9, '"': 1, "[": 127}.get(wrong[0], 0)
    place = len(before) + 3 + offset
    line, column = text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
    assert str(refused.value).endswith(f"at line {line}, column {column}")


@given(st.binary(max_size=300))
def test_coded_bytes(data: bytes) -> None:
    content_coding(data)


@given(st.sampled_from(sorted(CODINGS)), st.binary(max_size=2000), st.integers(0, 2000), st.integers(0, 255))
def test_coded_bodies_come_out_whole_or_damaged_ones_harmlessly(coding: str, body: bytes, place: int, value: int) -> None:
    encoded = bytearray(ENCODERS[coding](body))
    assert decode(coding, bytes(encoded), len(body)) == body
    encoded[place % len(encoded)] = value
    content_coding(bytes([sorted(CODINGS).index(coding)]) + bytes(encoded))
