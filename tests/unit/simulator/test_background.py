"""Responses that are generated in the background: promised at once, billed when they are made."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from tests.support.processes import WIRE, wait_until
from tests.unit.simulator.conftest import RESPONSES, Running, headers
from tests.unit.simulator.test_faults import read_until

BODY = {**RESPONSES.body, "background": True}
STREAM = {**BODY, "stream": True}


def look(simulator: Running, response_id: str, /, **behaviour: Any) -> httpx.Response:
    """How it stands."""
    return simulator.client.get(f"/v1/responses/{response_id}", headers=headers(behaviour))


def await_status(simulator: Running, response_id: str, status: str) -> dict[str, Any]:
    """The response when it has this status."""
    wait_until(lambda: look(simulator, response_id).json()["status"] == status)
    return dict(look(simulator, response_id).json())


def test_it_is_queued_then_made_and_billed_then(simulator: Running) -> None:
    queued = simulator.post(RESPONSES.path, BODY, background_ms=600_000).json()
    assert (queued["status"], queued["usage"], queued["output"], queued["background"]) == ("queued", None, [], True)
    assert look(simulator, queued["id"]).json() == queued
    assert (simulator.last()["state"], simulator.last()["billed_nano_usd"]) == ("running", 0)
    promised = simulator.post(RESPONSES.path, BODY, barrier="b", barrier_after_chunks=3).json()
    wait_until(lambda: simulator.waiting("b") == 1)
    assert look(simulator, promised["id"]).json()["status"] == "in_progress"
    assert (simulator.last()["state"], simulator.last()["billed_nano_usd"]) == ("running", 112_000)
    simulator.open("b")
    made = await_status(simulator, promised["id"], "completed")
    assert (made["id"], made["usage"]["output_tokens"]) == (promised["id"], 200)
    assert made["output"][0]["content"][0]["text"] == "word " * 200
    assert (simulator.last()["state"], simulator.last()["billed_nano_usd"]) == ("finished", 900_000)
    assert simulator.tally()["requests"] == 2


def test_its_cap_and_its_errors_are_its_end(simulator: Running) -> None:
    capped = simulator.post(RESPONSES.path, {**BODY, "max_output_tokens": 16}).json()
    made = await_status(simulator, capped["id"], "incomplete")
    assert (made["incomplete_details"], made["usage"]["output_tokens"]) == ({"reason": "max_output_tokens"}, 16)
    for told in ({}, {"error_body": {"error": {"code": "mine", "message": "mine"}}}):
        broken = simulator.post(RESPONSES.path, BODY, error_after_chunks=2, **told).json()
        made = await_status(simulator, broken["id"], "failed")
        assert made["error"]["code"] == ("mine" if told else "server_error")
        assert (made["usage"], simulator.last()["state"], simulator.last()["billed_nano_usd"]) == (None, "broken", 108_000)


@pytest.mark.parametrize("fault", ["cut_after_chunks", "close_after_chunks"])
def test_a_connection_that_breaks_is_not_its_own(simulator: Running, fault: str) -> None:
    queued = simulator.post(RESPONSES.path, BODY, **{fault: 2}).json()
    assert await_status(simulator, queued["id"], "completed")["usage"]["output_tokens"] == 200


def test_it_is_cancelled_and_costs_what_was_made(simulator: Running) -> None:
    url = f"/v1/responses/{simulator.post(RESPONSES.path, BODY, silence_after_chunks=3).json()['id']}"
    wait_until(lambda: simulator.last()["completion_tokens"] == 3)
    for _ in range(2):
        cancelled = simulator.client.post(f"{url}/cancel", headers=headers({})).json()
        assert (cancelled["status"], cancelled["usage"]) == ("cancelled", None)
    assert simulator.client.get(url, headers=headers({})).json() == cancelled
    assert (simulator.last()["state"], simulator.last()["billed_nano_usd"]) == ("left", 112_000)
    made = simulator.post(RESPONSES.path, BODY).json()
    done = await_status(simulator, made["id"], "completed")
    assert simulator.client.post(f"/v1/responses/{made['id']}/cancel", headers=headers({})).json() == done


def test_it_is_cancelled_before_it_begins_and_costs_nothing(simulator: Running) -> None:
    queued = simulator.post(RESPONSES.path, BODY, background_ms=600_000).json()
    simulator.client.post(f"/v1/responses/{queued['id']}/cancel", headers=headers({}))
    assert (simulator.last()["state"], simulator.last()["billed"]) == ("left", False)


def test_it_is_deleted(simulator: Running) -> None:
    queued = simulator.post(RESPONSES.path, BODY).json()
    url = f"/v1/responses/{queued['id']}"
    assert simulator.client.delete(url, headers=headers({})).json() == {
        "id": queued["id"], "object": "response", "deleted": True
    }  # fmt: skip
    for method, path in (("GET", url), ("DELETE", url), ("POST", f"{url}/cancel")):
        answer = simulator.client.request(method, path, headers=headers({}))
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "invalid_request_error")
        assert simulator.client.request(method, path).status_code == 401


def test_to_look_at_it_can_fail_and_a_recording_can_stand_for_it(simulator: Running) -> None:
    queued = simulator.post(RESPONSES.path, BODY).json()
    assert look(simulator, queued["id"], status=503).status_code == 503
    assert look(simulator, queued["id"], status=429, error_body=["mine"]).json() == ["mine"]
    assert look(simulator, queued["id"], nonsense=1).status_code == 400
    name = "openai/responses_background_get_completed.json"
    assert look(simulator, queued["id"], replay=name).content == (WIRE / name).read_bytes()
    assert simulator.tally()["requests"] == 1


def test_a_recording_is_billed_when_it_is_made(simulator: Running) -> None:
    name = "openai/responses_background_get_completed.json"
    queued = simulator.post(RESPONSES.path, BODY, replay=name, barrier="b", barrier_after_chunks=0).json()
    assert queued["status"] == "queued"
    wait_until(lambda: simulator.waiting("b") == 1)
    simulator.open("b")
    wait_until(lambda: look(simulator, queued["id"]).content == (WIRE / name).read_bytes())
    # 15 in, 9 out
    assert (simulator.last()["state"], simulator.last()["billed_nano_usd"]) == ("finished", 15_000 + 36_000)


def test_one_that_is_streamed_goes_on_when_its_client_leaves(simulator: Running) -> None:
    with simulator.connect(STREAM, RESPONSES.path, ids=["mine"], barrier="b", barrier_after_chunks=2) as connection:
        read_until(connection, b'"word "', 2)
        assert look(simulator, "mine").json()["status"] == "in_progress"
    # The gap in which the server learns that the client is gone.
    assert look(simulator, "mine").json()["status"] == "in_progress"
    simulator.open("b")
    assert await_status(simulator, "mine", "completed")["usage"]["output_tokens"] == 200
    wait_until(lambda: simulator.last()["state"] == "finished")
    assert simulator.last()["billed_nano_usd"] == 900_000


def test_one_that_is_streamed_goes_on_when_its_connection_breaks(simulator: Running) -> None:
    with simulator.connect(STREAM, RESPONSES.path, ids=["mine"], cut_after_chunks=2, chunk_ms=1) as connection:
        read_until(connection, b'"word "', 2)
    assert await_status(simulator, "mine", "completed")["usage"]["output_tokens"] == 200


def test_one_that_is_streamed_to_its_end_or_cancelled(simulator: Running) -> None:
    with openai.OpenAI(base_url=f"{simulator.url}/v1", api_key="k", max_retries=0) as client:
        told = {"x-simulate": '{"completion_tokens": 3}'}
        *_, last = client.responses.create(model="t-mini", input="hi", background=True, stream=True, extra_headers=told)
        assert last.type == "response.completed"
        assert client.responses.retrieve(last.response.id).usage == last.response.usage
        told = {"x-simulate": '{"ids": ["mine"], "silence_after_chunks": 2}'}
        events = client.responses.create(model="t-mini", input="hi", background=True, stream=True, extra_headers=told)
        next(iter(events))
        assert client.responses.cancel("mine").status == "cancelled"
        with pytest.raises((openai.APIConnectionError, httpx.TransportError)):
            list(events)
    assert simulator.last()["state"] == "left"


def test_a_reset_forgets_it(simulator: Running) -> None:
    queued = simulator.post(RESPONSES.path, BODY, silence_after_chunks=1).json()
    simulator.client.post("/simulator/reset").raise_for_status()
    assert look(simulator, queued["id"]).status_code == 404
    assert simulator.tally()["requests"] == 0
