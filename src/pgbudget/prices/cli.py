"""``pgbudget prices``: compare, import and review price lists."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer
from rich.table import Table
from rich.text import Text

from pgbudget.prices import compare, genai, store
from pgbudget.prices.cards import describe, per_million
from pgbudget.prices.corrections import corrected
from pgbudget.prices.second import SecondSource
from pgbudget.terminal import Dsn, Failed, database, out, table

app = typer.Typer(
    no_args_is_help=True, help="Price lists: compare with public sources, import, review. Nothing applies unreviewed."
)

#: What is compared in a database that has no prices yet.
_USUAL = ("anthropic", "deepseek", "google", "groq", "mistral", "openai", "xai")

Providers = Annotated[
    list[str] | None, typer.Option("--provider", help="Only this provider; may be given again. By default those with prices.")
]
Models = Annotated[list[str] | None, typer.Option("--model", help="Only this model; may be given again.")]
Second = Annotated[
    Path | None, typer.Option("--second-source", help="litellm's wheel or data file; by default that of the installed package.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; amounts are USD for a million units.")]


@app.command()
def diff(
    provider: Providers = None, model: Models = None, second_source: Second = None, as_json: AsJson = False, dsn: Dsn = ""
) -> None:
    """Show what genai-prices says otherwise than the prices in force: new, changed and vanished models, and what litellm says
    where that differs too. Changes nothing."""
    with database(dsn) as connection:
        changes, _, second = _changes(connection, provider, model, second_source)
    if as_json:
        print(json.dumps([change.as_json() for change in changes], indent=1))
        return
    for name in dict.fromkeys(change.card.provider for change in changes):
        out.print(_table(name, [c for c in changes if c.card.provider == name], second.name))
    counts = {kind: sum(c.kind == kind for c in changes) for kind in ("new", "changed", "vanished")}
    out.print(", ".join(f"{count} {kind}" for kind, count in counts.items()) + f" by {genai.source()}", highlight=False)


@app.command("import")
def import_(provider: Providers = None, model: Models = None, second_source: Second = None, dsn: Dsn = "") -> None:
    """Add what is new or changed as versions that wait for a review, with their source and date: all of it or nothing."""
    with database(dsn) as connection, connection.transaction():
        changes, listed, second = _changes(connection, provider, model, second_source)
        cards = compare.to_import(changes, listed, second)
        added = store.add(connection, cards, known=store.limits(connection), known_aliases=store.aliases(connection))
    out.print(f"{added.prices} price lists, {added.limits} models and {added.aliases} aliases added", highlight=False)
    if added.prices or added.aliases:
        out.print("They wait for a review: pgbudget prices review", highlight=False)


@app.command()
def review(
    provider: Providers = None,
    model: Models = None,
    everything: Annotated[bool, typer.Option("--all", help="All that waits.")] = False,
    reviewer: Annotated[str | None, typer.Option("--reviewer", help="Who has looked at them: your name.")] = None,
    as_json: AsJson = False,
    dsn: Dsn = "",
) -> None:
    """List the versions and aliases that wait for a review. With --reviewer, put those in force that --provider, --model or
    --all names."""
    with database(dsn) as connection, connection.transaction():
        versions = store.listed(connection)
        waiting = [v for v in versions if v.reviewed_by is None and _named(v.card.provider, v.card.model, provider, model)]
        aliases = [a for a in store.unreviewed_aliases(connection) if _named(a.provider, a.model, provider, model)]
        if reviewer is None:
            if everything:
                raise Failed("--all needs --reviewer with the name of who has looked at them")
            _list(waiting, aliases, versions, as_json)
            return
        if not (everything or provider or model):
            raise Failed("say what you have reviewed: --provider, --model or --all")
        if not waiting and not aliases:
            raise Failed("nothing of that waits for a review")
        store.review(connection, waiting, aliases, reviewer)
    out.print(f"{len(waiting)} price lists and {len(aliases)} aliases reviewed by {reviewer}", highlight=False)


@app.command()
def seed(dsn: Dsn = "") -> None:
    """Add the reviewed price lists that ship with pgbudget, for models that are not there yet."""
    with database(dsn) as connection:
        added = store.seed(connection)
    out.print(f"{added.prices} reviewed price lists and {added.aliases} aliases added", highlight=False)


def _changes(
    connection: psycopg.Connection[Any], providers: list[str] | None, models: list[str] | None, second_source: Path | None
) -> tuple[list[compare.Change], list[store.Listed], SecondSource]:
    try:
        second = SecondSource.load(second_source)
    except (OSError, ValueError, KeyError) as error:
        raise Failed(f"the second source cannot be read: {error}") from None
    listed = store.listed(connection)
    now = datetime.now(UTC)
    known = set(genai.provider_names())
    for name in providers or ():
        if name not in known:
            raise Failed(f"genai-prices has no provider {name}; it has {', '.join(sorted(known))}")
    chosen = providers or sorted({v.card.provider for v in listed} & known) or list(_USUAL)
    cards = corrected(genai.read(now, chosen))
    changes = compare.compare(cards, listed, second, now, chosen)
    return [c for c in changes if not models or c.card.model in models], listed, second


def _named(provider: str, model: str, providers: list[str] | None, models: list[str] | None) -> bool:
    return (not providers or provider in providers) and (not models or model in models)


def _table(provider: str, changes: list[compare.Change], second: str) -> Table:
    rows = []
    for change in changes:
        begins = change.card.effective_from
        first = [change.card.model, change.kind + (f" from {begins:%Y-%m-%d}" if begins and change.kind == "changed" else "")]
        for line in change.lines:
            rows.append([*first, line.what, line.now, line.source, *([line.second] if second else [])])
            first = ["", ""]
    amounts = ["now", "source", *([second] if second else [])]
    return table(["model", "change", "USD a million", *amounts], rows, amounts=amounts, title=provider)


def _list(waiting: list[store.Listed], aliases: list[store.Alias], versions: list[store.Listed], as_json: bool) -> None:
    if as_json:
        print(json.dumps({
            "prices": [
                {
                    "price_id": v.price_id, "provider": v.card.provider, "model": v.card.model,
                    "effective_from": v.card.effective_from and v.card.effective_from.isoformat(), "source": v.card.source,
                    "detail": dict(v.card.detail), "rates": [rate.as_json() for rate in v.card.rates],
                }
                for v in waiting
            ],
            "aliases": [{"provider": a.provider, "alias": a.alias, "model": a.model} for a in aliases],
        }, indent=1))  # fmt: skip
        return
    rows = []
    for version in waiting:
        card = version.card
        before = next(
            (
                v.card.amounts()
                for v in reversed(versions)
                if v.reviewed_by is not None and (v.card.provider, v.card.model) == (card.provider, card.model)
            ),
            {},
        )
        amounts = card.amounts()
        first = [card.provider, card.model, f"{card.effective_from:%Y-%m-%d}" if card.effective_from else "", card.source]
        for key in dict.fromkeys([*amounts, *before]):
            old, new = before.get(key), amounts.get(key)
            if old != new or not before:
                cells = [
                    describe(key),
                    per_million(old) if old is not None else "",
                    per_million(new) if new is not None else "",
                ]
                rows.append([*first, *cells])
                first = [""] * 4
    if waiting:
        names = ["provider", "model", "from", "source", "USD a million", "in force", "to review"]
        out.print(table(names, rows, amounts=names[-2:]))
    for alias in aliases:
        out.print(Text(f"alias {alias.provider}/{alias.alias} of {alias.model}"))
    out.print(f"{len(waiting)} price lists and {len(aliases)} aliases wait for a review", highlight=False)
    if waiting or aliases:
        out.print(
            "To put them in force: pgbudget prices review --all --reviewer YOUR-NAME (or --provider, --model)", highlight=False
        )
