"""Handed cases (shared/cases) of concurrency, rates and budgets, each test named after its case. Amounts are micro-dollars.

CONC-01 without chains is in test_cases; PERIOD-01, and PERIOD-04 with one caller, in pgtap/set_budget.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import openai
import psycopg
import pytest

from pgbudget import cli
from tests.e2e.test_openai_sdk import MESSAGES, client_of, refusals
from tests.e2e.test_two_gateways import sampled, two_gateways
from tests.proxy.calls import STANDARD, STREAMED, budget, hold_of, settled
from tests.proxy.test_admission import NOON, error_of, rate_limit
from tests.support.processes import Gateway, Simulator, chat_request, wait_until
from tests.support.world import Row, World


@pytest.fixture
def pair(world: World, simulator: Simulator) -> Iterator[list[Gateway]]:
    """Two gateways on one database."""
    with two_gateways(world, simulator) as gateways:
        yield gateways


def burst(
    gateways: list[Gateway], simulator: Simulator, requests: list[dict[str, Any]], barrier: str
) -> tuple[int, list[httpx.Response]]:
    """Send all requests at once, in turn through the gateways; open the barrier when each is refused or waits there.
    How many waited, and all answers."""

    async def run() -> tuple[int, list[httpx.Response]]:
        async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None)) as client:
            urls = [f"{gateway.url}/v1/chat/completions" for gateway in gateways]
            calls = [
                asyncio.create_task(client.post(urls[number % len(urls)], **request)) for number, request in enumerate(requests)
            ]
            waiting = 0

            def decided() -> bool:
                nonlocal waiting
                refused = sum(call.done() for call in calls)
                waiting = simulator.waiting(barrier)
                return refused + waiting == len(calls)

            await asyncio.to_thread(wait_until, decided, 30, "a decision on every call")
            await asyncio.to_thread(simulator.open, barrier)
            return waiting, await asyncio.gather(*calls)

    return asyncio.run(run())


def codes_of(answers: list[httpx.Response]) -> Counter[Any]:
    """200, or the code of the refusal."""
    return Counter(a.status_code if a.status_code == 200 else error_of(a)["code"] for a in answers)


def place_of(world: World, key: str) -> tuple[str, str, str]:
    """What ``set_budget`` takes to name a key."""
    org, name = world.key_name(key)
    return org, "key", name


def minute(world: World, key: str) -> Row:
    """What the key's last minute has counted."""
    org, name = world.key_name(key)
    return world.one(
        "select requests, tokens from budget_internal.rate_windows w join budget_internal.scopes k using (scope_id)"
        " join budget_internal.scopes o on o.scope_id = k.org_id where (o.name, k.kind::text, k.name) = (%s, 'key', %s)",
        org,
        name,
    )


# CONC-01, CONC-03

CHAIN = ["key", "unit", "project", "org"]


def chain_of(world: World, tight: str, room: int) -> tuple[str, str]:
    """A key in a chain of four budgets, each with other room, the least at ``tight``; and a neighbour in its unit."""
    org = world.org()
    world.execute("select budget.create_scope(%s, 'unit', 'u', 'project', 'p')", org)
    key, neighbour = world.key(org=org), world.key(org=org)
    for secret in (key, neighbour):
        world.execute("""select budget.move_key(%s, %s, '{"unit": "u"}')""", org, world.key_name(secret)[1])
    names = {"key": world.key_name(key)[1], "unit": "u", "project": "p", "org": org}
    for place, kind in enumerate(CHAIN):
        # A budget for all time is not compared with those above and beneath it.
        limit, period = (room, "total") if kind == tight else (20 * room + 777 * place, "day")
        world.budget(org, kind, names[kind], limit, period)
    return key, neighbour


def chain_counters(world: World, key: str) -> dict[str, Row]:
    """Limit, spent and held of the budgets of a key, by kind of scope."""
    rows = world.rows(
        "select scope_kind, (limit_usd * 1000000)::int8 as limit, (spent_usd * 1000000)::int8 as spent,"
        " (reserved_usd * 1000000)::int8 as held from budget.key_budgets(%s)",
        key,
    )
    return {row.pop("scope_kind"): row for row in rows}


# The wire has no part in which budget refuses: two are streamed.
@pytest.mark.parametrize(("tight", "stream"), [(kind, kind in ("unit", "org")) for kind in CHAIN], ids=CHAIN)
def test_conc_01_with_chains(world: World, simulator: Simulator, pair: list[Gateway], tight: str, stream: bool) -> None:
    hold = hold_of(world, pair[0], stream=stream)
    assert hold >= STANDARD
    key, neighbour = chain_of(world, tight, 10_000 + CHAIN.index(tight) * hold)
    # What others have spent leaves more room at the key than above it.
    assert pair[1].chat(neighbour, stream=stream).status_code == 200
    settled(world, neighbour)
    before = chain_counters(world, key)
    assert [before[kind]["spent"] for kind in CHAIN] == [0, STANDARD, STANDARD, STANDARD]
    rooms = {kind: row["limit"] - row["spent"] for kind, row in before.items()}
    assert len(set(rooms.values())) == 4
    assert min(rooms, key=lambda kind: rooms[kind]) == tight
    fits = rooms[tight] // hold
    simulator.reset()

    def look() -> None:
        over = "select 1 from budget.budget_status where spent_usd + reserved_usd > limit_usd"
        assert probe.execute(over).fetchall() == []

    with world.connect() as probe, sampled(look):
        requests = [chat_request(key, {"barrier": "all"}, stream=stream)] * 50
        waited, answers = burst(pair, simulator, requests, "all")
    assert waited == fits
    assert codes_of(answers) == {200: fits, "budget_busy": 50 - fits}
    assert {error_of(a)["pgbudget"]["scope"] for a in answers if a.status_code == 429} == {tight}
    assert simulator.calls() == fits
    assert [e["amount"] for e in settled(world, key, fits)] == [STANDARD] * fits
    for kind, row in chain_counters(world, key).items():
        assert row == {"limit": before[kind]["limit"], "spent": before[kind]["spent"] + fits * STANDARD, "held": 0}
    assert world.verify() == []


@STREAMED
def test_conc_03(world: World, gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    hold = hold_of(world, gateway, stream=stream)
    # (a) A balance far above every hold is no reason not to hold. Of the case's 2,000 calls those that show it: a hold is
    # under 1% of the budget, and 30 calls more than fit.
    limit = 100 * hold + hold // 2
    simulator.reset()
    key = world.key(limit)
    waited, answers = burst([gateway], simulator, [chat_request(key, {"barrier": "all"}, stream=stream)] * 130, "all")
    assert waited == 100
    assert codes_of(answers) == {200: 100, "budget_busy": 30}
    assert simulator.calls() == 100
    assert [e["amount"] for e in settled(world, key, 100)] == [STANDARD] * 100
    # (b) Too little room refuses: the hold does not become what is left.
    for left, code in ((1_000, "request_over_limit"), (hold + 100, "budget_exceeded")):
        simulator.reset()
        key = world.key(10_000)
        assert gateway.chat(key, stream=stream).status_code == 200
        settled(world, key)
        world.budget(*place_of(world, key), left)
        answer = gateway.chat(key, stream=stream)
        assert (answer.status_code, error_of(answer)["code"]) == (402, code)
        seen = budget(gateway, key)
        assert (seen["spent"], seen["reserved"]) == (STANDARD, 0)
        assert simulator.calls() == 1
    assert world.verify() == []


# RATE-01, RATE-03, RATE-04


@STREAMED
def test_rate_01(world: World, gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    world.set_clock(NOON)
    # t-mini's input costs 1 micro-dollar a token, its output 4.
    input_bound = hold_of(world, gateway, stream=stream) - 200 * 4
    hold = input_bound + 200
    assert hold >= 300
    # With 1,000 tokens floor(1000/T) is 0: T holds the bytes of the prompt. With room for three T and the input of a fourth
    # call, but not for any of its output, it is 3.
    for limit, fits in ((1_000, 0), (3 * hold + input_bound, 3)):
        simulator.reset()
        key = world.key(10**9)
        rate_limit(world, key, 100, limit)
        waited, answers = burst([gateway], simulator, [chat_request(key, {"barrier": "all"}, stream=stream)] * 20, "all")
        assert waited == fits == limit // hold
        # What no minute can have is not for later.
        refusal, status = ("tokens_limit_exceeded", 429) if fits else ("request_over_limit", 402)
        assert codes_of(answers) == Counter({200: fits, refusal: 20 - fits})
        assert {a.status_code for a in answers} <= {200, status}
        assert simulator.calls() == fits
        if fits:
            settled(world, key, fits)
            assert minute(world, key) == {"requests": fits, "tokens": fits * 300}


@STREAMED
def test_rate_03(world: World, gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    world.set_clock(NOON)
    # (a) 3,000 tokens are 20 calls of 150, where 150 is what a call holds; here it holds more until it ends.
    small: dict[str, Any] = {"max_tokens": 100, "stream": stream}
    hold = hold_of(world, gateway, **small) - 100 * 4 + 100
    key = world.key(10**9)
    rate_limit(world, key, None, 3_000 - 150 + hold)
    for count in range(1, 21):
        assert gateway.chat(key, {"prompt_tokens": 50, "completion_tokens": 100}, **small).status_code == 200
        settled(world, key, count)
        assert minute(world, key) == {"requests": count, "tokens": count * 150}
    answer = gateway.chat(key, **small)
    assert (answer.status_code, error_of(answer)["code"]) == (429, "tokens_limit_exceeded")

    # (b) 100 + 200 tokens are 300, once, however often they are reported.
    reports = [{"prompt_tokens": 100, "completion_tokens": n, "total_tokens": 100 + n} for n in (50, 100, 200)]
    repeated: dict[str, Any] = {"chunks": 3, "usages": reports} if stream else {}
    for simulate in ({}, repeated):
        for asked in ({}, {"stream_options": {"include_usage": True}}) if stream else ({},):
            key = world.key(10**9)
            rate_limit(world, key, None, 100_000)
            assert gateway.chat(key, simulate, stream=stream, **asked).status_code == 200
            settled(world, key)
            assert minute(world, key) == {"requests": 1, "tokens": 300}

    # (c) Who counts only requests need not say how long the answer may be.
    key = world.key()
    rate_limit(world, key, 1, None)
    assert gateway.chat(key, max_tokens=..., stream=stream).status_code == 200
    assert error_of(gateway.chat(key, max_tokens=..., stream=stream))["code"] == "rate_limit_exceeded"


@STREAMED
def test_rate_03_steady(world: World, gateway: Gateway, stream: bool) -> None:
    # (d) 30 tokens every 10 seconds for 5 minutes, far below both limits.
    key = world.key(10**9)
    rate_limit(world, key, 500, 200_000)
    start = datetime(2030, 1, 1, 12, tzinfo=UTC)
    for count in range(30):
        world.set_clock(str(start + timedelta(seconds=10 * count)))
        assert gateway.chat(key, {"prompt_tokens": 10, "completion_tokens": 20}, stream=stream).status_code == 200
        settled(world, key, count + 1)
        in_minute = count % 6 + 1
        assert minute(world, key) == {"requests": in_minute, "tokens": in_minute * 30}


@STREAMED
def test_rate_04(world: World, gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    # (a) An exhausted month is no rate limit: the SDK, as it comes, asks once.
    world.set_clock(NOON)
    hold = hold_of(world, gateway, stream=stream)
    other = world.key(10**6, period="month")
    key = world.key(hold, period="month")
    assert gateway.chat(key, stream=stream).status_code == 200
    settled(world, key)
    simulator.reset()
    with client_of(gateway, key) as client, pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model="t-mini", messages=MESSAGES, max_tokens=200, stream=stream)
    error = caught.value
    assert (error.status_code, error.code, error.type) == (402, "budget_exceeded", "insufficient_quota")
    assert error.response.headers["x-should-retry"] == "false"
    assert "2030-02-01T00:00:00Z" in error.message
    assert (
        int(error.response.headers["retry-after"]) == (datetime(2030, 2, 1) - datetime(2030, 1, 1, 12, 0, 20)).total_seconds()
    )
    assert refusals(gateway) == ["402 budget_exceeded"]
    assert simulator.calls() == 0
    mine, theirs = world.key_name(key), world.key_name(other)
    assert f'"{mine[1]}"' in error.message
    for name in theirs:
        assert not re.search(rf"\b{name}\b", error.response.text)
    assert other not in error.response.text

    # (b) A full minute is one: come back when the next begins.
    world.set_clock("2030-01-01T12:00:40Z")
    rate_limit(world, other, 1, None)
    assert gateway.chat(other, stream=stream).status_code == 200
    answer = gateway.chat(other, stream=stream)
    assert (answer.status_code, error_of(answer)["code"]) == (429, "rate_limit_exceeded")
    assert error_of(answer)["type"] == "rate_limit_error"
    assert 1 <= int(answer.headers["retry-after"]) <= 20
    assert "x-should-retry" not in answer.headers
    # So it is when nobody has stopped the clock.
    world.set_clock(None)
    late = world.key(10**6)
    rate_limit(world, late, 1, None)
    answers = [gateway.chat(late, stream=stream) for _ in range(3)]
    refused = [a for a in answers if a.status_code == 429]
    # At most one minute begins between them.
    assert refused
    assert all(1 <= int(a.headers["retry-after"]) <= 60 for a in refused)


# BUDGET-01, as SQL is typed, as the command is typed, and as JSON

#: What a limit may be, to the nano-dollar.
EXACT = {
    "0": 0,
    "12": 12_000_000_000,
    "'12'": 12_000_000_000,
    "1e-07": 100,
    "0.0000001": 100,
    "1e-9": 1,
    "8999999999.999999999": 8_999_999_999_999_999_999,
    "null": None,
}
#: And what it may not be: not with an error of ours where the server refuses it before it comes to us.
REFUSED = {
    "-7": "LB101",
    "-1e-9": "LB101",
    "'NaN'": "LB101",
    "'Infinity'": "LB101",
    "'-Infinity'": "LB101",
    "1e400": "LB101",
    "99999999999999999999": "LB101",
    "1e-10": "LB101",
    "12.0000000001": "LB101",
    "true": "42883",
    "'true'": "22P02",
    "''": "22P02",
    "'{\"max_limit\": 1}'": "22P02",
    """'{"max_limit": 1}'::jsonb""": "42883",
}
BAD_PERIODS = ["0d", "-1d", "", "1x", "Day", "day ", '{"start_day": 0}', '{"start_day": 32}']
BAD_SHAPES = ['{"budget": {"max_limit": 1}}', '{"start_day": 0}', '{"start_day": 32}', '{"limit_usd": 5}', "5", "[]", "null"]


def limits(world: World) -> list[int | None]:
    """The limits of all budgets, in nano-USD."""
    return [row["limit_nano_usd"] for row in world.rows("select limit_nano_usd from budget_internal.budgets")]


def refused_with(world: World, query: str, *parameters: Any) -> str:
    with pytest.raises(psycopg.Error) as caught:
        world.execute(query, *parameters)
    return str(caught.value.sqlstate)


def test_budget_01_in_sql(world: World) -> None:
    place = place_of(world, world.key())
    for literal, code in REFUSED.items():
        assert refused_with(world, f"select budget.set_budget(%s, %s, %s, {literal}, 'day')", *place) == code, literal
    for period in BAD_PERIODS:
        assert refused_with(world, "select budget.set_budget(%s, %s, %s, 1, %s)", *place, period) == "LB101", period
    for options in BAD_SHAPES:
        assert refused_with(world, "select budget.set_budget(%s, %s, %s, 1, 'day', %s)", *place, options) == "LB101", options
    assert limits(world) == []
    for literal, nano_usd in EXACT.items():
        world.execute(f"select budget.set_budget(%s, %s, %s, {literal}, 'day')", *place)
        assert limits(world) == [nano_usd], literal


#: A member of options, a setting of a key, or the ceiling of a run: as it stands in JSON.
EXACT_JSON = {"12": 12_000_000_000, '"12"': 12_000_000_000, "1e-07": 100, "0.0000001": 100, "0.000000001": 1}
REFUSED_JSON = [
    "-7", '"-7"', '"NaN"', '"Infinity"', "1e400", "99999999999999999999", '"99999999999999999999"', "0.0000000001", "true",
    '"true"', '""', "[]", '{"max_limit": 1}',
]  # fmt: skip


def test_budget_01_in_json(world: World, gateway: Gateway) -> None:
    secret = world.key()
    place = place_of(world, secret)
    headers = {"authorization": f"Bearer {secret}", "content-type": "application/json"}

    def start(run: str, member: str) -> httpx.Response:
        body = f'{{"run": "{run}", {member}}}'
        return httpx.post(f"{gateway.url}/v1/budget/runs", content=body, headers=headers, timeout=30)

    for value in REFUSED_JSON:
        carry = f'{{"carry_over_cap_usd": {value}}}'
        assert refused_with(world, "select budget.set_budget(%s, %s, %s, 1, 'day', %s)", *place, carry) == "LB101", value
        ceiling = f'{{"request_ceiling_usd": {value}}}'
        assert refused_with(world, "select budget.create_key(%s, 'p', 'new', %s)", place[0], ceiling) == "LB101", value
    for value in [*REFUSED_JSON, "NaN", "Infinity", "-Infinity"]:
        answer = start("r", f'"ceiling_usd": {value}')
        assert (answer.status_code, error_of(answer)["code"]) == (400, "invalid_request"), value
    for member in ('"budget": {"max_limit": 1}', '"limit_usd": 1', '"ceiling_usd": 1, "ceiling_usd": 2'):
        answer = start("r", member)
        assert (answer.status_code, error_of(answer)["code"]) == (400, "invalid_request"), member
    assert limits(world) == []
    assert world.rows("select * from budget.run_status") == []
    assert world.rows("select * from budget_internal.scopes where name = 'new'") == []

    for number, (value, nano_usd) in enumerate(EXACT_JSON.items()):
        carry = f'{{"carry_over_cap_usd": {value}}}'
        world.execute("select budget.set_budget(%s, %s, %s, 1, 'day', %s)", *place, carry)
        stored = world.value("select carry_over_cap_nano_usd from budget_internal.budgets where name = 'day'")
        assert stored == nano_usd, value
        answer = start(f"r{number}", f'"ceiling_usd": {value}')
        assert answer.status_code == 201, (value, answer.text)
        assert Decimal(str(answer.json()["ceiling_usd"])) * 10**9 == nano_usd, value


@pytest.fixture
def command(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """``pgbudget`` with arguments, in this process: its exit code, and all that it printed."""
    monkeypatch.setenv("PGBUDGET_DSN", world.dsn)
    monkeypatch.setenv("COLUMNS", "300")

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["pgbudget", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out + printed.err

    return run


def test_budget_01_on_the_command_line(world: World, command: Any) -> None:
    org, _, name = place_of(world, world.key())
    scope = f"key/{name}"
    amounts = [
        "-7", "-1e-9", "NaN", "-NaN", "sNaN", "Infinity", "-inf", "1e400", "1e999999", "99999999999999999999", "1e-10", "true",
        "", "null", "1,5", '{"max_limit": 1}',
    ]  # fmt: skip
    for amount in amounts:
        code, said = command("budget", "set", org, scope, amount, "day")
        assert (code, said.count("\n")) == (1, 1), (amount, said)
        assert said.startswith("pgbudget: "), amount
    for period in BAD_PERIODS:
        code, said = command("budget", "set", org, scope, "1", period)
        assert (code, said.startswith("pgbudget: period must be one of")) == (1, True), (period, said)
    assert command("budget", "set", org, scope, "1", "day", "--max-limit", "1")[0] != 0
    assert limits(world) == []
    for amount, nano_usd in EXACT.items():
        typed = "none" if amount == "null" else amount.strip("'")
        code, said = command("budget", "set", org, scope, typed, "day")
        assert (code, limits(world)) == (0, [nano_usd]), (amount, said)


@STREAMED
def test_budget_01_nothing_and_no_limit(
    world: World, gateway: Gateway, simulator: Simulator, command: Any, stream: bool
) -> None:
    nothing, endless = world.key(), world.key()
    for key, limit in ((nothing, "0"), (endless, "none")):
        org, _, name = place_of(world, key)
        assert command("budget", "set", org, f"key/{name}", limit, "day")[0] == 0
    assert sorted(limits(world), key=str) == [0, None]
    shown = {}
    for key in (nothing, endless):
        answer = httpx.get(f"{gateway.url}/v1/budget", headers={"authorization": f"Bearer {key}"}).json()
        (shown[key],) = [(b["limit_usd"], b["available_usd"]) for b in answer["budgets"]]
    assert shown == {nothing: (0, 0), endless: (None, None)}
    answer = gateway.chat(nothing, stream=stream)
    assert (answer.status_code, error_of(answer)["code"]) == (402, "request_over_limit")
    assert simulator.calls() == 0
    assert gateway.chat(endless, stream=stream).status_code == 200
    settled(world, endless)
    table = [line.split() for line in command("status")[1].splitlines()]
    (none,) = [line for line in table if line[1:3] == [f"key/{world.key_name(nothing)[1]}", "day"]]
    (free,) = [line for line in table if line[1:3] == [f"key/{world.key_name(endless)[1]}", "day"]]
    assert none[3:6] == ["0", "0", "0"]
    # No limit is an empty cell: the first number is what is spent.
    assert free[3:5] == ["0.0009", "0"]


# BUDGET-02


@STREAMED
def test_budget_02(world: World, simulator: Simulator, pair: list[Gateway], stream: bool) -> None:
    key = world.key(10_000)
    place = place_of(world, key)

    def seen(**row: int) -> None:
        """On both gateways the budget is so."""
        for gateway in pair:
            now = budget(gateway, key)
            assert {name: now[name] for name in row} == row

    def refused() -> None:
        for gateway in pair:
            answer = gateway.chat(key, stream=stream)
            assert (answer.status_code, error_of(answer)["code"]) == (402, "budget_exceeded")

    def look() -> None:
        assert probe.execute("select 1 from budget_internal.periods where held_nano_usd < 0").fetchall() == []

    hold = hold_of(world, pair[0], stream=stream)
    assert pair[0].chat(key, {"prompt_tokens": 1000, "completion_tokens": 1000}, max_tokens=1000, stream=stream).is_success
    settled(world, key)
    world.budget(*place, 5_000)
    seen(limit=5_000, spent=5_000, reserved=0, available=0)
    refused()

    # Raised: at once, on both, without a call that finds out first.
    world.budget(*place, 20_000)
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(gateway.chat, key, {"barrier": "raised"}, stream=stream) for gateway in pair]
        wait_until(lambda: simulator.waiting("raised") == 2)
        seen(limit=20_000, spent=5_000, reserved=2 * hold, available=15_000 - 2 * hold)
        simulator.open("raised")
        assert [call.result().status_code for call in calls] == [200, 200]
    settled(world, key, 3)
    spent = 5_000 + 2 * STANDARD
    seen(spent=spent, reserved=0, available=20_000 - spent)

    with world.connect() as probe, sampled(look), ThreadPoolExecutor(2) as pool:
        # In their middle, where they stream.
        first, second = (
            pool.submit(gateway.chat, key, {"barrier": name, "barrier_after_chunks": 100}, stream=stream)
            for gateway, name in zip(pair, ("first", "second"), strict=True)
        )
        wait_until(lambda: simulator.waiting("first") == simulator.waiting("second") == 1)
        # Lowered while both run.
        world.budget(*place, 3_000)
        seen(limit=3_000, spent=spent, reserved=2 * hold, available=3_000 - spent - 2 * hold)
        refused()
        simulator.open("first")
        assert first.result().status_code == 200
        settled_at = spent + STANDARD
        wait_until(lambda: budget(pair[0], key)["reserved"] == hold, what="the charge of the first")
        seen(spent=settled_at, reserved=hold, available=3_000 - settled_at - hold)
        refused()
        # Reset while the second runs: it keeps its hold, and is charged.
        world.execute("select budget.reset_budget(%s, %s, %s, 'day')", *place)
        seen(limit=3_000, spent=0, reserved=hold, available=3_000 - hold)
        simulator.open("second")
        answer = second.result()
        assert answer.status_code == 200
        assert not stream or answer.text.endswith("data: [DONE]\n\n")
        entries = settled(world, key, 5)
        seen(limit=3_000, spent=STANDARD, reserved=0, available=3_000 - STANDARD)
    # What is forgiven is not forgotten.
    assert sum(e["amount"] for e in entries) == 5_000 + 4 * STANDARD
    assert pair[1].chat(key, max_tokens=1, stream=stream).status_code == 200
    settled(world, key, 6)
    assert world.verify() == []


# PERIOD-04


@STREAMED
def test_period_04_on_the_other_gateway(world: World, pair: list[Gateway], stream: bool) -> None:
    world.set_clock("2030-01-01T23:59:59Z")
    # For one hold; what a call costs leaves no room for the next hold.
    key = world.key(hold_of(world, pair[0], stream=stream))

    def two_calls(gateway: Gateway) -> list[int]:
        """Of the two calls of a day."""
        first = gateway.chat(key, stream=stream).status_code
        wait_until(lambda: budget(gateway, key)["reserved"] == 0)
        return [first, gateway.chat(key, stream=stream).status_code]

    assert two_calls(pair[0]) == [200, 402]
    assert pair[1].chat(key, stream=stream).status_code == 402
    for midnight in ("2030-01-02T00:00:00Z", "2030-01-05T03:00:00Z"):
        world.set_clock(midnight)
        assert two_calls(pair[1]) == [200, 402]
        assert pair[0].chat(key, stream=stream).status_code == 402
    periods = world.rows(
        "select p.starts_at from budget_internal.periods p join budget_internal.budgets b using (budget_id)"
        " join budget_internal.scopes s on s.scope_id = b.scope_id where s.name = %s order by 1",
        world.key_name(key)[1],
    )
    assert [row["starts_at"].day for row in periods] == [1, 2, 5]
    assert world.verify() == []
