"""Calls of one key at once: as many as may, others unharmed, and none counted that has ended."""

from __future__ import annotations

import contextlib

import pytest

from pgbudget.errors import TooManyCalls
from pgbudget.key_limits import KeyLimits


def test_one_more_than_may_is_refused_until_one_ends() -> None:
    limits = KeyLimits(2)
    with limits.call("a"):
        with limits.call("a"):
            with pytest.raises(TooManyCalls) as refused, limits.call("a"):
                raise AssertionError("let in")
            with limits.call("b"):
                pass
        with limits.call("a"):
            pass
    error = refused.value
    assert (error.status, error.code) == (429, "too_many_calls")
    assert dict(error.headers()) == {b"x-pgbudget-error-source": b"gateway", b"retry-after": b"1"}


def test_a_call_ends_however_it_ends() -> None:
    limits = KeyLimits(1)
    for fault in (ValueError, KeyboardInterrupt, GeneratorExit):
        with contextlib.suppress(fault), limits.call("a"):
            raise fault
    with limits.call("a"):
        pass


def test_a_refused_call_takes_no_place() -> None:
    limits = KeyLimits(1)
    with limits.call("a"):
        for _ in range(3):
            with pytest.raises(TooManyCalls), limits.call("a"):
                pass
    with limits.call("a"):
        pass


def test_keys_without_calls_are_forgotten() -> None:
    limits = KeyLimits(1)
    for i in range(100):
        with limits.call(str(i)):
            pass
    assert limits.keys() == 0


def test_zero_is_no_limit() -> None:
    limits = KeyLimits(0)
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(limits.call("a"))
