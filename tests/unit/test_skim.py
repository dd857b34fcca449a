"""What is left of large JSON: all that is small, in its place; and the sizes of what was cut out."""

from __future__ import annotations

import asyncio
import json
import random
import time
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgbudget.wire import skim
from pgbudget.wire.chat import Chat
from pgbudget.wire.completions import Completions
from pgbudget.wire.dialect import Dialect, Meter, ModelRequest, text_bytes
from pgbudget.wire.embeddings import Embeddings
from pgbudget.wire.messages import Messages
from pgbudget.wire.providers import provider
from pgbudget.wire.responses import Responses
from pgbudget.wire.skim import LARGE, Skim, skimmed

LONG = 5_000


def left(text: bytes, cuts: list[int]) -> Any:
    """What a skim leaves of JSON that comes in pieces."""
    one = Skim()
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    for begin, end in pairwise(places):
        one.feed(text[begin:end])
    return json.loads(one.end())


def small(value: Any) -> Any:
    """A value as it should be left: of long texts their sizes, of lists what is no number."""
    if isinstance(value, str):
        size = len(json.dumps(value, ensure_ascii=False).encode()) - 2
        return {"cut": size} if size + 2 > skim._LONG else value
    return _each(small, value)


def told(value: Any) -> Any:
    """What is left, as :func:`small` has it."""
    if isinstance(value, str) and value.startswith(skim._MARK):
        return {"cut": text_bytes(value)}
    return _each(told, value)


def _each(see: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, dict):
        return {name: see(item) for name, item in value.items()}
    return [see(item) for item in value if type(item) not in (int, float)] if isinstance(value, list) else value


_TEXTS = st.one_of(
    st.text(alphabet='a"\\\n é,:[]{}0', max_size=30),
    st.builds(lambda unit, times: unit * times, st.sampled_from(["x", "\\", '"', "é", '\\"', "1,"]), st.just(LONG)),
)
_NUMBERS = st.lists(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False)), min_size=2, max_size=200)
_VALUES = st.recursive(
    st.one_of(_TEXTS, st.integers(), st.none(), st.booleans(), _NUMBERS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=12,
)


@given(_VALUES, st.lists(st.integers(0, 30_000), max_size=30), st.sampled_from([None, 1, 40]))
def test_all_that_is_small_is_left_in_its_place(value: Any, cuts: list[int], indent: int | None) -> None:
    text = json.dumps({"v": value, "usage": {"output_tokens": 7}}, ensure_ascii=False, indent=indent).encode()
    found = left(text, cuts)
    assert found["usage"] == {"output_tokens": 7}
    assert told(found) == small({"v": value, "usage": {"output_tokens": 7}})


def test_every_two_way_split_leaves_the_same() -> None:
    value = {"t": 'a\\"' * 600, "n": [0.5, -1e-7] * 60, "usage": {"n": 5, "pad": None}}
    text = json.dumps(value).replace('"pad": null', '"pad":' + " " * 200 + "null").encode()
    expected = left(text, [])
    assert expected["usage"] == {"n": 5, "pad": None}
    assert len(json.dumps(expected)) < 200
    for place in range(len(text)):
        assert told(left(text, [place])) == told(expected), place


def test_memory_is_bounded_whatever_comes() -> None:
    for piece in (b"x" * 1000, b'"' + b"x" * 999, b"[" * 1000, b"1," * 500, b'{"a":' * 200, b"\\" * 999):
        one = Skim()
        tracemalloc.start()
        for _ in range(2_500):
            one.feed(piece)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 5_000_000, piece[:10]
        assert len(one.end()) <= 1 << 20


# Usage in what is large


def streamed(dialect: Dialect, raw: bytes, piece: int = 16 << 10) -> Meter:
    request = ModelRequest({}, "m", 100_000, 7, {}, stream=True)
    meter = dialect.meter(request, provider("simulator"))
    out = b"".join(meter.stream(raw[place : place + piece]) for place in range(0, len(raw), piece)) + meter.close()
    assert out == raw
    return meter


def events(*data: Any, named: bool = True) -> bytes:
    return b"".join(
        (b"event: %b\n" % d["type"].encode() if named else b"") + b"data: " + json.dumps(d).encode() + b"\n\n" for d in data
    )


MEGABYTES = "a long output\n" * 300_000
USAGE = {"input_tokens": 11, "output_tokens": 900_000, "total_tokens": 900_011}


def response(text: str) -> dict[str, Any]:
    """The last event of a response that was long: it repeats all of it, and its usage comes behind that."""
    message = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": text, "annotations": []}]}
    schema = {"type": "object", "properties": {"usage": {"type": "string", "description": "d" * 2_000}}}
    return {
        "type": "response.completed",
        "sequence_number": 9,
        "response": {
            "id": "resp_1", "object": "response", "status": "completed", "model": "m-1", "service_tier": "flex",
            "instructions": '"usage":{"output_tokens":1}' * 100, "output": [message],
            "tools": [{"type": "function", "name": "usage", "parameters": schema}], "usage": USAGE, "metadata": {},
        },
    }  # fmt: skip


@pytest.mark.parametrize("piece", [1 << 14, 1 << 20, 999_983])
def test_a_response_that_repeats_megabytes_is_metered_by_its_usage(piece: int) -> None:
    delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "abc"}
    meter = streamed(Responses(), events(delta, response(MEGABYTES)), piece)
    assert meter.kinds() == {"input": 11, "output": 900_000}
    assert (meter.finished, meter.service_tier, meter.note["response_model"]) == (True, "flex", "m-1")
    # The text is not counted twice, nor is its event.
    assert meter.output_bytes == len(json.dumps(MEGABYTES)) - 2


LETTERS = "p" * 3_000_000
FOUND = {"type": "web_search_tool_result", "content": [{"encrypted_content": LETTERS}]}


def choice(delta: Any, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, **more}]}


def block(delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": delta}


ARGUMENTS = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": LETTERS}


@pytest.mark.parametrize(
    ("dialect", "raw", "seen"),
    [
        (Chat(), events(choice({"content": MEGABYTES}), named=False), len(json.dumps(MEGABYTES)) - 2),
        # What is not text is none, however large it is.
        (Chat(), events(choice({"content": "ab"}, logprobs={"content": LETTERS}), named=False), 2),
        (Messages(), events(block({"type": "input_json_delta", "partial_json": LETTERS})), 3_000_000),
        (Messages(), events({"type": "content_block_start", "index": 0, "content_block": FOUND}), 0),
        (Responses(), events(ARGUMENTS), 3_000_000),
        # Nothing but structure: what it holds is not read, so all of it counts.
        (Chat(), b"data: " + b'{"a":' * 400_000 + b"\n\n", 2_000_008),
        # Broken off in its middle.
        (Chat(), events(choice({"content": LETTERS}), named=False)[:3_000_049], 3_000_049),
    ],
    ids=["text", "logprobs", "tool", "found", "arguments", "structure", "broken"],
)
def test_a_large_event_counts_as_a_small_one_does(dialect: Dialect, raw: bytes, seen: int) -> None:
    assert streamed(dialect, raw).bound()["output"] == seen


def test_while_a_large_event_comes_all_of_it_counts() -> None:
    meter = Responses().meter(ModelRequest({}, "m", 100_000, 7, {}, stream=True), provider("simulator"))
    raw = events(response(MEGABYTES))
    meter.stream(raw[:-100])
    assert meter.seen >= len(raw) - 100
    meter.stream(raw[-100:])
    assert meter.kinds() == {"input": 11, "output": 900_000}


def test_events_after_a_large_one_are_read_as_ever() -> None:
    end = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}}
    large = {"choices": [{"index": 0, "delta": {"content": "x" * LARGE * 2}, "finish_reason": "stop"}]}
    for newline in (b"\n", b"\r\n", b"\r"):
        raw = events(large, large, end, named=False).replace(b"\n", newline)
        meter = streamed(Chat(), raw, 10_007)
        assert (meter.finished, meter.kinds()) == (True, {"input": 5, "output": 6})
        assert meter.output_bytes == LARGE * 4


# Others have their turn


async def _stall(work: Callable[[], Any]) -> float:
    """The most of a processor, in seconds, that went by between two turns of another task."""
    longest, last = 0.0, time.thread_time()
    done = False

    async def tick() -> None:
        nonlocal longest, last
        while not done:
            now = time.thread_time()
            longest, last = max(longest, now - last), now
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    await work()
    done = True
    await ticking
    return longest


def _vectors() -> bytes:
    numbers = ",".join(str(random.uniform(-1, 1)) for _ in range(3_000))
    data = ",".join(f'{{"object":"embedding","index":{index},"embedding":[{numbers}]}}' for index in range(400))
    return f'{{"object":"list","data":[{data}],"usage":{{"prompt_tokens":5,"total_tokens":5}}}}'.encode()


@pytest.mark.parametrize("said", ["999999999999999", "0"])
def test_no_text_can_pass_for_one_that_was_cut_out(said: str) -> None:
    text = f"\ufffe\uffff{said}"
    assert text_bytes(text) == len(text.encode())
    # As a prompt that is repeated it would be taken for the whole output.
    request = Completions().read({"model": "m", "prompt": text, "max_tokens": 9, "echo": True, "stream": True})
    meter = Completions().meter(request, provider("simulator"))
    for _ in range(9):
        meter.stream(events({"choices": [{"index": 0, "text": "a word"}]}, named=False))
    assert meter.output_bytes == 9 * len("a word") - len(text.encode())


def test_a_large_answer_keeps_no_other_stream_waiting() -> None:
    body = _vectors()
    meter = Embeddings().meter(ModelRequest({}, "m", 0, 7, {}), provider("simulator"))
    begun = time.thread_time()
    meter.parse(body)
    parsing = time.thread_time() - begun

    async def work() -> None:
        assert meter.whole(await skimmed([body]))

    stall = asyncio.run(_stall(work))
    assert meter.kinds() == {"input": 5, "output": 0}
    assert len(body) > 20_000_000
    assert stall < parsing / 5


@pytest.mark.parametrize("content", [MEGABYTES * 4, ["word", {"logprob": -0.5}] * 80_000], ids=["text", "structure"])
def test_a_large_event_keeps_no_other_stream_waiting(content: Any) -> None:
    raw = events({"choices": [{"index": 0, "delta": {"content": content}}]}, named=False)
    meter = Chat().meter(ModelRequest({}, "m", 100_000, 7, {}, stream=True), provider("simulator"))

    async def work() -> None:
        for place in range(0, len(raw), 16 << 10):
            meter.stream(raw[place : place + (16 << 10)])
            await asyncio.sleep(0)

    assert asyncio.run(_stall(work)) < 0.1
    assert meter.output_bytes >= 320_000
