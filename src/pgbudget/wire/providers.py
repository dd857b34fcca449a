"""The ways of OpenAI-compatible providers, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provider:
    """What differs from one provider to the next.

    ``cap_field``: the output limit that it honours. ``base_url``: where it is, unless the environment says otherwise.
    """

    base_url: str | None = None
    cap_field: str = "max_tokens"


_PROVIDERS = {
    "openai": Provider("https://api.openai.com/v1", "max_completion_tokens"),
    "azure": Provider(cap_field="max_completion_tokens"),
    "groq": Provider("https://api.groq.com/openai/v1", "max_completion_tokens"),
    "deepseek": Provider("https://api.deepseek.com/v1"),
    "mistral": Provider("https://api.mistral.ai/v1"),
    "xai": Provider("https://api.x.ai/v1"),
    "gemini": Provider("https://generativelanguage.googleapis.com/v1beta/openai"),
    "openrouter": Provider("https://openrouter.ai/api/v1"),
    "perplexity": Provider("https://api.perplexity.ai"),
    "together": Provider("https://api.together.xyz/v1"),
    "cerebras": Provider("https://api.cerebras.ai/v1", "max_completion_tokens"),
}

_OTHER = Provider()


def provider(name: str) -> Provider:
    """The ways of a provider; an unknown one honours ``max_tokens`` and has no default address."""
    return _PROVIDERS.get(name, _OTHER)
