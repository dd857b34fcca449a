"""The content codings of request bodies, each undone only as far as a limit.

A body is one stream in one coding, whole, and with nothing behind it: what comes after the first member or frame is read by
some and left by others.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import brotli
import zstandard

# What RFC 9659 lets a client use; without it a frame of some bytes may ask for gigabytes.
_ZSTD_WINDOW = 8 << 20
# The decoder has no limit on its output: so many bytes of input make at most 8 MiB.
_ZSTD_PIECE = 256


class Undecodable(ValueError):
    """The body is not what its coding says; the message says how, to stand after the coding's name."""


class TooLarge(ValueError):
    """Decoded, the body is larger than the limit."""


def decode(coding: str, body: bytes, limit: int) -> bytes:
    """The body, decoded. ``coding``: one of :data:`CODINGS`. Raises :class:`Undecodable` or :class:`TooLarge`.

    Never makes more than ``limit`` bytes and some megabytes, whatever the body is.
    """
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in CODINGS[coding](body, limit):
            size += len(piece)
            if size > limit:
                raise TooLarge
            pieces.append(piece)
    except (zlib.error, brotli.error, zstandard.ZstdError):
        raise Undecodable("is broken, or something stands behind its end") from None
    return b"".join(pieces)


def _zlib(window: int, body: bytes, limit: int) -> Iterator[bytes]:
    decoder = zlib.decompressobj(window)
    yield decoder.decompress(body, limit + 1)
    _check_end(decoder.eof, bool(decoder.unused_data))


def _gzip(body: bytes, limit: int) -> Iterator[bytes]:
    return _zlib(zlib.MAX_WBITS | 16, body, limit)


def _deflate(body: bytes, limit: int) -> Iterator[bytes]:
    return _zlib(zlib.MAX_WBITS, body, limit)


def _brotli(body: bytes, limit: int) -> Iterator[bytes]:
    decoder = brotli.Decompressor()
    yield decoder.process(body, output_buffer_limit=limit + 1)
    while not decoder.is_finished():
        _check_end(not decoder.can_accept_more_data(), False)
        yield decoder.process(b"", output_buffer_limit=limit + 1)


def _zstd(body: bytes, _: int) -> Iterator[bytes]:
    decoder = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
    place = 0
    while place < len(body) and not decoder.eof:
        yield decoder.decompress(body[place : place + _ZSTD_PIECE])
        place += _ZSTD_PIECE
    _check_end(decoder.eof, bool(decoder.unused_data) or place < len(body))


def _check_end(ended: bool, more: bool) -> None:
    if not ended:
        raise Undecodable("ends too early")
    if more:
        raise Undecodable("has something behind its end")


CODINGS: dict[str, Callable[[bytes, int], Iterator[bytes]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
