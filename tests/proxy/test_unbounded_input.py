"""Input of which no request says how large it becomes: the context window is held, or it is refused, on every route."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.proxy.calls import STREAMED, settled
from tests.proxy.routes import CHAT, COMPLETIONS, EMBEDDINGS, MESSAGES, RESPONSES, Route
from tests.support.processes import Gateway, Simulator
from tests.support.world import World

WINDOW = 128_000
_ROLE = {"role": "user"}
_HI = {**_ROLE, "content": "hi"}
_PDF = {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
FUNCTION = {"name": "f", "input_schema": {"type": "object"}}

#: A route, what a request on it has, and the field that a refusal names.
UNBOUNDED: list[tuple[Route, dict[str, Any], str]] = [
    *(
        (CHAT, {"messages": [_HI, {**_ROLE, "content": [{"type": "text", "text": "this"}, part]}]}, "messages[1].content[1]")
        for part in (
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
            {"type": "document_url", "document_url": "https://example.com/a.pdf"},
            {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}},
            {"type": "audio_url", "audio_url": {"url": "https://example.com/a.mp3"}},
        )
    ),
    (CHAT, {"web_search_options": {}}, "web_search_options"),
    *(
        (MESSAGES, {"messages": [_HI, {**_ROLE, "content": [part]}]}, "messages[1].content[0]")
        for part in (
            {"type": "document", "source": _PDF},
            {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
            {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            {"type": "container_upload", "file_id": "file_1"},
        )
    ),
    (
        MESSAGES,
        {"messages": [{**_ROLE, "content": [{"type": "tool_result", "content": [{"type": "document", "source": _PDF}]}]}]},
        "messages[0].content[0].content[0]",
    ),
    (MESSAGES, {"thread": {"id": "thread_1"}}, "thread"),
    (MESSAGES, {"tools": [FUNCTION, SEARCH]}, "tools[1]"),
    # How often it may search does not say how much it finds.
    (MESSAGES, {"tools": [{**SEARCH, "max_uses": 1}]}, "tools[0]"),
    (MESSAGES, {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}, "tools[0]"),
    (RESPONSES, {"previous_response_id": "resp_1"}, "previous_response_id"),
    (RESPONSES, {"conversation": "conv_1"}, "conversation"),
    (RESPONSES, {"input": [_HI, {"type": "item_reference", "id": "msg_1"}]}, "input[1]"),
    (RESPONSES, {"input": [{**_ROLE, "content": [{"type": "input_file", "file_id": "file-1"}]}]}, "input[0].content[0]"),
    (RESPONSES, {"tools": [{"type": "function", "name": "f"}, {"type": "web_search"}]}, "tools[1]"),
]
#: What has a bound, however it is given.
BOUNDED: list[tuple[Route, dict[str, Any]]] = [
    (CHAT, {"messages": [{**_ROLE, "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}]}),
    (CHAT, {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "file"}}}]}),
    (
        MESSAGES,
        {"messages": [{**_ROLE, "content": [{"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}}]}]},
    ),
    (
        MESSAGES,
        {"messages": [{**_ROLE, "content": [{"type": "document", "source": {"type": "text", "data": "the text itself"}}]}]},
    ),
    (MESSAGES, {"tools": [FUNCTION]}),
    (RESPONSES, {"tools": [{"type": "function", "name": "f", "parameters": {}}]}),
    (COMPLETIONS, {}),
    (EMBEDDINGS, {}),
]


def post(gateway: Gateway, key: str, route: Route, **body: Any) -> httpx.Response:
    """One call of a model that has a price for all that is asked."""
    return httpx.post(f"{gateway.url}{route.path}", headers=route.headers(key), json=route.body(**{"model": "all", **body}))


def set_up(world: World) -> str:
    """A model with a price for everything, and a key."""
    world.execute("select budget.set_model('simulator', 'all', %s, 16000)", WINDOW)
    rates = {"input": 1, "cache_read": 1, "cache_write_5m": 1, "audio_in": 1, "output": 4, "web_search": 1}
    lines = json.dumps([{"kind": kind, "usd": usd} for kind, usd in rates.items()])
    world.execute("select budget.review_price(budget.add_price('simulator', 'all', %s, '2020-01-01'), 'me')", lines)
    world.execute("select budget.set_route(null, 'all', 'simulator', 'simulator')")
    return world.key(10**9)


@STREAMED
def test_it_is_refused_by_setting_and_named(world: World, simulator: Simulator, stream: bool) -> None:
    key = set_up(world)
    with Gateway(world.gateway_dsn, simulator.url, unbounded_input="refuse") as gateway:
        for route, body, field in UNBOUNDED:
            answer = post(gateway, key, route, stream=stream, **body)
            error = answer.json()["error"]
            assert (answer.status_code, error["param"]) == (400, field), (route, body)
            assert field in error["message"]
        assert simulator.calls() == 0
        assert world.ledger() == []
        # Nothing else is.
        for route, body in BOUNDED:
            answer = post(gateway, key, route, stream=stream and route.cap is not None, **body)
            assert answer.status_code == 200, (route, body, answer.text)


def test_otherwise_the_context_window_is_held(world: World, gateway: Gateway) -> None:
    key = set_up(world)
    for calls, (route, body, _) in enumerate(UNBOUNDED, 1):
        answer = post(gateway, key, route, **body)
        assert answer.status_code == 200, (route, body, answer.text)
        entry = settled(world, key, calls)[-1]
        assert entry["reserved_nano_usd"] // 1000 >= WINDOW + 200 * 4, (route, body)
    for more, (route, body) in enumerate(BOUNDED, 1):
        assert post(gateway, key, route, **body).status_code == 200
        assert settled(world, key, calls + more)[-1]["reserved_nano_usd"] // 1000 < WINDOW, (route, body)
