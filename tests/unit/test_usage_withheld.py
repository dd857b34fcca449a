"""Usage that a client did not ask for is taken out of its stream, and nothing else is changed."""

from __future__ import annotations

import json

import pytest

from pgbudget.wire.chat import Chat
from pgbudget.wire.completions import Completions
from pgbudget.wire.dialect import Dialect
from pgbudget.wire.providers import provider

CHAT = {"model": "t-mini", "stream": True, "messages": []}
COMPLETIONS = {"model": "t-mini", "stream": True, "prompt": "word"}


@pytest.mark.parametrize(("dialect", "body"), [(Chat(), CHAT), (Completions(), COMPLETIONS)], ids=["chat", "completions"])
@pytest.mark.parametrize(
    "chunk",
    [
        '{"id":"a","choices":[{"index":0,"delta":{"content":"w"}}],"usage":null}',
        '{ "id" : "a" , "usage" : null , "choices": [] }',
        '{"usage":null,"id":"a","choices":[]}',
        '{"usage":null}',
        '{"id":"a","choices":[{"delta":{"content":",\\"usage\\":null"}}],"usage":null}',
        '{"id":"a","choices":[{"delta":{"content":"usage"}}],"usage":null}',
        '{"id":"a","x":{"id":1,"usage":null},"choices":[],"usage":null}',
        '{"id":"a","x":{"id":1,"usage":null},"choices":[],"us\\u0061ge":null}',
        '{"id":"a","x":{"id":1,"usage":{"n":1}},"choices":[],"usage":null}',
        '{"id":"a","choices":[],"usage":null,"usage":null}',
        '{"id":"a","choices":[{"text":"w"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}',
    ],
)
@pytest.mark.parametrize("split", [1, 7, 10_000])
def test_only_usage_goes(dialect: Dialect, body: dict[str, object], chunk: str, split: int) -> None:
    meter = dialect.meter(dialect.read(body), provider("openai"))
    wire = f"data: {chunk}\n\ndata: [DONE]\n\n".encode()
    out = b"".join(meter.stream(wire[i : i + split]) for i in range(0, len(wire), split)) + meter.close()
    first, done, _ = out.split(b"\n\n")
    expected = json.loads(chunk)
    del expected["usage"]
    assert json.loads(first.removeprefix(b"data: ")) == expected
    assert done == b"data: [DONE]"


def test_the_rest_stays_as_it_came() -> None:
    meter = Chat().meter(Chat().read(CHAT), provider("openai"))
    event = b'id: 7\r\ndata: {"id": "\xc3\xa9",  "t": 1.50, "choices": []%s}\r\n\r\n'
    assert meter.stream(event % b', "usage": null') == event % b""
