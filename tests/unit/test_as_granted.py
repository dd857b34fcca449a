"""A request as a rung has it: without what the hold does not pay for, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from pgbudget.wire import strict_json
from pgbudget.wire.chat import Chat
from pgbudget.wire.dialect import CannotTurnOff
from pgbudget.wire.providers import provider

CHAT = Chat()
SIMULATOR = provider("simulator")

FUNCTION = {"type": "function", "function": {"name": "f"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def body(model: str = "m", content: Any = "hi", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": content}], **more}


def off(asked: dict[str, Any], *features: str, upstream_model: str = "up", model: str | None = None) -> dict[str, Any]:
    """The body that is forwarded when these features are off."""
    changes = {"features_off": list(features), **({"model": model} if model else {})}
    granted = CHAT.as_granted(CHAT.read(asked), upstream_model, changes)
    assert not set(features) & set(granted.features)
    forwarded: dict[str, Any] = strict_json.loads(CHAT.rewrite(granted, SIMULATOR, upstream_model, 10))
    return forwarded


def test_a_search_is_taken_out() -> None:
    asked = body(web_search_options={}, tools=[FUNCTION])
    assert off(asked, "web_search") == body("up", tools=[FUNCTION], max_tokens=10)
    # What was asked stays as it was: the next rung starts from it.
    assert "web_search_options" in asked


@pytest.mark.parametrize("modalities", [["text", "audio"], ["audio"]])
def test_sound_is_taken_out_of_the_answer(modalities: list[str]) -> None:
    forwarded = off(body(modalities=modalities, audio={"voice": "alloy", "format": "wav"}), "audio_out")
    assert forwarded == body("up", modalities=["text"], max_tokens=10)


def test_what_is_not_asked_for_need_not_be_taken_out() -> None:
    for feature in ("web_search", "audio_out", "audio_in", "image_in", "file_search", "code_execution"):
        assert off(body(tools=[FUNCTION]), feature) == body("up", tools=[FUNCTION], max_tokens=10)


@pytest.mark.parametrize(
    ("asked", "feature", "upstream_model"),
    [
        (body(content=[IMAGE]), "image_in", "up"),
        (body(content=[{"type": "input_audio", "input_audio": {"data": "AAAA"}}]), "audio_in", "up"),
        # It searches by itself, whichever of the two names says so.
        (body("gpt-4o-search-preview"), "web_search", "up"),
        (body(), "web_search", "gpt-4o-search-preview"),
        # A tool that is no function may be one of the provider's, and search.
        (body(tools=5), "web_search", "up"),
        (body(tools=["web_search"]), "web_search", "up"),
        # Whether the body has it is not known here.
        (body(), "image_out", "up"),
        (body(), "a feature of tomorrow", "up"),
    ],
)
def test_what_cannot_be_taken_out_stops_the_call(asked: dict[str, Any], feature: str, upstream_model: str) -> None:
    with pytest.raises(CannotTurnOff, match=feature):
        off(asked, feature, upstream_model=upstream_model)


def test_another_model_need_not_search() -> None:
    asked = body("gpt-4o-search-preview")
    assert "web_search" in CHAT.read(asked).features
    assert off(asked, "web_search", model="m", upstream_model="m") == body("m", max_tokens=10)


@pytest.mark.parametrize(("upstream_model", "searches"), [("m", 0), ("gpt-4o-search-preview", 1)])
def test_a_search_is_charged_where_the_model_that_was_called_searches(upstream_model: str, searches: int) -> None:
    meter = CHAT.meter(CHAT.as_granted(CHAT.read(body("m")), upstream_model, {"model": "m"}), SIMULATOR)
    assert meter.whole(b'{"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}}')
    assert (meter.kinds() or {}).get("web_search", 0) == searches
