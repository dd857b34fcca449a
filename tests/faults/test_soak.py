"""The short form of ``bench/soak.py``: random traffic, two gateways and Postgres killed in turn, right books at the end."""

from __future__ import annotations

from bench import support
from bench.soak import Plan, soak

from tests.support import servers


def test_a_short_soak_with_kills_leaves_right_books() -> None:
    server = "15" if servers.binaries().parent == servers.DEBIAN_15 else "18"
    plan = Plan(seconds=24, kill_every=6, stale_seconds=4, heartbeat_seconds=1, reconcile_seconds=1, clients=8)
    with support.cluster(server) as postgres:
        result = soak(postgres, postgres.dsn("bench"), plan)
    assert result["failures"] == []
    assert result["kills"] == {"gateway": 2, "Postgres": 1}
    # It was a soak: calls ended in all the ways that matter.
    assert result["outcomes"].keys() >= {"answered", "streamed", "refused"}
    assert "budget_exceeded" in result["refusals"]
    assert result["calls_compared"] > 100
    assert result["provisional"] > 0
