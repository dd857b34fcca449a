"""Requests, the ways in which they may be granted, and answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from tests.model.reference.budgets import Budget
from tests.model.reference.calendar import Window
from tests.model.reference.tree import Scope

DEFAULT_OUTPUT = 8192


@dataclass(frozen=True)
class RunOption:
    """The run that a request names."""

    id: str
    ceiling: int | None = None
    steps: int | None = None


@dataclass(frozen=True)
class Request:
    """One item of a batch."""

    key: str
    model: str = "t-mini"
    input_tokens: int | None = 100
    output_tokens: int | None = 200
    choices: int = 1
    features: frozenset[str] = frozenset()
    request_id: str | None = None
    body: str = "h"
    holder: str | None = None
    run: RunOption | None = None
    #: A tighter bound of the input, for keys that count tokens.
    tokenizer: int | None = None


@dataclass(frozen=True)
class Rung:
    """A step of a ladder: changes of the request, or ``wait`` seconds, or ``refuse``."""

    name: str
    model: str | None = None
    output_tokens: int | None = None
    features_off: frozenset[str] = frozenset()
    wait: int | None = None
    refuse: bool = False


@dataclass(frozen=True)
class Way:
    """One way to grant a request: as it is asked for, with the tighter bound, or as a rung has it."""

    model: str
    input_tokens: int | None
    features: frozenset[str]
    output_cap: int | None = None
    rung: Rung | None = None


@dataclass
class KeySettings:
    """What a key allows."""

    disabled: bool = False
    allowed_models: frozenset[str] | None = None
    ceiling: int | None = None
    default_output: int | None = None
    max_output: int | None = None
    tokenizer: bool = False
    allow_unpriced: bool = False
    run_ceiling: int | None = None
    run_steps: int | None = None


@dataclass
class Policy:
    """Settings of the org."""

    check_unknown: bool = False
    require_output: bool = False


@dataclass
class Slot:
    """A budget that applies, with its numbers as they are. ``steps_left`` null: any number."""

    budget: Budget
    window: Window
    limit: int | None
    spent: int
    held: int
    steps_left: int | None


@dataclass
class Plan:
    """A way, worked out: what it would cost and what it would count against."""

    way: Way
    input_tokens: int
    output_tokens: int
    cost: int | None
    slots: list[Slot]
    accounts: list[str]
    #: The run that is there already.
    fits_around: bool = False


@dataclass
class Answer:
    """What a reserve says. Scopes: of the budget, or one of those whose rate limit is full."""

    status: str
    code: str | None = None
    id: str | None = None
    reserved: int | None = None
    output_tokens: int | None = None
    rung: str | None = None
    scopes: list[Scope] = field(default_factory=list)
    budget: str | None = None
    limit: int | None = None
    spent: int | None = None
    held: int | None = None
    resets_at: datetime | None = None
    #: A range, both ends included; null: waiting does not help.
    retry_after: tuple[int, int] | None = None
