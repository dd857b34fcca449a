"""``pgbudget prices``: what an operator sees and types."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pgbudget.terminal import Failed
from tests.support.world import World

Run = Callable[..., str]
LITELLM = str(Path(__file__).with_name("litellm_extract.json"))


def test_nothing_applies_before_a_person_has_reviewed_it(world: World, run: Run) -> None:
    told = json.loads(run("diff", "--provider", "deepseek", "--second-source", LITELLM, "--json"))
    flash = next(change for change in told if change["model"] == "deepseek-v4-flash")
    assert flash["change"] == "new"
    assert {"what": "input", "now": None, "source": "0.15", "second": "0.3"} in flash["lines"]
    assert world.value("select count(*) from budget.price_list where provider = 'deepseek'") == 0, "diff changes nothing"

    assert "8 price lists" in run("import", "--provider", "deepseek", "--second-source", LITELLM)
    unreviewed = "select count(*) from budget.price_list where provider = 'deepseek' and reviewed_at is null"
    assert world.value(unreviewed) == 8
    row = world.one("select source, detail from budget.price_list where model = 'deepseek-v4-flash'")
    assert row["source"].startswith("genai-prices ")
    assert row["detail"]["second_source"]["usd_per_million"]["input"] == "0.3"
    assert "0 price lists" in run("import", "--provider", "deepseek"), "what waits is not added again"

    listing = " ".join(run("review").split())
    assert "deepseek-v4-flash" in listing
    assert "input 01:00-04:00 Mon-Fri" in listing
    assert "8 price lists" in listing
    assert "--reviewer" in run("review", "--all", fails=Failed)
    assert "say what" in run("review", "--reviewer", "ann", fails=Failed)
    run("review", "--model", "deepseek-v4-flash", "--reviewer", "ann")
    assert world.value(unreviewed) == 7
    quote = "select budget.quote('deepseek', 'deepseek-v4-flash', '{\"input\": 1000}', '2026-11-30T02:00:00Z')"
    assert world.value(quote) == 300_000
    run("review", "--all", "--reviewer", "ben")
    assert world.value(unreviewed) == 0
    assert "nothing" in run("review", "--all", "--reviewer", "ben", fails=Failed)
    assert json.loads(run("diff", "--provider", "deepseek", "--json")) == []


def test_a_change_and_a_model_that_is_gone(world: World, run: Run) -> None:
    world.execute("select budget.set_model('groq', m, 5, 5) from unnest(array['qwen/qwen3-32b', 'retired']) m")
    for model in ("qwen/qwen3-32b", "retired"):
        world.execute(
            "select budget.review_price(budget.add_price('groq', %s, %s, '2026-01-01T00:00:00Z'), 'ann')",
            model, json.dumps([{"kind": "input", "usd": "0.1"}, {"kind": "output", "usd": "0.59"}]),
        )  # fmt: skip
    # Without a choice: the providers that have prices and that the source knows.
    table = run("diff")
    assert "retired" in table
    assert "1 changed, 1 vanished" in table
    told = {c["model"]: c for c in json.loads(run("diff", "--json"))}
    assert told["qwen/qwen3-32b"]["lines"] == [{"what": "input", "now": "0.1", "source": "0.29", "second": None}]
    assert "1 price lists, 0 models" in run("import", "--model", "qwen/qwen3-32b")
    assert world.value("select context_window_tokens from budget_internal.models where model = 'qwen/qwen3-32b'") == 5
    run("review", "--provider", "groq", "--reviewer", "ann")
    assert world.value("select budget.quote('groq', 'qwen/qwen3-32b', '{\"input\": 1000}')") == 290_000
    assert world.value("select budget.quote('groq', 'retired', '{\"input\": 1000}')") == 100_000, (
        "nothing is withdrawn by itself"
    )


def test_the_shipped_lists_leave_what_is_there_alone(world: World, run: Run) -> None:
    world.execute("select budget.set_model('groq', 'qwen/qwen3-32b', 5, 5)")
    assert "reviewed price lists" in run("seed")
    assert world.value("select count(*) from budget.price_list where model = 'qwen/qwen3-32b' and price_id is not null") == 0
    assert "0 reviewed price lists" in run("seed")
    assert run("diff", "--provider", "xai").strip().startswith("0 new, 0 changed, 0 vanished")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["diff", "--provider", "nobody"], "no provider nobody"),
        (["diff", "--second-source", "/no/such/file"], "second source"),
    ],
)
def test_what_cannot_be_done_is_said(run: Run, arguments: list[str], said: str) -> None:
    assert said in run(*arguments, fails=Failed)
