"""What of a provider's answer goes back to the client."""

from __future__ import annotations

import httpx

from pgbudget.upstream import returned_headers


def test_a_provider_cannot_speak_as_the_gateway() -> None:
    said = {
        "Content-Type": "application/json",
        "X-Request-Id": "r1",
        "X-PGBudget-Error-Source": "gateway",
        "x-pgbudget-cost-usd": "0",
        "Set-Cookie": "a=b",
    }
    response = httpx.Response(200, headers=said)
    assert returned_headers(response) == [(b"content-type", b"application/json"), (b"x-request-id", b"r1")]
