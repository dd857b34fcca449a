"""Clients, started when they are first asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.clients.support import Program


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
