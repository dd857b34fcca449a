"""The ways of the OpenAI-compatible providers: usage, costs, tiers, and what is read of a request."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from pgbudget.errors import InvalidRequest
from pgbudget.wire import strict_json
from pgbudget.wire.bounds import OVERHEAD_TOKENS, UNBOUNDED
from pgbudget.wire.chat import Chat
from pgbudget.wire.completions import Completions
from pgbudget.wire.dialect import Dialect, Meter
from pgbudget.wire.embeddings import Embeddings
from pgbudget.wire.providers import provider
from pgbudget.wire.usage import charge_kinds

CHAT, COMPLETIONS, EMBEDDINGS = Chat(), Completions(), Embeddings()
MINIMAL: dict[str, tuple[Dialect, dict[str, Any]]] = {
    "chat": (CHAT, {"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
    "completions": (COMPLETIONS, {"model": "m", "prompt": "hi"}),
    "embeddings": (EMBEDDINGS, {"model": "m", "input": "hi"}),
}
EVERY = pytest.mark.parametrize("route", MINIMAL)
GENERATING = pytest.mark.parametrize("route", ["chat", "completions"])


def read(route: str, /, **more: Any) -> Any:
    dialect, body = MINIMAL[route]
    return dialect.read({**body, **more})


def forwarded(route: str, to: str, cap: int = 9, /, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = strict_json.loads(MINIMAL[route][0].rewrite(read(route, **more), provider(to), "up", cap))
    return body


def meter_of(route: str, by: str = "simulator", /, **more: Any) -> Meter:
    return MINIMAL[route][0].meter(read(route, **more), provider(by))


def chunk(**members: Any) -> bytes:
    return b"data: " + json.dumps(members).encode() + b"\n\n"


# Requests


@GENERATING
@pytest.mark.parametrize(
    ("to", "asks"), [("openai", True), ("unknown", True), ("mistral", False), ("cohere", False), ("perplexity", False)]
)
def test_usage_is_asked_of_who_takes_the_question(route: str, to: str, asks: bool) -> None:
    assert forwarded(route, to, stream=True).get("stream_options") == ({"include_usage": True} if asks else None)
    assert "stream_options" not in forwarded(route, to)
    kept = forwarded(route, to, stream=True, stream_options={"include_obfuscation": False})
    assert kept.get("stream_options") == ({"include_obfuscation": False, "include_usage": True} if asks else None)


@pytest.mark.parametrize(
    ("to", "field"),
    [("openai", "max_completion_tokens"), ("azure", "max_completion_tokens"), ("xai", "max_completion_tokens"),
     ("mistral", "max_tokens"), ("deepseek", "max_tokens"), ("unknown", "max_tokens")],
)  # fmt: skip
def test_the_cap_goes_where_the_provider_honours_it(to: str, field: str) -> None:
    for given in ("max_tokens", "max_completion_tokens"):
        body = forwarded("chat", to, **{given: 5})
        assert {k: v for k, v in body.items() if k.startswith("max_")} == {field: 9}
    assert forwarded("completions", to, max_tokens=5, max_completion_tokens=7)["max_tokens"] == 9
    assert "max_completion_tokens" not in forwarded("completions", to, max_completion_tokens=7)


def test_a_prediction_is_input_and_its_cap_has_the_older_name() -> None:
    prediction = {"type": "content", "content": "x" * 5000}
    assert read("chat", prediction=prediction).input_tokens > 5000
    assert forwarded("chat", "openai", prediction=prediction)["max_tokens"] == 9


@pytest.mark.parametrize(
    ("more", "choices", "cap"),
    [({}, 1, 16), ({"n": 3}, 3, 16), ({"best_of": 5}, 5, 16), ({"n": 2, "best_of": 4, "max_tokens": 7}, 4, 7),
     ({"prompt": ["a", "b", "c"], "n": 2}, 6, 16), ({"prompt": [[1, 2], [3]], "best_of": 2}, 4, 16),
     ({"prompt": [1, 2, 3]}, 1, 16), ({"echo": True, "max_tokens": 0}, 1, 0)],
)  # fmt: skip
def test_every_choice_that_is_generated_is_held(more: dict[str, Any], choices: int, cap: int) -> None:
    request = read("completions", **more)
    assert (request.choices, request.cap) == (choices, cap)


@pytest.mark.parametrize(("route", "field"), [("completions", "prompt"), ("embeddings", "input")])
def test_tokens_count_their_number_and_text_its_bytes(route: str, field: str) -> None:
    empty = read(route, **{field: [""]}).input_tokens
    assert OVERHEAD_TOKENS < empty < OVERHEAD_TOKENS + 100
    assert 990 <= read(route, **{field: [123_456] * 1000}).input_tokens - empty <= 1010
    many = read(route, **{field: [[123_456] * 100, [7] * 50]})
    assert 140 <= many.input_tokens - empty <= 170
    assert many.inputs == 2
    assert 2990 <= read(route, **{field: "x" * 3000}).input_tokens - empty <= 3010
    assert read(route, **{field: ["word"] * 7}).inputs == 7
    assert read("completions", suffix="x" * 700).input_tokens >= read("completions").input_tokens + 700


@pytest.mark.parametrize(("route", "field"), [("completions", "prompt"), ("embeddings", "input")])
@pytest.mark.parametrize("value", [5, {}, [], [[]], [1, "a"], ["a", [1]], [1.5], [True], [[1], ["a"]], [None]])
def test_what_is_no_input_is_refused(route: str, field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(route, **{field: value})
    assert refused.value.param == field
    with pytest.raises(InvalidRequest, match="input"):
        EMBEDDINGS.read({"model": "m"})


@EVERY
@pytest.mark.parametrize(
    "field", ["models", "route", "provider", "plugins", "preset", "search_parameters", "deferred", "data_sources",
              "cached_content", "compound_custom", "safety_model", "transforms"],
)  # fmt: skip
def test_what_changes_the_price_unseen_is_refused(route: str, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(route, **{field: "x"})
    assert refused.value.param == field


@pytest.mark.parametrize(
    ("more", "param"),
    [({"tools": [{"type": "function"}, {"type": "openrouter:web_search"}]}, "tools[1].type"),
     ({"tools": [{"type": "browser_search"}]}, "tools[0].type"),
     ({"extra_body": {"google": {"cached_content": "x"}}}, "extra_body"), ({"extra_body": {"plugins": []}}, "extra_body"),
     ({"best_of": 2}, "best_of"), ({"service_tier": "scale"}, "service_tier"), ({"service_tier": 5}, "service_tier")],
)  # fmt: skip
def test_what_has_no_bound_on_chat_is_refused(more: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read("chat", **more)
    assert refused.value.param == param


def test_what_changes_no_price_passes() -> None:
    read("chat", extra_body={"google": {"thinking_config": {"thinking_budget": 5}}}, reasoning_effort="high", store=True)
    read("chat", metadata={"a": "b"}, logprobs=True, top_logprobs=5, functions=[{"name": "f"}], tools=[{"type": "custom"}])
    read("completions", logprobs=5, seed=1, user="u")
    read("embeddings", dimensions=5, encoding_format="base64", user="u")


@GENERATING
@pytest.mark.parametrize(
    ("asked", "variant"),
    [(None, None), ("auto", "standard"), ("default", "standard"), ("flex", "flex"), ("priority", "priority")],
)
def test_a_tier_that_is_asked_for_is_priced(route: str, asked: str | None, variant: str | None) -> None:
    assert read(route, service_tier=asked).service_tier == variant


@pytest.mark.parametrize("stream", [True, 1])
def test_embeddings_are_never_streamed(stream: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read("embeddings", stream=stream)
    assert refused.value.param == "stream"


@pytest.mark.parametrize("kind", ["document_url", "video_url", "file"])
def test_what_is_fetched_has_no_bound(kind: str) -> None:
    content = [{"type": kind, kind: {"url": "https://example.com/x"}}]
    assert read("chat", messages=[{"role": "user", "content": content}]).input_tokens == UNBOUNDED


@pytest.mark.parametrize(
    ("model", "more", "features"),
    [("gpt-4o-search-preview-2025-03-11", {}, ("web_search",)), ("gpt-5-search-api", {}, ("web_search",)),
     ("x/y:online", {}, ("web_search",)), ("sonar-deep-research", {}, ("web_search",)), ("sonar", {}, ("request_low",)),
     ("sonar", {"web_search_options": {"search_context_size": "high"}}, ("request_high",)), ("sonar-pro", {}, ()),
     ("m", {"modalities": ["text", "image"]}, ("image_out",))],
)  # fmt: skip
def test_fees_and_searches_of_a_model_are_held(model: str, more: dict[str, Any], features: tuple[str, ...]) -> None:
    assert read("chat", model=model, **more).features == features


# Answers

REASONED = {"completion_tokens_details": {"reasoning_tokens": 7}}


@pytest.mark.parametrize(
    ("by", "usage", "kinds"),
    [
        # The total tells; where there is none, what is known of the provider, or what cannot be otherwise.
        ("xai", {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 20, **REASONED}, {"input": 10, "output": 10}),
        ("xai", {"prompt_tokens": 10, "completion_tokens": 9, **REASONED}, {"input": 10, "output": 16}),
        ("openai", {"prompt_tokens": 10, "completion_tokens": 9, **REASONED}, {"input": 10, "output": 9}),
        ("unknown", {"prompt_tokens": 10, "completion_tokens": 3, **REASONED}, {"input": 10, "output": 10}),
        # Rejected predictions are in the completion.
        ("openai", {"prompt_tokens": 10, "completion_tokens": 90, "total_tokens": 100,
          "completion_tokens_details": {"accepted_prediction_tokens": 20, "rejected_prediction_tokens": 60}},
           {"input": 10, "output": 90}),
        ("openrouter", {"prompt_tokens": 10, "completion_tokens": 90, "completion_tokens_details": {"image_tokens": 80}},
         {"input": 10, "output": 10, "image_out": 80}),
        ("perplexity", {"prompt_tokens": 33, "completion_tokens": 11, "total_tokens": 44, "citation_tokens": 20,
          "num_search_queries": 3, "reasoning_tokens": 70}, {"input": 53, "output": 11, "reasoning": 70, "web_search": 3}),
        # More cached than there is.
        ("unknown", {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 50}},
         {"input": 0, "cache_read": 10, "output": 1}),
    ],
)  # fmt: skip
def test_usage_is_read_as_its_provider_means_it(by: str, usage: dict[str, Any], kinds: dict[str, int]) -> None:
    assert charge_kinds(usage, provider(by).reasoning_apart)[0] == kinds


@pytest.mark.parametrize(
    ("by", "usage", "cost"),
    [("openrouter", '{"cost": 0.01058775}', "0.01058775"), ("openrouter", '{"cost": 0.0133176, "is_byok": true}', None),
     ("openrouter", '{"cost": 0, "is_byok": true}', None), ("openrouter", '{"cost": 0}', None),
     ("openrouter", '{"cost": -1}', None), ("openrouter", '{"cost": "0.5"}', None), ("openrouter", '{"cost": true}', None),
     ("openrouter", '{"cost": 1e-999999}', None), ("openrouter", '{"cost": NaN}', None), ("openrouter", "{}", None),
     ("openrouter", '{"cost": 0.10000000000000000001}', "0.10000000000000000001"),
     ("perplexity", '{"cost": {"total_cost": 0.00501}}', "0.00501"), ("perplexity", '{"cost": 1}', None),
     ("xai", '{"cost_in_usd_ticks": 3206000}', "0.0003206"), ("openai", '{"cost": 1}', None), ("unknown", '{"cost": 1}', None)],
)  # fmt: skip
def test_a_stated_cost_is_exact_or_nothing(by: str, usage: str, cost: str | None) -> None:
    meter = meter_of("chat", by)
    assert meter.whole(b'{"choices": [], "usage": ' + usage.encode() + b"}")
    assert meter.provider_cost_usd == (None if cost is None else Decimal(cost))


@GENERATING
@pytest.mark.parametrize("by", ["openrouter", "simulator"])
def test_fractions_pass_where_usage_is_taken_out(route: str, by: str) -> None:
    meter = meter_of(route, by, stream=True)
    said = {"logprobs": [-0.5, 1e-7, 0.1], "text": "\ud800"}
    sent = meter.stream(chunk(choices=[said], usage={"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.1}))
    assert json.loads(sent[6:]) == {"choices": [said]}
    assert meter.kinds() == {"input": 1, "output": 1}


@pytest.mark.parametrize(
    ("said", "tier"),
    [("default", "standard"), ("auto", "standard"), ("on_demand", "standard"), ("priority", "priority"), ("flex", "flex"),
     ("batch", "batch"), ("scale", None), (None, None), (5, None), ({}, None)],
)  # fmt: skip
@pytest.mark.parametrize("place", ["answer", "usage"])
@GENERATING
def test_the_tier_of_an_answer_is_one_of_ours_or_none(route: str, place: str, said: Any, tier: str | None) -> None:
    members = {"service_tier": said} if place == "answer" else {"usage": {"prompt_tokens": 1, "service_tier": said}}
    whole, streamed = meter_of(route), meter_of(route, stream=True)
    whole.whole(json.dumps({"choices": [], **members}).encode())
    streamed.stream(chunk(choices=[], **members))
    assert (whole.service_tier, streamed.service_tier) == (tier, tier)


@GENERATING
def test_probabilities_are_not_text(route: str) -> None:
    text = {"delta": {"content": "abc"}} if route == "chat" else {"text": "abc"}
    meter = meter_of(route, stream=True)
    for _ in range(10):
        meter.stream(chunk(choices=[{"index": 0, **text, "logprobs": {"content": [{"token": "abc", "top": "x" * 2000}]}}]))
    assert meter.output_bytes == 30


def test_sound_is_counted_as_sound() -> None:
    meter = meter_of("chat", stream=True)
    meter.stream(chunk(choices=[{"delta": {"audio": {"id": "a", "transcript": "hi"}}}]))
    meter.stream(chunk(choices=[{"delta": {"audio": {"data": "A" * 6400}}}]))
    bound = meter.bound()
    assert bound["audio_out"] == 301
    assert bound["output"] == 3


@pytest.mark.parametrize(
    ("more", "texts", "size"),
    [({"prompt": "say hi"}, [(0, "say "), (0, "hi there")], 6), ({"prompt": ["a", "bcd"], "n": 2}, [(0, "axx"),
     (3, "bcdx")], 3),
     ({"prompt": [1, 2]}, [(0, "ab")], 2), ({"prompt": "hi", "max_tokens": 0}, [(0, "hi")], 0), ({}, [("0", "hi there")], 8)],
)  # fmt: skip
def test_an_echo_is_not_generated(more: dict[str, Any], texts: list[tuple[Any, str]], size: int) -> None:
    meter = meter_of("completions", echo=True, stream=True, **more)
    for index, text in texts:
        meter.stream(chunk(choices=[{"index": index, "text": text}]))
    assert meter.output_bytes == size


@pytest.mark.parametrize(("by", "fee"), [("sonar", {"request_high": 1}), ("sonar-pro", {"request": 1}), ("gpt", {})])
def test_the_fee_of_a_request_is_charged_by_the_size_that_was_searched(by: str, fee: dict[str, int]) -> None:
    granted = CHAT.as_granted(read("chat"), by, {})
    meter = CHAT.meter(granted, provider("perplexity"))
    usage = {"prompt_tokens": 8, "completion_tokens": 5, "search_context_size": "high"}
    assert meter.whole(json.dumps({"choices": [], "usage": usage}).encode())
    assert meter.kinds() == {"input": 8, "output": 5, **fee}
