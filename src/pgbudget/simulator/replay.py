"""Recorded bodies, and bodies cut into writes at awkward places."""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

#: Beside the project's root: src/pgbudget/simulator/replay.py is four folders below it.
_BESIDE: Final = Path(__file__).resolve().parents[4] / "shared" / "wire"
_MEDIA: Final = {
    ".sse": "text/event-stream; charset=utf-8",
    ".json": "application/json",
    ".ndjson": "application/x-ndjson",
}


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded answer, and the counts that it is billed by, named as the tally names them."""

    body: bytes
    status: int
    media: str
    counts: dict[str, int | None]
    #: What other models did for it.
    others: dict[str, dict[str, int | None]]


def recorded(name: str) -> Recording:
    """The recording of this name under ``PGBUDGET_WIRE`` or the wire folder beside the project; raises ValueError."""
    return _recorded(Path(os.environ.get("PGBUDGET_WIRE") or _BESIDE), name)


@lru_cache(maxsize=256)
def _recorded(folder: Path, name: str) -> Recording:
    # A name that the manifest has is a path inside the folder.
    row = _manifest(folder).get(name)
    if row is None:
        raise ValueError(f"replay: no recording of the name {name!r} in {folder}")
    path = folder / name
    usage = row["expected_usage"] or {}
    by_model = dict(usage.get("by_model") or {})
    counts = _counts(by_model.pop(row["model"], usage))
    others = {model: _counts(part) for model, part in by_model.items()}
    return Recording(path.read_bytes(), row["status"], _MEDIA[path.suffix], counts, others)


def _counts(usage: dict[str, Any]) -> dict[str, int | None]:
    """A row of the manifest, as the tally names it. A write of unnamed duration is one of five minutes."""
    return {
        "prompt_tokens": usage.get("input_tokens"),
        "cached_tokens": usage.get("cached_input_tokens"),
        "cache_write_5m_tokens": (usage.get("cache_write_5m") or 0) + (usage.get("cache_write_other") or 0),
        "cache_write_1h_tokens": usage.get("cache_write_1h"),
        "reasoning_tokens": usage.get("reasoning_tokens"),
        "completion_tokens": usage.get("output_tokens"),
        "web_searches": usage.get("web_searches"),
    }


@lru_cache(maxsize=4)
def _manifest(folder: Path) -> dict[str, dict[str, Any]]:
    try:
        lines = (folder / "manifest.jsonl").read_text().splitlines()
    except OSError:
        raise ValueError(f"replay: {folder} has no recordings; set PGBUDGET_WIRE") from None
    return {row["file"]: row for row in map(json.loads, lines)}


def cut(content: bytes, how: str | None) -> Iterable[bytes]:
    """Cut a body: ``bytes`` | ``lines`` | ``seed:<n>`` (random places) | ``at:<n>,<n>...`` (offsets) | None (whole)."""
    if how is None:
        return [content]
    if how == "bytes":
        return (content[i : i + 1] for i in range(len(content)))
    if how == "lines":
        return content.splitlines(keepends=True)
    kind, _, arguments = how.partition(":")
    if kind == "at":
        places = [min(int(place), len(content)) for place in arguments.split(",")]
    else:
        chance = random.Random(int(arguments))
        places = [chance.randrange(len(content) + 1) for _ in range(len(content) // 40 + 3)]
    ends = sorted({0, len(content), *places})
    return [content[a:b] for a, b in itertools.pairwise(ends)]
