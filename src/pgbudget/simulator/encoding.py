"""Content codings of answers: each write is flushed, so that what was sent can be read."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, Protocol

import brotli
import zstandard


class Encoder(Protocol):
    """One answer in a coding."""

    def write(self, data: bytes) -> bytes:
        """What is sent for these bytes."""

    def end(self) -> bytes:
        """What is sent at the end."""


class _Zlib:
    def __init__(self, window: int) -> None:
        self._coder = zlib.compressobj(wbits=window)

    def write(self, data: bytes) -> bytes:
        return self._coder.compress(data) + self._coder.flush(zlib.Z_SYNC_FLUSH)

    def end(self) -> bytes:
        return self._coder.flush()


class _Brotli:
    def __init__(self) -> None:
        self._coder = brotli.Compressor()

    def write(self, data: bytes) -> bytes:
        return bytes(self._coder.process(data) + self._coder.flush())

    def end(self) -> bytes:
        return bytes(self._coder.finish())


class _Zstd:
    def __init__(self) -> None:
        self._coder = zstandard.ZstdCompressor().compressobj()

    def write(self, data: bytes) -> bytes:
        return self._coder.compress(data) + self._coder.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)

    def end(self) -> bytes:
        return self._coder.flush()


ENCODERS: Final[dict[str, Callable[[], Encoder]]] = {
    "gzip": lambda: _Zlib(zlib.MAX_WBITS | 16),
    "deflate": lambda: _Zlib(zlib.MAX_WBITS),
    "br": _Brotli,
    "zstd": _Zstd,
}
