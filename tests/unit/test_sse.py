"""The parser of server-sent events: nothing lost, nothing invented, whatever the cuts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgbudget.wire.sse import EventParser

STREAM = 'data: {"a":"é\u2028😀"}\n\n: ping\n\nevent: x\ndata:b\ndata: c\n\ndata: [DONE]\n\n'.encode()
DATA = [b'{"a":"\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80"}', b"b\nc", b"[DONE]"]


def parse(pieces: list[bytes], limit: int = 1 << 20) -> tuple[bytes, list[bytes]]:
    """The raw bytes and the data of a stream that comes in pieces."""
    parser = EventParser(limit)
    events = [event for piece in pieces for event in parser.feed(piece)] + parser.close()
    return b"".join(e.raw for e in events), [e.data for e in events if e.data is not None]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_two_way_split_gives_the_same_events_and_bytes(end: bytes) -> None:
    stream = STREAM.replace(b"\n", end)
    for place in range(len(stream) + 1):
        assert parse([stream[:place], stream[place:]]) == (stream, DATA), place
    assert parse([stream[i : i + 1] for i in range(len(stream))]) == (stream, DATA)


def test_an_event_goes_out_with_the_line_that_ends_it() -> None:
    parser = EventParser()
    assert [e.data for e in parser.feed(b"data: a\r\r")] == [b"a"]
    assert [e.data for e in parser.feed(b"\ndata: b\n\n")] == [b"b"]


def test_byte_order_mark_and_missing_end() -> None:
    assert parse([b"\xef\xbb\xbfdata: a\n\ndata: b"]) == (b"\xef\xbb\xbfdata: a\n\ndata: b", [b"a", b"b"])


def test_an_event_too_large_passes_through_in_bounded_memory() -> None:
    parser = EventParser(limit=100)
    out = []
    for _ in range(50):
        out += parser.feed(b"x" * 60)
    out += parser.feed(b"\n\ndata: after\n\n")
    assert b"".join(e.raw for e in out) == b"x" * 3000 + b"\n\ndata: after\n\n"
    assert all(e.oversized for e in out[:-1])
    assert out[-1].data == b"after"


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_no_bytes_are_lost_whatever_comes(pieces: list[bytes]) -> None:
    assert parse(pieces)[0] == b"".join(pieces)
    assert parse(pieces, limit=16)[0] == b"".join(pieces)
    assert parse(pieces)[1] == parse([b"".join(pieces)])[1]
