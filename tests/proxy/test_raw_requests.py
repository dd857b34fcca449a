"""Requests that two servers could read in two ways, on a plain socket: refused, nothing held, nothing sent upstream."""

from __future__ import annotations

import json
import socket

import httpx
import pytest

from tests.support.processes import Gateway, Simulator, chat_request
from tests.support.world import World

BODY = json.dumps(chat_request("x")["json"]).encode()
LENGTH = b"content-length: %d" % len(BODY)
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
TE = b"transfer-encoding: chunked"
CHAT = b"POST /v1/chat/completions HTTP/1.1"
HOST = b"host: gateway"

#: Each is a good call but for one thing: the request line, its headers, the body; and the status that it gets.
REFUSED: dict[str, tuple[bytes, list[bytes], bytes, int]] = {
    "both lengths": (CHAT, [HOST, LENGTH, TE], CHUNKED, 400),
    "both lengths, the other way": (CHAT, [HOST, TE, LENGTH], CHUNKED, 400),
    "two equal lengths": (CHAT, [HOST, LENGTH, LENGTH], BODY, 400),
    "two lengths": (CHAT, [HOST, LENGTH, b"content-length: 1"], BODY, 400),
    "a list of lengths": (CHAT, [HOST, b"content-length: %d, %d" % (len(BODY), len(BODY))], BODY, 400),
    "a length with a sign": (CHAT, [HOST, b"content-length: +%d" % len(BODY)], BODY, 400),
    "a negative length": (CHAT, [HOST, b"content-length: -1"], BODY, 400),
    "a hexadecimal length": (CHAT, [HOST, b"content-length: 0x%x" % len(BODY)], BODY, 400),
    "an empty length": (CHAT, [HOST, b"content-length:"], BODY, 400),
    "a length of odd digits": (CHAT, [HOST, b"content-length: \xb2"], BODY, 400),
    "a length beyond all integers": (CHAT, [HOST, b"content-length: %d" % 10**30], BODY, 400),
    "chunked, with something behind": (CHAT, [HOST, TE + b", identity"], CHUNKED, 400),
    "chunked, with something before": (CHAT, [HOST, b"transfer-encoding: gzip, chunked"], CHUNKED, 400),
    "chunked twice": (CHAT, [HOST, TE, TE], CHUNKED, 400),
    "chunked, nearly": (CHAT, [HOST, b"transfer-encoding: xchunked"], CHUNKED, 400),
    "chunked in HTTP/1.0": (CHAT.replace(b"1.1", b"1.0"), [HOST, TE], CHUNKED, 400),
    "a chunk with an odd size": (CHAT, [HOST, TE], b"0x" + CHUNKED, 400),
    "a chunk beyond all integers": (CHAT, [HOST, TE], b"f" * 17 + b"\r\n" + BODY, 400),
    "chunks with bare line feeds": (CHAT, [HOST, TE], CHUNKED.replace(b"\r\n", b"\n"), 400),
    "a blank in a name": (CHAT, [HOST, LENGTH, b"x y: z"], BODY, 400),
    "a blank before the colon": (CHAT, [HOST, LENGTH, b"transfer-encoding : chunked"], BODY, 400),
    "no name": (CHAT, [HOST, LENGTH, b": z"], BODY, 400),
    "no colon": (CHAT, [HOST, LENGTH, b"nonsense"], BODY, 400),
    "a NUL in a name": (CHAT, [HOST, LENGTH, b"x\0y: z"], BODY, 400),
    "a letter beyond ASCII in a name": (CHAT, [HOST, LENGTH, b"x\xe9: z"], BODY, 400),
    "a NUL in a value": (CHAT, [HOST, LENGTH, b"x: y\0z"], BODY, 400),
    "a bare carriage return in a value": (CHAT, [HOST, LENGTH, b"x: y\rx-api-key: z"], BODY, 400),
    "a bare line feed in a value": (CHAT, [HOST, LENGTH, b"x: y\nx-api-key: z"], BODY, 400),
    "a folded line": (CHAT, [HOST, LENGTH, b"x: y", b" z"], BODY, 400),
    "a folded line with a tab": (CHAT, [HOST, LENGTH, b"x: y", b"\tz"], BODY, 400),
    "a folded first line": (CHAT, [b" " + HOST, HOST, LENGTH], BODY, 400),
    "no host": (CHAT, [LENGTH], BODY, 400),
    "two hosts": (CHAT, [HOST, b"host: evil", LENGTH], BODY, 400),
    "an upgrade to HTTP/2": (CHAT, [HOST, LENGTH, b"connection: upgrade", b"upgrade: h2c"], BODY, 400),
    "an upgrade to a web socket": (CHAT, [HOST, LENGTH, b"connection: upgrade", b"upgrade: websocket"], BODY, 400),
    "an absolute target": (b"POST http://evil/v1/chat/completions HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "an absolute target of this host": (b"POST http://gateway/v1/chat/completions HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "a target without its slash": (b"POST v1/chat/completions HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "a host as target": (b"CONNECT evil:443 HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "an asterisk as target": (b"OPTIONS * HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "two slashes": (b"POST //v1/chat/completions HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "two slashes within": (b"POST /v1//chat/completions HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "a slash at the end": (b"POST /v1/chat/completions/ HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "two dots": (b"POST /admin/../v1/chat/completions HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "one dot": (b"POST /v1/./chat/completions HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "two encoded dots": (b"POST /v1/%2e%2E/admin HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "one encoded dot of two": (b"POST /v1/.%2e/admin HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "an encoded slash": (b"POST /v1/chat%2Fcompletions HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "an encoded backslash": (b"POST /v1/chat%5ccompletions HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "a backslash": (b"POST /v1\\chat/completions HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "half an escape": (b"POST /v1/chat/completions% HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "a fragment": (b"POST /v1/chat/completions#x HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "a blank in the target": (b"POST /v1/ chat/completions HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "a letter beyond ASCII in the target": (b"POST /v1/chat/completions\xe9 HTTP/1.1", [HOST, LENGTH], BODY, 400),
    "twice encoded": (b"POST /v1/chat%252Fcompletions HTTP/1.1", [HOST, LENGTH], BODY, 404),
    "HTTP/0.9": (b"POST /v1/chat/completions", [HOST, LENGTH], BODY, 400),
    "HTTP/2 in words": (CHAT.replace(b"1.1", b"2.0"), [HOST, LENGTH], BODY, 400),
    "a long URL": (b"POST /v1/chat/completions?x=%s HTTP/1.1" % (b"y" * (64 << 10)), [HOST, LENGTH], BODY, 431),
    "a long header": (CHAT, [HOST, LENGTH, b"x: " + b"y" * (64 << 10)], BODY, 431),
    "many headers": (CHAT, [HOST, LENGTH, *(b"x%d: y" % i for i in range(99))], BODY, 431),
}

#: Odd, and read in one way only.
SERVED: dict[str, tuple[bytes, list[bytes], bytes]] = {
    "as it should be": (CHAT, [HOST, LENGTH], BODY),
    "in one chunk": (CHAT, [HOST, TE], CHUNKED),
    "a chunk with an extension": (CHAT, [HOST, TE], CHUNKED.replace(b"\r\n", b";a=b\r\n", 1)),
    "a length with zeros before it": (CHAT, [HOST, b"content-length: 000%d" % len(BODY)], BODY),
    "a length in a name that looks alike": (CHAT, [HOST, LENGTH, b"content_length: 1"], BODY),
    "a query": (b"POST /v1/chat/completions?api-version=1&url=http://evil/ HTTP/1.1", [HOST, LENGTH], BODY),
    "an encoded letter": (b"POST /v1/chat/%63ompletions HTTP/1.1", [HOST, LENGTH], BODY),
    "headers in a trailer": (CHAT, [HOST, TE], CHUNKED[:-2] + b"x-pgbudget-cost: wait\r\nuser-agent: evil\r\n\r\n"),
    "as many headers as may be": (CHAT, [HOST, LENGTH, *(b"x%d: y" % i for i in range(95))], BODY),
}


def exchange(gateway: Gateway, key: str, line: bytes, headers: list[bytes], body: bytes) -> tuple[int, bytes]:
    """Send a request as it stands; returns the status and all that comes until the gateway closes the connection."""
    head = [line, *headers, b"authorization: Bearer " + key.encode(), b"content-type: application/json"]
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as client:
        client.sendall(b"\r\n".join(head) + b"\r\nconnection: close\r\n\r\n" + body)
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
    return int(answer.split()[1]), answer


def test_what_can_be_read_in_two_ways_is_refused(world: World, gateway: Gateway, simulator: Simulator) -> None:
    key = world.key(10**9)
    for what, (line, headers, body, wanted) in REFUSED.items():
        status, answer = exchange(gateway, key, line, headers, body)
        head, _, content = answer.partition(b"\r\n\r\n")
        assert status == wanted, (what, answer)
        error = json.loads(content)["error"]
        assert error["code"] == {400: "invalid_request", 404: "not_metered", 431: "headers_too_large"}[wanted], what
        # One answer, and none to what might have been a second request.
        assert answer.count(b"HTTP/1.1 ") == 1, what
        assert b"x-should-retry: false" in head, what
        assert key.encode() not in answer, what
    assert simulator.calls() == 0
    assert world.rows("select * from budget_internal.reservations") == []
    assert world.rows("select * from budget_internal.ledger_entries") == []
    assert httpx.get(f"{gateway.url}/healthz").status_code == 200
    assert "Traceback" not in gateway.log()


def test_what_has_no_end_is_cut_off(world: World, gateway: Gateway, simulator: Simulator) -> None:
    start = b"\r\n".join([CHAT, HOST, b"authorization: Bearer " + world.key(10**6).encode(), b"content-type: application/json"])
    chunked = start + b"\r\n" + TE + b"\r\n\r\n"
    for endless in (
        b"y" * (64 << 20),
        b"\r\n" * (32 << 20),
        start + b"\r\nx: " + b"y" * (64 << 20),
        start + b"\r\n" + b"x: y\r\n" * (8 << 20),
        chunked + b"0\r\nx: " + b"y" * (64 << 20),
        chunked + b"0\r\n" + b"x: y\r\n" * (8 << 20),
        chunked + b"1;x=" + b"y" * (64 << 20),
    ):
        with (
            socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as client,
            pytest.raises((ConnectionResetError, BrokenPipeError)),
        ):
            client.sendall(endless)
    assert httpx.get(f"{gateway.url}/healthz").status_code == 200
    assert simulator.calls() == 0


def test_what_is_only_odd_is_served_once(world: World, gateway: Gateway, simulator: Simulator) -> None:
    key = world.key(10**9)
    for what, (line, headers, body) in SERVED.items():
        status, answer = exchange(gateway, key, line, headers, body)
        assert status == 200, (what, answer)
        assert b"x-pgbudget-cost-usd" not in answer, what
    assert simulator.calls() == len(SERVED)
    sent = json.dumps(simulator.tally())
    assert "evil" not in sent
    assert "api-version" not in sent


def test_a_smuggled_request_is_never_read(world: World, gateway: Gateway, simulator: Simulator) -> None:
    key = world.key(10**9)
    inner = b"\r\n".join([CHAT, HOST, LENGTH, b"authorization: Bearer " + key.encode(), b"content-type: application/json"])
    inner += b"\r\n\r\n" + BODY
    for headers, body in (
        ([HOST, b"content-length: 5", TE], b"0\r\n\r\n" + inner),
        ([HOST, b"transfer-encoding: chunked, identity"], b"0\r\n\r\n" + inner),
        ([HOST, b"transfer-encoding\x0b: chunked", LENGTH], inner),
    ):
        status, answer = exchange(gateway, key, CHAT, headers, body)
        assert status == 400
        assert answer.count(b"HTTP/1.1 ") == 1
    assert simulator.calls() == 0


def test_the_name_of_a_run_may_have_slashes_in_it(world: World, gateway: Gateway) -> None:
    key = world.key(10**9)
    headers = {"authorization": f"Bearer {key}"}
    url = f"{gateway.url}/v1/budget/runs"
    for name, path in (("a/b", "a%2Fb"), ("a/b/c", "a/b/c"), ("a\\b c", "a%5Cb%20c")):
        assert httpx.post(url, json={"run": name}, headers=headers).status_code == 201
        ended = httpx.post(f"{url}/{path}/end", headers=headers)
        assert (ended.status_code, ended.json()["status"]) == (200, "ended")
