"""Where a key may be sent, rightly and wrongly: it is in no log, no answer, no row, and goes to no provider."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.proxy.calls import STREAMED
from tests.support.processes import Gateway, Simulator, chat_request
from tests.support.world import World


@pytest.fixture
def talkative(world: World, simulator: Simulator) -> Iterator[Gateway]:
    """A gateway in which every library logs all that it can."""
    with Gateway(world.gateway_dsn, simulator.url, test_log_all="1") as gateway:
        yield gateway


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=30) as kept:
        yield kept


def places(secret: str) -> list[dict[str, Any]]:
    """Arguments for httpx: a request for each place that a key may be sent in."""
    bearer = f"Bearer {secret}"
    headers: list[Any] = [
        {"authorization": bearer},
        {"Authorization": f"bearer {secret}"},
        {"authorization": f"Bearer  {secret}"},
        {"x-api-key": secret},
        {"api-key": secret},
        {"X-API-Key": secret, "authorization": bearer},
        {"authorization": secret},
        {"authorization": f"Basic {secret}"},
        {"authorization": f"Token {secret}"},
        {"authorization": f"Bearer: {secret}"},
        {"authorization": f"Bearer {secret}, Bearer other"},
        {"proxy-authorization": bearer},
        {"authorization": bearer, "proxy-authorization": bearer, "cookie": f"key={secret}", "x-goog-api-key": secret},
        {"authorization": bearer, "openai-organization": secret, "openai-project": secret, "x-forwarded-authorization": bearer},
        {
            "authorization": bearer,
            "anthropic-api-key": secret,
            "x-amz-security-token": secret,
            "referer": f"https://x/?key={secret}",
        },
        {"authorization": bearer, "x-api-key": "other"},
        {"api_key": secret},
        [("authorization", bearer), ("authorization", bearer)],
        [("authorization", bearer), ("content-type", "application/json"), ("content-encoding", secret)],
        [("authorization", bearer), ("content-type", secret)],
    ]
    good = {"authorization": bearer}
    fields = ("api_key", "api_base", "base_url", "api_version", "organization", "extra_headers")
    return [
        *({"headers": h} for h in headers),
        {"params": {"key": secret}},
        {"params": {"api_key": secret, "access_token": secret}, "headers": good},
        *({"headers": good, "body": {name: secret}} for name in fields),
        *({"body": {name: secret}} for name in fields),
        {"headers": good, "body": {"max_tokens": secret}},
        {"headers": good, "body": {"messages": secret}},
        {"headers": good, "content": f'{{"model": "t-mini", "messages": [], "api_key": {secret}'.encode()},
        {"headers": good, "content": b"\xff" + secret.encode()},
    ]


@STREAMED
def test_a_key_goes_nowhere(world: World, talkative: Gateway, simulator: Simulator, client: httpx.Client, stream: bool) -> None:
    key = world.key(10**9)
    url = f"{talkative.url}/v1/chat/completions"
    seen: list[str] = []
    statuses = set()
    # The admin token and the provider's key, sent by who should not have them, are keys as well.
    secrets = (key, Gateway.ADMIN, Simulator.KEY, "pgb_" + "5ec2e7" * 10)
    for secret in secrets:
        for place in places(secret):
            arguments = dict(place)
            body = chat_request("x", stream=stream)["json"] | arguments.pop("body", {})
            arguments.setdefault("content", json.dumps(body).encode())
            headers = httpx.Headers(arguments.pop("headers", {}))
            headers.setdefault("content-type", "application/json")
            answer = client.post(url, headers=headers, **arguments)
            statuses.add(answer.status_code)
            seen += [answer.text, str(answer.headers)]
        for path in ("/v1/models", "/v1/budget", "/v1/nothing", "/admin/reconcile", "/admin/alerts", "/healthz"):
            for method in ("GET", "POST"):
                for scheme in ("Bearer", "Basic"):
                    answer = client.request(
                        method, talkative.url + path, params={"key": secret}, headers={"authorization": f"{scheme} {secret}"}
                    )
                    seen += [answer.text, str(answer.headers)]
        with socket.create_connection(("127.0.0.1", talkative.port), timeout=10) as plain:
            plain.sendall(f"GET http://{secret}/?{secret} HTTP/1.1\r\nx-api-key : {secret}\r\n {secret}\r\n\r\n".encode())
            seen.append(plain.recv(1 << 16).decode())
    # What was sent in all those ways was read in all those ways.
    assert {200, 400, 401, 415} <= statuses
    assert simulator.calls() > 0
    assert "everything is logged" in talkative.log()
    calls = simulator.tally()
    rows = [
        world.rows(f"select row_to_json(t) as t from budget_internal.{table} t")
        for table in ("reservations", "ledger_entries", "refusal_minutes")
    ]
    texts = {
        "an answer": "\n".join(seen),
        "the log": talkative.log(),
        "what the provider got": json.dumps([call["request_body"] for call in calls["generated"]])
        + json.dumps([[h for h in c["request_headers"] if h[0] != "authorization"] for c in calls["generated"]]),
        "a table": json.dumps(rows, default=str),
    }
    for what, text in texts.items():
        for secret in secrets:
            assert secret not in text, (what, text[max(0, text.index(secret) - 200) :][:400])
    for call in calls["generated"]:
        assert [v for k, v in call["request_headers"] if k == "authorization"] == [f"Bearer {Simulator.KEY}"]


def test_the_admin_token_may_be_any_text_and_opens_only_when_it_is_equal(
    world: World, simulator: Simulator, client: httpx.Client
) -> None:
    token = "Schlüssel-\N{SNOWMAN}"
    with Gateway(world.gateway_dsn, simulator.url, admin_token=token) as gateway:

        def status(*values: bytes) -> int:
            headers = [(b"authorization", value) for value in values]
            return client.get(f"{gateway.url}/admin/alerts", headers=headers).status_code

        right = b"Bearer " + token.encode()
        assert status(right) == 200
        assert status(b"bearer " + token.encode()) == 200
        for wrong in (
            b"",
            b"Bearer",
            right[:-1],
            right + b"x",
            b"Basic " + token.encode(),
            token.encode(),
            b"Bearer \xff",
        ):
            assert status(wrong) == 401, wrong
        assert status() == 401
        assert status(right, right) == 400
        assert status(b"Bearer x", right) == 400
