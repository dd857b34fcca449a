"""Bodies in a coding: whole, alone and no larger than the limit, or refused with the reason."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import brotli
import pytest
import zstandard

from pgbudget.errors import BudgetError
from pgbudget.http import Headers, read_body
from pgbudget.wire.content_coding import CODINGS, TooLarge, Undecodable, decode

ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}
BODY = bytes(range(256)) * 300
EACH = pytest.mark.parametrize("coding", CODINGS)


def test_each_coding_is_tested() -> None:
    assert ENCODERS.keys() == CODINGS.keys()


@EACH
@pytest.mark.parametrize("body", [b"", b"{}", BODY, b"x" * 1_000_000], ids=["empty", "short", "long", "dense"])
def test_a_body_comes_out_as_it_went_in(coding: str, body: bytes) -> None:
    encoded = ENCODERS[coding](body)
    assert decode(coding, encoded, 1 << 20) == body
    assert decode(coding, encoded, len(body)) == body
    if body:
        with pytest.raises(TooLarge):
            decode(coding, encoded, len(body) - 1)


@EACH
def test_every_cut_is_refused(coding: str) -> None:
    encoded = ENCODERS[coding](b"a body " * 5 + bytes(range(40)))
    for end in range(len(encoded)):
        with pytest.raises(Undecodable, match="ends too early"):
            decode(coding, encoded[:end], 1 << 20)


@EACH
@pytest.mark.parametrize("size", [0, 10, 100_000])
def test_nothing_may_stand_behind_the_end(coding: str, size: int) -> None:
    encoded = ENCODERS[coding](bytes(range(250)) * (size // 250))
    for rest in (b"\0", b"x", b"\r\n", b"\0" * 1000, encoded, ENCODERS[coding](b"")):
        with pytest.raises(Undecodable, match="behind its end"):
            decode(coding, encoded + rest, 1 << 20)


@EACH
def test_other_bytes_are_refused(coding: str) -> None:
    for other in ("gzip", "deflate", "zstd", "br"):
        if other != coding.removeprefix("x-"):
            with pytest.raises((Undecodable, TooLarge)):
                decode(coding, ENCODERS[other](b'{"model": "t-mini"}'), 1 << 20)
    with pytest.raises(Undecodable):
        decode(coding, b'{"model": "t-mini", "messages": []}', 1 << 20)


def _repeated(encode: Any, finish: Any) -> bytes:
    """64 MiB of zeros."""
    block = b"\0" * (1 << 20)
    return b"".join(encode(block) for _ in range(64)) + bytes(finish())


def _bomb(coding: str) -> bytes:
    if coding == "br":
        coder = brotli.Compressor(quality=5)
        return _repeated(coder.process, coder.finish)
    if coding == "zstd":
        frame = zstandard.ZstdCompressor(level=1).compressobj()
        return _repeated(frame.compress, frame.flush)
    stream = zlib.compressobj(9, wbits=zlib.MAX_WBITS | (0 if coding == "deflate" else 16))
    return _repeated(stream.compress, stream.flush)


@EACH
def test_a_bomb_is_left_when_the_limit_is_reached(coding: str) -> None:
    bomb = _bomb(coding)
    assert len(bomb) < 1 << 17
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            decode(coding, bomb, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_frame_may_not_ask_for_more_memory_than_browsers_give() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    frame = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(Undecodable):
        decode("zstd", frame.compress(b"{}") + frame.flush(), 1 << 20)


def test_a_size_that_a_frame_states_is_not_believed() -> None:
    frame = zstandard.ZstdCompressor().compress(b"x" * 100_000)
    # One segment, with its size in four bytes: 4 GB now.
    assert frame[4] == 0xA0
    with pytest.raises((Undecodable, TooLarge)):
        decode("zstd", frame[:5] + b"\xff" * 4 + frame[9:], 1 << 20)


def read(body: bytes, headers: dict[str, str], limit: int = 1 << 20) -> bytes | BudgetError:
    """What ``read_body`` makes of a body that comes in two pieces."""
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": body[: len(body) // 2], "more_body": True},
        {"type": "http.request", "body": body[len(body) // 2 :]},
    ]

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    given: Headers = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    try:
        return asyncio.run(read_body(given, receive, limit, 10))
    except BudgetError as error:
        return error


@EACH
def test_a_coded_request_is_read_or_refused_by_its_header(coding: str) -> None:
    encoded = ENCODERS[coding](b"{}")

    def read_as(content_encoding: str, body: bytes = encoded, limit: int = 1 << 20) -> bytes | BudgetError:
        return read(body, {"content-type": "application/json", "content-encoding": content_encoding}, limit)

    assert read_as(coding) == read_as(f" {coding.upper()} ") == b"{}"
    for answer, status, says in (
        (read_as(coding, encoded[:-1]), 400, "ends too early"),
        (read_as(coding, encoded + b"x"), 400, "behind its end"),
        (read_as(coding, ENCODERS[coding](b" " * 100), 99), 413, "larger than 99 bytes when it is decoded"),
        (read_as(f"{coding}, br"), 415, "one of gzip, deflate, br and zstd"),
        (read_as(f"{coding}, {coding}"), 415, "one of"),
        (read_as(f"identity, {coding}"), 415, "one of"),
        (read_as("compress"), 415, "one of"),
    ):
        assert isinstance(answer, BudgetError), says
        assert (answer.status, says in answer.message) == (status, True), answer.message


@pytest.mark.parametrize(
    ("content_type", "accepted"),
    [
        ("application/json", True),
        ("Application/JSON; charset=UTF-8", True),
        ('application/json;charset="utf-8"', True),
        ("application/json; charset = utf8; x=y", True),
        ("application/json; charset=latin1", False),
        ("application/json; charset=utf-16", False),
        ("application/json; charset=utf-8; charset=utf-7", False),
        ("application/json; charset=", False),
        ("application/json, text/plain", False),
        ("application/jsonx", False),
        ("application/x-www-form-urlencoded", False),
        ("", False),
    ],
)
def test_only_json_in_utf_8_is_read(content_type: str, accepted: bool) -> None:
    found = read(b"{}", {"content-type": content_type})
    if accepted:
        assert found == b"{}"
    else:
        assert isinstance(found, BudgetError)
        assert (found.status, found.param) == (415, "content-type")


def test_a_length_in_odd_digits_is_no_fault_of_ours() -> None:
    assert read(b"{}", {"content-type": "application/json", "content-length": "\xb2"}) == b"{}"


def test_streams_go_on_while_a_large_body_is_decoded() -> None:
    encoded = gzip.compress(bytes(range(256)) * (1 << 17), 1)

    async def turns_of_others() -> int:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": encoded}

        headers = [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")]
        reading = asyncio.create_task(read_body(headers, receive, 32 << 20, 10))
        turns = 0
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
        assert len(await reading) == 32 << 20
        return turns

    assert asyncio.run(turns_of_others()) > 50
