"""``explain`` and ``reserve`` decide alike, whatever a key is under; and what ``explain`` proposes is so."""

from __future__ import annotations

import json
import random
import time
from decimal import Decimal
from typing import Any

import pytest

from tests.support.world import Row, World

NOON = "2026-11-30 12:00:20+00"
MODELS = ("t-mini", "t-pro", "c-son", "double")


def _set_up(world: World, random: random.Random) -> tuple[str, str]:
    """An org with a little of everything, some of it used."""
    org = world.org()
    world.execute("select budget.create_scope(%s, 'unit', 'u', 'project', 'p')", org)
    secret = world.value(
        "select secret from budget.create_key(%s, 'p', 'k', %s)",
        org,
        json.dumps(
            {
                "unit": "u",
                "allowed_models": random.choice([None, ["t-mini", "t-pro"], list(MODELS)]),
                "request_ceiling_usd": random.choice([None, None, "0.005"]),
                "max_output_tokens": random.choice([None, 150]),
                "default_max_output_tokens": random.choice([None, 100]),
            }
        ),
    )
    world.execute("update budget_internal.keys set first_output_tokens = %s", random.choice([None, 20]))
    for kind, name in (("key", "k"), ("unit", "u"), ("project", "p"), ("org", org)):
        for period in random.sample(["day", "month", "total"], random.randrange(3)):
            # Past the rule that nothing is above what stands over it: any mix is to be decided alike.
            budget = world.budget(org, kind, name, None, period)
            limit = random.choice([0, 400_000, 900_000, 2_000_000, 10_000_000, None])
            world.execute(
                "update budget_internal.budgets set limit_nano_usd = %s, enforcement = %s, models = %s where budget_id = %s",
                limit,
                random.choice(["strict", "strict", "strict", "check", "soft"]),
                random.choice([None, None, ["t-pro"], ["t-mini", "c-son"]]),
                budget,
            )
    if random.random() < 0.4:
        world.execute(
            "select budget.set_rate_limit(%s, 'key', 'k', %s, %s)",
            org, random.choice([None, 1, 2, 100]), random.choice([None, 150, 500, 5_000]),
        )  # fmt: skip
    if random.random() < 0.5:
        rungs = [
            {"name": "cheaper", "model": random.choice(MODELS)},
            {"name": "short", "max_output_tokens": random.choice([5, 50])},
            {"name": "both", "model": "t-mini", "max_output_tokens": 10},
            {"name": "wait", "wait_seconds": 5},
            {"name": "stop", "refuse": True},
        ]
        chosen = sorted(random.sample(range(5), random.randrange(1, 6)))
        world.execute("select budget.set_ladder(%s, 'key', 'k', %s)", org, json.dumps([rungs[i] for i in chosen]))
    for _ in range(random.randrange(6)):
        granted = world.reserve(secret, random.choice(MODELS), random.randrange(200), random.randrange(1, 60))
        if granted["status"] == "granted" and random.random() < 0.6:
            # Now and then more than was held.
            world.settle(granted["reservation_id"], {"input": random.randrange(250), "output": random.randrange(60)})
    return org, secret


def _explain(world: World, key: str, request: tuple[Any, ...], **options: Any) -> Row:
    return dict(world.value("select budget.explain(%s, %s, %s, %s, %s)", key, *request, json.dumps(options)))


def _would_grant(world: World, key: str, request: tuple[Any, ...], **options: Any) -> Row | None:
    """The grant of a request as it was asked, or None; taken back."""
    world.execute("savepoint before; delete from budget_internal.rungs")
    row = world.reserve(key, *request, **options)
    world.execute("rollback to before")
    return row if row["status"] == "granted" else None


def _same_decision(told: Row, answer: Row) -> None:
    assert told["verdict"] == (answer["code"] or "granted")
    for name in ("message", "rung", "rung_changes", "retry_after_seconds"):
        assert told[name] == answer[name], name
    worst = answer["worst_case_nano_usd"]
    assert (told["worst_case_usd"] is None) == (worst is None)
    if worst is not None:
        assert round(Decimal(str(told["worst_case_usd"])) * 10**9) == worst
    if answer["code"] is None:
        assert told["output_tokens"] == answer["granted_output_tokens"]
        # Those of one priority come in a random order.
        assert sorted(r["upstream_model"] for r in told["routes"]) == sorted(r["upstream_model"] for r in answer["routes"])
    refusing = [b for b in told["budgets"] if b["code"]]
    if answer["budget_name"]:
        assert (answer["scope_kind"], answer["budget_name"]) in [(b["scope"], b["budget"]) for b in refusing]
    if answer["code"] is None:
        assert refusing == []
        assert [way["outcome"] for way in told["ways"]].count("granted") == 1
        assert told["changes"] is None


def _changes_hold(world: World, key: str, request: tuple[Any, ...], options: dict[str, Any], told: Row) -> None:
    model, tokens, output = request
    changes = told["changes"]
    cap = changes["max_output_tokens"]
    if told["verdict"] not in ("model_not_allowed", "model_not_found"):
        if cap is None:
            assert _would_grant(world, key, (model, tokens, 1), **options) is None
        else:
            assert _would_grant(world, key, (model, tokens, cap), **options)
            if cap < (output or 8192):
                more = _would_grant(world, key, (model, tokens, cap + 1), **options)
                assert more is None or more["granted_output_tokens"] <= cap
    others = [(m, _would_grant(world, key, (m, tokens, output), **options)) for m in MODELS if m != model]
    fitting = [(grant["worst_case_nano_usd"], m) for m, grant in others if grant]
    if not fitting:
        assert changes["model"] is None
    elif all(cost is not None for cost, _ in fitting):
        assert changes["model"]["model"] == min(fitting)[1]
        assert round(Decimal(str(changes["model"]["worst_case_usd"])) * 10**9) == min(fitting)[0]
    else:
        assert changes["model"]["model"] in [m for _, m in fitting]
    if changes["at"] and not any(b["code"] == "budget_busy" for b in told["budgets"]):
        world.execute("savepoint later")
        world.set_clock(changes["at"])
        # Holds may be in the way by then; nothing else is.
        row = world.reserve(key, *request, **options)
        assert row["code"] in (None, "budget_busy"), row
        world.execute("rollback to later")


@pytest.mark.parametrize("seed", range(4))
def test_explain_tells_what_reserve_decides(world: World, seed: int) -> None:
    chance = random.Random(seed)
    verdicts = set()
    world.execute("select budget.set_model('simulator', 'small', 1000, 40)")
    world.execute(
        "select budget.review_price(budget.add_price('simulator', 'small', %s, '2020-01-01T00:00:00Z', 'made up'), 'me')",
        json.dumps([{"kind": "input", "usd": "2"}, {"kind": "output", "usd": "1"}]),
    )
    routes = [{"provider": "simulator", "account": "simulator", "upstream_model": m} for m in ("small", "c-son")]
    world.execute("select budget.set_routes(null, 'double', %s)", json.dumps(routes))
    for case in range(30):
        world.execute("begin")
        world.set_clock(NOON)
        _, key = _set_up(world, chance)
        for _ in range(3):
            request = (
                chance.choice([*MODELS, *MODELS, "unknown"]),
                chance.choice([0, 50, 150, 400]),
                chance.choice([None, 1, 60, 200, 1_000, 10**15]),
            )
            options: dict[str, Any] = {}
            if chance.random() < 0.3:
                options["run"] = {"id": chance.choice(["a", "b"]), "ceiling_usd": "0.001", "max_steps": 1}
            if chance.random() < 0.2:
                options["input_bounds"] = {"tokenizer": 30}
            if chance.random() < 0.2:
                options["grow"] = True
            told = _explain(world, key, request, **options)
            verdicts.add(told["verdict"])
            if told["changes"]:
                _changes_hold(world, key, request, options, told)
            answer = world.reserve(key, *request, **options)
            try:
                _same_decision(told, answer)
            except AssertionError as error:
                raise AssertionError(f"case {case}: {request} {options}\n{json.dumps(told, indent=1)}\n{answer}") from error
        world.execute("rollback")
    assert {"granted", "request_over_limit", "model_not_found"} < verdicts, verdicts


def test_an_answer_takes_less_than_a_tenth_of_a_second_with_150_models(world: World) -> None:
    world.execute(
        """
        do $$
        begin
          for i in 1..150 loop
            perform budget.set_model('simulator', 'm' || i, 128000, 16384);
            perform budget.review_price(budget.add_price(
              'simulator', 'm' || i,
              format('[{"kind": "input", "usd": "%s"}, {"kind": "output", "usd": "%s"}]', i, 4 * i)::jsonb,
              '2020-01-01T00:00:00Z', 'made up'
            ), 'me');
            perform budget.set_route(null, 'm' || i, 'simulator', 'simulator');
          end loop;
        end
        $$
        """
    )
    org = world.org()
    key = world.key(2_000, org=org)
    ladder = [{"name": f"r{i}", "model": f"m{150 - i}"} for i in range(5)]
    world.execute("select budget.set_ladder(%s, 'project', 'p', %s)", org, json.dumps(ladder))
    world.execute("analyze")
    for request, cheapest in ((("t-pro", 100, 400), "m1"), (("t-pro", 1_000, 1_000), None)):
        took: list[float] = []
        # The best of some: other tests share the machine.
        while len(took) < 20 and min(took, default=1) > 0.1:
            began = time.perf_counter()
            told = _explain(world, key, request)
            took.append(time.perf_counter() - began)
        assert told["verdict"] == "request_over_limit"
        assert (told["changes"]["model"] or {}).get("model") == cheapest
        assert min(took) < 0.1, took
