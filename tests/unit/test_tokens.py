"""The bound by a tokenizer: never above that by bytes, never below what a provider has billed or what the text is alone."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiktoken.model import MODEL_PREFIX_TO_ENCODING, MODEL_TO_ENCODING

from pgbudget import tokenizer
from pgbudget.errors import InvalidRequest
from pgbudget.tokenizer import Tokenizer
from pgbudget.wire.bounds import OVERHEAD_TOKENS
from pgbudget.wire.dialect import ModelRequest
from pgbudget.wire.dialects import DIALECTS
from pgbudget.wire.providers import PROVIDERS, provider
from pgbudget.wire.tokens import input_tokens
from tests.proxy.test_cases_by_route import DENSE
from tests.support.processes import SHARED, WIRE
from tests.wire.replay import MANIFEST, PATHS

VOCABULARIES = ["o200k_base", "cl100k_base"]
BY_PATH = {dialect.path: dialect for dialect in DIALECTS}
NEWER = {"provider": "openai", "upstream_model": "gpt-4o"}
OLDER = {"provider": "openai", "upstream_model": "gpt-4"}


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """The first count reads the vocabulary, which takes half a second."""
    for name in VOCABULARIES:
        tokens("", name)


def bound(request: ModelRequest, name: str) -> int:
    return input_tokens(request, lambda texts: tokenizer.batch_count(texts, name, 1))


def tokens(text: str, name: str) -> int:
    """Of a text alone."""
    return int(tokenizer.batch_count([text], name, 1)[0])


def chat(content: Any, **more: Any) -> ModelRequest:
    return BY_PATH["/chat/completions"].read({"model": "m", "messages": [{"role": "user", "content": content}], **more})


def recorded() -> Iterator[Any]:
    """The requests that were recorded with what they were billed, of models whose vocabulary is known."""
    for row in MANIFEST:
        if row["request_file"] is None or row["endpoint"] not in PATHS:
            continue
        body = json.loads((WIRE / row["request_file"]).read_text())
        body.setdefault("model", row["request_model"])
        name = provider(row["provider"]).tokenizer(body["model"])
        used = (row["expected_usage"] or {}).get("input_tokens")
        if not name or not used:
            continue
        try:
            request = BY_PATH[PATHS[row["endpoint"]]].read(body)
        except InvalidRequest:
            # Not served: tools whose cost has no bound.
            continue
        if request.unbounded is None:
            yield pytest.param(request, name, used, id=row["file"])


@pytest.mark.parametrize(("request_", "name", "used"), list(recorded()))
def test_no_provider_has_billed_more(request_: ModelRequest, name: str, used: int) -> None:
    assert used <= bound(request_, name) <= request_.input_tokens
    if not request_.features:
        # Nor without what is there for surprises.
        assert used <= bound(request_, name) - OVERHEAD_TOKENS


def test_there_are_enough_of_them() -> None:
    assert len(list(recorded())) >= 20
    assert {parameters.values[1] for parameters in recorded()} == set(VOCABULARIES)


def test_the_handed_cases_have_these_counts() -> None:
    cases = [json.loads(line) for line in (SHARED / "cases" / "cases.jsonl").read_text().splitlines()]
    (case,) = (case for case in cases if case["id"] == "EST-02")
    for (text, *_), row in zip(DENSE, case["input"]["rows"], strict=False):
        assert len(text.encode()) == row["utf8_bytes"]
        for name in VOCABULARIES:
            assert tokens(text, name) == row[f"tokens_{name.removesuffix('_base')}"]


@pytest.fixture(scope="module")
def tiktoken_older() -> Iterator[tiktoken.Encoding]:
    """The vocabulary that is to be had without the net, by its author's own code."""
    # LiteLLM ships it; importing that takes seconds.
    found = importlib.util.find_spec("litellm")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "litellm_core_utils" / "tokenizers"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TIKTOKEN_CACHE_DIR", str(folder))
        yield tiktoken.get_encoding("cl100k_base")


@settings(deadline=None)
@given(st.text())
def test_it_counts_as_its_authors_do(tiktoken_older: tiktoken.Encoding, text: str) -> None:
    assert tokens(text, "cl100k_base") == len(tiktoken_older.encode_ordinary(text))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
BODIES = st.one_of(
    st.tuples(st.just("/chat/completions"), st.fixed_dictionaries({"messages": st.lists(JSON)})),
    st.tuples(st.just("/responses"), st.fixed_dictionaries({"input": st.text() | st.lists(JSON)})),
    st.tuples(
        st.just("/completions"), st.fixed_dictionaries({"prompt": st.text() | st.lists(st.integers(0, 10**6), min_size=1)})
    ),
    st.tuples(st.just("/embeddings"), st.fixed_dictionaries({"input": st.lists(st.text(), min_size=1)})),
)


@settings(deadline=None)
@given(BODIES, st.dictionaries(st.sampled_from(["metadata", "user", "instructions", "text", "functions"]), JSON))
@pytest.mark.parametrize("name", VOCABULARIES)
def test_it_is_never_above_the_bound_by_bytes(name: str, asked: tuple[str, dict[str, Any]], more: dict[str, Any]) -> None:
    path, body = asked
    try:
        request = BY_PATH[path].read({"model": "m", **more, **body})
    except InvalidRequest:
        return
    assert OVERHEAD_TOKENS <= bound(request, name) <= request.input_tokens


@settings(deadline=None)
@given(st.lists(st.text(), min_size=1))
@pytest.mark.parametrize("name", VOCABULARIES)
def test_it_is_never_below_the_text_in_its_frame(name: str, texts: list[str]) -> None:
    """As OpenAI tells of its chat models: 3 tokens around each message, its role, its text, and 3 before the answer."""
    request = BY_PATH["/chat/completions"].read(
        {"model": "m", "messages": [{"role": "user", "content": text} for text in texts]}
    )
    framed = sum(3 + tokens("user", name) + tokens(text, name) for text in texts) + 3
    assert bound(request, name) >= framed + OVERHEAD_TOKENS


LINES = st.text() | st.lists(st.text(st.characters(max_codepoint=0x17F)), max_size=6).map("\n".join)


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(min_size=1), LINES, st.lists(LINES)), max_size=4), LINES)
@example([("a", "\n".join("abcdefgh" * 50), [])], "")
@example([("a", "\n" * 500, [])], "")
@example([], '"\n\\' * 300)
@example([("a", "", list("abcdefgh") * 50)], "")
@pytest.mark.parametrize("name", VOCABULARIES)
def test_nor_below_its_tools_written_as_json_or_as_types(
    name: str, fields: list[tuple[str, str, list[str]]], description: str
) -> None:
    properties = {field: {"type": "string", "description": about, "enum": among} for field, about, among in fields}
    schema = {"type": "object", "properties": properties}
    function = {"name": "look_up", "description": description, "parameters": schema}
    request = chat("hi", tools=[{"type": "function", "function": function}])
    around = tokens("user", name) + tokens("hi", name) + 6

    def commented(text: str) -> str:
        return "".join(f"// {line}\n" for line in text.split("\n"))

    types = "".join(
        f"{commented(about)}{field}?: {' | '.join(json.dumps(one, ensure_ascii=False) for one in among) or 'string'},\n"
        for field, (about, among) in {field: (about, among) for field, about, among in fields}.items()
    )
    for written in (
        json.dumps(function, ensure_ascii=False),
        f"namespace functions {{\n{commented(description)}type look_up = (_: {{\n{types}}}) => any;\n}}",
    ):
        assert bound(request, name) - OVERHEAD_TOKENS >= tokens(written, name) + around


def test_the_vocabularies_are_those_that_openai_names() -> None:
    openai, known = PROVIDERS["openai"], 0
    names = {
        **MODEL_TO_ENCODING,
        **{prefix + "x": name for prefix, name in MODEL_PREFIX_TO_ENCODING.items() if prefix[-1] == "-"},
    }
    for model, name in names.items():
        if model.startswith("gpt-oss"):
            assert (openai.tokenizer(model), PROVIDERS["groq"].tokenizer(f"openai/{model}")) == (None, "o200k_base")
        elif found := openai.tokenizer(model):
            known += 1
            assert found == name, model
            assert PROVIDERS["openrouter"].tokenizer(f"openai/{model}") == name
        else:
            assert name not in VOCABULARIES or model.startswith(("gpt-35", "gpt-3.5")), model
    assert known >= 18
    assert [openai.tokenizer(f"ft:{m}:me::1") for m in ("gpt-4o-mini", "gpt-4.1", "gpt-4", "davinci-002")] == [
        "o200k_base", "o200k_base", "cl100k_base", "cl100k_base",
    ]  # fmt: skip
    assert [openai.tokenizer(model) for model in ("gpt-6", "gpt-40", "o10", "text-embedding-4", "claude")] == [None] * 5


def test_of_whom_a_name_says_nothing_is_not_counted() -> None:
    silent = {"azure", "vllm", "ollama", "anthropic", "gemini", "simulator", "of-tomorrow"}
    assert {provider(name).tokenizer(model) for name in silent for model in ("gpt-4o", "openai/gpt-4o", "gpt-oss-20b")} == {
        None
    }


# The counting of a gateway


def count(counter: Tokenizer, request: ModelRequest, *routes: dict[str, str]) -> int | None:
    return asyncio.run(counter.count(request, routes))


def test_a_plan_takes_the_largest_and_one_unknown_is_enough() -> None:
    counter = Tokenizer()
    request = chat("数据库预算" * 1000)
    newer, older = (count(counter, request, route) for route in (NEWER, OLDER))
    assert newer is not None
    assert older is not None
    assert newer < older < request.input_tokens
    assert count(counter, request, NEWER, OLDER) == older
    assert count(counter, request, NEWER, {"provider": "azure", "upstream_model": "gpt-4o"}) is None


def test_what_has_no_bound_or_is_no_closer_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Tokenizer()
    file = {"type": "file", "file": {"file_id": "file-1"}}
    assert count(counter, chat([file, {"type": "text", "text": "word " * 1000}]), NEWER) is None
    monkeypatch.setattr(tokenizer, "batch_count", lambda texts, **_: [len(text.encode()) for text in texts])
    assert count(counter, chat("word " * 1000), NEWER) is None


def test_what_is_too_large_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "_MOST_BYTES", 5000)
    counter = Tokenizer()
    assert count(counter, chat("word " * 900), NEWER) is not None
    assert count(counter, chat("word " * 1000), NEWER) is None


def test_without_the_library_the_log_says_so_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(tokenizer, "batch_count", None)
    counter = Tokenizer()
    assert [count(counter, chat("word " * 1000), NEWER) for _ in range(3)] == [None] * 3
    assert [record.message for record in caplog.records] == [
        "a key goes by a tokenizer and is held by bytes: install pgbudget[tokenizer]"
    ]


def test_who_waits_for_a_count_does_so_in_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does anything else of the process wait."""
    opened = threading.Event()

    def slowly(texts: list[str], encoding: str, threads: int) -> list[int]:
        opened.wait(10)
        return [1] * len(texts)

    monkeypatch.setattr(tokenizer, "_load", lambda vocabulary: None)
    monkeypatch.setattr(tokenizer, "batch_count", slowly)
    monkeypatch.setattr(tokenizer, "_MOST_WAITING", 2)
    monkeypatch.setattr(tokenizer, "_SECONDS", 0.3)

    async def ask() -> None:
        counter = Tokenizer()
        request = chat("word " * 1000)
        asking = [asyncio.ensure_future(counter.count(request, [NEWER])) for _ in range(2)]
        await asyncio.sleep(0)
        assert await counter.count(request, [NEWER]) is None
        assert not any(one.done() for one in asking)
        assert await asyncio.gather(*asking) == [None, None]
        opened.set()
        # Those that are no longer waited for leave their places.
        assert await counter.count(request, [NEWER]) is not None

    try:
        asyncio.run(ask())
    finally:
        opened.set()


def test_the_vocabulary_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "_load", lambda vocabulary: time.sleep(0.5))
    monkeypatch.setattr(tokenizer, "_SECONDS", 0.3)
    tokenizer.batch_count(["here already"], "o200k_base", 1)
    assert count(Tokenizer(), chat("word " * 1000), NEWER) is not None


@pytest.mark.parametrize(
    "text", ["a" * 2**20, " " * 2**20, "\n" * 2**20, "́" * 2**18, "\U0001f468‍" * 2**16, "<|endoftext|>" * 2**16]
)
def test_no_text_takes_long(text: str) -> None:
    counter = Tokenizer()
    started = time.process_time()
    assert count(counter, chat(text), NEWER) is not None
    assert time.process_time() - started < 2
