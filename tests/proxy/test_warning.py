"""The header that says when a budget is nearly used up. The database decides. Micro-dollars."""

from __future__ import annotations

from tests.proxy.calls import STANDARD, STREAMED, settled
from tests.support.processes import Gateway, Simulator
from tests.support.world import World

HEADER = "x-pgbudget-budget-warning"


@STREAMED
def test_a_call_says_which_budget_is_most_used(world: World, gateway: Gateway, simulator: Simulator, stream: bool) -> None:
    org = world.org()
    key = world.key(10**6, org=org)
    # Soft: what it says is all that it does. Thresholds are 80 and 100 percent.
    world.budget(org, "project", "p", 2 * STANDARD, enforcement="soft")
    world.budget(org, "org", org, 10 * STANDARD, enforcement="soft", thresholds=[5])

    def warning() -> str | None:
        answer = gateway.chat(key, stream=stream)
        assert answer.status_code == 200
        said: str | None = answer.headers.get(HEADER)
        return said

    assert warning() is None
    assert len(settled(world, key, 1)) == 1
    # The project is at half its limit, below its threshold; the org at a tenth, above its own.
    assert warning() == f"org {org}/day: 10% of {10 * STANDARD / 1e6:g} USD used"
    assert len(settled(world, key, 2)) == 2
    assert warning() == f"project p/day: 100% of {2 * STANDARD / 1e6:g} USD used"
    world.execute("select budget.delete_budget(%s, 'project', 'p', 'day')", org)
    assert len(settled(world, key, 3)) == 3
    assert warning() == f"org {org}/day: 30% of {10 * STANDARD / 1e6:g} USD used"
