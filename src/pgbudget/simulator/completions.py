"""The dialect of OpenAI's legacy completions."""

from __future__ import annotations

import time
from typing import Any, Final

from starlette.datastructures import Headers

from pgbudget.simulator.behaviour import Behaviour
from pgbudget.simulator.dialect import Ask, dumps
from pgbudget.simulator.openai_api import OpenAI, bad, generator_of, stream_of, usage_of, whole_number
from pgbudget.simulator.tally import Call

#: How much is generated of a choice if the request does not say.
_DEFAULT_CAP: Final = 16
_MAX_CHOICES: Final = 128
_MAX_BEST_OF: Final = 20


class Completions(OpenAI):
    """``POST /v1/completions``: ``n`` answers to each prompt, the best of ``best_of`` that are generated and billed."""

    path = "/v1/completions"
    id_prefix = "cmpl-"

    def read(self, body: dict[str, Any], headers: Headers) -> Ask:
        """Refuse what OpenAI refuses, as far as it matters to money."""
        model, max_output = generator_of(body)
        prompts = _prompts(body.get("prompt"))
        stream, options = stream_of(body)
        cap = whole_number(body, "max_tokens", max_output, least=0)
        shown = whole_number(body, "n", _MAX_CHOICES) or 1
        best_of = whole_number(body, "best_of", _MAX_BEST_OF)
        if best_of is not None and best_of < shown:
            raise bad("You requested that the server return more choices than it will generate (best_of < n).", "best_of")
        if stream and best_of is not None and best_of > shown:
            raise bad("You cannot stream results when best_of is above n.", "best_of")
        if not isinstance(body.get("echo"), bool | None):
            raise bad("Invalid type for 'echo': expected a boolean.", "echo")
        return Ask(
            model=model,
            stream=stream,
            choices=len(prompts) * (best_of or shown),
            cap=_DEFAULT_CAP if cap is None else cap,
            usage=bool(options.get("include_usage")),
            body=body,
        )

    def render(self, ask: Ask, behaviour: Behaviour, answer_id: Any) -> CompletionRendering:
        """Begin an answer."""
        return CompletionRendering(ask, behaviour, answer_id)


class CompletionRendering:
    """One answer; reasoning and tool calls are text here as any other."""

    def __init__(self, ask: Ask, behaviour: Behaviour, answer_id: Any) -> None:
        self._ask = ask
        self._behaviour = behaviour
        prompts, n = _prompts(ask.body.get("prompt")), ask.body.get("n") or 1
        #: What stands before the text of each choice that is shown.
        self._echoes = [prompt if ask.body.get("echo") else "" for prompt in prompts for _ in range(n)]
        self._head = {
            "id": answer_id,
            "object": "text_completion",
            "created": int(time.time()),
            "model": behaviour.model or ask.model,
        }
        if behaviour.service_tier is not None:
            self._head["service_tier"] = behaviour.service_tier
        for name in behaviour.omit or ():
            self._head.pop(name, None)
        self._pieces: dict[int, bytes] = {}

    def begin(self, call: Call) -> bytes:
        """The prompts, if they are to be shown: text that costs no output."""
        return b"".join(self._event([self._choice(i, echo)]) for i, echo in enumerate(self._echoes) if echo)

    def piece(self, index: int, tokens: int) -> bytes:
        """One event a choice."""
        behaviour = self._behaviour
        if behaviour.usages is not None:
            return self._events(tokens, behaviour.usages[index] if index < len(behaviour.usages) else None)
        known = self._pieces.get(tokens)
        if known is None:
            known = self._pieces[tokens] = self._events(tokens)
        return known

    def end(self, call: Call, tokens: int) -> bytes:
        """Finish of every choice, usage if asked for, ``[DONE]``."""
        reason = self._finish_reason(tokens)
        events = [self._event([self._choice(i, "", reason)]) for i in range(len(self._echoes))]
        if self._reports and self._behaviour.usages is None:
            events.append(self._event([], self._usage(call)))
        return b"".join(events) + b"data: [DONE]\n\n"

    def whole(self, call: Call, tokens: int) -> bytes:
        """A completion."""
        text, reason = self._behaviour.text * max(0, tokens - self._behaviour.reasoning_tokens), self._finish_reason(tokens)
        choices = [self._choice(i, echo + text, reason) for i, echo in enumerate(self._echoes)]
        answer = {**self._head, "choices": choices}
        if not self._behaviour.no_usage:
            answer["usage"] = self._usage(call)
        return dumps(answer)

    def error(self, body: Any) -> bytes:
        """Nothing but the error."""
        return b"data: " + dumps(body) + b"\n\n" if self._ask.stream else dumps(body)

    @property
    def _reports(self) -> bool:
        return self._ask.usage and not self._behaviour.no_usage

    def _events(self, tokens: int, usage: Any = None) -> bytes:
        text = self._behaviour.text * tokens
        return b"".join(self._event([self._choice(i, text)], usage) for i in range(len(self._echoes)))

    def _event(self, choices: list[Any], usage: Any = None) -> bytes:
        members = {**self._head, "choices": choices}
        # As OpenAI: once usage is asked for, every event has the member.
        if self._reports or usage is not None:
            members["usage"] = usage
        return b"data: " + dumps(members) + b"\n\n"

    def _choice(self, index: int, text: str, reason: str | None = None) -> dict[str, Any]:
        padding = self._behaviour.padding
        top = [{"p" * padding: -9.5}]
        logprobs = {"tokens": ["word"], "token_logprobs": [-0.1], "top_logprobs": top, "text_offset": [0]} if padding else None
        return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": reason}

    def _finish_reason(self, tokens: int) -> str:
        return "length" if tokens < self._behaviour.completion else "stop"

    def _usage(self, call: Call) -> Any:
        if self._behaviour.usage is not None:
            return self._behaviour.usage
        usage = usage_of(call)
        # The details came with later models; they are there where they say something.
        if not call.reasoning_tokens:
            del usage["completion_tokens_details"]
        if not call.cached_tokens + call.cache_write_5m_tokens + call.cache_write_1h_tokens:
            del usage["prompt_tokens_details"]
        return usage


def _prompts(given: Any) -> list[str]:
    """The prompts as text: one, many, or either as tokens. None is the beginning of a document."""
    if given is None:
        return ["<|endoftext|>"]
    if isinstance(given, str):
        return [given]
    if isinstance(given, list) and given:
        if all(type(token) is int for token in given):
            return [" ".join(map(str, given))]
        if all(isinstance(prompt, str) for prompt in given):
            return given
        if all(isinstance(prompt, list) and prompt and all(type(t) is int for t in prompt) for prompt in given):
            return [" ".join(map(str, prompt)) for prompt in given]
    raise bad(
        "Invalid value for 'prompt': expected a string, or an array of strings, of tokens or of arrays of tokens.", "prompt"
    )
