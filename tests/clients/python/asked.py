"""How the tests ask a client, and what it says: a JSON object a line, both ways.

An :class:`Ask` names a route of the client and what to do there; what comes back has some of:

text      the text of the answer
pieces    in how many pieces a stream gave it
usage     [input, output] tokens, where the client saw them
tool      [name, arguments] of the tool that was called
value     a structured answer, as the client gives it
error     type, status, message and numbers (the budget's, where the client shows them) of what was raised
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Answer = dict[str, Any]

PROMPT = "word " * 120
MESSAGES: list[Any] = [{"role": "user", "content": PROMPT}]
MAX_TOKENS = 200
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class Ask:
    """``url``: of the gateway, without a path. ``retries``: how often the client may try again, unless as it does by itself."""

    route: str
    do: str
    url: str
    key: str
    model: str
    retries: int | None

    @property
    def options(self) -> dict[str, Any]:
        """What a client is made with beside URL and key."""
        return {} if self.retries is None else {"max_retries": self.retries}


Route = Callable[[Ask], Answer]


def serve(routes: Mapping[str, Mapping[str, Route]]) -> None:
    """Say that all is loaded, and answer until the input ends. What libraries print is kept out of the answers."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print("{}", file=answers)
    for line in sys.stdin:
        ask = Ask(**json.loads(line))
        try:
            answer = routes[ask.route][ask.do](ask)
        except Exception as error:
            answer = {"error": described(error)}
        print(json.dumps(answer), file=answers)


def described(error: Exception) -> Answer:
    """The members that the errors of these libraries have, each under one of a few names."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        # The OpenAI SDK shows the error itself, the others the body that holds it.
        body = body.get("error", body)
    return {
        "type": f"{type(error).__module__.partition('.')[0]}.{type(error).__name__}",
        "status": getattr(error, "status_code", None),
        "message": str(error),
        "numbers": body.get("pgbudget") if isinstance(body, dict) else None,
    }
