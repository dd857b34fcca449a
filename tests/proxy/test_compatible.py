"""Completions, embeddings and the ways of compatible providers, from the key to the ledger. Amounts are micro-dollars."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import openai
import pytest

from tests.support.processes import Gateway, Simulator, wait_until
from tests.support.world import World

STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
#: The bound of a short body.
SHORT = range(1024, 1300)


def call(gateway: Gateway, key: str, path: str, simulate: dict[str, Any] | None = None, **body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}", "x-simulate": json.dumps(simulate or {})}
    return httpx.post(f"{gateway.url}/v1{path}", json=body, headers=headers, timeout=60)


def booked(world: World, count: int = 1) -> dict[str, Any]:
    """The last of so many entries, amounts in nano-USD."""
    wait_until(lambda: len(world.ledger()) >= count, what="a ledger entry")
    (entry,) = world.ledger()[count - 1 :]
    return entry


# Completions


@STREAMED
def test_what_a_completion_holds_is_what_it_may_generate(
    world: World, gateway: Gateway, simulator: Simulator, stream: bool
) -> None:
    cases: list[tuple[dict[str, Any], int]] = [
        ({}, 16), ({"max_tokens": 50}, 50), ({"max_tokens": 50, "n": 3}, 150),
        ({"max_tokens": 50, "prompt": ["a", "b"], "n": 2}, 200), ({"max_tokens": 50, "prompt": [[1, 2, 3], [4]]}, 100),
        # No provider streams the best of several.
        *([] if stream else [({"max_tokens": 50, "best_of": 4}, 200)]),
    ]  # fmt: skip
    key = world.key(10**9)
    for place, (more, generated) in enumerate(cases, 1):
        simulator.reset()
        body = {"model": "t-mini", "prompt": "say hi", "stream": stream, **more}
        answer = call(gateway, key, "/completions", {"completion_tokens": 1000, "prompt_tokens": 10}, **body)
        assert answer.status_code == 200, answer.text
        entry = booked(world, place)
        # A micro-dollar for a token of input, four for one of output.
        assert entry["reserved_nano_usd"] // 1000 - 4 * generated in SHORT
        assert entry["amount_nano_usd"] // 1000 == 10 + 4 * generated
        (seen,) = simulator.tally()["generated"]
        assert seen["request_body"]["max_tokens"] == more.get("max_tokens", 16)
        assert seen["request_body"].get("stream_options") == ({"include_usage": True} if stream else None)
        if stream:
            assert b'"usage"' not in answer.content
            assert answer.content.endswith(b"data: [DONE]\n\n")
    assert world.verify() == []


@STREAMED
def test_an_echo_alone_costs_its_input(world: World, gateway: Gateway, stream: bool) -> None:
    body = {"model": "t-mini", "prompt": "say hi", "echo": True, "max_tokens": 0, "stream": stream}
    assert call(gateway, world.key(10**9), "/completions", {"prompt_tokens": 10}, **body).status_code == 200
    entry = booked(world)
    assert (entry["source"], entry["amount_nano_usd"], entry["flags"]) == ("usage", 10_000, [])


@STREAMED
def test_a_completion_without_usage_is_bounded_by_its_text(world: World, gateway: Gateway, stream: bool) -> None:
    body = {"model": "t-mini", "prompt": "say hi", "max_tokens": 100, "stream": stream}
    call(gateway, world.key(10**9), "/completions", {"no_usage": True, "completion_tokens": 5, "text": "word "}, **body)
    entry = booked(world)
    assert "estimated" in entry["flags"]
    assert entry["usage"]["output"] == 25


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("/completions", {"prompt": {"a": 1}}, "prompt"), ("/completions", {"prompt": "a", "n": 0}, "n"),
    ("/completions", {"prompt": "a", "best_of": 1000}, "best_of"), ("/completions", {"prompt": ["a"] * 20, "n": 100}, "n"),
    ("/completions", {"prompt": "a", "max_tokens": -1}, "max_tokens"),
    ("/completions", {"prompt": "a", "stream": "yes"}, "stream"),
    ("/embeddings", {}, "input"), ("/embeddings", {"input": "a", "stream": True}, "stream"),
    ("/embeddings", {"input": "a", "dimensions": 0}, "dimensions"), ("/embeddings", {"input": "a", "api_key": "x"}, "api_key"),
]  # fmt: skip


def test_bad_input_is_named_before_anything_is_held(world: World, gateway: Gateway, simulator: Simulator) -> None:
    key = world.key(10**9)
    for path, body, param in BAD:
        answer = call(gateway, key, path, model="t-mini", **body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert simulator.calls() == 0
    assert world.ledger() == []


# Embeddings


@pytest.fixture
def embedding(world: World) -> World:
    """The model without an output price, 20 nano-USD a token, with a small window."""
    world.execute("select budget.set_model('simulator', 'e-small', 2000, 0)")
    return world


def test_an_embedding_holds_its_input(embedding: World, gateway: Gateway) -> None:
    cases: list[tuple[Any, int, int]] = [
        ("say hi", 1024, 1200), ([1, 2, 3], 1027, 1200), ([[1] * 100, [2] * 50], 1174, 1300), (["x" * 900], 1924, 2000),
        # The window holds for each input, not for all of them together.
        (["x" * 1500] * 20, 31_000, 33_000), ("x" * 9000, 2000, 2000),
    ]  # fmt: skip
    key = embedding.key(10**9)
    for place, (given, least, most) in enumerate(cases, 1):
        answer = call(gateway, key, "/embeddings", {"prompt_tokens": 7}, model="e-small", input=given, dimensions=8)
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["data"][0]["embedding"]) == 8
        entry = booked(embedding, place)
        assert least <= entry["reserved_nano_usd"] / 20 <= most
        assert (entry["source"], entry["amount_nano_usd"], entry["usage"]) == ("usage", 140, {"input": 7, "output": 0})
    assert embedding.verify() == []


def test_an_embedding_without_usage_is_charged_its_bound(embedding: World, gateway: Gateway) -> None:
    answer = call(gateway, embedding.key(10**9), "/embeddings", {"no_usage": True}, model="e-small", input="say hi")
    assert answer.status_code == 200
    entry = booked(embedding)
    assert entry["flags"] == ["estimated"]
    assert entry["amount_nano_usd"] == entry["reserved_nano_usd"] > 0


def test_the_sdk_embeds_and_is_refused_in_its_own_words(embedding: World, gateway: Gateway) -> None:
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=embedding.key(10**9), max_retries=0)
    assert len(client.embeddings.create(model="e-small", input="hi", dimensions=4).data[0].embedding) == 4
    poor = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=embedding.key(1), max_retries=0)
    with pytest.raises(openai.APIStatusError, match="limit") as refused:
        poor.embeddings.create(model="e-small", input="hi")
    assert refused.value.code == "request_over_limit"
    with pytest.raises(openai.APIStatusError) as refused:
        poor.completions.create(model="t-mini", prompt="hi")
    assert refused.value.code == "request_over_limit"


# Providers


class Picky(BaseHTTPRequestHandler):
    """Refuses a question for usage, as some do; streams without usage otherwise."""

    bodies: list[dict[str, Any]]
    always = False

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.bodies.append(body)
        if "stream_options" in body or self.always:
            said = b'{"error": {"message": "unknown field stream_options"}}'
            self.send_response(400)
            self.send_header("content-type", "application/json")
        else:
            text = {"text": "word"} if "prompt" in body else {"delta": {"content": "word"}}
            said = b"data: " + json.dumps({"choices": [{**text, "finish_reason": "stop"}]}).encode() + b"\n\ndata: [DONE]\n\n"
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def picky(always: bool = False) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    handler = type("Handler", (Picky,), {"bodies": [], "always": always})
    with serving(handler) as url:
        yield url, handler.bodies  # type: ignore[attr-defined]


ASKS = pytest.mark.parametrize(
    ("path", "asks"),
    [("/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}), ("/completions", {"prompt": "hi"})],
    ids=["chat", "completions"],
)


class Nonsense(BaseHTTPRequestHandler):
    """Takes a call, and answers with what is no HTTP."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.wfile.write(b"nonsense\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@ASKS
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_answer_that_is_no_http_is_paid_for_in_full(
    world: World, simulator: Simulator, path: str, asks: Any, stream: bool
) -> None:
    with (
        serving(Nonsense) as url,
        Gateway(world.gateway_dsn, simulator.url, account_simulator_url=url) as gateway,
    ):
        answer = call(gateway, world.key(10**9), path, model="t-mini", max_tokens=50, stream=stream, **asks)
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
        entry = booked(world)
        assert entry["amount_nano_usd"] == entry["reserved_nano_usd"] > 0
    assert world.verify() == []


@ASKS
def test_who_refuses_the_question_for_usage_is_asked_without(world: World, simulator: Simulator, path: str, asks: Any) -> None:
    key = world.key(10**9)
    with picky() as (url, bodies), Gateway(world.gateway_dsn, simulator.url, account_simulator_url=url) as gateway:
        answer = call(gateway, key, path, model="t-mini", max_tokens=50, stream=True, **asks)
        assert (answer.status_code, answer.content[-14:]) == (200, b"data: [DONE]\n\n")
        assert ["stream_options" in body for body in bodies] == [True, False]
        entry = booked(world)
        assert (entry["source"], entry["flags"]) == ("bound", ["estimated"])
        assert 0 < entry["amount_nano_usd"] <= entry["reserved_nano_usd"]
        # Who asked for usage is told that there is none; without a stream nobody is asked.
        answer = call(gateway, key, path, model="t-mini", stream=True, stream_options={"include_usage": True}, **asks)
        assert (answer.status_code, b"stream_options" in answer.content) == (400, True)
        assert booked(world, 2)["kind"] == "released"
        call(gateway, key, path, model="t-mini", **asks)
        assert len(bodies) == 4
        assert "stream_options" not in bodies[-1]
    assert world.verify() == []


@ASKS
def test_a_refusal_that_stays_is_passed_on_and_costs_nothing(world: World, simulator: Simulator, path: str, asks: Any) -> None:
    with picky(always=True) as (url, bodies), Gateway(world.gateway_dsn, simulator.url, account_simulator_url=url) as gateway:
        answer = call(gateway, world.key(10**9), path, model="t-mini", max_tokens=50, stream=True, **asks)
        assert (answer.status_code, answer.headers["x-pgbudget-error-source"], len(bodies)) == (400, "upstream", 2)
        entry = booked(world)
        assert (entry["kind"], entry["amount_nano_usd"]) == ("released", 0)


TIERS = [
    ("flex", "flex", "flex", 450), ("flex", "default", "standard", 900), ("flex", "tomorrow's", "flex", 450),
    (None, "priority", "priority", 1800), ("auto", None, "standard", 900), ("priority", "priority", "priority", 1800),
]  # fmt: skip


@ASKS
def test_a_call_costs_what_its_tier_costs(world: World, gateway: Gateway, path: str, asks: Any) -> None:
    world.execute("""
      select budget.review_price(budget.add_price('simulator', 't-mini', '[
        {"kind": "input", "usd": 1}, {"kind": "output", "usd": 4},
        {"kind": "input", "usd": "0.5", "variant": "flex"}, {"kind": "output", "usd": 2, "variant": "flex"},
        {"kind": "input", "usd": 2, "variant": "priority"}, {"kind": "output", "usd": 8, "variant": "priority"}
      ]'), 'me')
    """)
    key = world.key(10**9)
    count = 0
    for stream in (False, True):
        for asked, said, variant, charged in TIERS:
            behaviour = {"prompt_tokens": 100, "completion_tokens": 200, **({"service_tier": said} if said else {})}
            tier = {"service_tier": asked} if asked else {}
            body = {**asks, "model": "t-mini", "max_tokens": 200, "stream": stream, **tier}
            assert call(gateway, key, path, behaviour, **body).status_code == 200
            count += 1
            entry = booked(world, count)
            assert (entry["variant"], entry["amount_nano_usd"] // 1000) == (variant, charged)
            # Held is the dearest that may be billed.
            assert entry["reserved_nano_usd"] // 1000 // (2 if asked == "priority" else 1) - 800 in SHORT


def test_a_tier_without_a_price_is_not_called(world: World, gateway: Gateway, simulator: Simulator) -> None:
    answer = gateway.chat(world.key(10**9), service_tier="flex")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "model_unpriced")
    assert simulator.calls() == 0


def test_a_route_that_its_provider_does_not_have_is_named(embedding: World, gateway: Gateway) -> None:
    embedding.execute("""
      select budget.set_model('groq', 'm', 2000, 0), budget.set_route(null, 'm', 'groq', 'simulator'),
        budget.review_price(budget.add_price('groq', 'm', '[{"kind": "input", "usd": 1}]'), 'me')
    """)
    answer = call(gateway, embedding.key(10**9), "/embeddings", model="m", input="hi")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "model")
    assert "not served on /v1/embeddings" in answer.json()["error"]["message"]
