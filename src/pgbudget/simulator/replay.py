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
    """A recorded answer, with the usage that it is billed by (totals, as providers count; None if not known)."""

    body: bytes
    status: int
    media: str
    usage: dict[str, Any] | None


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
    return Recording(path.read_bytes(), row["status"], _MEDIA[path.suffix], row["expected_usage"])


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
