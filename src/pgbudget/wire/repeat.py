"""Events that say the same as the one before but for one text, as nearly all of a stream do: they need not be parsed."""

from __future__ import annotations

import re
from typing import Final

# The inside of a JSON string that is just what it looks like, and has no end of a line.
_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]++')
#: So much is cut up at once: where runs are short, what follows is cut up again for each of them.
_MOST: Final = 4 << 10


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

    def texts(self, raw: bytes, place: int = 0) -> list[bytes]:
        """The texts of such events, where bytes that came have one or more of them at this place, one after the other."""
        texts: list[bytes] = []
        if not raw.startswith(self._before, place):
            return texts
        begin = len(self._before)
        for event in raw[place : place + _MOST].split(self._after)[:-1]:
            if not event.startswith(self._before) or not _PLAIN.fullmatch(event, begin):
                break
            texts.append(event[begin:])
        return texts

    def passed_on(self, texts: list[bytes]) -> bytes:
        """The bytes that a client gets for such events."""
        return self._begin + (self._end + self._begin).join(texts) + self._end


def _around(quoted: bytes, event: bytes) -> tuple[bytes, bytes] | None:
    before, found, after = event.partition(quoted)
    return (before + b'"', b'"' + after) if found and quoted not in after else None
