"""What holds for any bytes. hypothesis and atheris try them, and what once broke them is tried again."""

from __future__ import annotations

import contextlib
import json
import re

from pgbudget.wire.content_coding import CODINGS, TooLarge, Undecodable, decode
from pgbudget.wire.sse import Event, EventParser
from pgbudget.wire.strict_json import MAX_DEPTH, InvalidJSON, dumps, loads

_PLACE = re.compile(r"at line [0-9]+, column [0-9]+|is empty|too far in|more than [0-9]+ values")
_LIMIT = 1 << 16


def sse(data: bytes) -> None:
    """However a stream is cut, its events are the same; and its bytes always are, also when they are too many to keep.

    The first byte says where the stream is cut.
    """
    step, stream = (data[0] % 16 + 1, data[1:]) if data else (1, b"")
    whole = _events([stream], _LIMIT)
    pieces = [stream[i : i + step] for i in range(0, len(stream), step)]
    for limit in (_LIMIT, 8):
        found = _events(pieces, limit)
        assert b"".join(event.raw for event in found) == stream
        assert all(len(event.raw) <= limit + step for event in found)
        if limit == _LIMIT:
            assert _told(found) == _told(whole)


def strict_json(data: bytes) -> None:
    """What is accepted is what the library reads, and can be written again; what is not is refused with the place."""
    for exact in (False, True):
        try:
            value = loads(data, exact=exact)
        except InvalidJSON as error:
            _check_place(str(error))
            continue
        if not exact:
            assert value == json.loads(data)
            assert loads(dumps(value)) == value
            assert _depth(value) <= MAX_DEPTH


def content_coding(data: bytes) -> None:
    """Any bytes are a body, or refused; never more than the limit comes out. The first byte says in which coding."""
    coding = sorted(CODINGS)[data[0] % len(CODINGS)] if data else "gzip"
    with contextlib.suppress(Undecodable, TooLarge):
        assert len(decode(coding, data[1:], 1 << 12)) <= 1 << 12


PROPERTIES = {"sse": sse, "json": strict_json, "coding": content_coding}


def _events(pieces: list[bytes], limit: int) -> list[Event]:
    parser = EventParser(limit)
    return [event for piece in pieces for event in parser.feed(piece)] + parser.close()


def _told(events: list[Event]) -> list[tuple[bytes | None, bytes]]:
    # A line feed of a cut CRLF may come with the event after: the bytes are the same, their share may not be.
    return [(event.data, event.name) for event in events if event.data is not None]


def _check_place(message: str) -> None:
    assert _PLACE.search(message), message


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0
