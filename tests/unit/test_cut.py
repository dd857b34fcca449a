"""Recorded streams, cut after every event: what the real SDKs make of what is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anthropic
import httpx2
import openai
import pytest

from pgbudget.wire.dialect import Dialect
from pgbudget.wire.messages import Messages
from pgbudget.wire.providers import provider
from pgbudget.wire.responses import Responses
from tests.support.processes import WIRE

MESSAGES = sorted(WIRE.glob("anthropic/messages_stream_*.sse"))
RESPONSES = sorted(path for path in WIRE.glob("*/responses_stream_*.sse") if "insufficient_quota" not in path.stem)


def cuts(dialect: Dialect, body: dict[str, object], recorded: Path) -> Iterator[bytes]:
    """What a client gets of a recorded stream that is cut, after one event more each time."""
    request = dialect.read({"model": "m", "stream": True, **body})
    meter = dialect.meter(request, provider("simulator"))
    passed = b""
    for piece in meter.pieces(recorded.read_bytes()):
        # What is metered here is not passed on any more.
        if meter.begun or meter.output_bytes:
            yield passed + meter.cut()
        if meter.finished or meter.failed:
            return
        passed += piece


EVENTS = {"content-type": "text/event-stream"}


def transport(content: bytes) -> httpx2.MockTransport:
    """Answers with this stream."""
    return httpx2.MockTransport(lambda _: httpx2.Response(200, headers=EVENTS, content=content))


@pytest.mark.parametrize("recorded", MESSAGES, ids=lambda path: path.stem)
def test_a_cut_message_ends_as_at_its_max_tokens(recorded: Path) -> None:
    contents = 0
    body = {"max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
    for content in cuts(Messages(), body, recorded):
        contents += 1
        with (
            httpx2.Client(transport=transport(content)) as http,
            anthropic.Anthropic(api_key="k", http_client=http, max_retries=0).messages.stream(
                model="m", max_tokens=100, messages=[{"role": "user", "content": "hi"}]
            ) as stream,
        ):
            kinds = [event.type for event in stream]
            message = stream.get_final_message()
        assert message.stop_reason == "max_tokens"
        assert message.usage.output_tokens >= 0
        assert kinds[-1] == "message_stop"
        assert kinds.count("content_block_start") == kinds.count("content_block_stop") == len(message.content)
    assert contents > 2


@pytest.mark.parametrize("recorded", RESPONSES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_cut_response_ends_as_an_incomplete_one(recorded: Path) -> None:
    contents = 0
    for content in cuts(Responses(), {"input": "hi"}, recorded):
        contents += 1
        with (
            httpx2.Client(transport=transport(content)) as http,
            openai.OpenAI(api_key="k", http_client=http, max_retries=0).responses.stream(model="m", input="hi") as stream,
        ):
            events = list(stream)
        end = events[-1]
        assert end.type == "response.incomplete"
        assert end.response.incomplete_details is not None
        assert end.response.incomplete_details.reason == "max_output_tokens"
        numbers = [event.sequence_number for event in events]
        # Some recordings have none.
        assert numbers in (list(range(len(numbers))), [None] * len(numbers))
        kinds: list[str] = [event.type for event in events]
        for begun in ("output_item", "content_part", "reasoning_summary_part"):
            assert kinds.count(f"response.{begun}.added") == kinds.count(f"response.{begun}.done"), begun
        said = "".join(str(event.delta) for event in events if event.type == "response.output_text.delta")
        assert end.response.output_text == said
    assert contents > 2
