"""Events that say the same as the one before but for one text, as nearly all of a stream do: they need not be parsed."""

from __future__ import annotations

import re
from typing import Final

# The inside of a JSON string that is just what it looks like, and has no end of a line.
_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]++')


class Repeat:
    """What an event has before and after its text, within the quotes of that; and what is passed on of it.

    An event with the same bytes there, and a plain text between, is the same JSON but for that one string.
    """

    __slots__ = ("_after", "_before", "_passed_on")

    def __init__(self, before: bytes, after: bytes, passed_on: tuple[bytes, bytes] | None) -> None:
        self._before = before
        self._after = after
        self._passed_on = passed_on

    @classmethod
    def of(cls, raw: bytes, text: str, passed_on: bytes) -> Repeat | None:
        """From an event that was parsed; None where it cannot be told for sure which of its bytes are the text."""
        quoted = b'"%b"' % text.encode("utf-8", "surrogatepass")
        if b"\\" in raw or not _PLAIN.fullmatch(quoted, 1, len(quoted) - 1):
            return None
        parts = [_around(quoted, event) for event in (raw, passed_on)]
        if parts[0] is None or parts[1] is None:
            return None
        return cls(*parts[0], None if passed_on == raw else parts[1])

    def size(self, raw: bytes) -> int:
        """Bytes of the text, where bytes that came are such an event and nothing more; else 0."""
        begin, end = len(self._before), len(raw) - len(self._after)
        if raw.startswith(self._before) and raw.endswith(self._after) and _PLAIN.fullmatch(raw, begin, end):
            return end - begin
        return 0

    def passed_on(self, raw: bytes) -> bytes:
        """The bytes that a client gets for such an event."""
        if self._passed_on is None:
            return raw
        before, after = self._passed_on
        return before + raw[len(self._before) : len(raw) - len(self._after)] + after


def _around(quoted: bytes, event: bytes) -> tuple[bytes, bytes] | None:
    before, found, after = event.partition(quoted)
    return (before + b'"', b'"' + after) if found and quoted not in after else None
