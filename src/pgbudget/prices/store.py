"""Price lists in the database: what is there, and how lists get in. Everything that is added waits for a review."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import psycopg
from psycopg.rows import dict_row

from pgbudget.prices.cards import Card, Rate

Connection = psycopg.Connection[Any]

_MODELS = """
  select budget.set_model(c ->> 'provider', c ->> 'model', (c ->> 'context')::bigint, (c ->> 'max_output')::bigint)
  from jsonb_array_elements(%s) c
"""
_PRICES = """
  select budget.add_price(
    c ->> 'provider', c ->> 'model', c -> 'rates', (c ->> 'effective_from')::timestamptz, c ->> 'source',
    nullif(c -> 'detail', 'null')
  )
  from jsonb_array_elements(%s) c
"""
_ALIASES = "select budget.set_alias(c ->> 'provider', c ->> 'alias', c ->> 'model') from jsonb_array_elements(%s) c"
_REVIEW_PRICES = "select budget.review_price(p, %s) from unnest(%s::bigint[]) p"
_REVIEW_ALIASES = "select budget.review_alias(c ->> 'provider', c ->> 'alias', %s) from jsonb_array_elements(%s) c"


@dataclass(frozen=True)
class Listed:
    """A version in the database."""

    price_id: int
    card: Card
    effective_to: datetime | None
    reviewed_by: str | None


@dataclass(frozen=True)
class Alias:
    """Another name of a model."""

    provider: str
    alias: str
    model: str


@dataclass(frozen=True)
class Added:
    """How many of each were added."""

    prices: int
    limits: int
    aliases: int


def listed(connection: Connection, providers: Sequence[str] | None = None) -> list[Listed]:
    """All versions, oldest first."""
    query = "select * from budget.price_list where price_id is not null and (%(p)s::text[] is null or provider = any (%(p)s))"
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(f"{query} order by provider, model, effective_from, price_id", {"p": providers}).fetchall()
    return [
        Listed(
            row["price_id"],
            Card(
                row["provider"], row["model"], tuple(Rate.from_json(rate) for rate in row["rates"] or ()),
                row["effective_from"], row["context_window_tokens"], row["max_output_tokens"], (), row["source"] or "",
                row["detail"] or {},
            ),
            row["effective_to"], row["reviewed_by"],
        )
        for row in rows
    ]  # fmt: skip


def limits(connection: Connection) -> dict[tuple[str, str], tuple[int | None, int | None]]:
    """Context window and maximum output of every model that is recorded."""
    query = "select distinct provider, model, context_window_tokens, max_output_tokens from budget.price_list"
    return {(provider, model): (context, output) for provider, model, context, output in connection.execute(query).fetchall()}


def add(
    connection: Connection,
    cards: Iterable[Card],
    *,
    reviewer: str | None = None,
    known: Iterable[tuple[str, str]] = (),
    known_aliases: Iterable[tuple[str, str]] = (),
) -> Added:
    """Add a version for each card that has rates, with the limits and aliases of its model: a few set-based statements in one
    transaction, all or nothing. Unreviewed, unless a reviewer is named. Limits of known models and known aliases stay.
    """
    models, prices, aliases = [], [], []
    models_kept, aliases_kept = set(known), set(known_aliases)
    for card in cards:
        named: dict[str, Any] = {"provider": card.provider, "model": card.model}
        if (card.provider, card.model) not in models_kept:
            models_kept.add((card.provider, card.model))
            models.append({**named, "context": card.context, "max_output": card.max_output})
        if card.rates:
            begins = card.effective_from and card.effective_from.isoformat()
            rates = [rate.as_json() for rate in card.rates]
            prices.append(
                {**named, "rates": rates, "effective_from": begins, "source": card.source, "detail": dict(card.detail) or None}
            )
        for alias in card.aliases:
            if (card.provider, alias) not in aliases_kept:
                aliases_kept.add((card.provider, alias))
                aliases.append({**named, "alias": alias})
    with connection.transaction():
        connection.execute(_MODELS, (json.dumps(models),))
        price_ids = [row[0] for row in connection.execute(_PRICES, (json.dumps(prices),)).fetchall()]
        connection.execute(_ALIASES, (json.dumps(aliases),))
        if reviewer is not None:
            connection.execute(_REVIEW_PRICES, (reviewer, price_ids))
            connection.execute(_REVIEW_ALIASES, (reviewer, json.dumps(aliases)))
    return Added(len(price_ids), len(models), len(aliases))


def aliases(connection: Connection) -> set[tuple[str, str]]:
    """Provider and name of every alias."""
    return {
        (provider, alias) for provider, alias in connection.execute("select provider, alias from budget.model_alias").fetchall()
    }


def unreviewed_aliases(connection: Connection) -> list[Alias]:
    """The names that wait for a review."""
    query = "select provider, alias, model from budget.model_alias where reviewed_at is null order by provider, model, alias"
    return [Alias(*row) for row in connection.execute(query).fetchall()]


def review(connection: Connection, versions: Iterable[Listed], aliases: Iterable[Alias], reviewer: str) -> None:
    """Put versions and aliases in force."""
    named = [{"provider": a.provider, "alias": a.alias} for a in aliases]
    with connection.transaction():
        connection.execute(_REVIEW_PRICES, (reviewer, [v.price_id for v in versions]))
        connection.execute(_REVIEW_ALIASES, (reviewer, json.dumps(named)))


def shipped() -> list[Card]:
    """The reviewed seed of this version of pgbudget."""
    seed = json.loads(files("pgbudget.prices").joinpath("seed.json").read_text(encoding="utf-8"))
    return [
        Card(
            card["provider"], card["model"], tuple(Rate.from_json(rate) for rate in card["rates"]),
            datetime.fromisoformat(card["effective_from"]).replace(tzinfo=UTC), card.get("context"), card.get("max_output"),
            tuple(card.get("aliases", ())), seed["source"], card.get("detail", {}),
        )
        for card in seed["cards"]
    ]  # fmt: skip


def seed(connection: Connection) -> Added:
    """Add what is shipped, reviewed, for every model that has no price list and no limits yet."""
    known = set(limits(connection))
    cards = [card for card in shipped() if (card.provider, card.model) not in known]
    return add(connection, cards, reviewer="pgbudget", known_aliases=aliases(connection)) if cards else Added(0, 0, 0)
