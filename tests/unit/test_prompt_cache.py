"""What chat is asked to keep in the provider's cache: held, and charged, as what that costs at most."""

from __future__ import annotations

from typing import Any

import pytest

from pgbudget.errors import InvalidRequest
from pgbudget.wire.chat import Chat
from pgbudget.wire.dialect import ModelRequest
from pgbudget.wire.providers import provider

USAGE = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 70}}


def asked(*ttls: str | None, **more: Any) -> ModelRequest:
    content = [
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}} for ttl in ttls
    ]
    return Chat().read({"model": "m", "messages": [{"role": "user", "content": content}], "stream": True, **more})


@pytest.mark.parametrize(
    ("request_read", "features", "kind"),
    [
        (asked(), (), "cache_write"),
        (asked(None, "5m"), (), "cache_write"),
        (asked("1h"), ("cache_write_1h",), "cache_write_1h"),
        # Which of them was written for how long nobody says: as the dearest.
        (asked("5m", "1h"), ("cache_write_1h",), "cache_write_1h"),
        (asked(cache_control={"type": "ephemeral", "ttl": "1h"}), ("cache_write_1h",), "cache_write_1h"),
    ],
)
def test_an_hour_is_asked_for_and_charged(request_read: ModelRequest, features: tuple[str, ...], kind: str) -> None:
    assert request_read.features == features
    assert Chat().grows(request_read)
    meter = Chat().meter(request_read, provider("openrouter"))
    meter.answer({"choices": [], "usage": USAGE})
    assert meter.kinds() == {"input": 10, "cache_read": 20, kind: 70, "output": 5}


def test_a_time_that_has_no_price_is_refused() -> None:
    with pytest.raises(InvalidRequest) as found:
        asked("1d")
    assert found.value.param == "cache_control"


def test_a_ladder_turns_it_off() -> None:
    granted = Chat().as_granted(asked("1h", "5m"), "m", {"features_off": ["cache_write_1h"]})
    assert granted.features == ()
    first, second = granted.body["messages"][0]["content"]
    assert ("cache_control" in first, "cache_control" in second) == (False, True)
