"""Everything that can go wrong with a request, as one tree and one table to HTTP.

BudgetError                     code, HTTP status, whether a retry can help
+-- InvalidRequest              400, names the field
+-- Unauthorized                401
+-- Refused                     the database said no: code, numbers and sentence are its own
+-- EnforcementUnavailable      503, nothing was held and nothing was sent
+-- UpstreamFailed              502 or 504, the provider could not be reached or broke
+-- TooManyCalls                429, as many calls of the key run as may
+-- PayloadTooLarge, HeadTooLarge, UnsupportedMediaType, NotMetered, RequestTimeout, AlreadyCalled, Conflict
"""

from __future__ import annotations

from typing import Any

#: HTTP status of each code of the database, and the SQLSTATE of the functions that raise it (DESIGN section 5).
STATUS = {
    "invalid_request": (400, "LB101"),
    "invalid_key": (401, "LB102"),
    "key_disabled": (403, "LB102"),
    "key_expired": (403, "LB102"),
    "budget_config_invalid": (503, "LB106"),
    "idempotency_conflict": (409, "LB104"),
    "model_not_allowed": (403, "LB107"),
    "model_not_found": (404, "LB107"),
    "model_unpriced": (422, "LB103"),
    "output_limit_required": (400, "LB108"),
    "rate_limit_exceeded": (429, "LB203"),
    "tokens_limit_exceeded": (429, "LB203"),
    "request_over_limit": (402, "LB204"),
    "budget_exceeded": (402, "LB201"),
    "budget_busy": (429, "LB202"),
}

#: Refusals of a budget or a ceiling: only these carry amounts. Any other answer would tell prices to who has no key.
WITH_AMOUNTS = frozenset({"request_over_limit", "budget_exceeded", "budget_busy"})

#: Refusals by what passes by itself; all of these are 429, which some SDKs retry whatever else the answer says.
_PASSES = frozenset({"rate_limit_exceeded", "tokens_limit_exceeded", "budget_busy"})

#: The field of the request that a refusal is about.
_PARAMS = {
    "model_not_allowed": "model",
    "model_not_found": "model",
    "model_unpriced": "model",
    "output_limit_required": "max_tokens",
}

#: Says of an error who wrote it, the gateway or the provider (``upstream``): their codes may be the same.
SOURCE = b"x-pgbudget-error-source"

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class BudgetError(Exception):
    """An error with a code that a client may see; the message holds no SQL, no key and no trace."""

    status = 500
    code = "internal_error"

    def __init__(
        self,
        message: str,
        param: str | None = None,
        *,
        retry_after: int | None = None,
        detail: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after = retry_after
        self.detail = detail

    @property
    def kind(self) -> int:
        """The status that the error's type goes by."""
        return self.status

    @property
    def retry_helps(self) -> bool:
        """Whether the same request can succeed within a minute or so."""
        return self.status in (408, 429, 502, 503, 504)

    def body(self) -> dict[str, Any]:
        """The OpenAI-shaped body."""
        error: dict[str, Any] = {
            "message": self.message,
            "type": _TYPES.get(self.kind, "invalid_request_error" if self.kind < 500 else "server_error"),
            "param": self.param,
            "code": self.code,
        }
        if self.detail:
            error["pgbudget"] = self.detail
        return {"error": error}

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Who says so, Retry-After and, where waiting does not help, the header that stops SDKs from retrying."""
        found = [(SOURCE, b"gateway")]
        if self.retry_after is not None:
            found.append((b"retry-after", str(self.retry_after).encode()))
        if not self.retry_helps:
            found.append((b"x-should-retry", b"false"))
        return found


class InvalidRequest(BudgetError):
    """The request cannot be read or is not accepted."""

    status, code = 400, "invalid_request"


class Unauthorized(BudgetError):
    """No key, or more than one."""

    status, code = 401, "invalid_key"


class RequestTimeout(BudgetError):
    """The body did not arrive in time."""

    status, code = 408, "request_timeout"


class AlreadyCalled(BudgetError):
    """The Idempotency-Key was used before: the call runs or has ended."""

    status, code = 409, "idempotency_conflict"


class Conflict(BudgetError):
    """Not as things stand."""

    status, code = 409, "not_ended"


class PayloadTooLarge(BudgetError):
    """The body is larger than the gateway takes."""

    status, code = 413, "payload_too_large"


class TooManyCalls(BudgetError):
    """As many calls of the key run in this process as may."""

    status, code = 429, "too_many_calls"


class HeadTooLarge(BudgetError):
    """The URL and the headers are more than the gateway takes."""

    status, code = 431, "headers_too_large"


class UnsupportedMediaType(BudgetError):
    """The body is not JSON, or has an encoding that is not read."""

    status, code = 415, "unsupported_media_type"


class NotMetered(BudgetError):
    """A path that the gateway does not meter, and so does not pass on."""

    status, code = 404, "not_metered"


class NotFound(BudgetError):
    """There is no such thing."""

    status, code = 404, "not_found"


class Forbidden(BudgetError):
    """Not with this token."""

    status, code = 403, "forbidden"


class EnforcementUnavailable(BudgetError):
    """The database cannot be asked, so nothing is let through."""

    status, code = 503, "enforcement_unavailable"


class UpstreamFailed(BudgetError):
    """The provider could not be reached, or broke before it answered."""

    status, code = 502, "upstream_error"


class Refused(BudgetError):
    """A refusal of the database. ``status``: by setting, instead of the code's own."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retry_after: int | None = None,
        detail: dict[str, Any] | None = None,
        rung: str | None = None,
        status: int | None = None,
    ):
        super().__init__(message, _PARAMS.get(code), retry_after=retry_after, detail=detail)
        self.code = code
        self.rung = rung
        self.status = status or self.kind

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Also the rung that the request waited on in vain, or that refuses it."""
        return [*super().headers(), *([(b"x-pgbudget-rung", self.rung.encode())] if self.rung is not None else [])]

    @property
    def kind(self) -> int:
        """A budget that is spent is one, whatever it is answered with."""
        return STATUS.get(self.code, (503, ""))[0]

    @property
    def retry_helps(self) -> bool:
        """Only against what passes by itself: others' holds, and a minute that is full."""
        return self.code in _PASSES
