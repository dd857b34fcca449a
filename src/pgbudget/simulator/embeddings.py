"""The dialect of OpenAI's embeddings."""

from __future__ import annotations

import base64
import json
import math
import random
import struct
from functools import lru_cache
from typing import Any, Final

from starlette.datastructures import Headers

from pgbudget.simulator.behaviour import Behaviour
from pgbudget.simulator.dialect import Ask, Refused, dumps
from pgbudget.simulator.openai_api import OpenAI, bad, model_of, whole_number
from pgbudget.simulator.tally import RATES, Call

_DIMENSIONS: Final = 1536
_MAX_INPUTS: Final = 2048


class Embeddings(OpenAI):
    """``POST /v1/embeddings``: the prompt is all that is billed."""

    path = "/v1/embeddings"
    id_prefix = "embd-"

    def read(self, body: dict[str, Any], headers: Headers) -> Ask:
        """Refuse what OpenAI refuses, as far as it matters to money."""
        model = model_of(body)
        known = RATES.get(model)
        if known is not None and known.price.output is not None:
            raise Refused(403, "You are not allowed to generate embeddings from this model")
        _inputs(body.get("input"))
        whole_number(body, "dimensions", _DIMENSIONS)
        if body.get("encoding_format") not in (None, "float", "base64"):
            raise bad("Invalid value for 'encoding_format': expected 'float' or 'base64'.", "encoding_format")
        return Ask(model=model, stream=False, choices=0, cap=None, body=body)

    def render(self, ask: Ask, behaviour: Behaviour, answer_id: Any) -> EmbeddingRendering:
        """Begin an answer."""
        return EmbeddingRendering(ask, behaviour)


class EmbeddingRendering:
    """A list of vectors, each of length 1 and the same for the same input."""

    def __init__(self, ask: Ask, behaviour: Behaviour) -> None:
        self._ask = ask
        self._behaviour = behaviour

    def begin(self, call: Call) -> bytes:
        """Nothing: embeddings are not streamed."""
        return b""

    def piece(self, index: int, tokens: int) -> bytes:
        """Nothing."""
        return b""

    def end(self, call: Call, tokens: int) -> bytes:
        """Nothing."""
        return b""

    def whole(self, call: Call, tokens: int) -> bytes:
        """The vectors, as numbers or as they lie in memory."""
        body, behaviour = self._ask.body, self._behaviour
        dimensions = body.get("dimensions") or _DIMENSIONS
        vectors = [_vector(one, dimensions) for one in _inputs(body["input"])]
        shown: list[Any] = [list(vector) for vector in vectors]
        if body.get("encoding_format") == "base64":
            shown = [base64.b64encode(struct.pack(f"<{dimensions}f", *vector)).decode() for vector in vectors]
        answer = {
            "object": "list",
            "data": [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(shown)],
            "model": behaviour.model or self._ask.model,
            "usage": {"prompt_tokens": call.prompt_tokens, "total_tokens": call.prompt_tokens},
        }
        if behaviour.usage is not None:
            answer["usage"] = behaviour.usage
        for name in [*(behaviour.omit or ()), *(("usage",) if behaviour.no_usage else ())]:
            answer.pop(name, None)
        return dumps(answer) + b" " * behaviour.padding

    def error(self, body: Any) -> bytes:
        """Nothing but the error."""
        return dumps(body)


def _inputs(given: Any) -> list[str]:
    """Each input, written out; raises :class:`Refused`."""
    if isinstance(given, str) and given:
        return [given]
    if isinstance(given, list) and given:
        if len(given) > _MAX_INPUTS:
            raise bad(f"Invalid 'input': expected at most {_MAX_INPUTS} items.", "input", "array_above_max_length")
        if all(type(token) is int for token in given):
            return [json.dumps(given)]
        if all(isinstance(one, str) and one for one in given):
            return given
        if all(isinstance(one, list) and one and all(type(token) is int for token in one) for one in given):
            return [json.dumps(one) for one in given]
    raise bad("'$.input' is invalid: expected a string, or an array of strings, of tokens or of arrays of tokens.", "input")


@lru_cache(maxsize=256)
def _vector(text: str, dimensions: int) -> tuple[float, ...]:
    chance = random.Random(text)
    numbers = [chance.gauss(0, 1) for _ in range(dimensions)]
    length = math.sqrt(sum(number * number for number in numbers))
    return tuple(number / length for number in numbers)
