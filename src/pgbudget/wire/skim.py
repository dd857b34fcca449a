"""JSON without its bulk: long strings and long runs of numbers are cut out as it comes, so that what is left is soon read.

What a meter looks for is small. A picture, a vector or a whole output beside it may have megabytes, and while they are read no
other stream goes on.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from typing import Final

#: Events and bodies up to this size are read as they are.
LARGE: Final = 256 << 10
#: What is left of a larger event may have so much.
_MOST: Final = 1 << 20
#: Strings up to this size stay: no name, id or other word that is looked for is longer.
_LONG: Final = 1024
#: So much of a body is skimmed in one go.
_PIECE: Final = 64 << 10

# A piece may end in a string, or within an escape of one.
_BULK: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+("|\\?\Z)|[-+.0-9eE,\s]{64,}+', re.DOTALL)
#: A string that stands for a longer one begins with this, and its size follows. Nobody who writes a text knows it.
_MARK: Final = f"\ufffe\uffff{secrets.token_hex(8)}:"


class Skim:
    """Takes JSON in pieces. ``most``: how much may be left of it; memory is bounded by that."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._left = bytearray()
        #: The string that the last piece ended in, and how many bytes were cut out of it.
        self._open = b""
        self._cut = 0

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        if len(self._left) > self._most:
            return
        text = self._open + piece
        self._open, place = b"", 0
        for bulk in _BULK.finditer(text):
            if bulk[1] is None:
                short = _numbers(bulk[0])
            elif bulk[1] != b'"':
                self._left += text[place : bulk.start()]
                self._leave_open(bulk[0], bulk[1])
                return
            elif len(bulk[0]) > _LONG:
                short = b'"%b%d"' % (_MARK.encode(), len(bulk[0]) - 2 + self._cut)
                self._cut = 0
            else:
                continue
            self._left += text[place : bulk.start()] + short
            place = bulk.end()
        self._left += text[place:]

    def end(self) -> bytes:
        """What is left of it all; nothing where that is too much."""
        self._left += self._open
        return bytes(self._left) if len(self._left) <= self._most else b""

    def _leave_open(self, string: bytes, escape: bytes) -> None:
        if len(string) > _LONG:
            self._cut += len(string) - _LONG - len(escape)
            # As long as it must be to be cut out at its end, and with what that may depend on.
            string = b'"'.ljust(_LONG, b"x") + escape
        self._open = string


async def skimmed(parts: list[bytes]) -> bytes:
    """A body that came in these parts, if it is large without its bulk; others have their turn meanwhile."""
    size = sum(map(len, parts))
    if size <= LARGE:
        return b"".join(parts)
    skim = Skim(size)
    for part in parts:
        for place in range(0, len(part), _PIECE):
            skim.feed(part[place : place + _PIECE])
            await asyncio.sleep(0)
    return skim.end()


def size(text: str) -> int:
    """Bytes of a text, also of one that was cut out."""
    if text.isascii():
        return len(text)
    if text.startswith(_MARK) and (digits := text[len(_MARK) :]).isdecimal() and len(digits) < 16:
        return int(digits)
    return len(text.encode("utf-8", "surrogatepass"))


def _numbers(run: bytes) -> bytes:
    """The first and the last of a run, which may be members of an object; between them is a list."""
    first, comma, rest = run.partition(b",")
    return first.strip() + comma + rest.rpartition(b",")[2].strip() or b" "
