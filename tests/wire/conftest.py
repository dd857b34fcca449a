"""The proxy with a price for every unit, in front of recorded bodies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.processes import Gateway, Simulator
from tests.support.world import World
from tests.wire import replay


@pytest.fixture
def priced(world: World) -> World:
    """A database as :func:`replay.set_up` leaves it."""
    replay.set_up(world)
    return world


@pytest.fixture
def replaying(priced: World, simulator: Simulator) -> Iterator[Gateway]:
    """A gateway on it."""
    with replay.gateway_for(priced, simulator) as running:
        yield running
