"""A database with a rate card, and short ways to make and look at what tests need."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg.rows import dict_row

Row = dict[str, Any]

#: Logins of gateways, and their passwords.
LOGINS = {"test_gateway": "gateway-password-for-tests", "test_gateway_away": "of-the-other-gateway"}
#: nano-USD a micro-dollar: the unit of the handed cases.
MICRO = 1000


def with_database(dsn: str, database: str, user: str | None = None, password: str | None = None) -> str:
    """The same server, another database or login."""
    parts = urlsplit(dsn)
    netloc = parts.netloc
    if user is not None:
        netloc = f"{user}:{password}@{netloc.rpartition('@')[2]}"
    return urlunsplit(parts._replace(netloc=netloc, path=f"/{database}"))


@dataclass
class World:
    """One test's database, seen by its superuser."""

    dsn: str
    gateway_dsn: str
    _names: Any = field(default_factory=itertools.count)

    def connect(self, **options: Any) -> psycopg.Connection[Row]:
        """A connection of the superuser."""
        return psycopg.connect(self.dsn, autocommit=True, row_factory=dict_row, **options)

    def connect_gateway(self) -> psycopg.Connection[Row]:
        """A connection of the gateway's login."""
        return psycopg.connect(self.gateway_dsn, autocommit=True, row_factory=dict_row)

    def __enter__(self) -> World:
        self.connection = self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def rows(self, query: str, *parameters: Any) -> list[Row]:
        """All rows of a query."""
        return self.connection.execute(query, parameters or None).fetchall()

    def one(self, query: str, *parameters: Any) -> Row:
        """The one row of a query."""
        rows = self.rows(query, *parameters)
        assert len(rows) == 1, rows
        return rows[0]

    def value(self, query: str, *parameters: Any) -> Any:
        """The one value of a query."""
        return next(iter(self.one(query, *parameters).values()))

    def execute(self, query: str, *parameters: Any) -> None:
        """Run something for its effect."""
        self.connection.execute(query, parameters or None)

    def org(self) -> str:
        """A new org with a project ``p``."""
        name = f"org{next(self._names)}"
        self.execute("select budget.create_scope(null, 'org', %s), budget.create_scope(%s, 'project', 'p')", name, name)
        return name

    def key(self, limit_micro_usd: int | None = None, *, org: str | None = None, period: str = "day", **options: Any) -> str:
        """The secret of a new key, with a budget in micro-dollars if given."""
        org = org or self.org()
        name = f"key{next(self._names)}"
        secret = self.value("select secret from budget.create_key(%s, 'p', %s, %s)", org, name, json.dumps(options))
        if limit_micro_usd is not None:
            self.budget(org, "key", name, limit_micro_usd, period)
        return str(secret)

    def budget(self, org: str, kind: str, name: str, micro_usd: int | None, period: str = "day", **options: Any) -> int:
        """Set a budget in micro-dollars."""
        usd = None if micro_usd is None else Decimal(micro_usd) / 1_000_000
        return int(
            self.value("select budget.set_budget(%s, %s, %s, %s, %s, %s)", org, kind, name, usd, period, json.dumps(options))
        )

    def key_name(self, secret: str) -> tuple[str, str]:
        """Org and name of a key."""
        row = self.one(
            "select o.name as org, k.name from budget_internal.key_secrets s"
            " join budget_internal.scopes k on k.scope_id = s.key_id join budget_internal.scopes o on o.scope_id = s.org_id"
            " where s.secret_hash = sha256(convert_to(%s, 'UTF8'))",
            secret,
        )
        return row["org"], row["name"]

    def reserve(self, key: str, model: str = "t-mini", input_tokens: int = 100, output: int | None = 200, **rest: Any) -> Row:
        """One reserve."""
        return self.one(
            "select * from budget.reserve(%s, %s, %s, %s, %s, %s)",
            key, model, input_tokens, output, rest.pop("request_id", None), json.dumps(rest),
        )  # fmt: skip

    def settle(self, reservation: Any, usage: Any = None, outcome: str = "finished") -> Row:
        """One settle."""
        usage = None if usage is None else json.dumps(usage)
        return self.one("select * from budget.settle(%s, %s, %s)", reservation, usage, outcome)

    def counters(self) -> list[Row]:
        """Spent and held of every period, in micro-dollars, in the order the periods were made."""
        return self.rows(
            "select (spent_nano_usd / 1000)::int8 as spent, (held_nano_usd / 1000)::int8 as held"
            " from budget_internal.periods order by period_id"
        )

    def spent(self) -> int:
        """Micro-dollars spent of all budgets' periods together; for worlds with one budget."""
        return int(self.value("select coalesce(sum(spent_nano_usd), 0) / 1000 from budget_internal.periods"))

    def held(self) -> int:
        """Micro-dollars held of all budgets' periods together; for worlds with one budget."""
        return int(self.value("select coalesce(sum(held_nano_usd), 0) / 1000 from budget_internal.periods"))

    def ledger(self) -> list[Row]:
        """All ledger entries, oldest first."""
        return self.rows("select * from budget_internal.ledger_entries order by entry_id")

    def verify(self) -> list[Row]:
        """What the invariants find: nothing, or a test has found a fault."""
        return self.rows("select * from budget.verify()")

    def set_clock(self, moment: str | None) -> None:
        """Stop the one clock at a moment; None: let it run."""
        body = "select clock_timestamp()" if moment is None else f"select timestamptz '{moment}'"
        self.execute(
            "create or replace function budget_internal.clock() returns timestamptz language sql volatile"
            f" set search_path = pg_catalog, pg_temp as $$ {body} $$"
        )
