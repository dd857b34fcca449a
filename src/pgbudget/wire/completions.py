"""The dialect of ``/v1/completions``: text that is gone on with."""

from __future__ import annotations

from typing import Any, ClassVar

from pgbudget.errors import InvalidRequest
from pgbudget.wire import strict_json
from pgbudget.wire.bounds import inputs_bound, inputs_of
from pgbudget.wire.dialect import Dialect, Meter, ModelRequest, check_body, count, flag, service_tier, text_bytes
from pgbudget.wire.openai_api import UNPRICED, OpenAIMeter, ask_usage, usage_asked
from pgbudget.wire.providers import Provider

_MAX_CHOICES = 128
_MAX_ALL_CHOICES = 1000
# What the API generates where a request sets no limit.
_DEFAULT_CAP = 16


class Completions(Dialect):
    """OpenAI's legacy completions. Each prompt is answered ``n`` times, the best of ``best_of`` that are generated."""

    path = "/completions"
    api = "completions"

    def read(self, body: dict[str, Any]) -> ModelRequest:
        """See :class:`Dialect`."""
        check_body(body, UNPRICED)
        # Without a prompt it begins a document.
        prompts = [""] if body.get("prompt") is None else inputs_of(body, "prompt")
        cap = count(body, "max_tokens", least=0)
        generated = max(count(body, n, _MAX_CHOICES) or 1 for n in ("n", "best_of"))
        if generated * len(prompts) > _MAX_ALL_CHOICES:
            raise InvalidRequest(f"n or best_of times the prompts must be at most {_MAX_ALL_CHOICES}", "n")
        flag(body, "echo")
        bound = inputs_bound(body, "prompt", prompts)
        return ModelRequest(
            body=body,
            model=body["model"],
            cap=_DEFAULT_CAP if cap is None else cap,
            inputs=len(prompts),
            choices=generated * len(prompts),
            stream=flag(body, "stream"),
            usage_asked=usage_asked(body),
            input_tokens=bound.tokens,
            input_bounds=bound.estimates(),
            text_tokens=bound.text,
            unbounded=bound.unbounded,
            service_tier=service_tier(body),
        )

    def grows(self, request: ModelRequest) -> bool:
        """See :class:`Dialect`. Of the best of many only one is shown."""
        return request.stream and not request.body.get("best_of") and not request.body.get("echo")

    def turn_off(self, feature: str, request: ModelRequest, body: dict[str, Any]) -> None:
        """See :class:`Dialect`. Text asks for no feature."""

    def rewrite(self, request: ModelRequest, provider: Provider, upstream_model: str, cap: int) -> bytes:
        """See :class:`Dialect`."""
        body = {**request.body, "model": upstream_model, "max_tokens": cap}
        body.pop("max_completion_tokens", None)
        ask_usage(body, request, provider)
        return strict_json.dumps(body)

    def meter(self, request: ModelRequest, provider: Provider) -> Meter:
        """See :class:`Dialect`."""
        return CompletionsMeter(request, provider)


class CompletionsMeter(OpenAIMeter):
    """Watches completions."""

    nothing: ClassVar = {"text": ""}

    def __init__(self, request: ModelRequest, provider: Provider) -> None:
        super().__init__(request, provider)
        #: Bytes of the prompt that each choice will still repeat, by its index.
        self._echoes: dict[int, int] = {}
        if request.body.get("echo"):
            shown = request.body.get("n") or 1
            prompts = inputs_of(request.body, "prompt") if request.body.get("prompt") is not None else []
            # The text of tokens is not known here: it counts as generated, unless nothing is.
            self._echoes = {place * shown + n: text_bytes(prompt) for place, prompt in enumerate(prompts) for n in range(shown)}

    def choice(self, choice: dict[str, Any]) -> None:
        """See :class:`OpenAIMeter`."""
        if self.request.cap == 0:
            return
        size, index = text_bytes(choice.get("text")), choice.get("index")
        if not self._echoes and isinstance(choice.get("text"), str):
            self.text = choice["text"]
        if isinstance(index, int) and (repeated := min(size, self._echoes.get(index, 0))):
            self._echoes[index] -= repeated
            size -= repeated
        self.output_bytes += size
