"""Events that are not parsed again: whatever comes, what is metered and passed on is as if each were."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgbudget.wire import dialect as dialects
from pgbudget.wire.chat import Chat
from pgbudget.wire.completions import Completions
from pgbudget.wire.dialect import Dialect, ModelRequest
from pgbudget.wire.dialects import DIALECTS
from pgbudget.wire.messages import Messages
from pgbudget.wire.providers import provider
from pgbudget.wire.repeat import Repeat
from pgbudget.wire.responses import Responses
from tests.support.processes import WIRE
from tests.wire.replay import MANIFEST, PATHS, served


def metered(dialect: Dialect, pieces: list[bytes], usage_asked: bool, ways: str = "simulator") -> tuple[Any, ...]:
    """All that is to be told of a stream, after each piece."""
    request = ModelRequest({}, "m", 100_000, 7, {}, stream=True, usage_asked=usage_asked)
    meter = dialect.meter(request, provider(ways))
    seen = [(meter.stream(piece), meter.seen, meter.kinds(), meter.finished, meter.failed) for piece in pieces]
    return seen, meter.close(), meter.bound(), meter.note, meter.service_tier, meter.provider_cost_usd


def same(dialect: Dialect, pieces: list[bytes], ways: str = "simulator") -> None:
    for asked in (False, True):
        # Each by itself, all at once, and cut in two anywhere.
        for parts in (pieces, [b"".join(pieces)], [a + b for a, b in zip(halves(pieces, 0), halves(pieces, 1), strict=True)]):
            found = metered(dialect, parts, asked, ways)
            with mock.patch.object(dialects, "Repeat") as never:
                never.of.return_value = None
                assert found == metered(dialect, parts, asked, ways)


def halves(pieces: list[bytes], which: int) -> list[bytes]:
    """The ends of all pieces but the last, each with what begins the next one."""
    if which:
        return [piece[: len(piece) // 2] for piece in pieces] + [b""]
    return [b""] + [piece[len(piece) // 2 :] for piece in pieces]


@pytest.mark.parametrize("row", [r for r in MANIFEST if served(r) and r["stream"]], ids=lambda row: row["file"])
def test_every_recorded_stream_is_metered_the_same(row: dict[str, Any]) -> None:
    dialect = next(dialect for dialect in DIALECTS if dialect.path == PATHS[row["endpoint"]])
    raw = (WIRE / row["file"]).read_bytes()
    for end in (b"\n\n", b"\r\n\r\n"):
        events = [part + end for part in raw.split(end)]
        same(dialect, events, row["provider"])
        # Each again and again, as if it went on so.
        same(dialect, [event for event in events for _ in range(3)], row["provider"])
    same(dialect, [raw], row["provider"])


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {"id": "a", "model": "m", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None, **more}]}


def completion(text: str) -> dict[str, Any]:
    return {"id": "a", "choices": [{"index": 0, "text": text, "finish_reason": None}]}


def block(text: str, kind: str = "text") -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": f"{kind}_delta", kind: text}}


def part(text: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": 0, "delta": text}


_TEXTS = st.text(alphabet='ab "\\\né😀\x7f\u2028m', max_size=4)
_CHANGES = st.sampled_from(
    [
        {}, {"usage": None}, {"usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}},
        {"error": {"message": "a"}}, {"id": "b"}, {"service_tier": "flex"}, {"x_groq": {"usage": {"total_tokens": 5}}},
    ]
)  # fmt: skip


@settings(deadline=None)
@given(
    st.sampled_from([(Chat(), chat), (Completions(), completion), (Messages(), block), (Responses(), part)]),
    st.lists(st.tuples(_TEXTS, _CHANGES, st.booleans()), max_size=12),
    st.booleans(),
)
def test_whatever_changes_is_seen(way: tuple[Dialect, Any], events: list[Any], escaped: bool) -> None:
    dialect, make = way
    pieces = [
        b"data: %b\n\n" % json.dumps({**make(text), **change}, ensure_ascii=escaped, separators=(",", ":") if tight else None)
        .encode()
        for text, change, tight in events
    ]  # fmt: skip
    same(dialect, pieces)


@pytest.mark.parametrize(
    ("dialect", "events"),
    [
        # A text that is also another word of the event; that is written in escapes; that is in two places.
        (Chat(), [f'{{"id":"{name}","choices":[{{"delta":{{"content":"a"}}}}]}}' for name in ("a", "bcd")]),
        (Chat(), [rf'{{"id":"{name}","choices":[{{"delta":{{"content":"\u0061"}}}}]}}' for name in ("a", "bcd")]),
        (Chat(), ['{"choices":[{"delta":{"content":"a","reasoning":"a"}}]}'] * 3),
        (Chat(), ['{"choices":[{"delta":{"content":"ab"}},{"index":1,"delta":{"content":"cd"}}]}'] * 3),
        (Chat(), [f'{{"choices":[{{"delta":{{"content":"a","content":"{text}"}}}}]}}' for text in ("bc", "bcd")]),
        # What looks like the end of the text, and is of it.
        (Chat(), [f'{{"choices":[{{"delta":{{"content":"{text}"}}}}]}}' for text in ("ab", r'a\"}}]}{\"content\":\"b')]),
        # Tools, sound and thought count otherwise.
        (Chat(), ['{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"ab"}}]}}]}'] * 3),
        (Chat(), ['{"choices":[{"delta":{"content":"ab","tool_calls":[{"function":{"arguments":""}}]}}]}'] * 3),
        (Chat(), ['{"choices":[{"delta":{"content":"ab","audio":{"data":"AAAA"}}}]}'] * 3),
        (Messages(), [json.dumps({"type": "content_block_start", "content_block": {"type": "thinking", "thinking": ""}}),
                      *[json.dumps(block("abc", "thinking"))] * 3, *[json.dumps(block("ab"))] * 3]),
        (Messages(), [json.dumps(block("ab")), json.dumps({"type": "message_stop"}), *[json.dumps(block("abc"))] * 2]),
    ],
)  # fmt: skip
def test_what_only_looks_the_same_is_parsed(dialect: Dialect, events: list[str]) -> None:
    same(dialect, [f"data: {event}\n\n".encode() for event in events])


def test_most_events_of_a_stream_are_not_parsed() -> None:
    for dialect, make in ((Chat(), chat), (Completions(), completion), (Messages(), block)):
        request = ModelRequest({}, "m", 100_000, 7, {}, stream=True, usage_asked=False)
        meter = dialect.meter(request, provider("simulator"))
        with mock.patch.object(meter, "parse", wraps=meter.parse) as parse:
            for number in range(100):
                event = b"data: %b\n\n" % json.dumps({**make(f"word {number}"), "usage": None}).encode()
                passed = meter.stream(event)
                assert passed == (event if dialect.path == "/messages" else event.replace(b', "usage": null', b""))
        assert parse.call_count == 1
        assert meter.output_bytes == sum(len(f"word {number}") for number in range(100))


def test_where_a_piece_ends_is_no_matter() -> None:
    events = [b"data: %b\n\n" % json.dumps({**chat(f"word {number}"), "usage": None}).encode() for number in range(200)]
    request = ModelRequest({}, "m", 100_000, 7, {}, stream=True, usage_asked=False)
    told = set()
    raw = b"".join(events)
    for size in (1, 7, len(events[0]), len(events[0]) * 3 + 5, len(raw)):
        meter = Chat().meter(request, provider("simulator"))
        with mock.patch.object(meter, "parse", wraps=meter.parse) as parse:
            passed = b"".join(meter.stream(raw[place : place + size]) for place in range(0, len(raw), size))
        # Only what a piece cuts in two is put together and parsed.
        assert parse.call_count <= 1 + (len(raw) // size)
        told.add((passed, meter.close(), meter.seen))
    assert told == {(raw.replace(b', "usage": null', b""), b"", sum(len(f"word {number}") for number in range(200)))}


def test_a_piece_that_is_no_whole_event_is_none() -> None:
    repeat = Repeat.of(b'data: {"t":"ab"}\n\n', "ab", b"")
    assert repeat is None
    repeat = Repeat.of(b'data: {"t":"ab"}\n\n', "ab", b'data: {"t":"ab"}\n\n')
    assert repeat is not None
    sizes = {
        b'data: {"t":"abc"}\n\n': 3,
        b'data: {"t":"ab"}\n': 0,
        b'data: {"t":""}\n\n': 0,
        b'data: {"t":"a\n\ndata: b"}\n\n': 0,
        # The first of two.
        b'data: {"t":"a"}\n\ndata: {"t":"b"}\n': 1,
        b'data: {"t":"a"}\n\ndata: {"t":""}\n\ndata: {"t":"b"}\n\n': 1,
        b'data: {"t":"a"}\n\ndata: {"t":"\\n"}\n\ndata: {"t":"b"}\n\n': 1,
        b'data: {"t":"a"}\n\ndata: {"T":"b"}\n\n': 1,
        b'data: {"t":"a"}\n\ndata: {"t":"bc"}\n\n': 3,
        b'data: {"t":"\\"}\n\n': 0,
        b'data: {"t":"}\n\n': 0,
    }
    assert {raw: sum(map(len, repeat.texts(raw))) for raw in sizes} == sizes
