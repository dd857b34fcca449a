"""The dialect of ``/v1/embeddings``: input only, and never streamed."""

from __future__ import annotations

from typing import Any

from pgbudget.errors import InvalidRequest
from pgbudget.wire import strict_json
from pgbudget.wire.bounds import inputs_bound, inputs_of
from pgbudget.wire.dialect import Dialect, Meter, ModelRequest, check_body, count, flag
from pgbudget.wire.openai_api import UNPRICED, OpenAIMeter
from pgbudget.wire.providers import Provider


class Embeddings(Dialect):
    """OpenAI's embeddings, and those of the providers that speak them."""

    path = "/embeddings"
    api = "embeddings"

    def read(self, body: dict[str, Any]) -> ModelRequest:
        """See :class:`Dialect`."""
        check_body(body, UNPRICED)
        if flag(body, "stream"):
            raise InvalidRequest("embeddings are not streamed; leave stream out", "stream")
        count(body, "dimensions")
        inputs = inputs_of(body, "input")
        bound = inputs_bound(body, "input", inputs)
        return ModelRequest(
            body=body,
            model=body["model"],
            # Nothing is generated, so a model needs no output price.
            cap=0,
            inputs=len(inputs),
            input_tokens=bound.tokens,
            input_bounds=bound.estimates(),
            text_tokens=bound.text,
            unbounded=bound.unbounded,
        )

    def turn_off(self, feature: str, request: ModelRequest, body: dict[str, Any]) -> None:
        """See :class:`Dialect`. Text asks for no feature."""

    def rewrite(self, request: ModelRequest, provider: Provider, upstream_model: str, cap: int) -> bytes:
        """See :class:`Dialect`."""
        return strict_json.dumps({**request.body, "model": upstream_model})

    def meter(self, request: ModelRequest, provider: Provider) -> Meter:
        """See :class:`Dialect`."""
        return EmbeddingsMeter(request, provider)


class EmbeddingsMeter(OpenAIMeter):
    """Watches embeddings."""

    def answer(self, answer: dict[str, Any]) -> None:
        """See :class:`Meter`."""
        self.event(b"", answer)
        self.finished = isinstance(answer.get("data"), list) and not self.failed
