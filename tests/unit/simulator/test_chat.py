"""What the simulator answers: as OpenAI does, with text that says how many tokens it is."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import openai
import pytest

from pgbudget.simulator import create_app
from tests.unit.simulator.conftest import BODY, STREAM, Running, events


def test_a_whole_answer(simulator: Running) -> None:
    answer = simulator.chat(completion_tokens=3, cached_tokens=40)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.headers["x-request-id"].startswith("req_")
    body = answer.json()
    assert body["id"].startswith("chatcmpl-")
    assert (body["object"], body["model"], body["system_fingerprint"]) == ("chat.completion", "t-mini", "fp_simulated")
    assert isinstance(body["created"], int)
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "word word word ", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert body["usage"] == {
        "prompt_tokens": 100,
        "completion_tokens": 3,
        "total_tokens": 103,
        "prompt_tokens_details": {"cached_tokens": 40, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def test_a_stream_has_an_event_a_token_and_reports_usage_last_with_null_before(simulator: Running) -> None:
    answer = simulator.chat(STREAM, completion_tokens=3)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    *pieces, finish, usage = events(answer)
    assert {e["object"] for e in pieces} == {"chat.completion.chunk"}
    assert len({e["id"] for e in [*pieces, finish, usage]}) == 1
    assert [e["choices"][0]["delta"] for e in pieces] == [
        {"role": "assistant", "content": "word "},
        {"content": "word "},
        {"content": "word "},
    ]
    assert (finish["choices"][0]["delta"], finish["choices"][0]["finish_reason"]) == ({}, "stop")
    assert [e["usage"] for e in [*pieces, finish]] == [None] * 4
    assert usage["choices"] == []
    assert (usage["usage"]["prompt_tokens"], usage["usage"]["completion_tokens"]) == (100, 3)


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_obfuscation": False}])
def test_a_stream_says_nothing_of_usage_unless_asked(simulator: Running, options: Any) -> None:
    assert not any("usage" in e for e in events(simulator.chat({**BODY, "stream": True, "stream_options": options})))


def test_chunks_group_tokens(simulator: Running) -> None:
    *pieces, _, _ = events(simulator.chat(STREAM, completion_tokens=10, chunks=4))
    assert [e["choices"][0]["delta"]["content"].count("word") for e in pieces] == [2, 3, 2, 3]
    *pieces, _, _ = events(simulator.chat(STREAM, completion_tokens=2, chunks=4))
    assert len(pieces) == 2


@pytest.mark.parametrize("cap", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_cap_ends_the_output_unless_it_is_ignored(simulator: Running, cap: str, stream: bool) -> None:
    body = {**BODY, "max_tokens": None, cap: 7, "stream": stream}
    for behaviour, tokens, reason in (({}, 7, "length"), ({"ignore_cap": True}, 200, "stop")):
        answer = simulator.chat(body, **behaviour)
        assert simulator.last()["completion_tokens"] == tokens
        assert answer.text.count("word") == tokens
        assert f'"finish_reason":"{reason}"' in answer.text


def test_choices_each_cost_their_tokens(simulator: Running) -> None:
    whole = simulator.chat({**BODY, "n": 3}, completion_tokens=5).json()
    assert [c["index"] for c in whole["choices"]] == [0, 1, 2]
    assert whole["usage"]["completion_tokens"] == 15
    *pieces, one, two, usage = events(simulator.chat({**STREAM, "n": 2}, completion_tokens=5))
    assert [e["choices"][0]["index"] for e in pieces] == [0, 1] * 5
    assert [e["choices"][0]["index"] for e in (one, two)] == [0, 1]
    assert usage["usage"]["completion_tokens"] == simulator.last()["completion_tokens"] == 10


def test_tool_calls(simulator: Running) -> None:
    (choice,) = simulator.chat(deltas="tool_calls", completion_tokens=2).json()["choices"]
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": "word word "}
    first, second, finish, _ = events(simulator.chat(STREAM, deltas="tool_calls", completion_tokens=2))
    assert first["choices"][0]["delta"]["tool_calls"] == [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": "word "}}
    ]
    assert second["choices"][0]["delta"]["tool_calls"] == [{"index": 0, "function": {"arguments": "word "}}]
    assert choice["finish_reason"] == finish["choices"][0]["finish_reason"] == "tool_calls"


def test_reasoning_is_shown_or_hidden_and_counted_either_way(simulator: Running) -> None:
    *pieces, _, usage = events(simulator.chat(STREAM, deltas="reasoning", completion_tokens=2))
    assert [e["choices"][0]["delta"]["reasoning_content"] for e in pieces] == ["word "] * 2
    assert usage["usage"]["completion_tokens_details"]["reasoning_tokens"] == 2
    for body in (BODY, STREAM):
        answer = simulator.chat(body, completion_tokens=5, reasoning_tokens=3)
        assert answer.text.count("word") == 2
        call = simulator.last()
        assert (call["completion_tokens"], call["reasoning_tokens"]) == (5, 3)
        assert '"reasoning_tokens":3' in answer.text


def test_padding_makes_pieces_large_and_not_dear(simulator: Running) -> None:
    plain, padded = (simulator.chat(STREAM, completion_tokens=4, padding=size) for size in (0, 2000))
    assert len(padded.content) - len(plain.content) >= 4 * 2000
    assert {c["billed_nano_usd"] for c in simulator.tally()["generated"]} == {100_000 + 4 * 4_000}


def test_ids_models_and_members_as_told(simulator: Running) -> None:
    ids = ["a", "a", None, ""]
    simulator.client.post("/simulator/defaults", json={"ids": ids, "model": "t-other"}).raise_for_status()
    bodies = [simulator.chat().json() for _ in ids]
    assert [b["id"] for b in bodies] == ids
    assert {b["model"] for b in bodies} == {"t-other"}
    assert [c["id"] for c in simulator.tally()["generated"]] == ids
    assert "id" not in simulator.chat(omit=["id"]).json()
    assert all("id" not in e for e in events(simulator.chat(STREAM, omit=["id"])))
    assert events(simulator.chat(STREAM, omit=["id", "object", "created", "model", "system_fingerprint"], chunks=1))


def test_usage_as_told(simulator: Running) -> None:
    wrong = {"prompt_tokens": -1, "completion_tokens": "5"}
    assert simulator.chat(usage=wrong).json()["usage"] == wrong
    assert events(simulator.chat(STREAM, usage=wrong))[-1]["usage"] == wrong
    assert "usage" not in simulator.chat(no_usage=True).json()
    assert not any("usage" in e for e in events(simulator.chat(STREAM, no_usage=True)))
    reports = [{"completion_tokens": 1}, None, {"completion_tokens": 3}]
    *pieces, _ = events(simulator.chat({**BODY, "stream": True}, completion_tokens=4, usages=reports))
    assert [e["usage"] for e in pieces] == [*reports, None]
    assert {c["billed_nano_usd"] for c in simulator.tally()["generated"]} == {900_000, 116_000}


NO_CAPS: list[Any] = [0, -1, 1.5, "5", True, [], 16_385]
NO_COUNTS: list[Any] = [0, -1, 129, 1.5, "2", True]
BAD: list[tuple[dict[str, Any], str | None]] = [
    ({"model": None}, None),
    ({"messages": "hi"}, "messages"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": 5}, "stream_options"),
    ({"max_completion_tokens": 5}, "max_tokens"),
    *(({"max_tokens": value}, "max_tokens") for value in NO_CAPS),
    *(({"n": value}, "n") for value in NO_COUNTS),
]


@pytest.mark.parametrize(("change", "param"), BAD)
def test_bad_requests_are_refused_and_cost_nothing(simulator: Running, change: dict[str, Any], param: str | None) -> None:
    answer = simulator.chat({**BODY, **change})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    tally = simulator.tally()
    assert (tally["requests"], tally["cost_nano_usd"], tally["states"]["refused"]) == (1, 0, 1)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"[]", b'{"model": NaN}', b"[" * 100_000])
def test_bodies_that_are_no_json_object_are_refused(simulator: Running, content: bytes) -> None:
    answer = simulator.client.post("/v1/chat/completions", content=content, headers={"authorization": "Bearer k"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert simulator.last()["request_body"] == content.decode()


def test_parameters_can_be_refused(simulator: Running) -> None:
    answer = simulator.chat(STREAM, refuse_parameters=["stream_options"])
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown_parameter")
    assert simulator.chat(refuse_parameters=["stream_options"]).status_code == 200


def test_what_is_not_a_chat_model_is_not_found_and_a_model_off_the_card_is_not_priced(simulator: Running) -> None:
    assert simulator.chat({**BODY, "model": "e-small"}).status_code == 404
    assert simulator.chat({**BODY, "model": "new"}).status_code == 200
    assert simulator.tally()["by_model"]["new"]["priced"] is False


def test_unknown_routes_and_models(simulator: Running) -> None:
    for method, path in (("POST", "/v1/audio/speech"), ("GET", "/v1/chat/completions"), ("GET", "/"), ("DELETE", "/v1/x/y")):
        answer = simulator.client.request(method, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_url")
    answer = simulator.client.get("/v1/models", headers={"authorization": "Bearer k"})
    assert [m["id"] for m in answer.json()["data"]] == ["t-mini", "t-pro", "c-son", "claude-opus-4-8", "e-small"]
    assert simulator.client.get("/v1/models").status_code == 401
    assert simulator.client.get("/healthz").json() == {"status": "ok"}
    assert simulator.tally()["requests"] == 0


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Basic eDp5"])
def test_without_a_key_nothing_is_served(simulator: Running, authorization: str | None) -> None:
    extra = {} if authorization is None else {"authorization": authorization}
    answer = simulator.client.post("/v1/chat/completions", json=BODY, headers=extra)
    assert (answer.status_code, answer.json()["error"]["type"]) == (401, "authentication_error")
    assert "x-request-id" in answer.headers
    call = simulator.last()
    assert (call["state"], call["status"], call["billed_nano_usd"]) == ("refused", 401, 0)


def test_only_the_expected_key_is_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBUDGET_SIMULATOR_KEY", "right")

    async def call(key: str) -> httpx.Response:
        transport = httpx.ASGITransport(create_app({"completion_tokens": 1}))
        async with httpx.AsyncClient(transport=transport, base_url="http://simulator") as client:
            return await client.post("/v1/chat/completions", json=BODY, headers={"authorization": f"bearer {key}"})

    assert asyncio.run(call("right")).status_code == 200
    refused = asyncio.run(call("wrong"))
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")


def test_the_real_sdk_reads_it(simulator: Running) -> None:
    messages: Any = BODY["messages"]
    with openai.OpenAI(base_url=f"{simulator.url}/v1", api_key="sk-test", max_retries=0) as client:
        whole = client.chat.completions.create(model="t-mini", messages=messages, max_tokens=3)
        assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == ("word " * 3, "length")
        with client.chat.completions.create(
            model="t-mini", messages=messages, max_tokens=3, stream=True, stream_options={"include_usage": True}
        ) as stream:
            chunks = list(stream)
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "word " * 3
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.total_tokens == 103
        with pytest.raises(openai.RateLimitError, match="simulated status 429"):
            client.chat.completions.create(model="t-mini", messages=messages, extra_headers={"x-simulate": '{"status": 429}'})
