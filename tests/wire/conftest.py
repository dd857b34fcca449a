"""The proxy with a price for every unit, in front of recorded bodies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.processes import Gateway, Simulator
from tests.support.world import World
from tests.wire import replay


@pytest.fixture(scope="session")
def priced(shared_world: World) -> World:
    """The shared database, as :func:`replay.set_up` leaves it."""
    replay.set_up(shared_world)
    return shared_world


@pytest.fixture(scope="session")
def replaying(priced: World, _simulator: Simulator) -> Iterator[Gateway]:
    """A gateway on it."""
    with replay.gateway_for(priced, _simulator) as running:
        yield running
