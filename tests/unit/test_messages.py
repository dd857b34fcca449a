"""The dialect of messages by itself: what a request is read as, what is forwarded, what an answer is metered as."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgbudget.errors import BudgetError, InvalidRequest, Refused, UpstreamFailed
from pgbudget.wire.anthropic_usage import charge_kinds
from pgbudget.wire.bounds import IMAGE_TOKENS, UNBOUNDED
from pgbudget.wire.dialect import CannotTurnOff, ModelRequest
from pgbudget.wire.messages import CountTokens, Messages, MessagesMeter, error_body
from pgbudget.wire.providers import provider

ANTHROPIC = provider("anthropic")
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
MINE = {"name": "f", "input_schema": {"type": "object"}}


def body(content: Any = "hi", **more: Any) -> dict[str, Any]:
    return {"model": "c-son", "max_tokens": 100, "messages": [{"role": "user", "content": content}], **more}


def read(content: Any = "hi", **more: Any) -> ModelRequest:
    return Messages().read(body(content, **more))


def forwarded(request: ModelRequest, cap: int) -> dict[str, Any]:
    return dict(json.loads(Messages().rewrite(request, ANTHROPIC, "claude-x", cap)))


def test_a_plain_request() -> None:
    request = read(stream=True, system="be brief", metadata={"user_id": "u"}, tools=[MINE])
    assert (request.model, request.cap, request.choices, request.stream) == ("c-son", 100, 1, True)
    assert (request.features, request.uses, request.service_tier) == ((), {}, None)
    assert request.input_tokens > len(json.dumps(request.body, separators=(",", ":")))
    assert forwarded(request, 77) == {**request.body, "model": "claude-x", "max_tokens": 77}


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        *(({"max_tokens": value}, "max_tokens") for value in list[Any]((0, -1, 1.5, "100", True, [], 1e30, 2**63))),
        ({"messages": "hi"}, "messages"),
        ({"model": ""}, "model"),
        ({"stream": 1}, "stream"),
        ({"api_key": "sk-1"}, "api_key"),
        ({"base_url": "http://x"}, "base_url"),
        ({"service_tier": "priority"}, "service_tier"),
        ({"speed": "warp"}, "speed"),
        ({"inference_geo": "us"}, "inference_geo"),
        ({"mcp_servers": [{"type": "url", "url": "http://x", "name": "x"}]}, "mcp_servers"),
        ({"container": "container_1"}, "container"),
        ({"fallbacks": "default"}, "fallbacks"),
        ({"compaction": {"type": "summarize"}}, "compaction"),
        ({"context_management": {"edits": [{"type": "compact_20260112"}]}}, "context_management"),
        ({"context_management": "all"}, "context_management"),
        ({"tools": {}}, "tools"),
        ({"tools": [1]}, "tools"),
        ({"tools": [MINE, {"type": "code_execution_20260120", "name": "code_execution"}]}, "tools[1].type"),
        ({"tools": [{"type": "advisor_20260301", "name": "advisor", "model": "claude-opus-4-8"}]}, "tools[0].type"),
        ({"tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]}, "tools[0].type"),
        ({"tools": [{"type": ["custom"], "name": "x"}]}, "tools[0].type"),
        ({"tools": [{**SEARCH, "max_uses": 0}]}, "tools[0].max_uses"),
        ({"tools": [{**SEARCH, "max_uses": 101}]}, "tools[0].max_uses"),
        ({"tools": [{**SEARCH, "max_uses": 60}, {**SEARCH, "max_uses": 60}]}, "tools"),
        ({"cache_control": {"type": "ephemeral", "ttl": "1d"}}, "cache_control"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_addition", "tool": {}}]}]}, "messages"),
    ],
)
def test_what_cannot_be_priced_is_refused_by_name(more: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(**more)
    assert caught.value.param == param
    assert param.partition("[")[0] in caught.value.message


def test_what_changes_no_price_is_let_through() -> None:
    request = read(
        service_tier="standard_only",
        speed="standard",
        inference_geo="global",
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}, {"type": "clear_thinking_20251015"}]},
        mcp_servers=[],
        container=None,
        tools=[MINE, {"type": "bash_20250124", "name": "bash"}, {"type": "memory_20250818", "name": "memory"}],
    )
    assert request.features == ()
    assert request.input_tokens < 3000


def test_fast_is_priced_as_fast() -> None:
    assert read(speed="fast").service_tier == "fast"


def test_what_is_to_be_cached_is_priced_as_it_is_written() -> None:
    block = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    hour = {"type": "ephemeral", "ttl": "1h"}
    assert read([block]).features == ("cache_write_5m",)
    assert read(system=[{"type": "text", "text": "x", "cache_control": hour}]).features == ("cache_write_1h",)
    assert read(tools=[{**MINE, "cache_control": hour}], cache_control={"type": "ephemeral", "ttl": "5m"}).features == (
        "cache_write_1h",
        "cache_write_5m",
    )
    result = {"type": "tool_result", "tool_use_id": "t", "content": [block]}
    assert read([result]).features == ("cache_write_5m",)
    # A property of a tool that happens to have this name.
    assert read(tools=[{"name": "f", "input_schema": {"properties": {"cache_control": {"type": "string"}}}}]).features == ()


def test_searches_are_limited_and_hold_the_context_window() -> None:
    request = read(tools=[SEARCH])
    assert (request.features, request.uses, request.input_tokens) == (("web_search",), {"web_search": 10}, UNBOUNDED)
    assert forwarded(request, 100)["tools"] == [{**SEARCH, "max_uses": 10}]
    request = read(tools=[{**SEARCH, "max_uses": 3}])
    assert request.uses == {"web_search": 3}
    assert forwarded(request, 100)["tools"] == [{**SEARCH, "max_uses": 3}]
    # Fetching costs no fee, but what it finds is input.
    request = read(tools=[{"type": "web_fetch_20250910", "name": "web_fetch"}])
    assert (request.features, request.input_tokens) == ((), UNBOUNDED)


def test_pictures_count_as_pictures_and_what_cannot_be_sized_is_unbounded() -> None:
    def image(source: dict[str, Any]) -> dict[str, Any]:
        return {"type": "image", "source": source}

    inline = image({"type": "base64", "media_type": "image/png", "data": "A" * 2_549_000})
    for content in ([inline], [{"type": "tool_result", "tool_use_id": "t", "content": [inline]}]):
        request = read(content)
        assert IMAGE_TOKENS <= request.input_tokens <= 18_384
        assert request.features == ("image_in",)
    assert read([image({"type": "url", "url": "https://x/y.png"})]).input_tokens < UNBOUNDED
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "A" * 1000}
    sources = [pdf, {"type": "url", "url": "https://x/y.pdf"}, {"type": "file", "file_id": "file_1"}]
    for block in [*({"type": "document", "source": s} for s in sources), image({"type": "file", "file_id": "file_1"})]:
        assert read([block]).input_tokens >= UNBOUNDED, block
    text = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x" * 5000}}
    assert 5000 <= read([text]).input_tokens < 10_000
    nested = {"type": "document", "source": {"type": "content", "content": [inline]}}
    assert IMAGE_TOKENS <= read([nested]).input_tokens <= 18_384


@pytest.mark.parametrize(
    "hidden",
    [
        {"content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"type": "image", "source": "word " * 4000}}]},
        {"tools": [{"name": "f", "input_schema": {"default": {"type": "image", "source": "word " * 4000}}}]},
    ],
    ids=["call", "schema"],
)
def test_text_that_looks_like_a_picture_is_text(hidden: dict[str, Any]) -> None:
    assert read(**hidden).input_tokens >= 20_000


def test_thinking_keeps_below_the_cap_that_was_priced() -> None:
    request = read(max_tokens=8000, thinking={"type": "enabled", "budget_tokens": 4000, "display": "omitted"})
    assert forwarded(request, 8000)["thinking"] == request.body["thinking"]
    assert forwarded(request, 5000)["thinking"] == request.body["thinking"]
    assert forwarded(request, 4000)["thinking"] == {"type": "enabled", "budget_tokens": 3999, "display": "omitted"}
    assert forwarded(request, 1025)["thinking"]["budget_tokens"] == 1024
    assert forwarded(request, 1024)["thinking"] == {"type": "disabled"}
    # With interleaved thinking the budget may be the larger; that is between the caller and the provider.
    request = read(max_tokens=2000, thinking={"type": "enabled", "budget_tokens": 4000})
    assert forwarded(request, 2000)["thinking"] == request.body["thinking"]
    assert forwarded(read(thinking={"type": "adaptive"}), 10)["thinking"] == {"type": "adaptive"}


def off(request: ModelRequest, *features: str) -> ModelRequest:
    return Messages().as_granted(request, "claude-x", {"features_off": list(features)})


def test_a_ladder_turns_searching_and_caching_off() -> None:
    asked = read(tools=[SEARCH, MINE], tool_choice={"type": "tool", "name": "web_search"})
    granted = off(asked, "web_search")
    assert (granted.body["tools"], granted.features) == ([MINE], ())
    assert "tool_choice" not in granted.body
    assert asked.body["tools"][0]["type"] == SEARCH["type"]
    assert off(read(tools=[SEARCH], tool_choice={"type": "auto"}), "web_search").body["tools"] == []

    hour, minutes = {"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral"}
    asked = read(
        [{"type": "text", "text": "a", "cache_control": hour}, {"type": "text", "text": "b", "cache_control": minutes}],
        cache_control=hour,
    )
    granted = off(asked, "cache_write_1h", "audio_out", "code_execution")
    assert granted.features == ("cache_write_5m",)
    assert granted.body["messages"][0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b", "cache_control": minutes},
    ]
    assert "cache_control" not in granted.body
    picture = read([{"type": "image", "source": {"type": "url", "url": "https://x"}}])
    with pytest.raises(CannotTurnOff):
        off(picture, "image_in")
    assert off(read(), "image_in").features == ()


# Usage


def usage(**numbers: Any) -> dict[str, Any]:
    return {"input_tokens": 10, "output_tokens": 5, **numbers}


def split(five_minutes: int, an_hour: int) -> dict[str, int]:
    return {"ephemeral_5m_input_tokens": five_minutes, "ephemeral_1h_input_tokens": an_hour}


@pytest.mark.parametrize(
    ("reported", "kinds"),
    [
        (usage(), {"input": 10, "output": 5}),
        (usage(cache_read_input_tokens=20_000), {"input": 10, "cache_read": 20_000, "output": 5}),
        (
            usage(cache_creation_input_tokens=1000, cache_creation=split(600, 400)),
            {"input": 10, "cache_write_5m": 600, "cache_write_1h": 400, "output": 5},
        ),
        (usage(cache_creation_input_tokens=2805), {"input": 10, "cache_write_5m": 2805, "output": 5}),
        (usage(cache_creation=split(1, 2)), {"input": 10, "cache_write_5m": 1, "cache_write_1h": 2, "output": 5}),
        # The parts are never more than the whole.
        (
            usage(cache_creation_input_tokens=100, cache_creation=split(100, 100)),
            {"input": 10, "cache_write_1h": 100, "output": 5},
        ),
        (usage(server_tool_use={"web_search_requests": 2}), {"input": 10, "output": 5, "web_search": 2}),
        (
            usage(iterations=[usage(type="compaction", cache_creation_input_tokens=7), usage(type="message")]),
            {"input": 20, "cache_write_5m": 7, "output": 10},
        ),
        (usage(iterations=[]), {"input": 10, "output": 5}),
        (usage(iterations=[usage(model="claude-x")]), {"input": 10, "output": 5}),
    ],
)
def test_usage_is_read_as_kinds_that_do_not_overlap(reported: dict[str, Any], kinds: dict[str, int]) -> None:
    assert charge_kinds(reported, "claude-x")[0] == kinds


@pytest.mark.parametrize("value", [-5, 1.5, "many", 10**30, True, [1], {"a": 1}])
@pytest.mark.parametrize("name", ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"])
def test_a_number_that_cannot_be_one_reaches_the_database_as_text(name: str, value: Any) -> None:
    wrong = {"input": ascii(value)}
    assert charge_kinds(usage(**{name: value}), "m") == (wrong, False)
    assert charge_kinds(usage(iterations=[usage(), usage(**{name: value})]), "m") == (wrong, False)


def test_a_round_of_another_model_is_not_priced_as_this_one() -> None:
    for rounds in ([usage(), usage(model="claude-opus-4-8")], "rounds", [7], 5):
        kinds, _ = charge_kinds(usage(iterations=rounds), "claude-x")
        assert list(kinds) == ["input"]
        assert isinstance(kinds["input"], str)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_NAMES = [
    "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation",
    "iterations", "server_tool_use", "service_tier", "speed", "inference_geo",
]  # fmt: skip


@given(st.dictionaries(st.sampled_from(_NAMES), json_values, max_size=6), json_values)
def test_no_usage_and_no_event_can_break_the_meter(reported: dict[str, Any], anything: Any) -> None:
    for kind in ("message_start", "content_block_start", "content_block_delta", "message_delta", "error", "new"):
        meter = MessagesMeter(read(stream=True), ANTHROPIC)
        start = {"type": "message_start", "message": {"usage": reported, "model": anything, "id": anything}}
        for event in (
            start,
            {"type": kind, "message": anything, "content_block": anything, "delta": anything, "usage": anything},
        ):
            meter.event(b"", event)
        for kinds in (meter.kinds() or {}, meter.bound()):
            assert all(isinstance(quantity, str) or quantity >= 0 for quantity in kinds.values())
        MessagesMeter(read(), ANTHROPIC).answer({"type": anything, "content": anything, "usage": reported, "model": anything})


# Streams


def stream(*events: dict[str, Any], request: ModelRequest | None = None) -> MessagesMeter:
    meter = MessagesMeter(request or read(stream=True), ANTHROPIC)
    for event in events:
        wire = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        assert meter.stream(wire) == wire
    assert meter.close() == b""
    return meter


def start(**numbers: Any) -> dict[str, Any]:
    return {
        "type": "message_start",
        "message": {"id": "msg_1", "model": "claude-x", "usage": usage(output_tokens=1, **numbers)},
    }


def end(**numbers: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": numbers}


def block(**content: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": 0, "content_block": content}


def delta(**change: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": change}


STOP = {"type": "message_stop"}
TEXT = delta(type="text_delta", text="é" * 50)


def test_the_end_goes_over_the_beginning_key_by_key() -> None:
    meter = stream(start(cache_read_input_tokens=1000), TEXT, end(output_tokens=47, input_tokens=None), STOP)
    assert meter.finished
    assert meter.kinds() == {"input": 10, "cache_read": 1000, "output": 47}
    meter = stream(start(cache_creation_input_tokens=9, cache_creation=split(0, 9)), end(output_tokens=2), STOP)
    assert meter.kinds() == {"input": 10, "cache_write_1h": 9, "output": 2}
    meter = stream(
        start(cache_creation_input_tokens=9, cache_creation=split(0, 9)),
        end(output_tokens=2, cache_creation_input_tokens=9, cache_creation=split(9, 0)),
    )
    assert meter.kinds() == {"input": 10, "cache_write_5m": 9, "output": 2}


def test_the_usage_of_the_beginning_is_not_that_of_the_end() -> None:
    meter = stream(start(), TEXT, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, STOP)
    assert (meter.finished, meter.kinds()) == (True, None)
    assert meter.bound() == {"input": 10, "output": 100}
    meter = stream(start(), TEXT)
    assert (meter.finished, meter.kinds()) == (False, {"input": 10, "output": 1})
    assert meter.bound() == {"input": 10, "output": 100}


def test_what_searches_find_is_not_in_the_first_word() -> None:
    request = read(stream=True, tools=[{**SEARCH, "max_uses": 3}])
    meter = stream(start(), TEXT, request=request)
    assert meter.bound() == {"input": UNBOUNDED, "output": 100, "web_search": 3}


def test_all_that_is_generated_counts_and_nothing_else() -> None:
    generated = [
        block(type="tool_use", id="toolu_1", name="four", input={}, caller={"type": "direct"}),
        delta(type="input_json_delta", partial_json='{"a"'),
        block(type="thinking", thinking="", signature=""),
        delta(type="thinking_delta", thinking="1234"),
        block(type="compaction", content=None),
        delta(type="compaction_delta", content="1234"),
    ]
    other = [
        {"type": "ping"},
        block(type="web_search_tool_result", tool_use_id="t", content=[{"encrypted_content": "x" * 500}]),
        delta(type="citations_delta", citation={"cited_text": "x" * 500}),
        {"type": "of tomorrow", "text": "x"},
    ]
    assert stream(*generated, *other).output_bytes == 16


def test_thought_that_is_not_shown_is_bounded_by_its_seal_or_by_the_cap() -> None:
    thinking = block(type="thinking", thinking="", signature="")
    seal = delta(type="signature_delta", signature="s" * 60)
    assert stream(start(), thinking).bound()["output"] == 100
    assert stream(start(), thinking, seal).bound()["output"] == 60
    shown = delta(type="thinking_delta", thinking="t" * 80)
    assert stream(start(), thinking, shown).bound()["output"] == 80
    assert stream(start(), thinking, shown, seal).bound()["output"] == 80


def test_an_error_is_one_however_it_comes() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    for meter in (stream(error), stream(start(), TEXT, error, STOP), stream(start(), end(output_tokens=5), error)):
        assert (meter.failed, meter.finished) == (True, False)
    whole = MessagesMeter(read(), ANTHROPIC)
    assert whole.whole(json.dumps(error).encode())
    assert (whole.failed, whole.finished) == (True, False)


@pytest.mark.parametrize(
    ("reported", "asked", "variant"),
    [
        ({}, None, None),
        ({"service_tier": "standard"}, None, "standard"),
        ({"service_tier": "priority"}, None, "priority"),
        ({"service_tier": "batch"}, None, "batch"),
        ({"service_tier": "of tomorrow"}, None, None),
        ({"service_tier": "standard", "speed": "fast"}, None, "fast"),
        ({"service_tier": "standard", "speed": "fast"}, "fast", "fast"),
        ({"service_tier": "standard", "speed": "standard"}, "fast", "standard"),
        # Nothing is said of the speed: it is what was asked for.
        ({"service_tier": "standard"}, "fast", None),
    ],
)
def test_the_answer_says_how_it_was_served(reported: dict[str, Any], asked: str | None, variant: str | None) -> None:
    meter = MessagesMeter(read(speed=asked), ANTHROPIC)
    assert meter.whole(json.dumps({"type": "message", "content": [], "usage": usage(**reported)}).encode())
    assert meter.kinds() == {"input": 10, "output": 5}
    assert meter.service_tier == variant


def test_a_count_is_forwarded_as_it_is_and_charged_as_nothing() -> None:
    asked = body(tools=[SEARCH], thinking={"type": "enabled", "budget_tokens": 4000})
    del asked["max_tokens"]
    request = CountTokens().read(asked)
    assert (request.input_tokens, request.cap, request.features) == (0, 0, ())
    assert json.loads(CountTokens().rewrite(request, ANTHROPIC, "claude-x", 0)) == {**asked, "model": "claude-x"}
    meter = CountTokens().meter(request, ANTHROPIC)
    assert meter.whole(b'{"input_tokens": 2095}')
    assert meter.kinds() == {"input": 0, "output": 0}
    with pytest.raises(InvalidRequest):
        CountTokens().read({"messages": []})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidRequest("m", "max_tokens"), "invalid_request_error"),
        (Refused("invalid_key", "m"), "authentication_error"),
        (Refused("budget_exceeded", "m", detail={"scope": "key"}), "billing_error"),
        (Refused("model_not_allowed", "m"), "permission_error"),
        (Refused("model_not_found", "m"), "not_found_error"),
        (Refused("idempotency_conflict", "m"), "invalid_request_error"),
        (Refused("budget_busy", "m"), "rate_limit_error"),
        (Refused("budget_config_invalid", "m"), "overloaded_error"),
        (UpstreamFailed("m"), "api_error"),
    ],
)
def test_errors_have_the_types_that_the_sdk_knows(error: BudgetError, kind: str) -> None:
    found = error_body(error)
    assert found["type"] == "error"
    assert {"type": kind, "message": "m", "code": error.code}.items() <= found["error"].items()
    assert found["error"].get("pgbudget") == (error.detail or None)
