"""The handed cases (shared/cases) on every route that they can concern, streamed and not: one table, one test.

A case is a function of a :class:`Trial`. Amounts are micro-dollars, as in the cases: a token of input costs one, one of output
four, on every route. The table is at the end.
"""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

from tests.proxy.routes import CHAT, COMPLETIONS, EMBEDDINGS, MESSAGES, RESPONSES, ROUTES, Route
from tests.proxy.trial import Gateways, Trial
from tests.support.processes import SHARED, Gateway, Simulator, wait_until
from tests.support.world import World

# EST: what is held


def no_cap_holds_the_input_and_the_default_output(t: Trial) -> None:
    body: dict[str, Any] = {"model": "t-pro", "words": "x" * 200_000}
    body |= {str(t.route.cap): ...}
    t.refused(t.ask(t.key(1_000_000), **body), 402, "request_over_limit")
    t.untouched()
    key = t.key(2_000_000_000)
    calls = [t.pool.submit(t.ask, key, {"barrier": "both"}, **body) for _ in range(2)]
    wait_until(lambda: t.simulator.waiting("both") == 2)
    held = t.budget(key)["reserved"]
    t.simulator.open("both")
    assert [call.result().status_code for call in calls] == [200, 200]
    cap = t.route.default_cap
    assert cap is not None
    assert 2 * (200_000 * 5 + cap * 30) <= held <= 2 * (200_000 * 5 + 983_040 + 10_000)
    assert t.route.cap
    assert [t.forwarded(place)[t.route.cap] for place in (0, 1)] == [cap, cap]


DENSE = [
    ("数据库预算" * 2000, 4000, 3700),
    ("\U0001f468‍\U0001f469‍\U0001f467‍\U0001f466" * 1000, 11000, 10000),
    ("8391720465 " * 2000, 10000, 9000),
    ("a " * 8000, 8001, 7000),
    ("f3a9c1e07b " * 2000, 18001, 12000),
    ("\U0001202d\U00012217\U00012000\U0001223e" * 1500, 24000, 12000),
    # NFKC makes 18 letters of one: bytes as sent would not bound it.
    ("ﷺ" * 2000, 36000, 33000),
]


def dense_text_is_bounded_by_its_bytes(t: Trial) -> None:
    for text, tokens, limit in DENSE:
        error = t.refused(t.ask(t.key(limit), words=text, cap=1), 402, "request_over_limit", text[:9])
        assert micro(error["pgbudget"]["worst_case_usd"]) >= tokens + t.route.cost(0, 1)
    t.untouched()


def micro(usd: float) -> int:
    return round(usd * 1e6)


PIXELS = "A" * 2_549_000


def pictures(route: Route, data: str) -> list[dict[str, Any]]:
    """Bodies with a picture: as it is, and as what a tool has found."""
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    item = {"type": "input_image", "image_url": f"data:image/png;base64,{data}"}
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    if route is CHAT:
        return [{"messages": [{"role": "user", "content": [{"type": "text", "text": "what is this"}, url]}]}]
    if route is RESPONSES:
        return [
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": "what is this"}, item]}]},
            {"input": [{"type": "function_call_output", "call_id": "c", "output": [item]}]},
        ]
    return [
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "what is this"}, block]}]},
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [block]}]}]},
    ]


def a_picture_is_held_as_a_picture(t: Trial) -> None:
    for body in pictures(t.route, PIXELS):
        key = t.key(200_000)
        assert t.ask(key, cap=500, **body).status_code == 200
        assert 1000 <= t.entry(key)["hold"] - t.route.cost(0, 500) <= 18_384
    for body in pictures(t.route, "A" * 2_700):
        (field, (message,)), = body.items()  # fmt: skip
        place = "output" if "output" in message else "content"
        part = message[place][-1]
        many = {field: [{**message, place: [part] * 50}]}
        if part["type"] == "tool_result":
            many = {field: [{**message, place: [{**part, "content": part["content"] * 50}]}]}
        assert 50_000 <= t.hold(**many) <= 128_000 + t.route.cost(0, 200)


STORED: dict[Route, list[dict[str, Any]]] = {
    CHAT: [{"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]}],
    RESPONSES: [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"input": [{"type": "item_reference", "id": "msg_1"}]},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]},
    ],
    MESSAGES: [
        {"messages": [{"role": "user", "content": [{"type": kind, "source": {"type": "file", "file_id": "file_1"}}]}]}
        for kind in ("document", "image")
    ],
}


def what_is_stored_is_held_at_the_context_window(t: Trial) -> None:
    for body in STORED[t.route]:
        t.simulator.reset()
        t.refused(t.ask(t.key(5_000), words="continue", cap=50, **body), 402, "request_over_limit", str(body))
        t.untouched()
        key = t.key(200_000)
        simulate = {"prompt_tokens": 110_000, "cached_tokens": 100_000, "completion_tokens": 50}
        assert t.ask(key, simulate, words="continue", cap=50, **body).status_code == 200
        entry = t.entry(key)
        assert (entry["amount"], entry["hold"]) == (35_200, 128_000 + 200), body


def a_stored_prompt_is_refused(t: Trial) -> None:
    error = t.refused(t.ask(t.key(10**9), prompt={"id": "pmpt_1"}), 400, "invalid_request")
    assert error["param"] == "prompt"
    t.untouched()


SCHEMA = {"type": "object", "properties": {f"p{i}": {"type": "string", "description": "d" * 60} for i in range(16)}}
FUNCTIONS = [{"name": f"f{i}", "description": "does it", "parameters": SCHEMA} for i in range(60)]
LONG = json.dumps(FUNCTIONS)
BESIDE: dict[Route, list[dict[str, Any]]] = {
    CHAT: [
        {"tools": [{"type": "function", "function": function} for function in FUNCTIONS]},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"properties": {"a": FUNCTIONS}}}}},
        {"messages": [{"role": "assistant", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": LONG}}]}]},
    ],
    COMPLETIONS: [{"suffix": LONG}],
    RESPONSES: [
        {"tools": [{"type": "function", **function} for function in FUNCTIONS]},
        {"text": {"format": {"type": "json_schema", "name": "s", "schema": {"properties": {"a": FUNCTIONS}}}}},
        {"instructions": LONG},
        {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": LONG}]},
    ],
    MESSAGES: [
        {"tools": [{"name": f["name"], "input_schema": f["parameters"]} for f in FUNCTIONS]},
        {"system": [{"type": "text", "text": LONG}]},
        {"messages": [{"role": "assistant", "content": [
            {"type": "tool_use", "id": "t", "name": "f", "input": {"a": FUNCTIONS}}]}]},
    ],
}  # fmt: skip


def all_that_is_sent_along_is_input(t: Trial) -> None:
    for body in BESIDE[t.route]:
        error = t.refused(t.ask(t.key(5_000), words="hi", cap=10, **body), 402, "request_over_limit", str(body)[:50])
        assert micro(error["pgbudget"]["worst_case_usd"]) >= 24_000 + t.route.cost(0, 10)
    t.untouched()


def n_multiplies_the_output(t: Trial) -> None:
    names = ["n"] if t.route is CHAT or t.stream else ["n", "best_of"]
    bad: list[Any] = [9223372036854775, 0, -1, 1.5, "2", True, []]
    for name in names:
        error = t.refused(t.ask(t.key(20_000), cap=1000, **dict[str, Any]({name: 8})), 402, "request_over_limit")
        assert micro(error["pgbudget"]["worst_case_usd"]) >= 32_000
        for n in bad:
            error = t.refused(t.ask(t.key(), cap=4096, **dict[str, Any]({name: n})), 400, "invalid_request", str(n))
            assert error["param"] == name
        t.untouched()
        one, two = t.key(), t.key()
        assert (
            t.ask(one, **dict[str, Any]({name: None})).status_code == t.ask(two, **dict[str, Any]({name: 2})).status_code == 200
        )
        assert (t.entry(one)["amount"], t.entry(two)["amount"]) == (t.standard, t.route.cost(100, 2 * 200))
        t.simulator.reset()


CAPS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def the_cap_that_is_priced_is_the_cap_that_is_forwarded(t: Trial) -> None:
    cap = t.route.cap
    assert cap
    names = [cap, "max_completion_tokens"] if t.route is CHAT else [cap]
    bad: list[Any] = [-1, -2147483648, 1.5, "100", True, [], 1e30, 2**63]
    # A completion of nothing is an echo of its prompt.
    bad += [] if t.route is COMPLETIONS else [0]
    refused: list[dict[str, Any]] = [{cap: ..., name: value} for name in names for value in bad]
    if t.route is CHAT:
        refused.append({"max_tokens": 1, "max_completion_tokens": 1000})
    if t.route.default_cap is None:
        refused += [{cap: ...}, {cap: None}]
    for body in refused:
        t.refused(t.ask(t.key(), **body), 400, "invalid_request", str(body))
    t.untouched()
    granted: list[tuple[dict[str, Any], int]] = [({cap: ..., name: 20}, 20) for name in names]
    if t.route is CHAT:
        granted.append(({"max_tokens": 10, "max_completion_tokens": 10}, 10))
    granted += [({cap: value}, 16_384) for value in (100_000, 4294967295, 9223372036854775807)]
    if t.route.default_cap is not None:
        granted += [({cap: value}, t.route.default_cap) for value in (None, ...)]
    # Another route's field neither lowers nor raises it.
    granted += [({other: 1}, 200) for other in CAPS if t.route is not CHAT and other != cap]
    for body, most in granted:
        key = t.key()
        assert t.ask(key, **body).status_code == 200, body
        assert t.entry(key)["hold"] >= t.route.cost(0, most), body
        assert {name: t.forwarded().get(name) for name in names} == {**dict.fromkeys(names), cap: most}, body


def a_cache_write_is_held_at_its_own_price(t: Trial) -> None:
    # On chat as OpenRouter takes it, and prices it, for models of Anthropic's.
    for ttl, model, cost in (("1h", "c-son", 600_150), ("5m", "o-son" if t.route is CHAT else "c-son", 375_150)):
        t.simulator.reset()
        system = [{"type": "text", "text": "x" * 100_000, "cache_control": {"type": "ephemeral", "ttl": ttl}}]
        body: dict[str, Any] = {"model": model, "cap": 10, "system": system}
        simulate: dict[str, Any] = {"prompt_tokens": 100_000, f"cache_write_{ttl}_tokens": 100_000, "completion_tokens": 10}
        if t.route is CHAT:
            body = {"model": model, "cap": 10, "messages": [{"role": "system", "content": system}]}
            details = {"cached_tokens": 0, "cache_write_tokens": 100_000}
            simulate = t.route.raw("Hi", {**t.route.usage(100_000, 10), "prompt_tokens_details": details}, t.stream)
        error = t.refused(t.ask(t.key(400_000 if ttl == "1h" else 375_000), **body), 402, "request_over_limit")
        # Not the sum of all rates.
        assert cost <= micro(error["pgbudget"]["worst_case_usd"]) < cost * 1.05
        t.untouched()
        key = t.key()
        assert t.ask(key, simulate, **body).status_code == 200
        entry = t.entry(key)
        assert (entry["amount"], entry["source"]) == (cost, "usage")
        assert cost <= entry["hold"] < cost * 1.05
        if ttl == "1h":
            t.refused(t.ask(t.key(), **{**body, "model": "t-mini"}), 422, "model_unpriced")


# USE: what usage says


def usage_is_asked_for_and_hidden_from_who_did_not_ask(t: Trial) -> None:
    simulate = t.route.raw("Hi", t.route.usage(12, 5), True)
    options: list[Any] = [..., None, {"include_usage": False}, {"include_obfuscation": False}, {"include_usage": True}]
    for option in options:
        key = t.key()
        answer = t.ask(key, simulate, stream_options=option)
        forwarded = t.forwarded()["stream_options"]
        assert forwarded == {**(option if isinstance(option, dict) else {}), "include_usage": True}
        if option == {"include_usage": True}:
            assert answer.text == simulate["raw_sse"]
        else:
            chunks = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
            assert [c["choices"] for c in chunks] == [c["choices"] for c in t.route.events("Hi", None)[:2]]
            assert all("usage" not in chunk for chunk in chunks)
            assert answer.text.endswith(t.route.tail)
        assert t.entry(key)["amount"] == 32, option


def usage_that_is_told_unasked_goes_through(t: Trial) -> None:
    simulate = t.route.raw("Hi", t.route.usage(12, 5), t.stream)
    key = t.key()
    assert t.ask(key, simulate).text == next(iter(simulate.values()))
    assert "stream_options" not in t.forwarded()
    assert t.entry(key)["amount"] == t.route.cost(12, 5)


def cumulative_usage_is_never_added(t: Trial) -> None:
    usage = t.route.usage
    reports = [usage(1000, 10), usage(1000, 50), None, usage(1000, 100)]
    simulate: dict[str, Any] = {"completion_tokens": 4, "chunks": 4, "usages": reports}
    key = t.key()
    assert t.ask(key, simulate).status_code == 200
    assert t.entry(key)["amount"] == 1_400
    key = t.key()
    with pytest.raises(httpx.RemoteProtocolError):
        t.ask(key, {**simulate, "cut_after_chunks": 3, "chunk_ms": 5})
    entry = t.entry(key)
    assert 1_200 <= entry["amount"] <= entry["hold"]


def an_answer_without_usage_is_bounded_by_its_text(t: Trial) -> None:
    key = t.key()
    assert t.ask(key, {"no_usage": True, "completion_tokens": 80}).status_code == 200
    entry = t.entry(key)
    assert "estimated" in entry["flags"]
    assert t.route.cost(120, 80) <= entry["amount"] <= entry["hold"]


def who_refuses_the_question_for_usage_is_asked_without(t: Trial) -> None:
    key = t.key()
    assert t.ask(key, {"refuse_parameters": ["stream_options"]}).status_code == 200
    assert ["stream_options" in t.forwarded(place) for place in (0, 1)] == [True, False]
    entry = t.entry(key)
    assert "estimated" in entry["flags"]
    assert 0 < entry["amount"] <= entry["hold"]
    # It still fails: the hold goes back.
    key = t.key()
    assert t.ask(key, {"refuse_parameters": ["stream_options", "model"]}).status_code == 400
    assert t.entry(key)["kind"] == "released"


def without_a_stream_usage_is_not_asked_for(t: Trial) -> None:
    key = t.key()
    assert t.ask(key).status_code == 200
    assert "stream_options" not in t.forwarded()
    assert t.entry(key)["amount"] == t.standard


def split(five_minutes: int, an_hour: int) -> dict[str, int]:
    return {"ephemeral_5m_input_tokens": five_minutes, "ephemeral_1h_input_tokens": an_hour}


def written(tokens: int, **more: Any) -> dict[str, Any]:
    return {"input_tokens": 0, "cache_creation_input_tokens": tokens, "output_tokens": 0, **more}


CACHED = {"input_tokens": 27, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 0}
#: Usage at the beginning, usage at the end, nano-USD.
REPEATED = [({**CACHED, "output_tokens": 1}, {**CACHED, "output_tokens": 47}, 1_086_000)]
BY_TTL = [
    (written(1000, cache_creation=split(600, 400)), {"output_tokens": 0}, 4_650_000),
    (written(2805), {"output_tokens": 0}, 10_518_750),
    (written(100_000, cache_creation=split(0, 100_000)), written(100_000, cache_creation=split(100_000, 0)), 375_000_000),
]
BESIDE_THE_INPUT = [({**CACHED, "input_tokens": 86, "cache_read_input_tokens": 20_000}, {"output_tokens": 50}, 7_008_000)]


def merged(usages: list[tuple[dict[str, Any], dict[str, Any], int]]) -> Callable[[Trial], None]:
    """The usage of the end over that of the beginning, each kind at its price."""

    def case(t: Trial) -> None:
        assert t.route is MESSAGES
        for start, end, nano_usd in usages:
            text = "Hi" if end["output_tokens"] else ""
            simulate = t.route.raw(text, {**start, **end}, False)
            if t.stream:
                events = MESSAGES.events(text, end, start)
                simulate = {"raw_sse": "".join(map(t.route.frame, events)) + t.route.tail, "split": "bytes"}
            key = t.key()
            assert t.ask(key, simulate, model="c-son").status_code == 200
            entry = t.entry(key)
            assert (entry["amount_nano_usd"], entry["source"]) == (nano_usd, "usage")

    return case


def usage_is_not_believed_blindly(t: Trial) -> None:
    usage, (_, completion) = t.route.usage, t.route.counts
    #: The usage, and what is charged: the whole hold, what it says, or a bound of what was seen.
    rows: list[tuple[Any, str | int]] = [
        (usage(-100, 50), "hold"),
        (usage("12", "5"), t.route.cost(12, 5)),
        (usage(12.0, 5), t.route.cost(12, 5)),
        (usage(10**18, 1), "hold"),
        (usage(12.5, 5), "hold"),
        (usage(True, 5), "hold"),
        ({}, "bound"),
        ([], "bound"),
        ("x", "bound"),
        (usage(0, 0), "bound"),
    ]
    if t.route.cap:
        rows.append(({completion: 25}, "input"))
        rows += [(usage(100, impossible), "hold") for impossible in (-5, 1.5, "many", 10**30, True)]
    for said, charged in rows:
        key = t.key()
        simulate = t.route.raw("word " * 5, said, t.stream)
        options = {"stream_options": {"include_usage": True}} if t.stream and t.route.asks else {}
        assert t.ask(key, simulate, **options).text == next(iter(simulate.values()))
        entry = t.entry(key)
        if charged == "hold":
            assert (entry["amount"], "usage_rejected" in entry["flags"]) == (entry["hold"], True), said
        elif charged == "bound":
            assert "estimated" in entry["flags"], said
            assert t.route.cost(120, 5) <= entry["amount"] <= entry["hold"], said
        elif charged == "input":
            assert "estimated" in entry["flags"], said
            assert 120 + 25 * 4 <= entry["amount"] <= entry["hold"], said
            assert entry["usage"]["output"] == 25
        else:
            assert (entry["amount"], entry["source"]) == (charged, "usage"), said
    # Nothing generated, and that is what it says.
    if t.route.cap:
        key = t.key()
        assert t.ask(key, t.route.raw("", usage(0, 0), t.stream)).status_code == 200
        entry = t.entry(key)
        assert entry["amount"] == 0 or "estimated" in entry["flags"]


# SSE: how a stream may look

SAID = "预算\u2028é😀"


def every_form_of_the_stream_is_metered_alike(t: Trial) -> None:
    events = [t.route.frame(event) for event in t.route.events(SAID, t.route.usage(12, 5))]
    base, tail = "".join(events), t.route.tail
    *before, last = events
    place = last.index('"usage"')
    ping, new = ": ping\n\nevent: ping\ndata: {}\n\n", "event: new.thing\nid: 7\nretry: 5\ndata: {}\n\n"
    forms: dict[str, tuple[str, str | None]] = {
        "one byte a write": (base + tail, "bytes"),
        "CRLF": ((base + tail).replace("\n", "\r\n"), None),
        "CRLF in two writes": ((base + tail).replace("\n", "\r\n"), "bytes"),
        "CR": ((base + tail).replace("\n", "\r"), "bytes"),
        "no space": ((base + tail).replace("data: ", "data:"), None),
        "BOM": ("\ufeff" + base + tail, None),
        "comments and pings": ("".join(ping + event for event in events) + tail, None),
        "two data lines": ("".join(before) + last[:place] + "\ndata: " + last[place:] + tail, None),
        "no end": (base.rstrip("\n"), None),
        "unknown events": ("".join(event + new for event in events) + tail, None),
        **{f"two writes, cut at {at}": (base + tail, f"at:{at}") for at in range(1, len(base.encode()), 149)},
        **{f"random cuts {seed}": (base + tail, f"seed:{seed}") for seed in range(4)},
    }

    def check(name: str, asked: bool) -> None:
        body, cut = forms[name]
        key = t.key()
        options = {"stream_options": {"include_usage": True}} if asked and t.route.asks else {}
        answer = t.ask(key, {"raw_sse": body, **({"split": cut} if cut else {})}, **options)
        answers[name, asked] = (key, answer)

    answers: dict[tuple[str, bool], tuple[str, httpx.Response]] = {}
    for name in forms:
        for asked in (True, False) if t.route.asks else (True,):
            check(name, asked)
    for (name, asked), (key, answer) in answers.items():
        assert t.entry(key)["amount"] == 32, (name, asked)
        if asked:
            assert answer.content == forms[name][0].encode(), name
        else:
            assert SAID in answer.text or json.dumps(SAID)[1:-1] in answer.text, name
            assert t.route.counts[1] not in answer.text, name


def what_the_client_accepts_is_not_what_the_provider_is_asked_for(t: Trial) -> None:
    request = t.request(t.key(), {"barrier": "rest", "barrier_after_chunks": 3, "chunk_ms": 1} if t.stream else {})
    request["headers"]["accept-encoding"] = "gzip, br, zstd"
    with httpx.stream("POST", timeout=60, **request) as answer:
        assert answer.status_code == 200
        parts = answer.iter_text()
        text = ""
        while t.stream and text.count("word ") < 3:
            text += next(parts)
        # The beginning came while the rest was not made yet.
        t.simulator.open("rest")
        text += "".join(parts)
        assert answer.headers.get("content-encoding", "identity") == "identity"
    if not t.stream:
        json.loads(text)
    headers = t.simulator.tally()["generated"][-1]["request_headers"]
    assert [value for name, value in headers if name == "accept-encoding"] == ["identity"]


def what_is_compressed_unasked_is_metered_and_decoded(t: Trial) -> None:
    for encoding in ("gzip", "deflate", "br", "zstd"):
        for accepted in ("gzip, br, zstd", "identity"):
            key = t.key()
            simulate: dict[str, Any] = {"encoding": encoding}
            if t.stream:
                simulate |= {"barrier": encoding + accepted, "barrier_after_chunks": 3, "chunk_ms": 1}
            request = t.request(key, simulate)
            request["headers"]["accept-encoding"] = accepted
            with httpx.stream("POST", timeout=60, **request) as answer:
                assert answer.status_code == 200
                # As it came: a client that decodes by the header would be told the same.
                assert answer.headers.get("content-encoding", "identity") == "identity"
                parts = answer.iter_raw()
                content = b""
                while t.stream and content.count(b"word ") < 3:
                    content += next(parts)
                t.simulator.open(encoding + accepted)
                content += b"".join(parts)
            entry = t.entry(key)
            assert (entry["amount"], entry["source"], entry["flags"]) == (t.standard, "usage", []), (encoding, accepted)
        raw = t.route.raw("é" * 5000, t.route.usage(100, 200), t.stream)
        asked = {"stream_options": {"include_usage": True}} if t.stream and t.route.asks else {}
        assert t.ask(t.key(), {**raw, "encoding": encoding}, **asked).text == next(iter(raw.values())), encoding


# ERR: who leaves, what breaks


def leaving_a_stream_is_not_free(t: Trial) -> None:
    hasty, key = t.through(t.gateways.hasty), t.key()
    assert hasty.leave(key, {"chunk_ms": 5}, 26) == 200
    entry = t.entry(key)
    assert t.route.cost(100, 26) <= entry["amount"] <= entry["hold"]
    assert "estimated" in entry["flags"]


def with_time_to_read_on_the_real_usage_is_charged(t: Trial) -> None:
    key = t.key()
    simulate = {"prompt_tokens": 45, "completion_tokens": 511, "ignore_cap": True, "chunks": 60, "chunk_ms": 2}
    assert t.leave(key, simulate, 26) == 200
    entry = t.entry(key)
    assert (entry["amount"], entry["source"]) == (t.route.cost(45, 511), "usage")


def leaving_an_answer_that_comes_whole_is_charged_as_it_comes(t: Trial) -> None:
    key = t.key()
    t.leave_at_barrier(key, "slow", {"prompt_tokens": 45, "completion_tokens": 511, "ignore_cap": True})
    t.simulator.open("slow")
    entry = t.entry(key)
    assert (entry["amount"], entry["source"]) == (t.route.cost(45, 511), "usage")


def a_loop_of_leaving_is_stopped_by_the_budget(t: Trial) -> None:
    hasty = t.through(t.gateways.hasty)
    key = t.key(t.hold() + 2 * t.route.cost(100, 0))
    t.simulator.reset()
    for made in range(1, 10):
        if t.stream:
            status = hasty.leave(key, {"chunk_ms": 5}, 1)
            if status != 200:
                assert status == 402
                break
        elif hasty.budget(key)["available"] < t.hold():
            t.refused(hasty.ask(key), 402, "budget_exceeded")
            break
        else:
            hasty.leave_at_barrier(key, str(made))
            t.simulator.open(str(made))
        t.entries(key, made)
    else:
        raise AssertionError("leaving was free")


def a_stream_that_breaks_is_charged_by_its_output(t: Trial) -> None:
    simulate = {"completion_tokens": 1600, "chunks": 20, "cut_after_chunks": 19, "chunk_ms": 4}

    def broken(**how: Any) -> dict[str, Any]:
        key = t.key()
        with pytest.raises(httpx.RemoteProtocolError):
            t.ask(key, {**simulate, **how}, cap=4000)
        return t.entry(key)

    for deltas in ("content", "tool_calls", "reasoning"):
        entry = broken(deltas=deltas)
        # 1,520 tokens of five bytes: at least the real cost of what was sent, at most the hold.
        assert t.route.cost(100, 1520) <= entry["amount"] <= entry["hold"], deltas
        assert "estimated" in entry["flags"]
    # What is put around each piece is not output.
    assert broken(padding=2000)["amount"] == broken()["amount"]


def what_breaks_before_anything_is_seen_is_charged_in_full(t: Trial) -> None:
    key = t.key()
    try:
        t.refused(t.ask(key, {"cut_after_chunks": 0}), 502, "upstream_error")
    except httpx.RemoteProtocolError:
        assert t.stream
    entry = t.entry(key)
    if t.route is MESSAGES and t.stream:
        # Its beginning has told the input, and a first token.
        assert (entry["amount"], "estimated" in entry["flags"]) == (t.route.cost(100, 1), True)
    else:
        assert (entry["kind"], entry["amount"]) == ("charged", entry["hold"])


def an_error_in_a_stream_is_free_only_before_its_output(t: Trial) -> None:
    for chunks in (0, 5):
        key = t.key()
        assert t.ask(key, {"error_after_chunks": chunks}).status_code == 200
        entry = t.entry(key)
        if chunks:
            assert t.route.cost(100, 5) <= entry["amount"] < entry["hold"]
            assert "estimated" in entry["flags"]
        else:
            assert (entry["kind"], entry["amount"]) == ("released", 0)


def an_answer_that_cannot_be_read_is_charged_in_full(t: Trial) -> None:
    for body in ("", "not json", "[]", '{"choices": 5}', "{"):
        key = t.key()
        assert t.ask(key, {"raw_body": body}).text == body
        entry = t.entry(key)
        assert (entry["kind"], entry["amount"]) == ("charged", entry["hold"]), body


def a_provider_that_falls_silent_is_given_up(t: Trial) -> None:
    impatient, key = t.through(t.gateways.impatient), t.key()
    if not t.stream:
        t.refused(impatient.ask(key, {"silence_after_chunks": 0}), 502, "upstream_error")
        entry = t.entry(key)
        assert (entry["kind"], entry["amount"]) == ("charged", entry["hold"])
        return
    with pytest.raises(httpx.RemoteProtocolError):
        impatient.ask(key, {"silence_after_chunks": 20})
    entry = t.entry(key)
    assert t.route.cost(100, 20) <= entry["amount"] < entry["hold"]
    assert "estimated" in entry["flags"]
    # Slow is not silent: every piece begins the wait anew.
    slow = t.key()
    assert impatient.ask(slow, {"completion_tokens": 5, "chunk_ms": 150}).status_code == 200
    assert t.entry(slow)["amount"] == t.route.cost(100, 5)


def what_the_provider_refuses_is_released_and_its_own(t: Trial) -> None:
    for status in (400, 401, 403, 404, 429, 500, 503, 529):
        key = t.key()
        answer = t.ask(key, {"status": status})
        assert (answer.status_code, answer.json()["error"]["message"]) == (status, f"simulated status {status}")
        assert answer.headers["x-pgbudget-error-source"] == "upstream"
        entry = t.entry(key)
        assert (entry["kind"], entry["amount"]) == ("released", 0)


# PRICE


def cached_tokens_are_part_of_the_input(t: Trial) -> None:
    key = t.key()
    simulate = t.route.raw("Hi", t.route.usage(10_000, 100, cached=9_000), t.stream)
    assert t.ask(key, simulate).status_code == 200
    entry = t.entry(key)
    assert (entry["amount"], entry["flags"]) == (3_650, [])


def parts_that_are_more_than_the_whole(t: Trial) -> None:
    prompt, completion = (f"{count}_details" for count in t.route.counts)

    def said(**details: Any) -> dict[str, Any]:
        return {**t.route.usage(100, 10), **details}

    # All that comes in from the cache, all that goes out thought: no contradiction.
    consistent = [(said(**{prompt: {"cached_tokens": 100}, completion: {"reasoning_tokens": 10}}), 25 + 40)]
    beyond = [
        (said(**{prompt: {"cached_tokens": 101}}), 25 + 40),
        (said(**{prompt: {"cached_tokens": 10**9}}), 25 + 40),
        (said(**{completion: {"reasoning_tokens": 11}}), 100 + 40),
    ]
    for usage, amount in consistent + beyond:
        key = t.key()
        assert t.ask(key, t.route.raw("Hi", usage, t.stream)).status_code == 200
        entry = t.entry(key)
        flags = [] if (usage, amount) in consistent else ["usage_clamped"]
        assert (entry["amount"], entry["source"], entry["flags"]) == (amount, "usage", flags), usage


def reasoning_is_counted_once(t: Trial) -> None:
    first, second = t.route.counts

    def usage(prompt: int, completion: int, total: int | None = None, **details: int) -> dict[str, Any]:
        named = {"output_tokens_details" if t.route is MESSAGES else f"{second}_details": details}
        return {first: prompt, second: completion, **named, **({"total_tokens": total} if total else {})}

    rows = [(usage(2008, 266, 2274, reasoning_tokens=261), 3_072)]
    if t.route is MESSAGES:
        rows = [(usage(2008, 266, thinking_tokens=261), 3_072)]
    if t.route in (CHAT, COMPLETIONS):
        rows.append((usage(50, 100, accepted_prediction_tokens=60, rejected_prediction_tokens=20), 450))
    if t.route is not MESSAGES:
        # What the total has beyond the two was generated, too.
        rows.append((usage(14, 6, 1486, reasoning_tokens=1466), 5_902))
    for said, charged in rows:
        key = t.key()
        assert t.ask(key, t.route.raw("Hi", said, t.stream)).status_code == 200
        assert t.entry(key)["amount"] == charged, said


# MODEL


def a_model_that_is_not_priced_is_not_served(t: Trial) -> None:
    key = t.key()
    for model in ("t-mini-v2", "t.mini", "T-MINI", "ft:t-mini:acme::x1", "openai/t-mini", "t-mini "):
        t.refused(t.ask(key, model=model), 404, "model_not_found", model)
    for model in ("no-price", "no-input-price", "unreviewed"):
        t.refused(t.ask(key, model=model), 422, "model_unpriced", model)
    t.untouched()
    # Free is free, also when nothing is left.
    broke = t.key(0)
    t.refused(t.ask(broke), 402, "request_over_limit")
    assert t.ask(broke, model="free").status_code == 200
    assert t.entry(broke)["amount"] == 0


def the_model_that_was_admitted_is_the_one_that_is_charged(t: Trial) -> None:
    for name in ("t-pro-2026-01-15", "t-pro-20260115", "t-pro-mini", "gpt-totally-other", None):
        simulate: dict[str, Any] = {"prompt_tokens": 1000, "completion_tokens": 100}
        simulate |= {"omit": ["model"]} if name is None else {"model": name}
        key = t.key()
        assert t.ask(key, simulate, model=t.route.dear).status_code == 200
        entry = t.entry(key)
        assert entry["amount"] == 5_000 + (3_000 if t.route.cap else 0), name
        assert (entry["note"] or {}).get("response_model") == name


# RATE-04


def wire_requests(t: Trial, key: str) -> tuple[int, Any]:
    """Make the call with the SDK as it comes, which tries again twice; how many requests it made, and its error."""
    made: list[Any] = []
    watched = httpx2.Client(event_hooks={"request": [made.append]})
    body = t.route.body(stream=t.stream)
    if t.route is MESSAGES:
        with (
            anthropic.Anthropic(base_url=t.gateway.url, api_key=key, http_client=watched) as client,
            pytest.raises(anthropic.APIStatusError) as found,
        ):
            client.messages.create(**body)
        return len(made), found.value
    with openai.OpenAI(base_url=f"{t.gateway.url}/v1", api_key=key, http_client=watched) as sdk:
        create: dict[str, Callable[..., Any]] = {
            "chat": sdk.chat.completions.create,
            "completions": sdk.completions.create,
            "responses": sdk.responses.create,
            "embeddings": sdk.embeddings.create,
        }
        if t.route is EMBEDDINGS:
            del body["stream"]
        with pytest.raises(openai.APIStatusError) as refused:
            create[t.route.name](**body)
    return len(made), refused.value


def an_empty_budget_is_no_rate_limit(t: Trial) -> None:
    key = t.key(t.hold() + 100)
    t.simulator.reset()
    # Spent: it could fit into the whole limit, but not into what is left.
    assert t.ask(key, t.route.raw("Hi", t.route.usage(500, 0), False)).status_code == 200
    t.entries(key)
    made, error = wire_requests(t, key)
    assert (made, error.status_code) == (1, 402)
    body = error.response.json()["error"]
    assert body["code"] == "budget_exceeded"
    assert body["pgbudget"]["resets_at"]
    assert set(body["pgbudget"]) <= {
        "scope", "name", "budget", "limit_usd", "spent_usd", "reserved_usd", "available_usd", "worst_case_usd", "resets_at",
    }  # fmt: skip
    assert t.simulator.calls() == 1


def a_rate_limit_says_when_to_come_back(t: Trial) -> None:
    key = t.key()
    org, name = t.world.key_name(key)
    t.world.execute("select budget.set_rate_limit(%s, 'key', %s, 1, null)", org, name)
    minute = t.world.value("select date_trunc('minute', budget_internal.clock())")
    try:
        t.world.set_clock(str(minute + timedelta(seconds=40)))
        assert t.ask(key).status_code == 200
        for second in (40, 41, 59):
            t.world.set_clock(str(minute + timedelta(seconds=second)))
            answer = t.ask(key)
            t.refused(answer, 429, "rate_limit_exceeded")
            assert 1 <= int(answer.headers["retry-after"]) <= 60 - second
        assert t.simulator.calls() == 1
    finally:
        t.world.set_clock(None)


# RETRY-01


def plan(t: Trial, *accounts: str) -> str:
    """A model whose routes are these accounts, the first the cheap model, each other the dear one."""
    name = f"{'-'.join(accounts)}-{t.route}"
    routes = [
        {"provider": "simulator", "account": account, "priority": place + 1}
        | {"upstream_model": t.route.dear if place else t.route.model}
        for place, account in enumerate(accounts)
    ]
    t.world.execute("select budget.set_routes(null, %s, %s)", name, json.dumps(routes))
    return name


def dear(t: Trial) -> int:
    return 500 + (6_000 if t.route.cap else 0)


def what_may_have_cost_is_charged_before_the_next_is_tried(t: Trial) -> None:
    impatient, model = t.through(t.gateways.impatient), plan(t, "simulator", "second")
    t.simulator.defaults(barrier="never")
    key = t.key()
    request = impatient.request(key, model=model)
    del request["headers"]["x-simulate"]
    assert httpx.post(timeout=60, **request).status_code == 200
    leg, end = t.entries(key, 2)
    assert (leg["kind"], leg["outcome"], end["kind"], end["amount"]) == ("leg", "unknown", "settled", dear(t))
    assert t.standard <= leg["amount"]
    assert leg["amount"] + end["amount"] <= leg["reserved_nano_usd"] // 1000 + end["reserved_nano_usd"] // 1000


def a_dear_fallback_is_held_or_refused(t: Trial) -> None:
    impatient, model = t.through(t.gateways.impatient), plan(t, "simulator", "second")
    # Room for the cheap model only.
    t.refused(impatient.ask(t.key(t.hold() + 100), model=model), 402, "request_over_limit")
    assert t.simulator.calls() == 1  # that of hold()
    assert t.gateways.second.calls() == 0


def who_is_not_reached_costs_nothing(t: Trial) -> None:
    impatient, key = t.through(t.gateways.impatient), t.key()
    assert impatient.ask(key, model=plan(t, "nobody", "second")).status_code == 200
    entry = t.entry(key)
    assert (entry["kind"], entry["outcome"], entry["amount"]) == ("settled", "finished", dear(t))


# SEC


def the_callers_key_goes_nowhere(t: Trial) -> None:
    alive, over, disabled = t.key(), t.key(1), t.key()
    org, name = t.world.key_name(disabled)
    t.world.execute("select budget.disable_key(%s, %s)", org, name)
    states = {alive: 200, over: 402, disabled: 403, t.key(expires_at="2020-01-01T00:00:00Z"): 403, "pgb_" + "0" * 64: 401}
    body = t.route.body(stream=t.stream)
    version = {"anthropic-version": "2023-06-01"} if t.route is MESSAGES else {}
    seen = ""

    def post(headers: list[tuple[str, str]], status: int, url: str = t.url) -> None:
        nonlocal seen
        answer = httpx.post(url, json=body, headers=[*version.items(), *headers], timeout=60)
        assert answer.status_code == status, headers
        seen += answer.text + str(answer.headers)

    for key, status in states.items():
        bearer = ("authorization", f"Bearer {key}")
        for header in (bearer, ("x-api-key", key), ("api-key", key)):
            post([header], status)
        post([bearer, ("cookie", f"key={key}"), ("x-goog-api-key", key)], status, f"{t.url}?key={key}")
    for header in (("x-goog-api-key", alive), ("xi-api-key", alive), ("cookie", f"key={alive}")):
        post([header], 401)
    post([], 401, f"{t.url}?key={alive}")
    post([("authorization", f"Bearer {alive}"), ("authorization", "Bearer other")], 401)
    answer = t.ask(alive, {"redirect": f"http://localhost:{t.simulator.port}/v1/models"})
    assert "nothing was charged" in t.refused(answer, 502, "upstream_error")["message"]
    seen += answer.text
    calls = t.simulator.tally()["generated"]
    t.entries(alive, 5)
    ledger = json.dumps(t.world.rows("select row_to_json(l) as l from budget_internal.ledger_entries l"), default=str)
    for key in states:
        for place, text in (("answers", seen), ("upstream", json.dumps(calls)), ("log", t.gateway.log()), ("ledger", ledger)):
            assert key not in text, place
    for call in calls:
        assert [v for k, v in call["request_headers"] if k == "authorization"] == [f"Bearer {Simulator.KEY}"]
        assert not {"cookie", "x-api-key", "api-key", "x-goog-api-key"} & {k for k, _ in call["request_headers"]}
    assert len(calls) == 5
    assert Simulator.KEY not in seen


def bodies_that_hurt_are_refused_before_anything_is_held(t: Trial) -> None:
    key = t.key()
    good = json.dumps(t.route.body(stream=t.stream)).encode()
    head = good[:-1]
    refused = [
        b'{"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        head + b',"tools":[{"parameters":' + b"[" * 1000 + b"]" * 1000 + b"}]}",
        head + b',"a":"\xff\xfe"}',
        head + b',"model":"t-pro"}',
        head + b',"a":NaN}',
        head + b',"a":"\\ud800"}',
        b" \n",
        b"nonsense",
        b"[]",
        head + b',"api_key":"sk-1"}',
    ]
    # Another client's call meanwhile.
    other = t.pool.submit(t.ask, t.key(), {"barrier": "meanwhile"})
    wait_until(lambda: t.simulator.waiting("meanwhile") == 1)
    for body in refused:
        t.refused(t.send(key, body), 400, "invalid_request", str(body[:60]))
    error = t.refused(t.send(key, b""), 400, "invalid_request")
    assert error["message"] == "the body is empty: send a JSON object"
    assert t.send(key, good, content_type="text/plain").status_code == 415
    assert t.send(key, gzip.compress(b" " * (64 << 20)), content_encoding="gzip").status_code == 413
    for with_key, status in ((False, b"401"), (True, b"413")):
        with socket.create_connection(("127.0.0.1", t.gateway.port)) as client:
            client.sendall(head_of(t, key if with_key else None, 64 << 20))
            # Answered before the body was read: none of it was sent.
            assert client.recv(100).split()[1] == status
    hasty = t.through(t.gateways.hasty)
    with socket.create_connection(("127.0.0.1", hasty.gateway.port)) as client:
        client.sendall(head_of(t, key, 10) + b"{{}")
        assert client.recv(100).split()[1] == b"408"
    assert t.simulator.calls() == 1
    t.simulator.open("meanwhile")
    assert other.result().status_code == 200
    assert t.budget(key)["available"] == 10**6


def head_of(t: Trial, key: str | None, length: int) -> bytes:
    lines = [f"POST {t.route.path} HTTP/1.1", "host: x", "content-type: application/json", f"content-length: {length}"]
    lines += [f"{name}: {value}" for name, value in (t.route.headers(key).items() if key else ())]
    return "\r\n".join([*lines, "", ""]).encode()


# ROUTE-01


NEIGHBOURS = {
    CHAT: [("GET", "/v1/chat/completions"), ("GET", "/v1/chat/completions/chatcmpl-1"), ("POST", "/v1/assistants")],
    COMPLETIONS: [("GET", "/v1/completions"), ("POST", "/v1/engines/t-mini/completions"), ("POST", "/v1/edits")],
    RESPONSES: [
        ("GET", "/v1/responses"),
        ("GET", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("POST", "/v1/responses/compact"),
        ("POST", "/v1/responses/input_tokens"),
    ],
    MESSAGES: [("GET", "/v1/messages"), ("POST", "/v1/messages/batches"), ("POST", "/v1/complete")],
    EMBEDDINGS: [
        ("GET", "/v1/embeddings"),
        ("POST", "/v1/images/generations"),
        ("POST", "/v1/files"),
        ("POST", "/v1/moderations"),
        ("POST", "/v1/audio/speech"),
    ],
}


def no_path_leads_around_the_budget(t: Trial) -> None:
    key, body, path = t.key(0), t.route.body(stream=t.stream), t.route.path

    def call(method: str, target: str, key: str = key) -> int:
        """On a plain socket: a client would tidy the path up."""
        content = json.dumps(body).encode()
        head = head_of(t, key, len(content)).replace(f"POST {path}".encode(), f"{method} {target}".encode())
        with socket.create_connection(("127.0.0.1", t.gateway.port)) as client:
            client.sendall(head + content)
            return int(client.recv(100).split()[1])

    assert call("POST", path) == 402
    odd = [
        f"/{path}",
        f"{path}/",
        f"/v1/..{path}",
        f"/openai{path}",
        path.removeprefix("/v1"),
        path.upper(),
        f"/v1/v1{path[3:]}",
    ]
    for method, target in [*(("POST", target) for target in odd), *NEIGHBOURS[t.route]]:
        assert call(method, target) in (400, 404, 405), (method, target)
    assert call("POST", path, Gateway.ADMIN) == 401
    t.untouched()


# HOLD


def who_leaves_before_the_first_byte_leaves_no_hold(t: Trial) -> None:
    hasty, hold = t.through(t.gateways.hasty), t.hold()
    key = t.key(20 * hold)
    t.simulator.reset()
    for number in range(5):
        hasty.leave_at_barrier(key, str(number))
        if not t.stream:
            # What comes whole is waited for, since it will be billed; here it comes.
            t.simulator.open(str(number))
    assert {int(entry["amount"]) for entry in t.entries(key, 5)} == {hold if t.stream else t.standard}
    assert t.ask(key).status_code == 200


def holds_end_however_their_calls_do(t: Trial) -> None:
    hold = t.hold()
    key = t.key(20 * hold)

    def released() -> None:
        wait_until(lambda: t.budget(key)["reserved"] == 0, 5, "an end of every hold")

    with t.gateways.start("faulty") as gateway:
        faulty = t.through(gateway)
        for number in range(15):
            faulty.leave_at_barrier(key, str(number))
            if not t.stream:
                t.simulator.open(str(number))
        released()
        charged = 15 * (hold if t.stream else t.standard)
        assert t.budget(key)["spent"] == charged
        # Nothing was sent; the answer has begun, and nothing of it was read; something of it was.
        for method in ("Call._cap", "Call._pass_on", "Client.send"):
            request = faulty.request(key, {"chunk_ms": 1})
            request["headers"]["x-test-panic"] = method
            try:
                answer = httpx.post(timeout=60, **request)
            except httpx.RemoteProtocolError:
                assert method == "Client.send"
            else:
                assert (answer.status_code, answer.text) == (500, "Internal Server Error"), method
            released()
        assert gateway.log().count("RuntimeError: panic") == 3
        killed = t.pool.submit(faulty.ask, key, {"barrier": "never", **({"barrier_after_chunks": 20} if t.stream else {})})
        wait_until(lambda: t.simulator.waiting("never") == 1)
        assert t.budget(key)["reserved"] == hold
        gateway.kill()
        assert killed.exception() is not None
    with t.gateways.start("faulty") as again:
        sweep(t, key)
        released()
        assert t.through(again).ask(key).status_code == 200
        entries = t.entries(key, 20)
    assert len({entry["reservation_id"] for entry in entries}) == 20
    unsent, begun, partly, stale, normal = (int(entry["amount"]) for entry in entries[15:])
    assert (unsent, begun, stale, normal) == (0, hold, hold, t.standard)
    assert partly == t.standard if not t.stream else 0 < partly <= hold
    assert t.world.verify() == []


def what_a_killed_gateway_held_is_charged(t: Trial) -> None:
    hold = t.hold()
    key = t.key(3 * hold)
    with t.gateways.start() as doomed:
        call = t.pool.submit(t.through(doomed).ask, key, {"barrier": "never"})
        wait_until(lambda: t.simulator.waiting("never") == 1)
        assert t.budget(key)["reserved"] == hold
        doomed.kill()
        assert call.exception() is not None
    sweep(t, key)
    entry = t.entry(key)
    assert (entry["kind"], entry["outcome"], entry["amount"]) == ("charged", "stale", hold)
    assert t.ask(key).status_code == 200


def sweep(t: Trial, key: str) -> None:
    """The hold of a key becomes stale, and is swept."""
    t.world.execute(
        "update budget_internal.reservations set stale_at = budget_internal.clock() - interval '1 s' where key_id ="
        " (select key_id from budget_internal.key_secrets where secret_hash = sha256(convert_to(%s, 'UTF8')))",
        key,
    )
    token = {"authorization": f"Bearer {Gateway.ADMIN}"}
    assert httpx.post(f"{t.gateway.url}/admin/reconcile", json={}, headers=token).status_code == 200


def a_hold_that_was_swept_is_corrected_by_the_call_that_ends(t: Trial) -> None:
    hold, key = t.hold(), t.key(10_000)
    simulate = {"barrier": "slow", **({"barrier_after_chunks": 100} if t.stream else {})}
    call = t.pool.submit(t.ask, key, simulate)
    wait_until(lambda: t.simulator.waiting("slow") == 1)
    sweep(t, key)
    assert t.budget(key) == {"limit": 10_000, "spent": hold, "reserved": 0, "available": 10_000 - hold}
    t.simulator.open("slow")
    assert call.result().status_code == 200
    t.entries(key, 2)
    assert t.budget(key) == {"limit": 10_000, "spent": t.standard, "reserved": 0, "available": 10_000 - t.standard}


def without_its_database_the_gateway_sends_nothing_and_loses_nothing(t: Trial) -> None:
    away, key = t.through(t.gateways.away), t.key()
    call = t.pool.submit(away.ask, key, {"barrier": "meanwhile"})
    wait_until(lambda: t.simulator.waiting("meanwhile") == 1)
    with t.gateways.shut_out():
        t.refused(away.ask(key), 503, "enforcement_unavailable")
        t.simulator.open("meanwhile")
        assert call.result().status_code == 200
        assert t.budget(key)["reserved"] > 0
    # A pooler may have kept a reserve that nobody waited for any more: it was given back.
    wait_until(lambda: (t.budget(key)["spent"], t.budget(key)["reserved"]) == (t.standard, 0))
    assert t.simulator.calls() == 1
    # It is back by itself.
    wait_until(lambda: away.ask(key).status_code == 200)


def a_gateway_that_is_told_to_stop_books_what_runs(t: Trial) -> None:
    key = t.key()
    with t.gateways.start() as stopping:
        calls = [t.pool.submit(t.through(stopping).ask, key, {"barrier": "end"}) for _ in range(5)]
        wait_until(lambda: t.simulator.waiting("end") == 5)
        stopping.signal_stop()
        t.simulator.open("end")
        assert [call.result().status_code for call in calls] == [200] * 5
        assert stopping.stop() == 0
    assert [int(entry["amount"]) for entry in t.entries(key, 5)] == [t.standard] * 5


# LEDGER-01


def ids_of_others_are_only_noted(t: Trial) -> None:
    key = t.key()
    ids: list[Any] = [{"ids": [value]} for value in ("chatcmpl-1", "chatcmpl-1", None, None, "", "x" * 10_000)]
    for simulate in [*ids, {"omit": ["id"]}]:
        request = t.request(key, simulate)
        request["headers"]["x-request-id"] = "same"
        assert httpx.post(timeout=60, **request).status_code == 200
    request["headers"]["x-request-id"] = "x" * 10_000
    assert httpx.post(timeout=60, **request).status_code == 200
    entries = t.entries(key, 8)
    assert sum(int(entry["amount"]) for entry in entries) == 8 * t.standard
    assert len({entry["reservation_id"] for entry in entries}) == 8
    assert all(len(value) <= 200 for entry in entries for value in (entry["note"] or {}).values())


# The table


@dataclass(frozen=True)
class Row:
    """A case, what is right, and the reasons why it cannot concern a route, or answers that are whole or streamed."""

    id: str
    right: Callable[[Trial], None]
    excuses: dict[str, str]
    says: str

    def excuse(self, route: Route, stream: bool) -> str | None:
        """Why this case is not tried so; None if it is."""
        if route is EMBEDDINGS and stream:
            return "embeddings are never streamed"
        return self.excuses.get(route.name) or self.excuses.get("streamed" if stream else "whole")


def row(case: str, right: Callable[[Trial], None], says: str = "", **excuses: str) -> Row:
    """A row of the table; ``says``: its name where the function has none."""
    return Row(case, right, excuses, says or right.__name__)


NO_OUTPUT = "nothing is generated"
ONE_ANSWER = "a request has one answer"
ONLY_TEXT = "its input is text alone"
TOLD = "usage is told unasked"
WHOLE_HAS_ONE = "a whole answer has one usage"
NO_CACHE_IN_IT = "cached tokens are a part of its input: PRICE-01"
NOTHING_STORED = "it cannot name what is stored"

TABLE = [
    row("EST-01", no_cap_holds_the_input_and_the_default_output, messages="a cap is required: EST-08", embeddings=NO_OUTPUT),
    row("EST-02", dense_text_is_bounded_by_its_bytes),
    row("EST-03", a_picture_is_held_as_a_picture, completions=ONLY_TEXT, embeddings=ONLY_TEXT),
    row("EST-05", what_is_stored_is_held_at_the_context_window, completions=NOTHING_STORED, embeddings=NOTHING_STORED),
    row("EST-05", a_stored_prompt_is_refused, chat=NOTHING_STORED, messages=NOTHING_STORED,
        completions="its prompt is text", embeddings=NOTHING_STORED),
    row("EST-06", all_that_is_sent_along_is_input, embeddings="nothing can be sent along"),
    row("EST-07", n_multiplies_the_output, responses=ONE_ANSWER, messages=ONE_ANSWER, embeddings=NO_OUTPUT),
    row("EST-08", the_cap_that_is_priced_is_the_cap_that_is_forwarded, embeddings=NO_OUTPUT),
    row("EST-10", a_cache_write_is_held_at_its_own_price, completions=NO_CACHE_IN_IT,
        responses=NO_CACHE_IN_IT, embeddings="nothing is cached"),
    row("USE-01", usage_is_asked_for_and_hidden_from_who_did_not_ask, whole="it is asked for in streams only",
        responses=TOLD, messages=TOLD),
    row("USE-01", usage_that_is_told_unasked_goes_through, chat="a stream must be asked", completions="a stream must be asked"),
    row("USE-03", cumulative_usage_is_never_added, whole=WHOLE_HAS_ONE),
    row("USE-04", an_answer_without_usage_is_bounded_by_its_text),
    row("USE-04", who_refuses_the_question_for_usage_is_asked_without, whole="only a stream is asked",
        responses=TOLD, messages=TOLD),
    row("USE-04", without_a_stream_usage_is_not_asked_for, streamed="it is asked for: USE-01"),
    row("USE-06", merged(REPEATED), "usage_of_the_end_replaces_that_of_the_beginning", chat=NO_CACHE_IN_IT,
        completions=NO_CACHE_IN_IT, responses=NO_CACHE_IN_IT, embeddings="nothing is cached"),
    row("USE-08", merged(BY_TTL), "cache_writes_are_charged_by_their_time_to_live", chat=NO_CACHE_IN_IT,
        completions=NO_CACHE_IN_IT, responses=NO_CACHE_IN_IT, embeddings="nothing is cached"),
    row("USE-09", usage_is_not_believed_blindly),
    row("SSE-01", every_form_of_the_stream_is_metered_alike, whole="it is no stream"),
    row("SSE-03", what_the_client_accepts_is_not_what_the_provider_is_asked_for),
    row("SSE-03", what_is_compressed_unasked_is_metered_and_decoded),
    row("ERR-01", leaving_a_stream_is_not_free, whole="what comes whole is waited for"),
    row("ERR-01", with_time_to_read_on_the_real_usage_is_charged, whole="what comes whole is waited for"),
    row("ERR-01", leaving_an_answer_that_comes_whole_is_charged_as_it_comes, streamed="it is no whole answer"),
    row("ERR-01", a_loop_of_leaving_is_stopped_by_the_budget),
    row("ERR-02", a_stream_that_breaks_is_charged_by_its_output, whole="of a broken whole nothing is seen"),
    row("ERR-02", what_breaks_before_anything_is_seen_is_charged_in_full),
    row("ERR-02", an_error_in_a_stream_is_free_only_before_its_output, whole="an error is the whole answer",
        responses="an item has begun by then, and may have been thought: test_responses",
        messages="its beginning has told the input: test_messages"),
    row("ERR-02", an_answer_that_cannot_be_read_is_charged_in_full, streamed="what can be read of it counts: SSE-01"),
    row("ERR-02", a_provider_that_falls_silent_is_given_up),
    row("ERR-02", what_the_provider_refuses_is_released_and_its_own),
    row("PRICE-01", cached_tokens_are_part_of_the_input, messages="they are beside it: PRICE-02",
        embeddings="nothing is cached"),
    row("PRICE-01", parts_that_are_more_than_the_whole, messages="they are beside it: PRICE-02",
        embeddings="nothing is cached"),
    row("PRICE-02", merged(BESIDE_THE_INPUT), "what_came_from_the_cache_is_beside_the_input", chat=NO_CACHE_IN_IT,
        completions=NO_CACHE_IN_IT, responses=NO_CACHE_IN_IT, embeddings="nothing is cached"),
    row("PRICE-03", reasoning_is_counted_once, embeddings=NO_OUTPUT),
    row("MODEL-01", a_model_that_is_not_priced_is_not_served),
    row("MODEL-02", the_model_that_was_admitted_is_the_one_that_is_charged),
    row("RATE-04", an_empty_budget_is_no_rate_limit),
    row("RATE-04", a_rate_limit_says_when_to_come_back),
    row("RETRY-01", what_may_have_cost_is_charged_before_the_next_is_tried),
    row("RETRY-01", a_dear_fallback_is_held_or_refused),
    row("RETRY-01", who_is_not_reached_costs_nothing),
    row("SEC-01", the_callers_key_goes_nowhere),
    row("SEC-03", bodies_that_hurt_are_refused_before_anything_is_held),
    row("ROUTE-01", no_path_leads_around_the_budget),
    row("HOLD-01", who_leaves_before_the_first_byte_leaves_no_hold),
    row("HOLD-01", holds_end_however_their_calls_do),
    row("HOLD-01", what_a_killed_gateway_held_is_charged),
    row("HOLD-03", a_hold_that_was_swept_is_corrected_by_the_call_that_ends),
    row("HOLD-08", without_its_database_the_gateway_sends_nothing_and_loses_nothing),
    row("HOLD-08", a_gateway_that_is_told_to_stop_books_what_runs),
    row("LEDGER-01", ids_of_others_are_only_noted),
]  # fmt: skip

#: Cases that are of budgets, periods, alerts and admission, not of a route.
ELSEWHERE = {
    "CONC-01", "CONC-03", "HOLD-04", "HOLD-07", "PRICE-05", "PRICE-07", "PRICE-09", "BUDGET-01", "BUDGET-02", "PERIOD-01",
    "PERIOD-03", "PERIOD-04", "RATE-01", "RATE-03", "ALERT-01", "ALERT-03", "LEDGER-03",
}  # fmt: skip


@pytest.fixture(scope="session")
def priced(shared_world: World) -> World:
    """Models without a price, with one of nothing, and with one of all cache writes."""
    shared_world.execute("""
      select budget.set_model('simulator', m, 400000, 16384), budget.set_route(null, m, 'simulator', 'simulator')
      from unnest(array['no-price', 'no-input-price', 'unreviewed', 'free', 'o-son']) m;
      select budget.review_price(budget.add_price('simulator', m, l::jsonb, '2020-01-01', 'made up'), 'me')
      from (values ('no-input-price', '[{"kind": "output", "usd": 1}]'),
        ('free', '[{"kind": "input", "usd": 0}, {"kind": "output", "usd": 0}]'),
        ('o-son', '[{"kind": "input", "usd": 3}, {"kind": "cache_read", "usd": 0.3}, {"kind": "cache_write", "usd": 3.75},
          {"kind": "cache_write_1h", "usd": 6}, {"kind": "output", "usd": 15}]')) p (m, l);
      select budget.add_price('simulator', 'unreviewed', '[{"kind": "input", "usd": 1}, {"kind": "output", "usd": 1}]');
    """)
    return shared_world


@pytest.fixture(scope="session")
def _second() -> Iterator[Simulator]:
    with Simulator() as running:
        yield running


@pytest.fixture(scope="session")
def _gateways(priced: World, _simulator: Simulator, _second: Simulator) -> Iterator[Gateways]:
    gateways = Gateways(priced, _simulator, _second)
    yield gateways
    gateways.stop()


@pytest.fixture
def gateways(_gateways: Gateways) -> Gateways:
    """Those with settings of their own."""
    _gateways.second.reset()
    return _gateways


def trials() -> Iterator[Any]:
    """All that the table does not excuse."""
    for tried in TABLE:
        for route in ROUTES:
            for stream in (False, True):
                if tried.excuse(route, stream) is None:
                    name = f"{tried.id}-{tried.says}-{route}-{'streamed' if stream else 'whole'}"
                    yield pytest.param(tried, route, stream, id=name)


@pytest.mark.parametrize(("tried", "route", "stream"), list(trials()))
def test_case(
    tried: Row, route: Route, stream: bool, shared_gateway: Gateway, simulator: Simulator, gateways: Gateways
) -> None:
    with ThreadPoolExecutor(16) as pool:
        trial = Trial(gateways.world, shared_gateway, gateways, simulator, route, stream, pool)
        try:
            tried.right(trial)
        finally:
            # Whatever still waits there goes on.
            simulator.reset()


def test_every_case_is_in_the_table_and_every_row_is_tried() -> None:
    lines = (SHARED / "cases" / "cases.jsonl").read_text().splitlines()
    assert {tried.id for tried in TABLE} | ELSEWHERE == {json.loads(line)["id"] for line in lines}
    for tried in TABLE:
        assert set(tried.excuses) <= {*map(str, ROUTES), "whole", "streamed"}
        assert any(tried.excuse(route, stream) is None for route in ROUTES for stream in (False, True)), tried
