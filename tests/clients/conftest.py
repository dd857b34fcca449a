"""Clients, started when they are first asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.clients.support import Program


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a client stand together, so that few workers load it."""

    def program(item: pytest.Item) -> str:
        return str(item.callspec.params["desk"].program)  # type: ignore[attr-defined]

    places = [place for place, item in enumerate(items) if "desk" in getattr(item, "fixturenames", ())]
    for place, item in zip(places, sorted((items[place] for place in places), key=program), strict=True):
        items[place] = item


@pytest.fixture(scope="session")
def program() -> Iterator[Callable[[str], Program]]:
    """The running client of that name."""
    running: dict[str, Program] = {}

    def start(name: str) -> Program:
        if name not in running or not running[name].runs:
            running[name] = Program(name)
        return running[name]

    yield start
    for each in running.values():
        each.stop()
