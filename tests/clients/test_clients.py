"""What every client may rely on. The table says what is particular to each; docs/clients.md tells it to people."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clients.support import Program, Watch, booked
from tests.support.processes import Gateway, Simulator, wait_until
from tests.support.world import World

TOKENS = 50
TEXT = "word " * TOKENS
MODELS = {"messages": "c-son", "count": "c-son", "embeddings": "e-mini"}
CHAT = ("chat", "compatible")

# The error that a status is raised as; 402 is a budget's or a ceiling's.
OPENAI = {
    402: "openai.APIStatusError", 403: "openai.PermissionDeniedError", 404: "openai.NotFoundError",
    422: "openai.UnprocessableEntityError", 429: "openai.RateLimitError", 500: "openai.InternalServerError",
    529: "openai.InternalServerError",
}  # fmt: skip
OPENAI_NODE = {**OPENAI, 402: "openai.APIError"}
LANGCHAIN = {
    **OPENAI, 403: "langchain_openai.OpenAIPermissionDeniedError", 404: "langchain_openai.OpenAIModelNotFoundError",
    429: "langchain_openai.OpenAIRateLimitError", 500: "langchain_openai.OpenAIAPIError",
    529: "langchain_openai.OpenAIAPIError",
}  # fmt: skip
LITELLM = {
    402: "litellm.APIError", 403: "litellm.APIError", 404: "litellm.NotFoundError",
    422: "litellm.BadRequestError", 429: "litellm.RateLimitError", 500: "litellm.InternalServerError",
    529: "litellm.APIError",
}  # fmt: skip
PYDANTIC_AI = {
    402: "pydantic_ai.ModelQuotaExceededError", 403: "pydantic_ai.ModelAuthenticationError",
    404: "pydantic_ai.ModelNotFoundError", 422: "pydantic_ai.ModelRequestRejectedError",
    429: "pydantic_ai.ModelRateLimitError", 500: "pydantic_ai.ModelServerError", 529: "pydantic_ai.ModelOverloadedError",
}  # fmt: skip
ANTHROPIC = {
    402: "anthropic.PaymentRequiredError", 403: "anthropic.PermissionDeniedError", 404: "anthropic.NotFoundError",
    422: "anthropic.UnprocessableEntityError", 429: "anthropic.RateLimitError", 500: "anthropic.InternalServerError",
    529: "anthropic.OverloadedError",
}  # fmt: skip
CHAT_ANTHROPIC = {
    **ANTHROPIC, 403: "langchain_anthropic.AnthropicPermissionDeniedError",
    404: "langchain_anthropic.AnthropicModelNotFoundError", 429: "langchain_anthropic.AnthropicRateLimitError",
    500: "langchain_anthropic.AnthropicAPIError", 529: "langchain_anthropic.AnthropicOverloadedError",
}  # fmt: skip
LITELLM_ANTHROPIC = {
    **LITELLM, 402: "litellm.PaymentRequiredError", 403: "litellm.PermissionDeniedError", 529: "litellm.InternalServerError",
}  # fmt: skip
AI = dict.fromkeys(OPENAI, "ai.APICallError")


@dataclass(frozen=True)
class Client:
    """``usage``: of a stream, ``asked`` for by the client itself or ``hidden`` from it. ``numbers``: its errors show the body.

    ``obeys``: x-should-retry. ``retries``: by itself. ``overloaded``: what it makes of a 529.
    """

    program: str
    route: str
    errors: dict[int, str]
    usage: str = ""
    numbers: bool = True
    tools: bool = True
    obeys: bool = True
    retries: bool = True
    overloaded: int = 529

    def does(self, do: str) -> bool:
        """Whether there is this to do on its route."""
        return do == "whole" or (bool(self.usage) and (self.tools or do in ("stream", "leave")))

    def __str__(self) -> str:
        return f"{self.program.replace('/', ' ')} {self.route}"

    @property
    def model(self) -> str:
        return MODELS.get(self.route.split()[0], "t-mini")


CLIENTS = [
    #      program               route             raises             usage of a stream
    Client("python/openai",      "chat",        OPENAI,       "hidden"),
    Client("python/openai",      "chat async",  OPENAI,       "hidden", tools=False),
    Client("python/langchain",   "chat",        LANGCHAIN,    "hidden"),
    Client("python/litellm",     "chat",        LITELLM,      "hidden", numbers=False),
    Client("python/pydantic_ai", "chat",        PYDANTIC_AI,  "asked"),
    Client("node/openai",        "chat",        OPENAI_NODE,  "hidden"),
    Client("node/ai",            "chat",        AI,           "asked", obeys=False),
    Client("node/ai",            "compatible",  AI,           "hidden", obeys=False),
    Client("python/anthropic",   "messages",       ANTHROPIC,         "asked"),
    Client("python/anthropic",   "messages async", ANTHROPIC,         "asked", tools=False),
    Client("python/langchain",   "messages",       CHAT_ANTHROPIC,    "asked"),
    Client("python/litellm",     "messages",       LITELLM_ANTHROPIC, "hidden", numbers=False, retries=False, overloaded=500),
    Client("python/pydantic_ai", "messages",       PYDANTIC_AI,       "asked"),
    Client("node/anthropic",     "messages",       ANTHROPIC,         "asked"),
    Client("node/ai",            "messages",       AI,                "asked", obeys=False),
]  # fmt: skip
#: On the other routes, where a few calls show the same.
OTHERS = [
    Client("python/openai",      "responses",       OPENAI,      "asked"),
    Client("python/openai",      "responses async", OPENAI,      "asked", tools=False),
    Client("python/langchain",   "responses",       LANGCHAIN,   "asked"),
    Client("python/litellm",     "responses",       LITELLM,     "asked", numbers=False, tools=False),
    Client("python/pydantic_ai", "responses",       PYDANTIC_AI, "asked"),
    Client("node/openai",        "responses",       OPENAI_NODE, "asked"),
    Client("node/ai",            "responses",       AI,          "asked", obeys=False),
    Client("python/openai",      "completions",     OPENAI,      "hidden", tools=False),
    Client("python/langchain",   "completions",     OPENAI,      "hidden", tools=False),
    Client("python/litellm",     "completions",     LITELLM,     "hidden", numbers=False, tools=False),
    Client("node/openai",        "completions",     OPENAI_NODE, "hidden", tools=False),
    Client("node/ai",            "completions",     AI,          "asked", tools=False, obeys=False),
]  # fmt: skip
EMBEDDINGS = [
    Client("python/openai",      "embeddings",      OPENAI),
    Client("python/langchain",   "embeddings",      OPENAI),
    Client("python/litellm",     "embeddings",      LITELLM, numbers=False),
    Client("python/pydantic_ai", "embeddings",      PYDANTIC_AI),
    Client("node/openai",        "embeddings",      OPENAI_NODE),
    Client("node/ai",            "embeddings",      AI, obeys=False),
]  # fmt: skip
COUNTS = [
    Client("python/anthropic",   "count",           ANTHROPIC),
    Client("python/langchain",   "count",           ANTHROPIC),
    Client("node/anthropic",     "count",           ANTHROPIC),
]  # fmt: skip


@dataclass
class Desk:
    """A client at its gateway."""

    client: Client
    program: Program
    world: World
    gateway: Gateway
    simulator: Simulator

    def ask(self, do: str, key: str, model: str | None = None, retries: int | None = None) -> dict[str, Any]:
        """What came back."""
        client = self.client
        return self.program.ask(
            route=client.route, do=do, url=self.gateway.url, key=key, model=model or client.model, retries=retries
        )

    def charged(self, key: str, calls: int = 1) -> int:
        """What the calls of a key were charged, nano-USD: what the provider made of them, to the last one."""
        rows = booked(self.world, key, calls)
        tally = self.simulator.tally()
        assert tally["requests"] == calls
        charged = sum(row["amount_nano_usd"] for row in rows)
        assert charged == tally["cost_nano_usd"]
        return int(charged)


@pytest.fixture
def desk(
    request: pytest.FixtureRequest,
    program: Callable[[str], Program],
    shared_world: World,
    shared_gateway: Gateway,
    simulator: Simulator,
) -> Desk:
    """Each client in turn, at a provider that is as new."""
    simulator.defaults(completion_tokens=TOKENS)
    client: Client = request.param
    return Desk(client, program(client.program), shared_world, shared_gateway, simulator)


def each(clients: list[Client], *dos: str) -> pytest.MarkDecorator:
    """These clients, each with all of these that it can do."""
    trials = [pytest.param(client, do, id=f"{client}-{do}") for client in clients for do in dos if client.does(do)]
    return pytest.mark.parametrize(("desk", "do"), trials, indirect=["desk"])


THAT_RETRY = [client for client in CLIENTS if client.retries]


@each(CLIENTS + OTHERS, "whole")
def test_an_answer(desk: Desk, do: str) -> None:
    key = desk.world.key(10**6)
    answer = desk.ask(do, key)
    assert answer.get("text") == TEXT, answer
    assert answer["usage"] == [100, TOKENS]
    assert desk.charged(key) > 0


@each(CLIENTS + OTHERS, "stream")
def test_a_stream_and_its_usage_only_where_it_was_asked_for(desk: Desk, do: str) -> None:
    key = desk.world.key(10**6)
    answer = desk.ask(do, key)
    assert answer.get("text") == TEXT, answer
    assert answer["pieces"] > 1
    assert answer.get("usage") == ([100, TOKENS] if desk.client.usage == "asked" else None)
    assert desk.charged(key) > 0


@each(EMBEDDINGS, "whole")
def test_an_embedding(desk: Desk, do: str) -> None:
    key = desk.world.key(10**6)
    answer = desk.ask(do, key)
    assert answer.get("numbers"), answer
    # LangChain does not show it.
    assert answer.get("usage", [100, 0]) == [100, 0]
    assert [row["amount_nano_usd"] for row in booked(desk.world, key, 1)] == [100 * 1000]


@each(COUNTS, "whole")
def test_a_count_costs_nothing_also_when_nothing_is_left(desk: Desk, do: str) -> None:
    key, _ = spent(desk.world, desk.client.model)
    before = booked(desk.world, key, 1)
    assert desk.ask(do, key) == {"usage": [100, 0]}
    assert [row["amount_nano_usd"] for row in booked(desk.world, key, 2)] == [before[0]["amount_nano_usd"], 0]


@each(CLIENTS + OTHERS, "tool", "tool_streamed")
def test_a_tool_is_called(desk: Desk, do: str) -> None:
    # The simulator's text: on the chat route the arguments as they are, elsewhere one of them.
    desk.simulator.defaults(
        deltas="tool_calls", completion_tokens=1, text='{"text":"1"}' if desk.client.route.startswith(CHAT) else "1"
    )
    key = desk.world.key(10**6)
    answer = desk.ask(do, key)
    name, arguments = answer.get("tool") or pytest.fail(str(answer))
    assert name == "f"
    assert (json.loads(arguments) if isinstance(arguments, str) else arguments) == {"text": "1"}
    assert desk.charged(key) > 0


@each(CLIENTS + OTHERS, "value")
def test_a_structured_answer(desk: Desk, do: str) -> None:
    desk.simulator.defaults(completion_tokens=1, text='{"city":"Paris"}')
    key = desk.world.key(10**6)
    answer = desk.ask(do, key)
    assert answer.get("value") == {"city": "Paris"}, answer
    assert desk.charged(key) > 0


def spent(world: World, model: str, period: str = "day") -> tuple[str, str]:
    key = world.key(20_000, period=period)
    held = world.reserve(key, input_tokens=19_000, output=200)
    world.settle(held["reservation_id"], {"input": 19_000, "output": 200})
    return key, model


def too_small(world: World, model: str) -> tuple[str, str]:
    return world.key(100), model


def spent_for_good(world: World, model: str) -> tuple[str, str]:
    return spent(world, model, "total")


def never_fits(world: World, model: str) -> tuple[str, str]:
    key = world.key(10**6)
    world.execute("select budget.set_rate_limit(%s, 'key', %s, null, 50)", *world.key_name(key))
    return key, model


def expired(world: World, model: str) -> tuple[str, str]:
    return world.key(10**6, expires_at="2020-01-01T00:00:00Z"), model


def disabled(world: World, model: str) -> tuple[str, str]:
    key = world.key(10**6)
    world.execute("select budget.disable_key(%s, %s)", *world.key_name(key))
    return key, model


def not_allowed(world: World, model: str) -> tuple[str, str]:
    return world.key(10**6, allowed_models=["t-pro"]), model


def unknown(world: World, model: str) -> tuple[str, str]:
    return world.key(10**6), "model-of-tomorrow"


def unpriced(world: World, model: str) -> tuple[str, str]:
    world.execute("select budget.set_model('simulator', 'unpriced', 128000, 1000)")
    world.execute("select budget.set_route(null, 'unpriced', 'simulator', 'simulator')")
    return world.key(10**6), "unpriced"


Refusal = Callable[[World, str], tuple[str, str]]


@each(CLIENTS, "whole", "stream")
@pytest.mark.parametrize(
    ("refusal", "code", "status"),
    [
        (spent, "budget_exceeded", 402),
        (spent_for_good, "budget_exceeded", 402),
        (too_small, "request_over_limit", 402),
        (never_fits, "request_over_limit", 402),
        (disabled, "key_disabled", 403),
        (expired, "key_expired", 403),
        (not_allowed, "model_not_allowed", 403),
        (unknown, "model_not_found", 404),
        (unpriced, "model_unpriced", 422),
    ],
)
def test_what_waiting_cannot_mend_is_the_clients_own_error_in_our_words_and_not_tried_again(
    desk: Desk, do: str, refusal: Refusal, code: str, status: int
) -> None:
    is_refused(desk, do, refusal, code, status)


@each(OTHERS + EMBEDDINGS, "whole", "stream")
@pytest.mark.parametrize(
    ("refusal", "code"), [(spent, "budget_exceeded"), (spent_for_good, "budget_exceeded"), (never_fits, "request_over_limit")]
)
def test_so_it_is_on_the_other_routes(desk: Desk, do: str, refusal: Refusal, code: str) -> None:
    is_refused(desk, do, refusal, code, 402)


@each(CLIENTS + OTHERS + EMBEDDINGS, "whole")
def test_so_it_is_with_a_key_that_is_not_known(desk: Desk, do: str) -> None:
    watch = Watch(desk.gateway)
    error = desk.ask(do, "pgb-not-a-key").get("error") or pytest.fail("not refused")
    assert watch.refusals() == ["401 invalid_key"]
    assert (error["status"], "this key is not known" in error["message"]) == (401, True)


@each(COUNTS, "whole")
def test_so_it_is_where_nothing_is_spent(desk: Desk, do: str) -> None:
    is_refused(desk, do, not_allowed, "model_not_allowed", 403)


def is_refused(desk: Desk, do: str, refusal: Refusal, code: str, status: int) -> None:
    key, model = refusal(desk.world, desk.client.model)
    watch = Watch(desk.gateway)
    error = desk.ask(do, key, model).get("error") or pytest.fail("not refused")
    assert watch.refusals() == [f"{status} {code}"]
    assert (error["type"], error["status"]) == (desk.client.errors[status], status)
    assert desk.simulator.calls() == 0
    told = desk.gateway.chat(key, model="t-mini" if status == 402 else model).json()["error"]
    # Some show the body as it came.
    message = error["message"].replace("\\", "")
    if status != 402:
        assert told["message"] in message
        return
    # The worst case differs with the request; whose budget and its numbers do not.
    assert f'key "{told["pgbudget"]["name"]}"' in message
    if refusal is never_fits:
        assert "may use 50 tokens a minute" in message
        return
    limit = told["pgbudget"]["limit_usd"]
    assert f"${limit}" in message
    if desk.client.numbers:
        assert (error["numbers"]["limit_usd"], error["numbers"]["spent_usd"]) == (limit, told["pgbudget"]["spent_usd"])


@each(CLIENTS + OTHERS + EMBEDDINGS, "whole")
def test_what_only_an_admin_can_mend_is_tried_again_only_by_who_does_not_listen(desk: Desk, do: str) -> None:
    """It is a 503, which the others obey: x-should-retry."""
    key = desk.world.key(10**6)
    desk.world.execute(
        "update budget_internal.scopes set deleted_at = budget_internal.clock() where kind = 'project' and org_id ="
        " (select scope_id from budget_internal.scopes where kind = 'org' and name = %s)",
        desk.world.key_name(key)[0],
    )
    watch = Watch(desk.gateway)
    error = desk.ask(do, key).get("error") or pytest.fail("not refused")
    assert watch.refusals() == ["503 budget_config_invalid"] * (1 if desk.client.obeys else 3)
    assert "a project, unit, member or tag above it is gone" in error["message"]
    assert desk.simulator.calls() == 0


@each(THAT_RETRY, "whole", "stream")
def test_a_busy_budget_is_waited_for(desk: Desk, do: str) -> None:
    key = desk.world.key(20_000)
    held = desk.world.reserve(key, input_tokens=19_000, output=200)
    watch = Watch(desk.gateway)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(desk.ask, do, key)
        wait_until(lambda: asking.done() or watch.refusals(), what="the refusal")
        desk.world.settle(held["reservation_id"], outcome="unsent")
        answer = asking.result()
    assert answer.get("text") == TEXT, answer
    assert set(watch.refusals()) == {"429 budget_busy"}
    # And the one that was held by hand.
    booked(desk.world, key, 2)


@pytest.mark.parametrize("status", [429, 500, 529])
@each(CLIENTS, "whole", "stream")
def test_an_error_of_the_provider_is_the_clients_own_error_and_costs_nothing(desk: Desk, do: str, status: int) -> None:
    assert desk.charged(fails(desk, do, status)) == 0


@each(OTHERS + EMBEDDINGS + COUNTS, "whole")
def test_so_is_one_on_the_other_routes(desk: Desk, do: str) -> None:
    key = fails(desk, do, 429)
    # LiteLLM's embeddings are tried again whatever one says.
    assert desk.charged(key, desk.simulator.calls()) == 0


def fails(desk: Desk, do: str, status: int) -> str:
    desk.simulator.defaults(status=status)
    key = desk.world.key(10**6)
    error = desk.ask(do, key, retries=0).get("error") or pytest.fail("no error")
    shown = desk.client.overloaded if status == 529 else status
    assert (error["type"], error["status"]) == (desk.client.errors[status], shown)
    assert f"simulated status {status}" in error["message"]
    return key


@each(THAT_RETRY, "whole", "stream")
def test_a_try_that_failed_is_made_again_and_each_is_booked(desk: Desk, do: str) -> None:
    desk.simulator.defaults(status=500)
    key = desk.world.key(10**6)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(desk.ask, do, key)
        wait_until(lambda: asking.done() or desk.simulator.calls(), what="the first try")
        desk.simulator.defaults(status=200)
        answer = asking.result()
    assert answer.get("text") == TEXT, answer
    calls = desk.simulator.calls()
    assert calls > 1
    assert desk.charged(key, calls) > 0


@each(CLIENTS, "leave")
def test_a_stream_that_is_left_holds_nothing(desk: Desk, do: str) -> None:
    desk.simulator.defaults(chunk_ms=10)
    key = desk.world.key(10**6)
    assert desk.ask(do, key) == {}
    # Read on to its end, within the time to drain: the real usage.
    assert desk.charged(key) > 0
    assert desk.simulator.tally()["states"]["finished"] == 1
