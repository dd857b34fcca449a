"""Server-sent events, cut where they end and nowhere else.

The pieces' ``raw`` bytes, joined, are exactly what came in: what is not rewritten goes on as it was.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pgbudget.wire.skim import LARGE, Skim

# As nearly all events come: alone, and whole.
_ONE = re.compile(rb"(?:event: ?([^\r\n]*+)\n)?data: ?([^\r\n]*+)\n\n")
_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event, or a piece of one that is too large to keep.

    ``data``: its joined data lines, None when it has none. Of an oversized event None but in its last piece, which has what
    :class:`Skim` leaves of its JSON.
    """

    raw: bytes
    data: bytes | None
    name: bytes = b""
    oversized: bool = False


class EventParser:
    """Incremental parser. What is larger than ``limit`` bytes comes out in pieces as it came in: memory is bounded."""

    def __init__(self, limit: int = LARGE) -> None:
        self.limit = limit
        self._buffer = bytearray()
        self._line_start = 0
        self._data: list[bytes] = []
        self._name = b""
        self._after_cr = False
        # Of an oversized event.
        self._skim: Skim | None = None
        # Whether the line that goes on has a beginning that is not kept any more, and is one of data.
        self._cut_line = self._cut_data = False
        self._first_line = True

    def one(self, chunk: bytes, place: int) -> Event | None:
        """The event at this place, where it is all there and :attr:`between`: then it needs no :meth:`feed`."""
        one = _ONE.match(chunk, place)
        if one is None:
            return None
        self._first_line = False
        return Event(one[0], one[2], one[1] or b"")

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
        while (end := self._line_end(position)) >= 0:
            line = bytes(self._buffer[self._line_start : end])
            crlf = self._buffer.startswith(b"\r\n", end)
            position = self._line_start = end + 1 + crlf
            self._after_cr = position == len(self._buffer) and self._buffer.endswith(b"\r")
            if self._first_line:
                self._first_line = False
                line = line.removeprefix(_BOM)
            if self._cut_line:
                self._end_cut(line)
            elif line:
                self._field(line)
            else:
                events.append(self._dispatch(position))
                position = 0
        if len(self._buffer) > self.limit or (self._skim is not None and self._buffer):
            events += self._overflow()
        return events

    def _line_end(self, position: int) -> int:
        """Where the next line ends, -1 where that is not there yet."""
        lf = self._buffer.find(b"\n", position)
        cr = self._buffer.find(b"\r", position, lf if lf >= 0 else len(self._buffer))
        return cr if cr >= 0 else lf

    @property
    def between(self) -> bool:
        """Whether nothing of an event, or of what ends one, is waited for."""
        return not self._buffer and self._skim is None and not self._after_cr

    def close(self) -> list[Event]:
        """The end of the stream: an event without its blank line counts as well."""
        if self._line_start < len(self._buffer):
            line = bytes(self._buffer[self._line_start :])
            if self._cut_line:
                self._end_cut(line)
            else:
                self._field(line.removeprefix(_BOM) if self._first_line else line)
        return [self._dispatch(len(self._buffer))] if self._buffer else []

    def _overflow(self) -> list[Event]:
        """The event is too large: what is there of it goes out now, and only what a skim leaves of its data stays."""
        if self._skim is None:
            self._skim = Skim()
            self._skim.feed(b"\n".join(self._data))
            self._data.clear()
        end = len(self._buffer)
        rest = bytes(self._buffer[self._line_start :])
        if self._cut_line:
            self._end_cut(rest)
            self._cut_line = True
        elif len(rest) > len(b"data:"):
            self._cut_line, self._cut_data = True, rest.startswith(b"data:")
            if self._cut_data:
                self._skim.feed(rest.removeprefix(b"data:"))
        else:
            # What line it is cannot be told yet.
            end = self._line_start
        raw = bytes(self._buffer[:end])
        del self._buffer[:end]
        self._line_start = 0
        return [Event(raw, None, oversized=True)] if raw else []

    def _end_cut(self, rest: bytes) -> None:
        """What is left of a line whose beginning is not kept."""
        if self._cut_data and self._skim is not None:
            self._skim.feed(rest)
        self._cut_line = False

    def _field(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        if field == b"data":
            if self._skim is None:
                self._data.append(value.removeprefix(b" "))
            else:
                self._skim.feed(b"\n" + value)
        elif field == b"event":
            self._name = value.removeprefix(b" ")

    def _dispatch(self, end: int) -> Event:
        data = b"\n".join(self._data) if self._data else None
        if self._skim is not None:
            data = self._skim.end()
        event = Event(bytes(self._buffer[:end]), data, self._name, self._skim is not None)
        del self._buffer[:end]
        self._line_start = 0
        self._data.clear()
        self._name = b""
        self._skim = None
        return event
