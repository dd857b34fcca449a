"""``docs/wire.md``: how every recorded body ends. What it says is what ``test_replay`` holds each body to."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from pgbudget.wire.providers import PROVIDERS
from tests.wire.replay import MANIFEST, PATHS, expected, expected_kinds

PAGE = Path(__file__).parents[2] / "docs" / "wire.md"
WORDS = {
    "usage": "on its usage",
    "estimated": "estimated",
    "held": "the whole hold",
    "released": "nothing",
    "goes on": "later",
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
        "Every body of the recorded provider traffic, replayed through the gateway: each on the route that it was recorded on,",
        "by the ways of its provider, cut at every byte or at random places. `make docs` writes this page; a test holds each",
        "body to it.",
        "",
        "* **on its usage**: settled on the usage in the body, as the recording's manifest has it, to the nano-USD.",
        "* **estimated**: there is no usage in it; settled on a bound of what was seen, and flagged.",
        "* **nothing**: the provider refused or failed before it made anything; the hold is released.",
        "* **the whole hold**: its usage cannot be priced; the hold is charged, and flagged.",
        "* **later**: it has not ended yet.",
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


GATEWAY = PAGE.with_name("gateway.md")


def test_the_table_of_providers_is_what_is_known_of_them() -> None:
    begin, end = "| provider | URL |", "\n\nUsage of a stream"
    text = GATEWAY.read_text()
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    made = before + providers_table() + end + after
    if os.environ.get("PGBUDGET_WRITE_DOCS"):
        GATEWAY.write_text(made)
    assert text == made, "run: make docs"


def providers_table() -> str:
    """The ways of all providers."""
    lines = [
        "| provider | URL | speaks | cap of chat | key in | usage of a stream | states its cost |",
        "|---|---|---|---|---|---|---|",
    ]
    apis = {"openai": "chat"}
    for name, ways in sorted(PROVIDERS.items()):
        lines.append(
            f"| `{name}` | {ways.base_url or 'from the environment'} | {', '.join(sorted(apis.get(a, a) for a in ways.apis))}"
            f" | `{ways.cap_field}` | `{ways.key_header.decode()}` | {'asked for' if ways.stream_options else 'not asked for'}"
            f" | {'`usage.' + '.'.join(ways.cost) + '`' if ways.cost else ''} |"
        )
    return "\n".join(lines)
