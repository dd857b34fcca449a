"""How the simulator is told to behave; what does not fit is refused, never guessed at."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from pgbudget.simulator import behaviour as module
from pgbudget.simulator import create_app
from pgbudget.simulator.behaviour import Behaviour, Behaviours
from tests.unit.simulator.conftest import Running

BAD: list[Any] = [
    {"nonsense": 1},
    {"prompt_tokens": -1},
    {"prompt_tokens": 1.5},
    {"completion_tokens": "5"},
    {"completion_tokens": True},
    {"cached_tokens": 101},
    {"chunks": 0},
    {"chunk_ms": -1},
    {"chunk_ms": float("nan")},
    {"latency_ms": float("inf")},
    {"latency_ms": None},
    {"text": 5},
    {"deltas": "audio"},
    {"split": "words"},
    {"split": "seed:x"},
    {"split": "at:"},
    {"status": 99},
    {"usages": {}},
    {"ids": "a"},
    {"ignore_cap": 1},
    {"barrier_after_chunks": 1},
]


@pytest.mark.parametrize("members", BAD, ids=repr)
def test_what_does_not_fit_is_refused(simulator: Running, members: dict[str, Any]) -> None:
    name = "cached_tokens" if "cached_tokens" in members else next(iter(members))
    with pytest.raises(ValueError, match=name):
        Behaviours(members)
    with pytest.raises(ValueError, match=name):
        create_app(members)
    answer = simulator.chat(**members)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "x-simulate")
    assert simulator.tally()["cost_nano_usd"] == 0


@pytest.mark.parametrize("header", ["[]", "5", "null", "{", '"a"'])
def test_a_header_that_is_no_json_object_is_refused(header: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Behaviours().of(header)


def test_a_request_goes_over_the_run_and_the_run_over_the_start(simulator: Running) -> None:
    def tokens(**behaviour: Any) -> int:
        return int(simulator.chat(**behaviour).json()["usage"]["completion_tokens"])

    url = "/simulator/defaults"
    assert (tokens(), tokens(completion_tokens=3)) == (200, 3)
    assert simulator.client.post(url, json={"completion_tokens": 5}).json() == {"completion_tokens": 5}
    assert simulator.client.post(url, json={"prompt_tokens": 7}).json() == {"completion_tokens": 5, "prompt_tokens": 7}
    assert (tokens(), tokens(completion_tokens=3), tokens(completion_tokens=None)) == (5, 3, 200)
    assert simulator.client.post(url, json={"completion_tokens": -5}).status_code == 400
    for content in (b"", b"[]", b"nonsense"):
        assert simulator.client.post(url, content=content).status_code == 400
    assert simulator.client.get(url).json() == {"completion_tokens": 5, "prompt_tokens": 7}
    simulator.client.post("/simulator/reset")
    assert simulator.client.get(url).json() == {}
    assert tokens() == 200


def test_members_are_checked_together(simulator: Running) -> None:
    behaviours = Behaviours({"prompt_tokens": 1000})
    behaviours.change({"cached_tokens": 500})
    assert behaviours.of("").cached_tokens == 500
    with pytest.raises(ValueError, match="cached_tokens"):
        behaviours.of('{"prompt_tokens": 499}')


def test_many_headers_are_read_right() -> None:
    behaviours = Behaviours()
    for number in [*range(2500), 0, 1, 2499]:
        assert behaviours.of(f'{{"completion_tokens": {number}}}').completion == number


def test_every_member_is_documented() -> None:
    entries = re.findall(r"^([a-z0-9_]+(?:, [a-z0-9_]+)*) {2,}\S", str(module.__doc__), re.MULTILINE)
    documented = {name for entry in entries for name in entry.split(", ")}
    assert documented == {f.name for f in fields(Behaviour)}
