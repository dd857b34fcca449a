"""Recorded bodies through the proxy: each to the route it was recorded on, by the ways of its provider."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import httpx

from pgbudget.wire.dialects import DIALECTS
from tests.support.processes import WIRE, Gateway, Simulator, wait_until
from tests.support.world import World

MANIFEST: list[dict[str, Any]] = (
    [json.loads(line) for line in (WIRE / "manifest.jsonl").read_text().splitlines()] if WIRE.is_dir() else []
)
PATHS = {
    "chat": "/chat/completions",
    "completions": "/completions",
    "embeddings": "/embeddings",
    "messages": "/messages",
    "responses": "/responses",
}
#: What is recorded of APIs that the gateway has no route for, by the manifest's endpoint.
NO_ROUTE = {
    "audio": "transcriptions: not metered, so not passed on",
    "cohere": "Cohere's own API; its compatible one is served",
    "gemini": "Gemini's own API; its compatible one is served",
    "moderations": "free, and without usage: not metered, so not passed on",
    "ollama-native": "Ollama's own API; its compatible one is served",
}
#: Bodies that are not settled on a reported usage: how they are instead (estimated, released or held), and why.
NOT_ON_USAGE = {
    "azure/chat_stream_first_empty_choices_no_usage.sse": ("estimated", "no usage in it: bounded by its text"),
    "openai/chat_stream_n_nousage.sse": ("estimated", "no usage in it: bounded by its text"),
    "openai/chat_stream_no_usage.sse": ("estimated", "no usage in it: bounded by its text"),
    "openai/chat_stream_web_search.sse": ("estimated", "no usage in it, nor its search fee: bounded by its text, and the fee"),
    "openai/_spliced_chat_midstream_server_error.sse": ("estimated", "an error in the middle: bounded by its text"),
    "openai/completions_stream_no_usage.sse": ("estimated", "no usage in it: bounded by its text"),
    "vllm/completions_stream_no_usage.sse": ("estimated", "no usage in it: bounded by its text"),
    "anthropic/_spliced_midstream_overloaded.sse": ("estimated", "an error in the middle: the input it told, and its text"),
    "anthropic/messages_advisor_iterations.json": (
        "held",
        "a round of another model, which the price of this one is not for",
    ),
    "openai/responses_stream_incomplete_zero_usage.sse": ("estimated", "a usage of zeros though text was made: bounded by it"),
    "openai/responses_stream_error_event_insufficient_quota.sse": ("released", "an error before anything was made"),
    "openai/responses_stream_failed_insufficient_quota.sse": ("released", "an error before anything was made"),
    "openai/responses_background_queued.json": ("goes on", "queued: a later GET tells its end, and its usage"),
}
#: Bodies whose provider says that it served them by another tier than the standard one.
VARIANTS = {
    "openai/chat_service_tier_priority.json": "priority",
    "openai/responses_service_tier_priority.json": "priority",
    "openai/responses_stream_flex.sse": "flex",
}
#: Nano-USD of a unit: each kind in digits of its own. Variants cost so many times as much.
PRICES = {
    "input": 1, "cache_read": 10, "cache_write": 100, "cache_write_5m": 200, "cache_write_1h": 300, "audio_in": 1_000,
    "output": 10_000, "audio_out": 100_000, "image_out": 200_000, "web_search": 10_000_000, "file_search": 20_000_000,
    "code_execution": 30_000_000, "request_low": 5_000_000, "request_medium": 6_000_000, "request_high": 7_000_000,
}  # fmt: skip
TIMES = {"standard": 1, "priority": 2, "flex": 3, "batch": 4, "fast": 5}


@dataclass(frozen=True)
class Expected:
    """How a body ends: on its usage, otherwise with a reason, not yet, or not served at all."""

    outcome: str
    reason: str = ""


def served(row: dict[str, Any]) -> bool:
    """Whether the gateway has the route that a body was recorded on."""
    return PATHS.get(row["endpoint"]) in {dialect.path for dialect in DIALECTS}


def expected(row: dict[str, Any]) -> Expected:
    """How a body is to end."""
    if not served(row):
        return Expected("not served", NO_ROUTE.get(row["endpoint"], "this route is not there yet"))
    if row["file"] in NOT_ON_USAGE:
        return Expected(*NOT_ON_USAGE[row["file"]])
    if row["status"] >= 400:
        return Expected("released", "an error of the provider")
    usage = row["expected_usage"]
    known = usage is not None and (usage["output_tokens"] is not None or row["endpoint"] == "embeddings")
    return Expected("usage") if known else Expected("estimated", "no usage in it: bounded by its text")


def expected_kinds(row: dict[str, Any]) -> dict[str, int]:
    """The manifest's usage as disjoint charge kinds, reasoning as output."""
    usage = row["expected_usage"]
    kinds = {
        "input": usage["uncached_input_tokens"] - usage["audio_input_tokens"],
        "cache_read": usage["cached_input_tokens"],
        "cache_write": usage["cache_write_other"],
        "cache_write_5m": usage["cache_write_5m"],
        "cache_write_1h": usage["cache_write_1h"],
        "audio_in": usage["audio_input_tokens"],
        "output": (usage["output_tokens"] or 0) - usage["audio_output_tokens"],
        "audio_out": usage["audio_output_tokens"],
        "web_search": usage["web_searches"],
        # A fee for every request of this model.
        "request_low": int(_model(row) == "sonar"),
    }
    return {k: v for k, v in kinds.items() if v}


def booked_kinds(entry: dict[str, Any]) -> dict[str, int]:
    """What a ledger entry counts, as :func:`expected_kinds` has it."""
    usage = dict(entry["usage"] or {})
    usage["output"] = usage.get("output", 0) + usage.pop("reasoning", 0)
    return {k: v for k, v in usage.items() if v}


def set_up(world: World) -> None:
    """A model, an account and a route for each provider, with a price for every unit and variant."""
    rates = [
        {"kind": kind, "variant": variant, "usd": nano * times, "per": 1_000_000_000}
        for kind, nano in PRICES.items()
        for variant, times in TIMES.items()
    ]
    for provider, model in {(row["provider"], _model(row)) for row in MANIFEST if served(row)}:
        world.execute("select budget.set_model(%s, %s, 10000000, 1000000)", provider, model)
        world.execute("select budget.review_price(budget.add_price(%s, %s, %s), 'me')", provider, model, json.dumps(rates))
        world.execute("select budget.set_route(null, %s, %s, %s)", model, provider, provider)


def gateway_for(world: World, simulator: Simulator) -> Gateway:
    """A gateway whose accounts of all providers lead to the simulator."""
    settings: dict[str, Any] = {}
    for provider in {row["provider"] for row in MANIFEST}:
        settings[f"account_{provider}_url"] = f"{simulator.url}/v1"
        settings[f"account_{provider}_key"] = Simulator.KEY
    return Gateway(world.gateway_dsn, simulator.url, **settings)


def replay(
    world: World, gateway: Gateway, simulator: Simulator, key: str, row: dict[str, Any], asked: bool = False, **behaviour: Any
) -> tuple[httpx.Response, dict[str, Any]]:
    """Call for a body as its provider would answer with it; returns the answer and what was booked."""
    before = len(_entries(world, key))
    simulator.defaults(replay=row["file"], **behaviour)
    body: dict[str, Any] = {"model": _model(row), **_ASKS[row["endpoint"]]}
    if row["endpoint"] == "responses" and "web_search" in row["file"]:
        body["tools"] = [{"type": "web_search"}]
    if row["stream"]:
        body["stream"] = True
        if asked and row["endpoint"] in ("chat", "completions"):
            body["stream_options"] = {"include_usage": True}
    answer = httpx.post(
        f"{gateway.url}/v1{PATHS[row['endpoint']]}", json=body, headers={"authorization": f"Bearer {key}"}, timeout=60
    )
    wait_until(lambda: len(_entries(world, key)) == before + 1, what=f"an entry of {row['file']}")
    (entry,) = world.rows("select * from budget_internal.ledger_entries where entry_id = %s", max(_entries(world, key)))
    return answer, entry


def faults(row: dict[str, Any], answer: httpx.Response, entry: dict[str, Any], asked: bool) -> list[tuple[Any, ...]]:
    """What is wrong with how a body ended; nothing, or a test has found a fault."""
    body = (WIRE / row["file"]).read_bytes()
    found: list[tuple[Any, ...]] = []

    def check(what: str, is_so: Any, should_be: Any) -> None:
        if is_so != should_be:
            found.append((row["file"], what, is_so, should_be))

    outcome = expected(row).outcome
    check("status", answer.status_code, row["status"])
    if outcome == "released":
        check("kind", entry["kind"], "released")
    elif outcome == "estimated":
        check("estimated", ("estimated" in entry["flags"], entry["amount_nano_usd"] > 0), (True, True))
        check("a bound of the text", entry["usage"]["output"] >= text_bytes(body), True)
    elif outcome == "held":
        check("source", entry["source"], "hold")
    else:
        kinds, variant = expected_kinds(row), VARIANTS.get(row["file"], "standard")
        check("source", entry["source"], "usage")
        check("usage", booked_kinds(entry), kinds)
        check("variant", entry["variant"], variant)
        check("amount", entry["amount_nano_usd"], sum(PRICES[kind] * n for kind, n in kinds.items()) * TIMES[variant])
        stated = row["provider_cost_usd"]
        check("stated cost", entry["provider_cost_usd"], Decimal(stated) if stated and float(stated) else None)
    if answer.status_code != 200 or asked or not row["stream"] or row["endpoint"] not in ("chat", "completions"):
        check("the same bytes", answer.content == body, True)
    else:
        lines = [line for line in answer.content.splitlines() if line.startswith(b"data: {")]
        check("hidden usage", [line[:100] for line in lines if "usage" in json.loads(line[6:])], [])
    return found


def text_bytes(body: bytes) -> int:
    """Bytes of the text of a stream, read the simplest way."""
    total = 0
    for line in body.splitlines():
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        texts = [(c.get("delta") or {}).get("content") or c.get("text") for c in event.get("choices") or []]
        delta = event.get("delta")
        texts.append(delta.get("text") if isinstance(delta, dict) else delta)
        total += sum(len(text.encode()) for text in texts if text)
    return total


_ASKS: dict[str, dict[str, Any]] = {
    "chat": {"messages": [{"role": "user", "content": "word"}], "max_tokens": 100_000},
    "completions": {"prompt": "word", "max_tokens": 100_000},
    "embeddings": {"input": "word"},
    "messages": {"messages": [{"role": "user", "content": "word"}], "max_tokens": 100_000},
    "responses": {"input": "word", "max_output_tokens": 100_000},
}


def _model(row: dict[str, Any]) -> str:
    """Names are the routes' keys, and some models search by themselves, which their names say."""
    if row["provider"] == "perplexity":
        return "sonar"
    searches = row["endpoint"] == "chat" and row["provider"] == "openai" and "web_search" in row["file"]
    return f"{row['provider']}-replay{'-search-preview' if searches else ''}"


def _entries(world: World, key: str) -> list[int]:
    query = (
        "select entry_id from budget_internal.ledger_entries join budget_internal.key_secrets using (key_id)"
        " where secret_hash = sha256(convert_to(%s, 'UTF8'))"
    )
    return [row["entry_id"] for row in world.rows(query, key)]
