"""The ways of providers, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Provider:
    """What differs from one provider to the next.

    ``base_url``: where it is, unless the environment says otherwise. ``apis``: the APIs that it speaks; a call goes to no
    route whose provider does not speak its dialect. ``cap_field``: the output limit of chat that it honours.
    ``key_header``: the header that takes its key; ``headers``: what it wants beside it, unless the client sends its own.
    ``states_cost``: its answers say what a call cost.
    """

    base_url: str | None = None
    apis: frozenset[str] = frozenset({"openai"})
    cap_field: str = "max_tokens"
    key_header: bytes = b"authorization"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    states_cost: bool = False


_OPENAI: Final = frozenset({"openai", "responses"})
_PROVIDERS: Final = {
    "openai": Provider("https://api.openai.com/v1", _OPENAI, "max_completion_tokens"),
    "anthropic": Provider(
        "https://api.anthropic.com/v1",
        frozenset({"anthropic", "openai"}),
        key_header=b"x-api-key",
        headers=((b"anthropic-version", b"2023-06-01"),),
    ),
    "azure": Provider(None, _OPENAI, "max_completion_tokens", b"api-key"),
    "groq": Provider("https://api.groq.com/openai/v1", _OPENAI, "max_completion_tokens"),
    "deepseek": Provider("https://api.deepseek.com/v1"),
    "mistral": Provider("https://api.mistral.ai/v1"),
    "xai": Provider("https://api.x.ai/v1", _OPENAI, states_cost=True),
    "gemini": Provider("https://generativelanguage.googleapis.com/v1beta/openai"),
    "openrouter": Provider("https://openrouter.ai/api/v1", frozenset({"openai", "responses", "anthropic"}), states_cost=True),
    "perplexity": Provider("https://api.perplexity.ai", states_cost=True),
    "together": Provider("https://api.together.xyz/v1"),
    "cerebras": Provider("https://api.cerebras.ai/v1", cap_field="max_completion_tokens"),
    "simulator": Provider(None, frozenset({"openai", "responses", "anthropic"})),
}

_OTHER: Final = Provider()


def provider(name: str) -> Provider:
    """The ways of a provider; an unknown one speaks OpenAI's chat, honours ``max_tokens`` and has no default address."""
    return _PROVIDERS.get(name, _OTHER)
