"""Events that say the same as the one before but for one text, as nearly all of a stream do: they need not be parsed."""

from __future__ import annotations

import re
from typing import Final

# The inside of a JSON string that is just what it looks like, and has no end of a line.
_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]++')


class Repeat:
    """What an event has before and after its text, within the quotes of that; and what is passed on of it.

    An event with the same bytes there, and a plain text between, is the same JSON but for that one string. ``frame``: how many
    bytes it has beside the text.
    """

    __slots__ = ("_after", "_before", "_begin", "_end", "frame")

    def __init__(self, before: bytes, after: bytes, passed_on: tuple[bytes, bytes]) -> None:
        self._before = before
        self._after = after
        self._begin, self._end = passed_on
        self.frame = len(before) + len(after)

    @classmethod
    def of(cls, raw: bytes, text: str, passed_on: bytes) -> Repeat | None:
        """From an event that was parsed; None where it cannot be told for sure which of its bytes are the text."""
        quoted = b'"%b"' % text.encode("utf-8", "surrogatepass")
        if b"\\" in raw or not _PLAIN.fullmatch(quoted, 1, len(quoted) - 1):
            return None
        parts = [_around(quoted, event) for event in (raw, passed_on)]
        if parts[0] is None or parts[1] is None:
            return None
        return cls(*parts[0], parts[1])

    def text(self, raw: bytes, place: int = 0) -> bytes:
        """The text, where bytes that came have such an event at this place; else nothing."""
        if raw.startswith(self._before, place):
            text = _PLAIN.match(raw, place + len(self._before))
            if text is not None and raw.startswith(self._after, text.end()):
                return text[0]
        return b""

    def passed_on(self, text: bytes) -> bytes:
        """The bytes that a client gets for such an event."""
        return self._begin + text + self._end


def _around(quoted: bytes, event: bytes) -> tuple[bytes, bytes] | None:
    before, found, after = event.partition(quoted)
    return (before + b'"', b'"' + after) if found and quoted not in after else None
