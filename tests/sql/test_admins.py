"""Admins at once on one tree, and faults put into what keeps them apart: each must turn a probe red."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import psycopg
import pytest

from tests.sql.test_mutants import Change, Mutant, mutant
from tests.support.world import Row, World

UNITS = [f"u{number}" for number in range(6)]
KEYS = [f"k{number}" for number in range(4)]
TAGS = ["t0", "t1", "t2"]
PROJECTS = ["p", "q"]


def _execute(connection: psycopg.Connection[Row], statement: str, arguments: list[Any] | None = None) -> None:
    """Run it; to be refused as invalid is an outcome, anything else is a fault."""
    try:
        connection.execute(statement.encode(), arguments)
    except psycopg.Error as error:
        if error.sqlstate != "LB101":
            raise


def _change(connection: psycopg.Connection[Row], org: str, draw: random.Random) -> None:
    """One change of the tree by chance; what cannot be is refused as invalid, and nothing else goes wrong."""
    unit, key, project, tag = draw.choice(UNITS), draw.choice(KEYS), draw.choice(PROJECTS), draw.choice(TAGS)
    parent = ("project", project) if draw.random() < 0.3 else ("unit", draw.choice(UNITS))
    place = {"unit": draw.choice([None, unit]), "tags": draw.sample(TAGS, draw.randrange(3))}
    statement, *arguments = draw.choices(
        [
            ("select budget.create_scope(%s, 'unit', %s, %s, %s)", org, unit, *parent),
            ("select budget.move_scope(%s, 'unit', %s, %s, %s)", org, unit, *parent),
            ("select budget.delete_scope(%s, 'unit', %s)", org, unit),
            ("select budget.create_key(%s, %s, %s, %s)", org, project, key, json.dumps(place)),
            ("select budget.move_key(%s, %s, %s)", org, key, json.dumps(place | {"project": project})),
            ("select budget.move_key(%s, %s, %s)", org, key, json.dumps(place)),
            ("select budget.delete_scope(%s, 'key', %s)", org, key),
            ("select budget.rename_scope(%s, 'tag', %s, %s)", org, tag, draw.choice(TAGS)),
            ("select budget.rotate_key(%s, %s, '1 hour')", org, key),
        ],
        [4, 8, 1, 4, 2, 4, 1, 2, 1],
    )[0]
    _execute(connection, statement, arguments)


def admins_at_once(world: World) -> None:
    """Whatever four admins do at once, the tree is one, and every key's chain is what the tree says."""
    org = world.org()
    world.execute("select budget.create_scope(%s, 'project', 'q')", org)
    for tag in TAGS:
        world.execute("select budget.create_scope(%s, 'tag', %s)", org, tag)
    start = Barrier(4)

    def admin(number: int) -> None:
        draw = random.Random(number)
        with world.connect() as connection:
            start.wait()
            for _ in range(60):
                _change(connection, org, draw)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(admin, range(4)))
    assert world.value("select count(*) from budget_internal.keys") > 0
    assert world.verify() == []
    assert (
        world.rows("""
      select s.name
      from budget_internal.scopes s
      left join budget_internal.scopes p on p.scope_id = s.parent_id
      left join lateral budget_internal.unit_place(s.org_id, s.scope_id) u on s.kind = 'unit'
      where s.deleted_at is null and s.kind in ('unit', 'key')
        and (p.deleted_at is not null or (s.kind = 'unit' and coalesce(u.depth, 9) > 4))
    """)
        == []
    ), "a unit too deep, in a cycle, or something under what is gone"
    assert (
        world.rows("""
      select s.name
      from budget_internal.keys k
      join budget_internal.scopes s on s.scope_id = k.key_id and s.deleted_at is null
      join budget_internal.scopes u on u.scope_id = k.unit_id
      where u.deleted_at is not null or (budget_internal.unit_place(k.org_id, k.unit_id)).project_id <> k.project_id
    """)
        == []
    ), "a key whose unit is gone or in another project"


def a_key_and_its_unit_move_at_once(world: World) -> None:
    """A key is moved into a unit while that is moved: its chain has the place that the unit went to."""
    org = world.org()
    for name in ("z", "b", "c"):
        world.execute("select budget.create_scope(%s, 'unit', %s, 'project', 'p')", org, name)
    world.execute("select budget.create_key(%s, 'p', 'k')", org)
    moves = [
        (
            "select budget.move_scope(%s, 'unit', 'b', 'unit', 'z')",
            """select budget.move_key(%s, 'k', '{"unit": "b"}')""",
        ),
        (
            "select budget.move_scope(%s, 'unit', 'b', 'project', 'p')",
            """select budget.move_key(%s, 'k', '{"unit": "c"}')""",
        ),
    ]
    with ThreadPoolExecutor(2) as pool, world.connect() as one, world.connect() as other:
        for turn in range(8):
            list(pool.map(_execute, (one, other), moves[turn % 2], ([org], [org])))
            # Each time: the next move would put right what this one left wrong.
            assert world.verify() == []


def test_a_key_and_its_unit_move_at_once(world: World) -> None:
    a_key_and_its_unit_move_at_once(world)


def test_whatever_admins_do_at_once_the_tree_is_one(world: World) -> None:
    admins_at_once(world)


def test_a_route_never_leads_to_an_account_that_is_gone(world: World) -> None:
    """Routes and the deletion of their account at once: one of the two is refused, or the account is made anew."""
    start = Barrier(2)

    def call(statement: str) -> None:
        with world.connect() as connection:
            start.wait()
            for _ in range(40):
                _execute(connection, statement)

    with ThreadPoolExecutor(2) as pool:
        list(
            pool.map(
                call,
                [
                    "select budget.set_route(null, 'm', 'prov', 'acct'); select budget.set_routes(null, 'm', '[]');"
                    " select budget.set_route(null, 'm', 'prov', 'acct')",
                    "select budget.delete_scope(null, 'account', 'acct')",
                ],
            )
        )
    assert (
        world.rows(
            "select r.route_id from budget_internal.routes r join budget_internal.scopes a on a.scope_id = r.account_id"
            " where a.deleted_at is not null"
        )
        == []
    )


def test_a_change_that_fails_leaves_no_trace(world: World) -> None:
    """A change that is rolled back is not in the audit log, and one that is refused neither."""
    org = world.org()
    before = world.value("select count(*) from budget.audit")
    with pytest.raises(psycopg.Error):
        world.execute("select budget.create_key(%s, 'p', 'k', '{\"tags\": [\"nobody\"]}')", org)
    with world.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute("select budget.create_key(%s, 'p', 'k')", (org,))
    assert world.value("select count(*) from budget.audit") == before


def one_admin(world: World) -> None:
    """What one admin may rely on."""
    org = world.org()
    for statement in (
        "select budget.create_scope(%(org)s, 'tag', 'a'), budget.create_scope(%(org)s, 'tag', 'b')",
        "select budget.create_scope(%(org)s, 'project', 'q'), budget.create_scope(%(org)s, 'unit', 'u', 'project', 'p')",
        "select budget.create_scope(%(org)s, 'unit', 'v', 'unit', 'u'), budget.create_scope(%(org)s, 'unit', 'w', 'unit', 'v')",
        """select budget.create_key(%(org)s, 'p', 'k', '{"tags": ["a", "b"], "unit": "w"}')""",
        "select budget.rename_scope(%(org)s, 'tag', 'a', 'c')",
        "select budget.move_scope(%(org)s, 'unit', 'v', 'project', 'p')",
        "select budget.rotate_key(%(org)s, 'k', '1 hour')",
    ):
        world.connection.execute(statement, {"org": org})
        assert world.verify() == [], statement
    for refused in (
        "select budget.move_scope(%(org)s, 'unit', 'v', 'unit', 'w')",
        "select budget.move_scope(%(org)s, 'unit', 'v', 'project', 'q')",
        """select budget.move_key(%(org)s, 'k', '{"project": "q"}')""",
        "select budget.delete_scope(%(org)s, 'unit', 'w')",
        "select budget.delete_scope(%(org)s, 'tag', 'b')",
        "select budget.rotate_key(%(org)s, 'k', '1 hour')",
    ):
        with pytest.raises(psycopg.Error) as caught:
            world.connection.execute(refused, {"org": org})
        assert caught.value.sqlstate == "LB101", refused


LOCK = "30_scope/lock_org.sql"
MOVE = "30_scope/move_scope.sql"
#: Time between what is written and the commit.
SLOW: Change = (MOVE, "\nend\n$$;", "\n  perform pg_sleep(0.1);\nend\n$$;")
MUTANTS = [
    mutant("admins are not kept apart", a_key_and_its_unit_move_at_once, SLOW, (LOCK, "  for no key update;", "  ;")),
    mutant(
        "a tag's new name does not move it in the chain",
        one_admin,
        ("30_scope/rename_scope.sql", "if p_kind = 'tag' then", "if false then"),
    ),
    mutant(
        "chains do not follow a unit",
        one_admin,
        (MOVE, "where k.unit_id = any (v_unit_ids)\n  ));", "where false\n  ));"),
    ),
    mutant(
        "chains follow only the unit that moves",
        one_admin,
        (MOVE, "where k.unit_id = any (v_unit_ids)\n  ));", "where k.unit_id = v_unit.scope_id\n  ));"),
    ),
    mutant("a unit may be under itself", one_admin, (MOVE, "if v_parent.parent_id = any (v_unit_ids) then", "if false then")),
    mutant("keys follow a unit out of their project", one_admin, (MOVE, "and v_keys > 0 then", "and false then")),
    mutant(
        "a key may be in a unit of another project",
        one_admin,
        ("30_scope/place_key.sql", "<> v_key.project_id then", "<> v_key.project_id and false then"),
    ),
    mutant(
        "a scope with keys beneath can be deleted",
        one_admin,
        ("30_scope/scope_beneath.sql", "when 'unit' then k.unit_id = p_scope_id", "when 'unit' then false"),
    ),
    mutant(
        "a tag that a key carries can be deleted",
        one_admin,
        ("30_scope/scope_beneath.sql", "t.tag_id = p_scope_id)", "t.tag_id = 0)"),
    ),
    mutant("a third secret works", one_admin, ("30_scope/rotate_key.sql", ") > 1 then", ") > 2 then")),
]


@pytest.mark.tests_of_tests
@pytest.mark.parametrize("fault", MUTANTS, ids=lambda fault: fault.name)
def test_a_fault_is_seen(world: World, fault: Mutant) -> None:
    fault.apply(world)
    try:
        fault.probe(world)
    except (AssertionError, psycopg.Error, pytest.fail.Exception):
        return
    pytest.fail(f"{fault.probe.__name__} stays green over: {fault.name}")


def test_the_probe_of_one_admin_is_green(world: World) -> None:
    one_admin(world)
