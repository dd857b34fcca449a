"""``docs/wire.md``: how every recorded body ends. What it says is what ``test_replay`` holds each body to."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from tests.wire.replay import MANIFEST, PATHS, expected, expected_kinds

PAGE = Path(__file__).parents[2] / "docs" / "wire.md"
WORDS = {
    "usage": "on its usage",
    "estimated": "estimated",
    "held": "the whole hold",
    "released": "nothing",
    "not served": "not served",
}


def test_the_table_is_what_is_replayed() -> None:
    text = page()
    if os.environ.get("PGBUDGET_WRITE_DOCS"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "run: make docs"


def page() -> str:
    """The table as a document."""
    outcomes = Counter(expected(row).outcome for row in MANIFEST)
    lines = [
        "# Recorded bodies, and what is charged for them",
        "",
        "Every body of the recorded provider traffic that the tests replay through the gateway, each to the route it was recorded",
        "on, cut at every byte or at random places, by the ways of its provider. `make docs` writes this page; a test holds each",
        "body to it.",
        "",
        "* **on its usage**: settled on the usage in the body, as the recording's manifest has it, to the nano-USD.",
        "* **estimated**: there is no usage in it; settled on a bound of what was seen, and flagged.",
        "* **nothing**: the provider refused or failed before it made anything; the hold is released.",
        "* **not served**: of an API that the gateway has no route for.",
        "",
        "| outcome | bodies |",
        "|---|---|",
        *(f"| {WORDS[outcome]} | {outcomes[outcome]} |" for outcome in WORDS if outcomes[outcome]),
        "",
        "| body | route | | charged | units, or why not |",
        "|---|---|---|---|---|",
    ]
    for row in sorted(MANIFEST, key=lambda row: str(row["file"])):
        how = expected(row)
        route = f"`/v1{PATHS[row['endpoint']]}`" if row["endpoint"] in PATHS else row["endpoint"]
        units = ", ".join(f"{kind} {n:,}" for kind, n in expected_kinds(row).items()) if how.outcome == "usage" else how.reason
        streamed = "streamed" if row["stream"] else "whole"
        lines.append(f"| `{row['file']}` | {route} | {streamed} | {WORDS[how.outcome]} | {units} |")
    return "\n".join([*lines, ""])
