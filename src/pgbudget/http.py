"""Small things of HTTP that every route needs: keys, bodies, exact numbers."""

from __future__ import annotations

import asyncio
import hashlib
import re
from decimal import Decimal
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from pgbudget.errors import (
    InvalidRequest,
    PayloadTooLarge,
    RequestTimeout,
    Unauthorized,
    UnsupportedMediaType,
)
from pgbudget.wire import strict_json
from pgbudget.wire.content_coding import CODINGS, TooLarge, Undecodable, decode

Headers = list[tuple[bytes, bytes]]

_NUMBER = re.compile(rb'"\\u0000(-?[0-9.]+)\\u0000"')


class ClientGone(Exception):
    """The client closed the connection."""


#: The extension of a scope in which the server says what :func:`leaving` returns: one for each connection.
LEAVING = "pgbudget.leaving"


def leaving(scope: Scope, receive: Receive) -> asyncio.Future[None]:
    """Done when the client of a request that was read has closed the connection; not to be cancelled, others may have it.

    A server that does not say so is asked by a task, for each call.
    """
    told: asyncio.Future[None] | None = scope.get("extensions", {}).get(LEAVING)
    return told if told is not None else asyncio.ensure_future(_disconnected(receive))


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def usd(nano_usd: int | None) -> Decimal | None:
    """Nano-USD as USD, exactly."""
    return None if nano_usd is None else plain(Decimal(nano_usd).scaleb(-9))


def plain(value: Decimal | None) -> Decimal | None:
    """Without zeros at the end, and never in exponent form."""
    if value is None:
        return None
    value = value.normalize()
    return value.quantize(Decimal(1)) if value == value.to_integral_value() else value


def dumps(value: Any) -> bytes:
    """JSON in which a Decimal is a number with just its digits: no float comes near an amount."""
    return _NUMBER.sub(rb"\1", strict_json.dumps(_mark(value)))


def _mark(value: Any) -> Any:
    if isinstance(value, Decimal):
        return f"\0{value:f}\0"
    if isinstance(value, dict):
        return {k: _mark(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_mark(v) for v in value]
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value


async def respond(send: Send, status: int, body: Any, headers: Headers | None = None) -> None:
    """Send a JSON answer."""
    content = dumps(body)
    start: Message = {
        "type": "http.response.start",
        "status": status,
        "headers": [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            *(headers or []),
        ],
    }
    await send(start)
    await send({"type": "http.response.body", "body": content})


def header(headers: Headers, name: bytes) -> str | None:
    """The value of a header that may stand once; raises :class:`InvalidRequest` when it stands more often."""
    found = [value for key, value in headers if key == name]
    if len(found) > 1:
        raise InvalidRequest(f"the header {name.decode()} stands more than once", name.decode())
    return found[0].decode("latin-1") if found else None


def virtual_key(headers: Headers) -> str:
    """The caller's key, hashed: ``sha256:<hex>``. It may come in three headers, but there can be only one.

    Raises :class:`Unauthorized`.
    """
    found = set()
    for name, value in headers:
        if name in (b"x-api-key", b"api-key"):
            found.add(value.strip())
        elif name == b"authorization":
            scheme, _, token = value.partition(b" ")
            if scheme.lower() != b"bearer":
                raise Unauthorized("the Authorization header must be: Bearer <key>")
            found.add(token.strip())
    if not found or found == {b""}:
        raise Unauthorized("no key: send it as Authorization: Bearer <key>, x-api-key or api-key")
    if len(found) > 1:
        raise Unauthorized("more than one key: send it in one header only")
    return "sha256:" + hashlib.sha256(found.pop()).hexdigest()


async def read_body(headers: Headers, receive: Receive, limit: int, seconds: float) -> bytes:
    """The decoded body of a JSON request; raises a :class:`BudgetError` or :class:`ClientGone`."""
    _check_media(header(headers, b"content-type") or "")
    coding = (header(headers, b"content-encoding") or "identity").strip().lower()
    if coding != "identity" and coding not in CODINGS:
        raise UnsupportedMediaType("content-encoding must be one of gzip, deflate, br and zstd, or absent", "content-encoding")
    length = header(headers, b"content-length")
    if length is not None and length.isascii() and length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                part = message.get("body", b"")
                more = message.get("more_body", False)
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                parts.append(part)
    except TimeoutError:
        raise RequestTimeout(f"the body did not arrive within {seconds:g} seconds") from None
    body = b"".join(parts)
    if coding == "identity":
        return body
    try:
        # A small body may be a large one: streams must not wait for it. The decoders let go of the interpreter's lock.
        return await asyncio.to_thread(decode, coding, body, limit)
    except TooLarge:
        raise PayloadTooLarge(f"the body is larger than {limit} bytes when it is decoded") from None
    except Undecodable as error:
        raise InvalidRequest(f"the body is not {coding} as content-encoding says: it {error}", "content-encoding") from None


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body is larger than {limit} bytes")


def _check_media(content_type: str) -> None:
    media, *parameters = content_type.lower().split(";")
    if media.strip() != "application/json":
        raise UnsupportedMediaType("the body must be JSON: send content-type: application/json", "content-type")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in ("utf-8", "utf8"):
            raise UnsupportedMediaType("the body must be in UTF-8, and content-type names another charset", "content-type")
