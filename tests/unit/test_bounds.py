"""The input bound: never below the tokens of the text, never the base64 of a picture."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from pgbudget.wire.bounds import IMAGE_TOKENS, OVERHEAD_TOKENS, UNBOUNDED, input_bound


def chat(content: object, **more: object) -> dict[str, object]:
    return {"model": "m", "messages": [{"role": "user", "content": content}], **more}


@given(st.text())
def test_every_text_is_bounded_by_its_bytes_before_and_after_nfkc(text: str) -> None:
    import unicodedata

    bound = input_bound(chat(text)).tokens
    assert bound >= len(text.encode()) + OVERHEAD_TOKENS
    assert bound >= len(unicodedata.normalize("NFKC", text).encode()) + OVERHEAD_TOKENS


def test_tools_schemas_and_earlier_calls_count() -> None:
    plain = input_bound(chat("hi")).tokens
    for more in (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"x": "y" * 1500}}}]},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"d": "z" * 1500}}}},
    ):
        assert input_bound(chat("hi", **more)).tokens >= plain + 1500
    earlier = {"role": "assistant", "tool_calls": [{"function": {"arguments": "a" * 1500}}]}
    assert input_bound({"messages": [earlier]}).tokens >= 1500


def test_a_picture_counts_as_a_picture() -> None:
    url = "data:image/png;base64," + base64.b64encode(b"x" * 2_000_000).decode()
    one = input_bound(chat([{"type": "text", "text": "what"}, {"type": "image_url", "image_url": {"url": url}}]))
    assert IMAGE_TOKENS <= one.tokens <= 18_384
    assert one.features == {"image_in"}
    small = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 2000}}
    assert input_bound(chat([small] * 50)).tokens >= 50_000


def test_sound_counts_by_its_size_and_files_have_no_bound() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "A" * 40_000, "format": "wav"}}
    bound = input_bound(chat([sound]))
    assert bound.features == {"audio_in"}
    assert 1_000 <= bound.tokens <= 10_000
    assert input_bound(chat([{"type": "file", "file": {"file_id": "file-1"}}])).tokens >= UNBOUNDED
