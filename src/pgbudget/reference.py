"""The API reference, made from the comments of the database: ``python -m pgbudget.reference <dsn>`` prints it."""

from __future__ import annotations

import sys
from typing import Any

import psycopg


def reference(connection: psycopg.Connection[Any]) -> str:
    """The functions and views of schema ``budget`` as Markdown, with who may use them."""
    roles = "select rolname from pg_roles where rolname ~ '^budget_(gateway|reconciler|reader|admin)$' order by 1"
    names = [row[0] for row in connection.execute(roles)]
    lines = ["# API reference", "", "Made from the database's own comments: `make docs`.", "", "## Functions", ""]
    functions = connection.execute(
        "select p.oid, p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), obj_description(p.oid)"
        " from pg_proc p where p.pronamespace = 'budget'::regnamespace order by 2, 3"
    ).fetchall()
    for oid, name, arguments, result, comment in functions:
        users = _users(connection, names, "has_function_privilege(%s, %s::oid, 'execute')", oid)
        # A procedure gives nothing back.
        signature = [f"    budget.{name}({arguments})", *([] if result is None else [f"      -> {result}"])]
        lines += [f"### {name}", "", *signature, "", comment, "", users, ""]
    lines += ["## Views", ""]
    views = connection.execute(
        "select c.oid, c.relname, obj_description(c.oid), (select string_agg(a.attname, ', ' order by a.attnum)"
        " from pg_attribute a where a.attrelid = c.oid and a.attnum > 0)"
        " from pg_class c where c.relnamespace = 'budget'::regnamespace and c.relkind = 'v' order by 2"
    ).fetchall()
    for oid, name, comment, columns in views:
        users = _users(connection, names, "has_table_privilege(%s, %s::oid, 'select')", oid)
        lines += [f"### {name}", "", comment, "", f"Columns: {columns}.", "", users, ""]
    return "\n".join(lines)


def _users(connection: psycopg.Connection[Any], roles: list[str], check: str, oid: int) -> str:
    may = [role for role in roles if connection.execute(f"select {check}".encode(), (role, oid)).fetchone() == (True,)]
    return f"For: {', '.join(may) or 'superusers'}."


if __name__ == "__main__":
    with psycopg.connect(sys.argv[1], autocommit=True) as _connection:
        sys.stdout.write(reference(_connection))
