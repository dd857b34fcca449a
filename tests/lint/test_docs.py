"""The documents say what is so."""

from __future__ import annotations

import os
import re
from pathlib import Path

import psycopg

from pgbudget.errors import STATUS
from pgbudget.reference import reference
from tests.support.world import World

DOCS = Path(__file__).parents[2] / "docs"


def test_the_api_reference_is_what_the_database_says(world: World) -> None:
    with psycopg.connect(world.dsn, autocommit=True) as connection:
        text = reference(connection)
    if os.environ.get("PGBUDGET_WRITE_DOCS"):
        (DOCS / "api.md").write_text(text)
    assert (DOCS / "api.md").read_text() == text, "run: make docs"


def test_every_code_is_explained() -> None:
    text = (DOCS / "gateway.md").read_text()
    for code, (status, _) in STATUS.items():
        if code not in ("rate_limit_exceeded", "tokens_limit_exceeded"):
            row = next(line for line in text.splitlines() if line.startswith("|") and f"`{code}`" in line)
            assert str(status) in row


def test_every_setting_is_documented() -> None:
    config = (Path(__file__).parents[2] / "src" / "pgbudget" / "config.py").read_text()
    text = (DOCS / "gateway.md").read_text()
    for name in re.findall(r"^    PGBUDGET_([A-Z_]+) ", config, re.M):
        assert name.removeprefix("ACCOUNT_") in text.replace("`_", "`PGBUDGET_"), name


def test_the_sql_guide_runs_as_it_stands(world: World) -> None:
    """Every block of docs/sql.md, in order, by psql's rules for the few that it uses."""
    variables: dict[str, str] = {}
    ran = 0
    refused: list[str | None] = []
    for block in re.findall(r"```sql\n(.*?)```", (DOCS / "sql.md").read_text(), re.S):
        for statement in re.findall(r".*?(?:;[^\n]*|\\gset)\n", block, re.S):
            query, gset = statement.rsplit("\\gset", 1)[0], "\\gset" in statement
            for name, value in variables.items():
                query = query.replace(f":'{name}'", f"'{value}'").replace(f":{name},", f"{value},")
            # The three ends of a call exclude each other: the second and third are refused, as the text says.
            rows = []
            try:
                rows = world.rows(query.split(";")[0] if not gset else query)
                ran += 1
            except psycopg.Error as error:
                refused.append(error.sqlstate)
            if gset:
                variables |= {name: str(value) for name, value in rows[0].items()}
    assert ran >= 15
    assert set(refused) <= {"LB302"}
    assert world.verify() == []
