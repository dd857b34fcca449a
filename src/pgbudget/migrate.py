"""The migration runner: versioned files once each, then all of ``sql/`` together whenever anything changed.

    migrations/roles.sql       cluster roles, idempotent, before everything
    migrations/NNNN_name.sql   one transaction each, append-only, hash-locked
    sql/**/*.sql               functions, views and grants, re-applied in path order in one transaction

Errors::

    MigrationError
    +-- EditedMigration     an applied file is not what was applied
    +-- MigrationGap        the numbers of the files have a hole, or an applied file is gone
    +-- NewerDatabase       the database knows migrations that this version does not
    +-- FunctionMismatch    pg_proc is not what the files of sql/ define
"""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

_LOCK = 0x7067627564676574  # "pgbudget"
_FILE = re.compile(r"^(\d{4})_[a-z0-9_]+\.sql$")
_FUNCTION = re.compile(
    r"^create or replace (?:function|procedure) (budget(?:_internal)?)\.(\w+)\s*\((.*?)^as \$", re.MULTILINE | re.DOTALL
)
_SETTING = re.compile(r"^set (\w+) = (.+)$", re.MULTILINE)

_BOOKKEEPING = """
create schema if not exists budget_internal;
create table if not exists budget_internal.migrations (
  version integer primary key,
  name text not null,
  sha256 text not null,
  applied_at timestamptz not null default clock_timestamp()
);
comment on table budget_internal.migrations is 'Applied migration files; version 0 stands for the whole of sql/.';
"""

Connection = psycopg.Connection[Any]
_Attributes = tuple[bool, list[str]]  # security definer, settings


class MigrationError(Exception):
    """The database cannot be migrated; the message says why and what to do."""


class EditedMigration(MigrationError):
    """A file was changed after it had been applied."""


class MigrationGap(MigrationError):
    """A number is missing among the files."""


class NewerDatabase(MigrationError):
    """The database was migrated by a newer version of pgbudget."""


class FunctionMismatch(MigrationError):
    """The functions in the database are not those of the files."""


@dataclass(frozen=True)
class Migration:
    """One versioned file."""

    version: int
    name: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Sources:
    """The SQL that ships with this version."""

    roles: str
    migrations: tuple[Migration, ...]
    repeatable: tuple[tuple[str, str], ...]

    @classmethod
    def load(cls, migrations: Path | None = None, repeatable: Path | None = None) -> Sources:
        """Read the files, from the given folders or from where they ship (beside the package, or the checkout)."""
        here = Path(__file__).resolve().parent
        root = here.parent.parent
        versions = migrations or next(p for p in (here / "_migrations", root / "migrations") if p.is_dir())
        tree = repeatable or next(p for p in (here / "_sql", root / "sql") if p.is_dir())
        files = sorted(p for p in versions.iterdir() if _FILE.match(p.name))
        found = tuple(Migration(int(p.name[:4]), p.name, p.read_text("utf-8")) for p in files)
        for expected, migration in enumerate(found, start=1):
            if migration.version != expected:
                raise MigrationGap(f"expected migration {expected:04d}, found {migration.name}: numbers have no holes")
        parts = sorted(tree.rglob("*.sql"), key=lambda p: p.relative_to(tree).as_posix())
        return cls(
            (versions / "roles.sql").read_text("utf-8"),
            found,
            tuple((p.relative_to(tree).as_posix(), p.read_text("utf-8")) for p in parts),
        )

    @property
    def repeatable_sha256(self) -> str:
        digest = hashlib.sha256()
        for name, text in self.repeatable:
            digest.update(f"{name}\0{text}\0".encode())
        return digest.hexdigest()


@dataclass(frozen=True)
class Status:
    """Where a database stands against the files."""

    applied: tuple[str, ...]
    pending: tuple[str, ...]
    repeatable_current: bool


def status(connection: Connection, sources: Sources) -> Status:
    """What is applied and what is pending; raises :class:`MigrationError` when the two cannot be reconciled."""
    known: dict[int, tuple[str, str]] = {}
    if connection.execute("select to_regclass('budget_internal.migrations')").fetchone() != (None,):
        rows = connection.execute("select version, name, sha256 from budget_internal.migrations").fetchall()
        known = {version: (name, sha256) for version, name, sha256 in rows}
    by_version = {m.version: m for m in sources.migrations}
    repeatable = known.pop(0, ("", ""))[1]
    for version, (name, sha256) in sorted(known.items()):
        migration = by_version.get(version)
        if migration is None:
            newest = max(by_version, default=0)
            if version > newest:
                raise NewerDatabase(
                    f"the database has migration {name}, this version of pgbudget ends at {newest:04d}: upgrade pgbudget"
                )
            raise MigrationGap(f"migration {name} was applied, but its file is gone: restore it")
        if migration.sha256 != sha256:
            raise EditedMigration(f"{migration.name} was edited after it had been applied: restore it, add a new file")
    for version in range(1, max(known, default=0)):
        if version not in known:
            raise MigrationGap(f"the database skipped migration {version:04d}: it was not made by this runner")
    return Status(
        applied=tuple(known[v][0] for v in sorted(known)),
        pending=tuple(m.name for m in sources.migrations if m.version not in known),
        repeatable_current=repeatable == sources.repeatable_sha256,
    )


def up(connection: Connection, sources: Sources | None = None) -> tuple[str, ...]:
    """Bring a database up to date; returns the names of what was applied. Safe to run from any number of places.

    ``connection`` must be in autocommit mode and its user a superuser or a member of ``budget_migrator`` that may
    create roles; everything made belongs to ``budget_owner``.
    """
    sources = sources or Sources.load()
    _lock(connection)
    try:
        _make_roles(connection, sources.roles)
        with connection.transaction():
            connection.execute("set local role budget_owner")
            connection.execute(_BOOKKEEPING)
        state = status(connection, sources)
        pending = [m for m in sources.migrations if m.name in state.pending]
        for migration in pending:
            with connection.transaction():
                connection.execute("set local role budget_owner")
                _run(connection, migration.name, migration.text)
                _record(connection, migration.version, migration.name, migration.sha256)
        applied = tuple(m.name for m in pending)
        if pending or not state.repeatable_current:
            with connection.transaction():
                connection.execute("set local role budget_owner")
                # Bodies may name functions of files that come later; plpgsql_check reads them in the lint.
                connection.execute("set local check_function_bodies = off")
                for name, text in sources.repeatable:
                    _run(connection, f"sql/{name}", text)
                _record(connection, 0, "sql", sources.repeatable_sha256)
                check_functions(connection, sources)
            applied += ("sql",)
        else:
            check_functions(connection, sources)
        return applied
    finally:
        connection.execute("select pg_advisory_unlock(%s)", (_LOCK,))


def check_functions(connection: Connection, sources: Sources) -> None:
    """Compare pg_proc with the files: no overload left over, no attribute dropped by ``create or replace``."""
    expected: dict[str, list[_Attributes]] = {}
    for path, text in sources.repeatable:
        for match in _FUNCTION.finditer(text):
            name, head = f"{match[1]}.{match[2]}", match[3].lower()
            settings = sorted(f"{key}={value.replace(chr(39), '')}" for key, value in _SETTING.findall(head))
            expected.setdefault(name, []).append(("security definer" in head, settings))
            if path.rsplit("/", 1)[-1] != f"{match[2]}.sql":
                raise FunctionMismatch(f"sql/{path} defines {name}: a file is named after its one function")
    actual: dict[str, list[_Attributes]] = {}
    for name, definer, settings in connection.execute(
        "select n.nspname || '.' || p.proname, p.prosecdef, coalesce(p.proconfig, '{}')"
        " from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace"
        " where n.nspname in ('budget', 'budget_internal')"
    ):
        actual.setdefault(name, []).append((definer, sorted(settings)))
    problems = [
        f"{name}: the files define {_describe(expected.get(name))}, the database has {_describe(actual.get(name))}"
        for name in sorted(expected.keys() | actual.keys())
        if sorted(expected.get(name, [])) != sorted(actual.get(name, []))
    ]
    if problems:
        raise FunctionMismatch(
            "; ".join(problems) + ". A changed signature or a removed function needs a migration that drops the old one"
        )


def _describe(functions: list[_Attributes] | None) -> str:
    described = (", ".join(["definer"] * definer + settings) or "plain" for definer, settings in sorted(functions or []))
    return f"{len(functions or [])} of that name ({'; '.join(described)})" if functions else "none"


def dump(sources: Sources | None = None) -> str:
    """All of it as one script for ``psql -v ON_ERROR_STOP=1``, for a fresh database; the runner takes over later."""
    sources = sources or Sources.load()
    parts = [sources.roles, "begin;", "set local role budget_owner;", _BOOKKEEPING]
    record = "insert into budget_internal.migrations (version, name, sha256) values ({}, '{}', '{}');"
    for migration in sources.migrations:
        parts += [
            f"-- migrations/{migration.name}",
            migration.text,
            record.format(migration.version, migration.name, migration.sha256),
        ]
    parts.append("set local check_function_bodies = off;")
    parts += [f"-- sql/{name}\n{text}" for name, text in sources.repeatable]
    parts += [record.format(0, "sql", sources.repeatable_sha256), "commit;", ""]
    return "\n".join(parts)


def _lock(connection: Connection) -> None:
    # Tried, not waited for: a waiting statement would hold a snapshot open. Roles are shared by the whole cluster, and
    # advisory locks are not, so what the lock cannot keep apart the role script survives.
    while connection.execute("select pg_try_advisory_lock(%s)", (_LOCK,)).fetchone() != (True,):
        time.sleep(0.05)


def _make_roles(connection: Connection, text: str) -> None:
    # Runners on other databases of this cluster write the same rows; the loser of such a race just looks again.
    for attempt in range(20):
        try:
            connection.execute(sql.SQL(text))
            return
        except (psycopg.errors.InternalError_, psycopg.errors.UniqueViolation):
            if attempt == 19:
                raise
            time.sleep(0.05)


def _run(connection: Connection, name: str, text: str) -> None:
    try:
        connection.execute(sql.SQL(text))
    except psycopg.Error as error:
        raise MigrationError(f"{name}: {error}") from error


def _record(connection: Connection, version: int, name: str, sha256: str) -> None:
    connection.execute(
        "insert into budget_internal.migrations (version, name, sha256) values (%s, %s, %s)"
        " on conflict (version) do update set sha256 = excluded.sha256, applied_at = clock_timestamp()",
        (version, name, sha256),
    )
