"""Server-sent events, cut where they end and nowhere else.

The pieces' ``raw`` bytes, joined, are exactly what came in: what is not rewritten goes on as it was.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event, or a piece of one that is too large to keep.

    ``data`` is its joined data lines; None when it has none, or when the event is oversized.
    """

    raw: bytes
    data: bytes | None
    name: bytes = b""
    oversized: bool = False


class EventParser:
    """Incremental parser. Memory is bounded by ``limit`` bytes, whatever an event's size."""

    def __init__(self, limit: int = 1 << 20) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._line_start = 0
        self._data: list[bytes] = []
        self._name = b""
        self._after_cr = False
        self._oversized = False
        # Whether the line that goes on has a beginning that is not kept any more.
        self._cut_line = False
        self._first_line = True

    def feed(self, chunk: bytes) -> list[Event]:
        """Take bytes in; returns the events that they complete."""
        events: list[Event] = []
        # Where the search goes on: what was searched before has no line end.
        position = len(self._buffer)
        self._buffer += chunk
        if self._after_cr and len(self._buffer) > position:
            # The LF of a CRLF that was cut in two: the line had ended at the CR.
            self._after_cr = False
            if self._buffer[position] == 0x0A:
                position += 1
                self._line_start = position
        while match := _LINE_END.search(self._buffer, position):
            line = bytes(self._buffer[self._line_start : match.start()])
            position = self._line_start = match.end()
            self._after_cr = match.end() == len(self._buffer) and match[0] == b"\r"
            if self._first_line:
                self._first_line = False
                line = line.removeprefix(_BOM)
            if self._cut_line:
                self._cut_line = False
            elif line:
                self._field(line)
            else:
                events.append(self._dispatch(position))
                position = 0
        if len(self._buffer) > self._limit:
            self._oversized = True
            self._cut_line = self._line_start < len(self._buffer)
            events.append(Event(bytes(self._buffer), None, oversized=True))
            self._buffer.clear()
            self._line_start = 0
            self._data.clear()
        return events

    def close(self) -> list[Event]:
        """The end of the stream: an event without its blank line counts as well."""
        if self._line_start < len(self._buffer):
            line = bytes(self._buffer[self._line_start :])
            self._field(line.removeprefix(_BOM) if self._first_line else line)
        return [self._dispatch(len(self._buffer))] if self._buffer else []

    def _field(self, line: bytes) -> None:
        if self._oversized:
            return
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ")

    def _dispatch(self, end: int) -> Event:
        event = Event(
            bytes(self._buffer[:end]),
            b"\n".join(self._data) if self._data else None,
            self._name,
            self._oversized,
        )
        del self._buffer[:end]
        self._line_start = 0
        self._data.clear()
        self._name = b""
        self._oversized = False
        return event
