"""docs/clients.md does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.support import ENVIRONMENT, HERE, NODE, ROOT, Program, booked
from tests.clients.test_clients import CLIENTS, Client
from tests.support.processes import Gateway, Simulator
from tests.support.world import World

PAGE = (ROOT / "docs" / "clients.md").read_text()
BLOCKS = re.findall(r"^### ([^\n]+)\n|^```(python|js|console)\n(.*?)^```", PAGE, re.M | re.S)
NAMES = {
    ("python/openai", "chat"): "`openai` for Python",
    ("python/langchain", "chat"): "LangChain's `ChatOpenAI`",
    ("python/litellm", "chat"): "LiteLLM with `openai/`",
    ("python/pydantic_ai", "chat"): "pydantic-ai",
    ("node/openai", "chat"): "`openai` for Node",
    ("node/ai", "chat"): "Vercel AI SDK",
    ("python/anthropic", "messages"): "`anthropic` for Python, `@anthropic-ai/sdk`",
    ("node/anthropic", "messages"): "`anthropic` for Python, `@anthropic-ai/sdk`",
    ("python/langchain", "messages"): "LangChain's `ChatAnthropic`",
    ("python/litellm", "messages"): "LiteLLM with `anthropic/`",
    ("python/pydantic_ai", "messages"): "pydantic-ai",
    ("node/ai", "messages"): "Vercel AI SDK",
}


def blocks() -> list[object]:
    """Each block with its language, known by the heading above it."""
    found: list[object] = []
    heading = ""
    for title, language, code in BLOCKS:
        heading = title or heading
        if code:
            found.append(pytest.param(language, code, id=f"{heading} {language} {len(found)}"))
    return found


def run(program: Callable[[str], Program], language: str, code: str, gateway: Gateway, key: str) -> str:
    """What a block prints."""
    for wanted, real in (("http://127.0.0.1:8080", gateway.url), ("pgb_…", key)):
        assert wanted in code
        code = code.replace(wanted, real)
    if language == "python":
        answer = program("python/blocks").ask(code=code)
        assert "error" not in answer, answer["error"]
        return str(answer["printed"])
    command = {
        "js": [str(NODE), "--input-type=module", "-e", code],
        "console": ["sh", "-ec", re.sub(r"^\$ ", "", code, flags=re.M)],
    }[language]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(command, cwd=HERE, env={**ENVIRONMENT, "PATH": path}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("language", "code"), blocks())
def test_a_block_works_and_shows_a_refusal(
    program: Callable[[str], Program],
    shared_world: World,
    shared_gateway: Gateway,
    simulator: Simulator,
    language: str,
    code: str,
) -> None:
    def printed(key: str) -> str:
        return run(program, language, code, shared_gateway, key)

    key = shared_world.key(10**6)
    if language == "console":
        assert "'t-mini'" in printed(key)
        return
    assert "word word" in printed(key)
    assert booked(shared_world, key, 1)[0]["amount_nano_usd"] == simulator.tally()["cost_nano_usd"] > 0
    refused = printed(shared_world.key(100))
    assert "this request could cost up to $0.00" in refused
    assert ("402" if "litellm" in code else "request_over_limit 0.0001") in refused
    # Where no budget is the cause there are no numbers.
    none = "None" if language == "python" else "undefined"
    elsewhere = shared_world.key(10**6, allowed_models=["t-pro"])
    for other, status, error in (("pgb_unknown", "401", "invalid_key"), (elsewhere, "403", "model_not_allowed")):
        assert (status if "litellm" in code else f"{error} {none} ") in printed(other)
    assert simulator.calls() == 1
    # An error of the provider's own may be no object at all.
    simulator.defaults(status=400, error_body="overloaded")
    assert printed(key).strip()


@pytest.mark.parametrize("client", [c for c in CLIENTS if (c.program, c.route) in NAMES], ids=str)
def test_the_table_has_what_the_tests_see(client: Client) -> None:
    names = [f"`{error.rpartition('.')[2]}`" for error in client.errors.values()]
    assert "| " + " | ".join([NAMES[client.program, client.route], *names]) + " |\n" in PAGE
