"""What the reader of ``/v1/responses`` makes of a request, and its meter of what comes back in parts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pgbudget.errors import InvalidRequest
from pgbudget.wire.bounds import UNBOUNDED
from pgbudget.wire.dialect import CannotTurnOff, Meter, ModelRequest
from pgbudget.wire.providers import provider
from pgbudget.wire.responses import TOOL_CALLS, Responses

SEARCH = {"type": "web_search"}
USER = {"role": "user", "content": "hi"}
FUNCTION = {"type": "function", "name": "f", "parameters": {}}


def read(**body: Any) -> ModelRequest:
    return Responses().read({"model": "t-mini", "input": "hi", **body})


def forwarded(request: ModelRequest, cap: int = 50) -> dict[str, Any]:
    return dict(json.loads(Responses().rewrite(request, provider("openai"), "up", cap)))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"input": None}, "input"),
        ({"input": {"role": "user"}}, "input"),
        ({"model": ""}, "model"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": "100"}, "max_output_tokens"),
        ({"max_output_tokens": True}, "max_output_tokens"),
        ({"stream": "yes"}, "stream"),
        ({"background": 1}, "background"),
        ({"background": True, "stream": True}, "background"),
        ({"service_tier": "scale"}, "service_tier"),
        ({"service_tier": 1}, "service_tier"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"context_management": [{"type": "compaction"}]}, "context_management"),
        ({"models": ["a", "b"]}, "models"),
        ({"tools": {}}, "tools"),
        ({"tools": [FUNCTION, "web_search"]}, "tools[1]"),
        ({"tools": [FUNCTION, {"type": "mcp", "server_url": "https://example.com"}]}, "tools[1].type"),
        ({"tools": [{"type": "image_generation"}]}, "tools[0].type"),
        ({"tools": [{"type": "computer_use_preview"}]}, "tools[0].type"),
        ({"tools": [{"type": "x_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "web_searcher"}]}, "tools[0].type"),
        ({"tools": [SEARCH], "max_tool_calls": 0}, "max_tool_calls"),
        ({"tools": [SEARCH], "max_tool_calls": 101}, "max_tool_calls"),
        ({"api_key": "sk-x"}, "api_key"),
    ],
)
def test_what_is_not_accepted_is_named(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(**body)
    assert refused.value.param == field


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, None),
        ({"tools": [FUNCTION, {"type": "custom", "name": "c"}]}, None),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"previous_response_id": "resp_1", "input": None}, "previous_response_id"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        ({"input": [USER, {"id": "msg_1"}]}, "input[1]"),
        ({"input": [USER, {"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]}, "input[1].content[0]"),
        ({"tools": [FUNCTION, SEARCH]}, "tools[1]"),
    ],
)
def test_input_that_the_request_does_not_show_has_no_bound(body: dict[str, Any], field: str | None) -> None:
    request = read(**body)
    assert request.unbounded == field
    assert (request.input_tokens == UNBOUNDED) == (field is not None)


def test_instructions_tools_and_schemas_are_input() -> None:
    bulk = "x" * 5000
    schema = {"type": "json_schema", "name": "s", "schema": {"description": bulk}}
    for body in (
        {"instructions": bulk},
        {"tools": [{**FUNCTION, "description": bulk}]},
        {"text": {"format": schema}},
        {"input": [{"type": "function_call", "name": "f", "arguments": bulk, "call_id": "c"}]},
        {"input": [{"type": "function_call_output", "output": bulk, "call_id": "c"}]},
    ):
        assert read(**body).input_tokens >= 5000


def test_an_image_is_not_counted_as_text() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 2_549_000}
    for item in (
        {"role": "user", "content": [{"type": "input_text", "text": "what is this"}, image]},
        {"type": "function_call_output", "call_id": "c", "output": [image]},
    ):
        request = read(input=[item])
        assert 1000 <= request.input_tokens <= 16_384
        assert request.features == ("image_in",)
        assert read(input=[item] * 50).input_tokens >= 50_000


@pytest.mark.parametrize(
    ("kind", "feature"),
    [
        ("web_search", "web_search"),
        ("web_search_2025_08_26", "web_search"),
        ("web_search_preview", "web_search"),
        ("web_search_preview_2025_03_11", "web_search"),
        ("file_search", "file_search"),
        ("code_interpreter", "code_execution"),
    ],
)
def test_a_tool_with_a_fee_is_limited_and_held_as_often(kind: str, feature: str) -> None:
    for most, uses in ((None, TOOL_CALLS), (..., TOOL_CALLS), (3, 3)):
        request = read(tools=[FUNCTION, {"type": kind}], **({} if most is ... else {"max_tool_calls": most}))
        assert (request.features, request.uses) == ((feature,), {feature: uses})
        assert forwarded(request)["max_tool_calls"] == uses
    assert "max_tool_calls" not in forwarded(read(tools=[FUNCTION]))


@pytest.mark.parametrize(
    ("tier", "variant"),
    [(None, None), ("auto", "standard"), ("default", "standard"), ("flex", "flex"), ("priority", "priority")],
)
def test_a_tier_that_is_asked_for_is_priced_as_such(tier: str | None, variant: str | None) -> None:
    assert read(service_tier=tier).service_tier == variant


def test_the_body_is_forwarded_with_the_routed_model_and_the_priced_cap() -> None:
    request = read(max_output_tokens=100, temperature=0.5, store=False, include=["reasoning.encrypted_content"])
    assert forwarded(request, 40) == {**request.body, "model": "up", "max_output_tokens": 40}
    # A cap of another API lowers nothing.
    assert read(max_tokens=1).cap is None


def test_a_feature_that_is_off_is_taken_out_of_the_tools() -> None:
    request = read(tools=[FUNCTION, SEARCH])
    granted = Responses().as_granted(request, "up", {"features_off": ["web_search"]})
    assert (granted.body["tools"], granted.features) == ([FUNCTION], ())
    assert request.body["tools"] == [FUNCTION, SEARCH]
    with pytest.raises(CannotTurnOff):
        Responses().as_granted(read(tools=[SEARCH], tool_choice={"type": "web_search"}), "up", {"features_off": ["web_search"]})


def meter_of(*events: dict[str, Any]) -> Meter:
    meter = Responses().meter(read(), provider("openai"))
    for event in events:
        meter.stream(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode()))
    meter.close()
    return meter


ITEM = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]}
DELTAS = [{"type": "response.output_text.delta", "output_index": 0, "delta": part} for part in ("he", "llo")]
DONE = {"type": "response.output_text.done", "output_index": 0, "text": "hello"}
PART_DONE = {"type": "response.content_part.done", "output_index": 0, "part": ITEM["content"]}
ITEM_DONE = {"type": "response.output_item.done", "output_index": 0, "item": ITEM}
COMPLETED = {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [ITEM], "usage": None}}


@pytest.mark.parametrize(
    "events",
    [
        [*DELTAS],
        [*DELTAS, DONE],
        [*DELTAS, DONE, PART_DONE, ITEM_DONE],
        [*DELTAS, DONE, PART_DONE, ITEM_DONE, COMPLETED],
        [DELTAS[0], DONE],
        [DONE],
        [DONE, ITEM_DONE],
        [ITEM_DONE],
        [ITEM_DONE, COMPLETED],
        [COMPLETED],
        [DELTAS[0], COMPLETED],
    ],
)
def test_text_is_counted_once_however_often_it_comes(events: list[dict[str, Any]]) -> None:
    assert meter_of(*events).output_bytes == len("hello")


def test_items_side_by_side_are_counted_each() -> None:
    def delta(kind: str, place: int, text: str) -> dict[str, Any]:
        return {"type": f"response.{kind}.delta", "output_index": place, "delta": text}

    meter = meter_of(
        delta("reasoning_summary_text", 0, "a" * 10),
        delta("function_call_arguments", 1, "b" * 100),
        delta("refusal", 2, "c" * 1000),
        delta("function_call_arguments", 1, "d" * 10_000),
        {"type": "response.custom_tool_call_input.done", "output_index": 3, "input": "e" * 100_000},
    )
    assert meter.output_bytes == 10 + 100 + 1000 + 10_000 + 100_000


def test_an_item_that_shows_nothing_is_output_all_the_same() -> None:
    meter = meter_of({"type": "response.output_item.added", "output_index": 0, "item": {"id": "r", "type": "reasoning"}})
    assert (meter.output_bytes, meter.begun) == (0, True)


def test_what_is_found_is_not_what_was_made() -> None:
    search = {"id": "w", "type": "web_search_call", "action": {"type": "search", "query": "q", "sources": ["x" * 1000]}}
    found = {"id": "f", "type": "file_search_call", "queries": ["q"], "results": [{"text": "x" * 1000}]}
    meter = meter_of(
        *({"type": "response.output_item.done", "output_index": n, "item": i} for n, i in enumerate((search, found)))
    )
    assert meter.output_bytes < 100
    assert meter.bound()["web_search"] == meter.bound()["file_search"] == 1


def test_a_page_that_is_opened_has_no_fee_and_a_container_one() -> None:
    def item(number: int, **members: Any) -> dict[str, Any]:
        return {"id": f"i{number}", **members}

    output = [
        item(1, type="web_search_call", action={"type": "search", "query": "q"}),
        item(2, type="web_search_call", action={"type": "open_page", "url": "u"}),
        item(3, type="web_search_call", action={"type": "find_in_page", "pattern": "p"}),
        item(4, type="code_interpreter_call", container_id="c1", code="1"),
        item(5, type="code_interpreter_call", container_id="c1", code="2"),
        item(6, type="code_interpreter_call", container_id="c2", code="3"),
    ]
    events = [{"type": "response.output_item.done", "output_index": n, "item": i} for n, i in enumerate(output)]
    response = {"id": "r", "status": "completed", "output": output, "usage": {"input_tokens": 5, "output_tokens": 7}}
    meter = meter_of(*events, {"type": "response.completed", "response": response})
    assert meter.kinds() == {"input": 5, "output": 7, "web_search": 1, "code_execution": 2}
