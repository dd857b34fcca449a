"""What OpenAI's dialects share: keys, errors, and checks of a request's members."""

from __future__ import annotations

from typing import Any, Final

from starlette.datastructures import Headers

from pgbudget.simulator.dialect import Refused
from pgbudget.simulator.tally import RATES, Call

_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class OpenAI:
    """Base of OpenAI's dialects."""

    request_header = "x-request-id"

    def check_key(self, headers: Headers, key: str | None) -> None:
        """A bearer token."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not given.strip():
            raise Refused(401, "You didn't provide an API key. Send it as 'Authorization: Bearer YOUR_KEY'.")
        if key is not None and given.strip() != key:
            raise Refused(401, "Incorrect API key provided.", "invalid_api_key")

    def error(self, refused: Refused, request_id: str) -> Any:
        """An error in OpenAI's form."""
        status = refused.status
        kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        return {"error": {"message": refused.message, "type": kind, "param": refused.param, "code": refused.code}}


def bad(message: str, param: str | None = None, code: str | None = None) -> Refused:
    """What a bad request is refused with."""
    return Refused(400, message, code, param)


def model_of(body: dict[str, Any]) -> str:
    """The model that is asked for; raises :class:`Refused`."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise bad("you must provide a model parameter")
    return model


def generator_of(body: dict[str, Any]) -> tuple[str, int]:
    """The model that is asked for, and the most it can generate; raises :class:`Refused`."""
    model = model_of(body)
    known = RATES.get(model)
    if known is not None and known.price.output is None:
        raise Refused(404, "This is not a chat model.", "model_not_found", "model")
    return model, known.max_output if known else 2**63 - 1


def stream_of(body: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Whether an answer is to be streamed, and the options of the stream; raises :class:`Refused`."""
    stream, options = body.get("stream"), body.get("stream_options")
    if not isinstance(stream, bool | None):
        raise bad("Invalid type for 'stream': expected a boolean.", "stream")
    if options is not None and not stream:
        raise bad("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    if not isinstance(options, dict | None):
        raise bad("Invalid type for 'stream_options': expected an object.", "stream_options")
    return bool(stream), options or {}


def whole_number(body: dict[str, Any], name: str, most: int, least: int = 1) -> int | None:
    """A member that is a whole number, if it is there; raises :class:`Refused`."""
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not int:
        raise bad(f"Invalid type for '{name}': expected an integer.", name)
    if not least <= value <= most:
        code = "integer_below_min_value" if value < least else "integer_above_max_value"
        raise bad(f"Invalid value for '{name}': expected from {least} to {most}, got {value}.", name, code)
    return value


def usage_of(call: Call) -> dict[str, Any]:
    """What chat completions and completions report."""
    writes = call.cache_write_5m_tokens + call.cache_write_1h_tokens
    return {
        "prompt_tokens": call.prompt_tokens,
        "completion_tokens": call.completion_tokens,
        "total_tokens": call.prompt_tokens + call.completion_tokens,
        "prompt_tokens_details": {
            "cached_tokens": call.cached_tokens,
            **({"cache_write_tokens": writes} if writes else {}),
            "audio_tokens": 0,
        },
        "completion_tokens_details": {"reasoning_tokens": call.reasoning_tokens, "audio_tokens": 0},
    }
