"""What is simulated has the members of what was recorded: none that no recording has, and all that every recording has."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.processes import WIRE
from tests.unit.simulator.conftest import COMPLETIONS, EMBEDDINGS, MESSAGES, RESPONSES, Route, Running

MANIFEST: list[dict[str, Any]] = [json.loads(line) for line in (WIRE / "manifest.jsonl").read_text().splitlines()]
#: What comes and goes with the request.
FREE = {"input", "schema", "parameters", "tools", "metadata", "annotations", "citations", "logprobs", "top_logprobs", "format"}


def bodies(text: str) -> list[Any]:
    """A body, or the events of a stream."""
    if text.startswith(("event: ", "data: ")):
        return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: {")]
    return [json.loads(text)]


def collect(value: Any, found: dict[str, list[set[str]]], members: set[str], at: str = "") -> None:
    """Gather the members of each kind of object; one that has no kind of its own belongs to the object around it."""
    if isinstance(value, list):
        for one in value:
            collect(one, found, members, f"{at}[]")
    elif isinstance(value, dict):
        kind = value.get("type") or value.get("object")
        if isinstance(kind, str):
            members, at = set(), ""
            found.setdefault(kind, []).append(members)
        for name, one in value.items():
            members.add(f"{at}.{name}")
            if name not in FREE:
                collect(one, found, members, f"{at}.{name}")


def kinds(texts: Iterable[str]) -> dict[str, list[set[str]]]:
    """The members of each kind of object."""
    found: dict[str, list[set[str]]] = {}
    for text in texts:
        for body in bodies(text):
            collect(body, found, set())
    return found


def recordings(provider: str, endpoint: str) -> list[str]:
    """The recorded bodies of an endpoint."""
    rows = [r for r in MANIFEST if (r["provider"], r["endpoint"]) == (provider, endpoint)]
    return [(WIRE / r["file"]).read_text() for r in rows]


#: What there is no recording of.
UNRECORDED = {
    "summary_text", "response.reasoning_summary_part.added", "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done", "response.reasoning_summary_part.done",
}  # fmt: skip
#: Recorded, and not simulated: tools that run at the provider, and what only they bring.
OTHERS = ("compaction", "bash_code", "advisor", "direct", "api", "url_citation", "response.output_text.annotation")
CASES = [(MESSAGES, "anthropic"), (RESPONSES, "openai"), (COMPLETIONS, "openai"), (EMBEDDINGS, "openai")]


@pytest.mark.parametrize(("route", "provider"), CASES, ids=["messages", "responses", "completions", "embeddings"])
def test_members(simulator: Running, route: Route, provider: str) -> None:
    recorded = kinds(recordings(provider, route.path.split("/")[2]))
    told: list[dict[str, Any]] = [{"status": 401}, {}]
    if route in (MESSAGES, RESPONSES):
        told += [{"deltas": "tool_calls", "padding": 9}, {"deltas": "reasoning"}, {"reasoning_tokens": 2}]
        told += [{"web_searches": 1}, {"error_after_chunks": 1}, {"completion_tokens": 300}]
    ways = (route.body,) if route is EMBEDDINGS else (route.body, route.stream)
    made = kinds(simulator.post(route.path, body, **{"completion_tokens": 5, **one}).text for one in told for body in ways)
    assert made.keys() - recorded.keys() <= UNRECORDED | {"api_error", "server_error", "authentication_error"}
    missing = {kind for kind in recorded.keys() - made.keys() if not kind.startswith(OTHERS)}
    assert missing <= {"invalid_request_error", "overloaded_error", "insufficient_quota"}
    for kind in made.keys() & recorded.keys():
        assert set().union(*made[kind]) <= set().union(*recorded[kind]), kind
        assert set.intersection(*recorded[kind]) <= set().union(*made[kind]), kind
