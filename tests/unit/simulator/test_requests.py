"""What each dialect refuses, as its provider does; a refused request costs nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from pgbudget.simulator import create_app
from tests.unit.simulator.conftest import COMPLETIONS, EMBEDDINGS, MESSAGES, RESPONSES, Route, Running

COUNT = Route("/v1/messages/count_tokens", MESSAGES.body)
NO_CAPS: list[Any] = [0, 15, 16_385, "20", 20.5, True]
NO_NAMES: list[Any] = [None, "", 5]
NO_LISTS: list[Any] = [None, "hi", []]
NO_PROMPTS: list[Any] = [5, [], [1, "a"], [[]], [["a"]], {}]
BAD: list[tuple[Route, dict[str, Any], str]] = [
    (RESPONSES, {"model": None}, "model"),
    (RESPONSES, {"input": None}, "input"),
    (RESPONSES, {"input": 5}, "input"),
    (RESPONSES, {"stream": "yes"}, "stream"),
    (RESPONSES, {"stream_options": {"include_obfuscation": False}}, "stream_options"),
    *((RESPONSES, {"max_output_tokens": value}, "max_output_tokens") for value in NO_CAPS),
    (RESPONSES, {"background": "yes"}, "background"),
    (RESPONSES, {"background": True, "store": False}, "background"),
    (COMPLETIONS, {"model": 5}, "model"),
    *((COMPLETIONS, {"prompt": value}, "prompt") for value in NO_PROMPTS),
    *((COMPLETIONS, {"max_tokens": value}, "max_tokens") for value in (-1, 16_385, "20", True)),
    *((COMPLETIONS, {"n": value}, "n") for value in (0, 129, "2")),
    *((COMPLETIONS, {"best_of": value}, "best_of") for value in (0, 21, "2")),
    (COMPLETIONS, {"n": 3, "best_of": 2}, "best_of"),
    (COMPLETIONS, {"n": 2, "best_of": 3, "stream": True}, "best_of"),
    (COMPLETIONS, {"echo": 1}, "echo"),
    (COMPLETIONS, {"stream_options": {"include_usage": True}}, "stream_options"),
    (EMBEDDINGS, {"model": ""}, "model"),
    *((EMBEDDINGS, {"input": value}, "input") for value in [None, "", [""], ["a"] * 2049, *NO_PROMPTS]),
    *((EMBEDDINGS, {"dimensions": value}, "dimensions") for value in (0, 1537, "8")),
    (EMBEDDINGS, {"encoding_format": "hex"}, "encoding_format"),
    *((route, {"model": value}, "model") for route in (MESSAGES, COUNT) for value in NO_NAMES),
    *((route, {"messages": value}, "messages") for route in (MESSAGES, COUNT) for value in NO_LISTS),
    *((MESSAGES, {"max_tokens": value}, "max_tokens") for value in (None, 0, -1, 16_385, "20", True)),
    (MESSAGES, {"stream": "yes"}, "stream"),
]


@pytest.mark.parametrize(("route", "change", "member"), BAD, ids=lambda v: v.path if isinstance(v, Route) else str(v)[:40])
def test_bad_requests(simulator: Running, route: Route, change: dict[str, Any], member: str) -> None:
    answer = simulator.post(route.path, {**route.body, **change})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
    assert error.get("param") == member or member in error["message"]
    tally = simulator.tally()
    assert (tally["requests"], tally["cost_nano_usd"], tally["states"]["refused"]) == (1, 0, 1)


@pytest.mark.parametrize(
    ("route", "model", "status"),
    [(RESPONSES, "e-small", 404), (COMPLETIONS, "e-small", 404), (MESSAGES, "e-small", 404), (EMBEDDINGS, "t-mini", 403)],
)
def test_models_of_another_kind(simulator: Running, route: Route, model: str, status: int) -> None:
    assert simulator.post(route.path, {**route.body, "model": model}).status_code == status
    assert simulator.post(route.path, {**route.body, "model": "new"}).status_code == 200
    assert simulator.tally()["by_model"]["new"]["priced"] is False


@pytest.mark.parametrize("path", [MESSAGES.path, COUNT.path])
def test_anthropic_asks_for_its_version_and_a_key(simulator: Running, path: str) -> None:
    def post(**headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return simulator.client.post(path, json=MESSAGES.body, headers=named)

    for headers in ({}, {"x_api_key": ""}, {"authorization": "Basic eDp5"}, {"authorization": "Bearer"}):
        answer = post(**headers, anthropic_version="2023-06-01")
        assert (answer.status_code, answer.json()["error"]["type"]) == (401, "authentication_error")
        assert answer.json()["request_id"] == answer.headers["request-id"]
    answer = post(x_api_key="k")
    assert (answer.status_code, "anthropic-version" in answer.json()["error"]["message"]) == (400, True)
    assert post(x_api_key="k", anthropic_version="2023-06-01").status_code == 200
    assert post(authorization="Bearer k", anthropic_version="2023-06-01").status_code == 200


@pytest.mark.parametrize("route", [RESPONSES, COMPLETIONS, EMBEDDINGS, MESSAGES, COUNT], ids=lambda r: r.path)
def test_only_the_expected_key_is_let_in(route: Route) -> None:
    async def call(key: str) -> int:
        transport = httpx.ASGITransport(create_app({"completion_tokens": 1}, key="right"))
        async with httpx.AsyncClient(transport=transport, base_url="http://simulator") as client:
            headers = {"authorization": f"bearer {key}", "anthropic-version": "2023-06-01"}
            return (await client.post(route.path, json=route.body, headers=headers)).status_code

    assert [asyncio.run(call(key)) for key in ("right", "wrong")] == [200, 401]


def test_completions_generate_sixteen_tokens_unless_told(simulator: Running) -> None:
    answer = simulator.post(COMPLETIONS.path, {"model": "t-mini", "prompt": "hi"})
    assert answer.json()["choices"][0]["finish_reason"] == "length"
    assert simulator.last()["completion_tokens"] == 16
    assert (
        simulator.post(COMPLETIONS.path, {**COMPLETIONS.body, "max_tokens": 0, "echo": True}).json()["choices"][0]["text"]
        == "hi"
    )


def test_all_that_is_generated_is_billed_and_the_best_is_shown(simulator: Running) -> None:
    body = {**COMPLETIONS.body, "prompt": ["a", "b"], "n": 2, "best_of": 3}
    answer = simulator.post(COMPLETIONS.path, body, completion_tokens=5).json()
    assert [c["index"] for c in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["completion_tokens"] == simulator.last()["completion_tokens"] == 2 * 3 * 5


def test_embeddings_bill_the_prompt_alone(simulator: Running) -> None:
    answer = simulator.post(EMBEDDINGS.path, EMBEDDINGS.body, prompt_tokens=50, web_searches=3, cached_tokens=9)
    assert answer.json()["usage"] == {"prompt_tokens": 50, "total_tokens": 50}
    call = simulator.last()
    # 50 x 0.02
    assert (call["billed_nano_usd"], call["completion_tokens"], call["cached_tokens"]) == (1_000, 0, 0)
    assert '"usage"' not in simulator.post(EMBEDDINGS.path, EMBEDDINGS.body, no_usage=True).text
    assert simulator.post(EMBEDDINGS.path, EMBEDDINGS.body, usage={"a": 1}).json()["usage"] == {"a": 1}


@pytest.mark.parametrize("given", ["a", ["a"], [1, 2], [[1, 2]]])
def test_an_input_in_any_form_is_embedded_alike_each_time(simulator: Running, given: Any) -> None:
    one, other = (simulator.post(EMBEDDINGS.path, {**EMBEDDINGS.body, "input": given}).json() for _ in range(2))
    assert one == other
    (vector,) = one["data"]
    assert sum(number * number for number in vector["embedding"]) == pytest.approx(1)


def test_a_message_that_searches_knows_its_first_round_at_the_start(simulator: Running) -> None:
    text = simulator.post(MESSAGES.path, MESSAGES.stream, prompt_tokens=900, web_searches=2).text
    assert text.count('"input_tokens":300') == 1
    assert text.index('"input_tokens":300') < text.index('"input_tokens":900')
