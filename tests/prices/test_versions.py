"""Versions under way: reviews at once, calls that run, models that cannot be priced."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg

from pgbudget.prices import store
from tests.support.world import World


def _add(world: World, usd: str, begins: str) -> int:
    rates = json.dumps([{"kind": "input", "usd": usd}, {"kind": "output", "usd": usd}])
    return int(world.value("select budget.add_price('x', 'm', %s, %s)", rates, begins))


def test_reviews_at_once_leave_versions_end_to_end(world: World) -> None:
    world.execute("select budget.set_model('x', 'm', null, null)")
    ids = [_add(world, str(n + 1), f"2026-{n + 1:02}-01T00:00:00Z") for n in range(8)]
    start = Barrier(8)

    def review(price_id: int) -> None:
        with world.connect() as connection:
            start.wait()
            connection.execute("select budget.review_price(%s, 'me')", (price_id,))

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(review, i) for i in ids]:
            done.result()
    rows = world.rows("select effective_from, effective_to from budget.price_list where provider = 'x' order by 1")
    assert [row["effective_to"] for row in rows] == [*(row["effective_from"] for row in rows[1:]), None]


def test_two_reviews_of_one_version_put_it_in_force_once(world: World) -> None:
    world.execute("select budget.set_model('x', 'm', null, null)")
    price_id = _add(world, "1", "2026-01-01T00:00:00Z")
    start = Barrier(6)

    def review(name: str) -> str:
        with world.connect() as connection:
            start.wait()
            try:
                connection.execute("select budget.review_price(%s, %s)", (price_id, name))
            except psycopg.Error as error:
                return str(error.sqlstate)
        return name

    with ThreadPoolExecutor(6) as pool:
        outcomes = [f.result() for f in [pool.submit(review, f"r{n}") for n in range(6)]]
    assert outcomes.count("LB101") == 5
    assert world.value("select reviewed_by from budget.price_list where price_id = %s", price_id) in outcomes


def test_every_shipped_model_can_be_called(world: World) -> None:
    """Each has what a hold needs: a price for what a request without features may use, or it writes nothing."""
    with psycopg.connect(world.dsn, autocommit=True) as connection:
        assert store.seed(connection).prices >= 150
        assert store.seed(connection).prices == 0, "a second time adds nothing"
    unpriced = world.rows(
        "select provider, model, rates from budget.price_list where provider <> 'simulator' and budget_internal.worst_case("
        " price_id, 'standard', 1000, least(8192, max_output_tokens), '{}', '2026-11-30T12:00:00Z') is null"
    )
    # Transcription by the second, pages, and speech alone are priced by a unit that a request must ask for.
    fees = {"audio_seconds", "pages", "audio_in", "audio_out", "image_out"}
    assert [row["model"] for row in unpriced if not fees & {rate["kind"] for rate in row["rates"]}] == []
    assert world.verify() == []
