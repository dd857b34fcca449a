"""Recorded and given bodies, to the byte, in the writes that were asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pgbudget.simulator.replay import cut
from tests.support.processes import WIRE
from tests.unit.simulator.conftest import BODY, STREAM, Running
from tests.unit.simulator.test_faults import read_all, read_until

MANIFEST: list[dict[str, Any]] = [json.loads(line) for line in (WIRE / "manifest.jsonl").read_text().splitlines()]
MEDIA = {"sse": "text/event-stream; charset=utf-8", "json": "application/json", "ndjson": "application/x-ndjson"}


def writes(answer: bytes) -> list[bytes]:
    """The chunks of an answer: the server makes one of each write."""
    rest = answer.split(b"\r\n\r\n", 1)[1]
    found: list[bytes] = []
    while True:
        size, rest = rest.split(b"\r\n", 1)
        if size == b"0":
            return found
        length = int(size, 16)
        found.append(rest[:length])
        rest = rest[length + 2 :]


def test_every_recording_comes_back_as_it_was(simulator: Running) -> None:
    assert len(MANIFEST) == 117
    for row in MANIFEST:
        answer = simulator.chat(replay=row["file"])
        assert answer.status_code == row["status"], row["file"]
        assert answer.content == (WIRE / row["file"]).read_bytes(), row["file"]
        assert answer.headers["content-type"] == MEDIA[row["file"].rpartition(".")[2]], row["file"]
        assert "x-request-id" in answer.headers


def test_a_recording_is_billed_as_it_says(simulator: Running) -> None:
    # 11 in, 20 out at t-mini's price, see the manifest.
    row = next(r for r in MANIFEST if r["file"] == "openai/chat_stream_usage.sse")
    usage = row["expected_usage"]
    simulator.chat(replay=row["file"])
    call = simulator.last()
    assert (call["prompt_tokens"], call["completion_tokens"]) == (usage["input_tokens"], usage["output_tokens"])
    assert call["billed_nano_usd"] == usage["input_tokens"] * 1_000 + usage["output_tokens"] * 4_000 > 0
    simulator.chat(replay="openai/chat_err401.json")
    assert (simulator.last()["billed"], simulator.last()["billed_nano_usd"]) == (False, 0)


@pytest.mark.parametrize("name", ["nothing.json", "../manifest.jsonl", "manifest.jsonl", "/etc/hostname", ""])
def test_only_recordings_are_replayed(simulator: Running, name: str) -> None:
    answer = simulator.chat(replay=name)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "x-simulate")


TEXT = 'data: {"a": "预算\u2028é😀"}\r\n\r\ndata: [DONE]\n\n'


@pytest.mark.parametrize("split", ["bytes", "lines", "seed:1", "seed:2", "at:1,7,30,9999", None])
def test_a_body_is_cut_into_the_writes_that_were_asked_for(simulator: Running, split: str | None) -> None:
    content = TEXT.encode()
    with simulator.connect(STREAM, raw_sse=TEXT, split=split) as connection:
        found = writes(read_until(connection, b"\r\n0\r\n\r\n"))
    assert b"".join(found) == content
    assert found == list(cut(content, split))
    lengths = [len(piece) for piece in found]
    if split == "bytes":
        assert set(lengths) == {1}
    elif split == "lines":
        assert found[0].endswith(b"\r\n")
        assert found[1] == b"\r\n"
    elif split == "at:1,7,30,9999":
        assert lengths == [1, 6, 23, len(content) - 30]
    elif split is None:
        assert lengths == [len(content)]
    else:
        assert len(lengths) > 2
        assert found != list(cut(content, "seed:3"))


def test_generated_answers_are_cut_too(simulator: Running) -> None:
    for body in (BODY, STREAM):
        plain = simulator.chat(body, completion_tokens=3, ids=["x"])
        split = simulator.chat(body, completion_tokens=3, ids=["x"], split="bytes")
        mask = (str(json.loads(plain.text.split("\n")[0].removeprefix("data: "))["created"]), "0")
        other = (str(json.loads(split.text.split("\n")[0].removeprefix("data: "))["created"]), "0")
        assert split.text.replace(*other) == plain.text.replace(*mask)


def test_given_bodies_come_back_to_the_byte(simulator: Running) -> None:
    answer = simulator.chat(raw_body='{"x": \ud800}')
    assert answer.content == b'{"x": \xed\xa0\x80}'
    assert answer.headers["content-type"] == "application/json"
    assert simulator.chat(STREAM, raw_sse="").content == b""


def test_a_given_body_is_billed_as_told_and_else_not(simulator: Running) -> None:
    simulator.chat(STREAM, raw_sse=TEXT)
    assert (simulator.last()["billed"], simulator.last()["billed_nano_usd"]) == (False, 0)
    simulator.chat(STREAM, raw_sse=TEXT, prompt_tokens=12, completion_tokens=5)
    assert simulator.last()["billed_nano_usd"] == 12 * 1_000 + 5 * 4_000


def test_faults_count_the_writes_of_a_given_body(simulator: Running) -> None:
    with simulator.connect(STREAM, raw_sse=TEXT, split="bytes", cut_after_chunks=9) as connection:
        seen, how = read_all(connection)
    assert (how, seen.endswith(b"\r\n1\r\na\r\n")) == ("reset", True)
    with simulator.connect(STREAM, raw_sse=TEXT, barrier="b", barrier_after_chunks=1) as connection:
        read_until(connection, b"[DONE]")
        assert simulator.last()["state"] == "running"
        simulator.open("b")
        read_until(connection, b"0\r\n\r\n")
    answer = simulator.chat(STREAM, raw_sse=TEXT, split="at:5", error_after_chunks=1)
    assert answer.text.startswith('data:data: {"error"')
    answer = simulator.chat(STREAM, replay="openai/chat_stream_usage.sse", split="at:50", end_after_chunks=1)
    assert len(answer.content) == 50
