"""An upper bound of a request's input tokens, from its bytes.

Every tokenizer in use spends at least one byte of UTF-8 on a token, except where it normalises first (NFKC can make
text longer). So the bound is the larger of the body's size as it is and after NFKC, plus a constant for what providers
add themselves. Media are not text: an image counts as the most a model makes of one, audio by its decoded size.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pgbudget.errors import InvalidRequest
from pgbudget.wire import strict_json

OVERHEAD_TOKENS = 1024
IMAGE_TOKENS = 1600
# Speech codecs go down to some 750 bytes a second, models make 10 to 32 tokens of a second.
AUDIO_BYTES_PER_TOKEN = 16
# More than any context window: the database holds the window instead.
UNBOUNDED = 10**12
_MOST_ESTIMATED = UNBOUNDED - 1

# Files, and what is fetched from a URL: how large they are nobody says.
_FILES = {"file", "input_file", "document", "container_upload", "document_url", "video_url", "input_video"}
_SOUNDS = {"input_audio", "audio_url"}
_MEDIA = {"image_url", "input_image", "image", *_SOUNDS, *_FILES}
# What a tool was called with, and what describes it: text to the model, whatever it looks like.
_CALLS = {"tool_use", "server_tool_use"}
_SCHEMAS = {"input_schema", "parameters", "schema"}
# What is put around each input of many.
_FRAME_TOKENS = 4


@dataclass(slots=True)
class InputBound:
    """Bound in tokens, and the priced features that the input uses.

    ``text``: what of it is there for text, which a tokenizer counts closer. ``chars3`` and ``bytes4`` are estimates of the same
    input, for keys that are set to go by one: a token for three characters, or for four bytes, of its text. ``unbounded``: the
    field that may bring in any number of tokens; None where none does.
    """

    tokens: int = 0
    text: int = 0
    features: set[str] = field(default_factory=set)
    chars3: int = 0
    bytes4: int = 0
    unbounded: str | None = None

    def unbind(self, name: str) -> None:
        """Nothing about the request says how large its input can become, because of the field of this name."""
        self.tokens = UNBOUNDED
        self.chars3 = self.bytes4 = _MOST_ESTIMATED
        self.unbounded = self.unbounded or name

    def estimates(self) -> dict[str, int]:
        """What ``reserve`` takes as ``input_bounds``."""
        return {"chars3": self.chars3, "bytes4": self.bytes4}


def input_bound(body: dict[str, Any]) -> InputBound:
    """Bound the input of a request body; text, tools and schemas by their bytes, media apart."""
    return _bound_text(body, InputBound(OVERHEAD_TOKENS))


def inputs_of(body: dict[str, Any], name: str) -> list[Any]:
    """The inputs in a field that takes one or many, as text or as tokens; raises :class:`InvalidRequest`."""
    value = body.get(name)
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if all(type(token) is int for token in value):
            return [value]
        if all(isinstance(one, str) for one in value):
            return value
        if all(isinstance(one, list) and one and all(type(token) is int for token in one) for one in value):
            return value
    raise InvalidRequest(f"{name} must be a string, or an array of strings, of tokens, or of arrays of tokens", name)


def inputs_bound(body: dict[str, Any], name: str, inputs: list[Any]) -> InputBound:
    """Bound a body with inputs as :func:`inputs_of` found them: text by its bytes, tokens by their number."""
    tokens = sum(len(one) for one in inputs if isinstance(one, list))
    bound = InputBound(OVERHEAD_TOKENS + tokens + _FRAME_TOKENS * len(inputs))
    return _bound_text({**body, name: [one for one in inputs if isinstance(one, str)]}, bound)


def text_of(body: dict[str, Any]) -> dict[str, Any]:
    """What is text of a body: all of it but the bulk of its media."""
    return {key: _without_media(value, InputBound(), []) for key, value in body.items()}


def _bound_text(body: dict[str, Any], bound: InputBound) -> InputBound:
    unsized: list[dict[str, Any]] = []
    text = strict_json.dumps(_without_media(body, bound, unsized))
    flat = bound.tokens
    size = characters = len(text)
    if not text.isascii():
        # Character by character: normalising the whole takes quadratic time on a run of combining marks. Decomposed, no
        # character depends on its neighbours, and composing never makes text longer.
        counted = Counter(text.decode("utf-8"))
        size = sum(_longest_form(c) * count for c, count in counted.items())
        characters = counted.total()
    bound.text = size
    bound.tokens = min(flat + size, UNBOUNDED)
    bound.chars3 = min(flat + -(-characters // 3), _MOST_ESTIMATED)
    bound.bytes4 = min(flat + -(-len(text) // 4), _MOST_ESTIMATED)
    if unsized:
        bound.unbind(_path(body, unsized[0]) or "")
    return bound


def _path(value: Any, part: dict[str, Any]) -> str | None:
    """Where a part of a value stands, as ``messages[0].content[1]``."""
    if value is part:
        return ""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inner:
        if (rest := _path(item, part)) is not None:
            step = f"[{name}]" if isinstance(name, int) else str(name)
            return f"{step}{'.' if rest and not rest.startswith('[') else ''}{rest}"
    return None


def _longest_form(character: str) -> int:
    forms = (character, unicodedata.normalize("NFKC", character), unicodedata.normalize("NFKD", character))
    return max(len(form.encode("utf-8")) for form in forms)


def _without_media(value: Any, bound: InputBound, unsized: list[dict[str, Any]]) -> Any:
    """What is text of a value. Media are added to ``bound``, or to ``unsized``."""
    if isinstance(value, dict):
        kind = value.get("type")
        if isinstance(kind, str) and kind in _MEDIA:
            return _count_media(kind, value, bound, unsized)
        if isinstance(kind, str) and kind in _CALLS:
            return value
        return {key: item if key in _SCHEMAS else _without_media(item, bound, unsized) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_media(item, bound, unsized) for item in value]
    return value


def _count_media(kind: str, part: dict[str, Any], bound: InputBound, unsized: list[dict[str, Any]]) -> Any:
    source = part.get("source")
    where = source.get("type") if isinstance(source, dict) else None
    if kind == "document" and where in ("text", "content"):
        return {key: _without_media(item, bound, unsized) for key, item in part.items()}
    if kind in _FILES:
        unsized.append(part)
    elif kind in _SOUNDS:
        bound.features.add("audio_in")
        audio = part.get("input_audio")
        data = audio.get("data") if isinstance(audio, dict) else None
        if isinstance(data, str):
            bound.tokens += len(data) * 3 // 4 // AUDIO_BYTES_PER_TOKEN + 100
        else:
            unsized.append(part)
    else:
        bound.features.add("image_in")
        if where == "file":
            unsized.append(part)
        else:
            bound.tokens += IMAGE_TOKENS
    # A part may carry text beside its medium; only the known bulk is left out.
    return {
        key: _without_media(item, bound, unsized)
        for key, item in part.items()
        if key not in ("image_url", *_SOUNDS, *_FILES, "source", "file_data")
    }
