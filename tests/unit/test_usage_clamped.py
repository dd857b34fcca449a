"""Usage that contradicts itself is told from usage that only says things in its own way."""

from __future__ import annotations

from typing import Any

import pytest

from pgbudget.wire import anthropic_usage, usage
from pgbudget.wire.dialect import ModelRequest
from pgbudget.wire.dialects import DIALECTS
from pgbudget.wire.providers import provider
from tests.support.processes import WIRE
from tests.wire.replay import MANIFEST, PATHS, served


def said(prompt: int, completion: int, total: int = 0, inner: Any = None, outer: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": total,
        "prompt_tokens_details": {f"{name}_tokens": n for name, n in (inner or {}).items()},
        "completion_tokens_details": {f"{name}_tokens": n for name, n in (outer or {}).items()},
        **more,
    }


@pytest.mark.parametrize(
    ("told", "clamped"),
    [
        (said(100, 10, 110, {"cached": 100}), False),
        (said(100, 10, 110, {"cached": 101}), True),
        (said(100, 10, 110, {"cached": 60, "cache_write": 40}), False),
        (said(100, 10, 110, {"cached": 60, "cache_write": 41}), True),
        (said(100, 10, 110, {"audio": 101}), True),
        # Sound from the cache.
        (said(100, 10, 110, {"cached": 90, "audio": 50}), False),
        # Sound that the prompt leaves out.
        (said(100, 10, 485, {"audio": 375}), False),
        (said(100, 10, 110, outer={"audio": 10}), False),
        (said(100, 10, 110, outer={"audio": 11}), True),
        (said(100, 10, 110, outer={"audio": 6, "image": 5}), True),
        (said(100, 10, 110, outer={"reasoning": 10}), False),
        (said(100, 10, 110, outer={"reasoning": 11}), True),
        # Thinking that the completion leaves out.
        (said(14, 6, 1486, outer={"reasoning": 1466}), False),
        (said(14, 6, 0, outer={"reasoning": 1466}), False),
        (said(14, 6, 20, outer={"reasoning": 1466}, citation_tokens=5), False),
    ],
)
def test_a_part_is_no_more_than_its_whole(told: dict[str, Any], clamped: bool) -> None:
    assert usage.charge_kinds(told)[1] == clamped


def test_what_is_written_to_the_cache_is_no_more_by_its_times_than_in_all() -> None:
    for an_hour, clamped in ((400, False), (401, True), (0, False)):
        creation = {"ephemeral_5m_input_tokens": 600, "ephemeral_1h_input_tokens": an_hour}
        told = {"input_tokens": 5, "cache_creation_input_tokens": 1000, "output_tokens": 1, "cache_creation": creation}
        assert anthropic_usage.charge_kinds(told, "m")[1] == clamped
        assert not anthropic_usage.charge_kinds({**told, "cache_creation_input_tokens": None}, "m")[1]


def test_no_recorded_usage_contradicts_itself() -> None:
    found = []
    for row in MANIFEST:
        if not served(row):
            continue
        dialect = next(dialect for dialect in DIALECTS if dialect.path == PATHS[row["endpoint"]])
        meter = dialect.meter(ModelRequest({}, "m", 100, 7, {}, stream=row["stream"]), provider(row["provider"]))
        raw = (WIRE / row["file"]).read_bytes()
        if row["stream"]:
            meter.stream(raw)
            meter.close()
        else:
            meter.whole(raw)
        meter.kinds()
        if meter.clamped:
            found.append(row["file"])
    assert found == []
