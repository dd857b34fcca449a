"""Calls of tools in an answer: each counts once, with what is billed around it, however its pieces are named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pgbudget.wire.chat import Chat
from pgbudget.wire.dialect import TOOL_CALL_TOKENS, Dialect, Meter, ModelRequest
from pgbudget.wire.messages import Messages
from pgbudget.wire.providers import provider
from pgbudget.wire.responses import Responses


def meter_of(dialect: Dialect, **more: Any) -> Meter:
    return dialect.meter(ModelRequest({}, "m", 100, 7, {}, **more), provider("simulator"))


def streamed(dialect: Dialect, *events: dict[str, Any]) -> Meter:
    meter = meter_of(dialect, stream=True)
    for event in events:
        meter.stream(b"data: %b\n\n" % json.dumps(event).encode())
    return meter


def chat(*calls: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": {"tool_calls": list(calls)}}]}


def piece(text: str, **names: Any) -> dict[str, Any]:
    return {**names, "type": "function", "function": {"arguments": text}}


ITEM = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "", "arguments": ""}
TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "abcd"}}


@pytest.mark.parametrize(
    ("dialect", "events", "calls"),
    [
        # OpenAI: what goes on has no id.
        (Chat(), [chat(piece("ab", id="a", index=0)), chat(piece("cd", index=0))], 1),
        (Chat(), [chat(piece("ab", id="a", index=0)), chat(piece("cd", id="b", index=1))], 2),
        (Chat(), [chat(piece("ab", id="a", index=0)), chat(piece("cd", id="a", index=0), index=1)], 2),
        # Others name it in every piece, or have every call in one place.
        (Chat(), [chat(piece("ab", id="a", index=0)), chat(piece("cd", id="a", index=0))], 1),
        (Chat(), [chat(piece("ab", id="a", index=0)), chat(piece("cd", id="b", index=0))], 2),
        (Chat(), [chat(piece("ab")), chat(piece("cd"))], 2),
        (Chat(), [chat(piece("ab", id=["a"], index={})), chat(None, 1, piece("cd", index=1))], 2),  # type: ignore[arg-type]
        (Chat(), [{"choices": [{"delta": {"function_call": {"arguments": t}}}]} for t in ("ab", "cd")], 1),
        (Chat(), [{"choices": [{"delta": {"content": "abcd", "tool_calls": None}}]}], 0),
        (Messages(), [{"type": "content_block_start", "content_block": {"type": "tool_use", "input": {}}}, TEXT], 1),
        (Messages(), [{"type": "content_block_start", "content_block": {"type": "server_tool_use"}}, TEXT], 1),
        (Messages(), [{"type": "content_block_start", "content_block": {"type": "text", "text": ""}}, TEXT], 0),
        (
            Responses(),
            [
                {"type": "response.output_item.added", "output_index": 0, "item": ITEM},
                {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "abcd"},
                {"type": "response.output_item.done", "output_index": 0, "item": {**ITEM, "arguments": "abcd"}},
            ],
            1,
        ),
        (Responses(), [{"type": "response.output_text.delta", "output_index": 0, "delta": "abcd"}], 0),
    ],
)
def test_a_call_counts_once(dialect: Dialect, events: list[dict[str, Any]], calls: int) -> None:
    meter = streamed(dialect, *events)
    assert (meter.output_bytes, meter.tool_calls) == (4, calls)
    assert meter.bound() == {"input": 7, "output": 4 + calls * TOOL_CALL_TOKENS}


def test_of_a_whole_answer_too() -> None:
    calls = [{"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}} for name in "ab"]
    meter = meter_of(Chat())
    assert meter.whole(json.dumps({"choices": [{"index": 0, "message": {"content": None, "tool_calls": calls}}]}).encode())
    assert meter.bound()["output"] == 2 * (3 + TOOL_CALL_TOKENS)
    block = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": "b"}}
    meter = meter_of(Messages())
    assert meter.whole(json.dumps({"type": "message", "content": [block, block]}).encode())
    assert meter.bound()["output"] == 2 * (2 + TOOL_CALL_TOKENS)
