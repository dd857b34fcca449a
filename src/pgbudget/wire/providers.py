"""The ways of providers, as data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Provider:
    """What differs from one provider to the next.

    ``base_url``: where it is, unless the environment says otherwise. ``apis``: the APIs that it speaks; a call goes to no
    route whose provider does not speak its dialect. ``cap_field``: the output limit of chat that it honours (of completions
    it is ``max_tokens`` everywhere). ``key_header``: the header that takes its key; ``headers``: what it wants beside it,
    unless the client sends its own. ``stream_options``: takes them; who does not reports the usage of every stream anyway.
    ``reasoning_apart``: ``completion_tokens`` leaves reasoning out. ``cost``: where in its usage stands what a call cost, and
    ``cost_unit``: in units of so many USD. ``open_models``: matches the models whose every token that is billed as output is
    seen in the stream; only their holds grow. Of others it is not known that they do not think unseen. ``tokenizers``: the
    vocabularies of which it is known that models, by what matches them, are billed by; most are not public.
    """

    base_url: str | None = None
    apis: frozenset[str] = frozenset({"openai", "completions", "embeddings"})
    cap_field: str = "max_tokens"
    key_header: bytes = b"authorization"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    stream_options: bool = True
    reasoning_apart: bool = False
    cost: tuple[str, ...] = ()
    cost_unit: Decimal = Decimal(1)
    open_models: re.Pattern[str] | None = None
    tokenizers: tuple[tuple[re.Pattern[str], str], ...] = ()

    def shows_all(self, upstream_model: str) -> bool:
        """Whether what is billed as this model's output is seen in its stream."""
        return self.open_models is not None and self.open_models.match(upstream_model) is not None

    def tokenizer(self, upstream_model: str) -> str | None:
        """The vocabulary that this model is billed by, as ``toktok`` names it; None where it is not known."""
        return next((name for models, name in self.tokenizers if models.match(upstream_model)), None)

    @property
    def states_cost(self) -> bool:
        """Whether its answers say what a call cost."""
        return bool(self.cost)

    def stated_cost(self, usage: dict[str, Any]) -> Decimal | None:
        """What a usage says that the call cost, in USD; None where it does not say, or says what another bill has.

        ``usage`` as :meth:`Meter.parse` reads it. With a key of the account's own (``is_byok``) the provider bills only its
        part; that a call was free is never taken from there, the price list says it.
        """
        amount: Any = usage
        for name in self.cost:
            amount = amount.get(name) if isinstance(amount, dict) else None
        if not self.cost or usage.get("is_byok") or type(amount) not in (int, Decimal):
            return None
        stated = Decimal(amount) * self.cost_unit
        # No amount has so many places; what has would be written out in full on its way to the database.
        return stated if stated > 0 and -20 <= stated.adjusted() <= 20 else None


_OPENAI: Final = frozenset({"openai", "responses", "completions", "embeddings"})
_CHAT: Final = frozenset({"openai"})
_ALL: Final = _OPENAI | {"anthropic"}
_ANY: Final = re.compile("")
# Where an owner names deployments as they like, a name says nothing.
_O200K: Final = r"(gpt-4o|gpt-4\.[15]|gpt-5|chatgpt-4o|o1|o3|o4-mini)([-.:]|$)"
_CL100K: Final = r"(gpt-4|gpt-3\.5-turbo|davinci-002|babbage-002)([-:]|$)|text-embedding-(ada-002|3-(small|large))$"
# Harmony's is the same vocabulary, with other control tokens.
_GPT_OSS: Final = ((re.compile(r"(openai/)?gpt-oss-"), "o200k_base"),)
_GEMINI: Final = Provider("https://generativelanguage.googleapis.com/v1beta/openai", _CHAT | {"embeddings"})
PROVIDERS: Final = {
    "openai": Provider(
        "https://api.openai.com/v1",
        _OPENAI,
        "max_completion_tokens",
        # Those before reasoning.
        open_models=re.compile(r"(ft:)?(gpt-3\.5|gpt-4|gpt-4o|gpt-4\.1|chatgpt-4o)(-|$|:)"),
        tokenizers=((re.compile(f"(ft:)?({_O200K})"), "o200k_base"), (re.compile(f"(ft:)?({_CL100K})"), "cl100k_base")),
    ),
    "anthropic": Provider(
        "https://api.anthropic.com/v1",
        frozenset({"anthropic", "openai"}),
        key_header=b"x-api-key",
        headers=((b"anthropic-version", b"2023-06-01"),),
        # Those that think only when they are asked to.
        open_models=re.compile(r"claude-(3-|(opus|sonnet|haiku)-4(-[015])?(-20\d{6})?$)"),
    ),
    "azure": Provider(None, _OPENAI, "max_completion_tokens", b"api-key"),
    "cerebras": Provider("https://api.cerebras.ai/v1", _CHAT | {"completions"}, "max_completion_tokens", tokenizers=_GPT_OSS),
    "cohere": Provider("https://api.cohere.ai/compatibility/v1", _CHAT | {"embeddings"}, stream_options=False),
    "deepseek": Provider("https://api.deepseek.com", _CHAT | {"responses"}, open_models=_ANY),
    "gemini": _GEMINI,
    "google": _GEMINI,
    "gpustack": Provider(),
    "groq": Provider("https://api.groq.com/openai/v1", _CHAT | {"responses"}, "max_completion_tokens", tokenizers=_GPT_OSS),
    "huggingface": Provider("https://router.huggingface.co/v1", _CHAT | {"responses"}, tokenizers=_GPT_OSS),
    "mistral": Provider("https://api.mistral.ai/v1", _CHAT | {"embeddings"}, stream_options=False, open_models=_ANY),
    "ollama": Provider(None, _ALL),
    "openrouter": Provider(
        "https://openrouter.ai/api/v1",
        _ALL,
        cost=("cost",),
        tokenizers=(
            *_GPT_OSS,
            (re.compile(f"openai/({_O200K})"), "o200k_base"),
            (re.compile(f"openai/({_CL100K})"), "cl100k_base"),
        ),
    ),
    "perplexity": Provider("https://api.perplexity.ai", _CHAT, stream_options=False, cost=("cost", "total_cost")),
    "snowflake": Provider(None, _CHAT | {"anthropic"}, "max_completion_tokens"),
    "together": Provider(
        "https://api.together.xyz/v1", _CHAT | {"completions", "embeddings"}, open_models=_ANY, tokenizers=_GPT_OSS
    ),
    "vllm": Provider(None, _ALL),
    "xai": Provider(
        "https://api.x.ai/v1",
        _CHAT | {"responses"},
        "max_completion_tokens",
        reasoning_apart=True,
        cost=("cost_in_usd_ticks",),
        cost_unit=Decimal("1e-10"),
    ),
    "simulator": Provider(None, _ALL, open_models=_ANY),
}

_OTHER: Final = Provider()


def provider(name: str) -> Provider:
    """The ways of a provider; an unknown one speaks OpenAI's older APIs, honours ``max_tokens`` and has no default address."""
    return PROVIDERS.get(name, _OTHER)
