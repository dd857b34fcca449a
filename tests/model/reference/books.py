"""The whole: a tree with budgets, limits and runs, the calls of its keys, and what is decided of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from tests.model.reference import prices
from tests.model.reference.admission import (
    DEFAULT_OUTPUT,
    Answer,
    KeySettings,
    Plan,
    Policy,
    Request,
    Rung,
    RunOption,
    Slot,
    Way,
)
from tests.model.reference.budgets import Budget, Period, violations
from tests.model.reference.calendar import Window
from tests.model.reference.calls import At, Call, Report
from tests.model.reference.tree import Place, Refused, Scope, Tree

STALE = timedelta(seconds=90)
MOST_BUDGETS = 10
MINUTE = timedelta(minutes=1)
#: What a ladder is for.
DOES_NOT_FIT = ("tokens_limit_exceeded", "request_over_limit", "budget_exceeded", "budget_busy")
FOR_EVER = Window(None, None)


@dataclass
class Rate:
    """Requests and tokens a minute."""

    requests: int | None
    tokens: int | None


@dataclass
class Run:
    """A run; its budget has one period."""

    key: str
    name: str
    budget: Budget
    parent: Run | None = None
    ended: bool = False


@dataclass
class Verdict:
    """Whether a plan fits: a code when it does not, else the output allowance and its cost."""

    code: str | None
    output_tokens: int = 0
    cost: int | None = None
    slot: Slot | None = None
    rates: list[Scope] = field(default_factory=list)


class Books:
    """The reference."""

    def __init__(self, tree: Tree, now: datetime) -> None:
        self.tree = tree
        self.now = now
        self.budgets: list[Budget] = []
        self.calls: list[Call] = []
        self.runs: list[Run] = []
        self.rates: dict[Scope, Rate] = {}
        self.ladders: dict[Scope, list[Rung]] = {}
        self.settings: dict[str, KeySettings] = {key: KeySettings() for key in tree.keys}
        self.policy = Policy()

    # What is spent, held, used.

    def spent(self, budget: Budget, start: datetime | None, *, in_force: bool = False) -> int:
        """What a period has spent; in force: without what a reset has forgiven."""
        return sum(
            call.charged
            for call in self.calls
            if (budget, start) in call.charged_to and not (in_force and (budget.id, start) in call.forgiven)
        )

    def held(self, budget: Budget, start: datetime | None) -> int:
        """What open calls hold of a period, and of a run the runs that were carved from it."""
        holds = sum(call.reserved for call in self.calls if call.state == "open" and (budget, start) in call.held)
        return holds + sum(self.carve(run) for run in self.runs if run.parent is not None and run.parent.budget is budget)

    def open_holds(self, budget: Budget, start: datetime | None) -> int:
        """How many calls hold something of a period."""
        return sum(call.state == "open" and (budget, start) in call.held for call in self.calls)

    def carve(self, run: Run) -> int:
        """What a run has left of the ceiling that it was carved with; once it has ended, what its calls hold."""
        held = self.held(run.budget, None)
        if run.ended:
            return held
        return max((run.budget.limit or 0) - self.spent(run.budget, None), held)

    def minute(self) -> datetime:
        """The current minute."""
        return self.now.replace(second=0, microsecond=0)

    def used(self, scope: Scope) -> tuple[int, int]:
        """Requests and tokens of a key or project in the current minute."""
        calls = [call for call in self.calls if scope in call.rates and call.at >= self.minute()]
        return sum(call.was_sent for call in calls), sum(call.used_tokens for call in calls)

    def unit_months(self) -> dict[tuple[str, str], int]:
        """What the calls of a month have cost each unit that they were admitted under."""
        found: dict[tuple[str, str], int] = defaultdict(int)
        for call in self.calls:
            for unit in call.units:
                found[unit, f"{call.at:%Y-%m}"] += call.charged
        return {at: amount for at, amount in found.items() if amount}

    def live(self, scope: Scope) -> list[Budget]:
        """The budgets of a scope, in the order in which they were made."""
        return sorted((b for b in self.budgets if b.scope == scope and not b.deleted), key=lambda b: b.id)

    def run(self, key: str, name: str) -> Run | None:
        """A run of a key."""
        return next((run for run in self.runs if (run.key, run.name) == (key, name)), None)

    def carried(self, budget: Budget, start: datetime | None) -> int:
        """What a period takes over from the one before it: room that nothing has spent or holds, up to the cap."""
        if budget.carry_cap is None or budget.limit is None or start is None or budget.created >= start:
            return 0
        before = budget.window(start - timedelta(microseconds=1)).start
        period = budget.periods.get(before)
        if period is None:
            # Nothing happened in it: it hands on all of what it has.
            if budget.carry_cap <= budget.limit:
                return budget.carry_cap
            return min(budget.carry_cap, budget.limit + self.carried(budget, before))
        room = budget.limit + period.carried - self.spent(budget, before, in_force=True) - self.held(budget, before)
        return max(0, min(budget.carry_cap, room))

    def slot(self, budget: Budget) -> Slot:
        """A budget with its numbers as they are now."""
        window = budget.window(self.now)
        period = budget.periods.get(window.start)
        return Slot(
            budget,
            window,
            budget.limit_at(self.now, period.carried if period else self.carried(budget, window.start)),
            self.spent(budget, window.start, in_force=True),
            self.held(budget, window.start),
            None if budget.steps is None else budget.steps - (period.steps if period else 0),
        )

    # Admission.

    def reserve(self, request: Request) -> tuple[Answer, Call | None]:
        """Decide one request, and take what it is granted."""
        refusal: Answer | None = None
        for way in self._ways(request):
            plan = self._plan(request, way)
            if refusal is None:
                code = plan if isinstance(plan, str) else None
                if code not in _BEFORE_THE_ID and (earlier := self._earlier(request)):
                    return _repeat(request, earlier), None
                if code:
                    return Answer("denied", code), None
            if refusal and way.rung and (way.rung.refuse or way.rung.wait):
                if way.rung.refuse or refusal.code == "budget_busy":
                    return replace(refusal, rung=way.rung.name), None
                continue
            if isinstance(plan, str):
                continue
            verdict = self._fits(request, plan)
            if verdict.code is None:
                call = self._take(request, plan, verdict)
                return Answer("granted", None, None, call.reserved, verdict.output_tokens, call.rung), call
            if refusal is None:
                refusal = self._refusal(verdict)
                if verdict.code not in DOES_NOT_FIT:
                    break
        assert refusal is not None
        return refusal, None

    def _ways(self, request: Request) -> list[Way]:
        asked = Way(request.model, request.input_tokens, request.features)
        ways = [asked]
        if request.key not in self.tree.keys:
            return ways
        bounds = [bound for bound in (request.input_tokens,) if bound is not None]
        if self.settings[request.key].tokenizer and request.tokenizer is not None:
            bounds.append(request.tokenizer)
            if request.input_tokens is not None and request.tokenizer < request.input_tokens:
                ways.append(replace(asked, input_tokens=request.tokenizer))
        scopes: list[Scope] = [("key", request.key), ("project", self.tree.keys[request.key].project), ("org", self.tree.org)]
        ladder = next((self.ladders[scope] for scope in scopes if self.ladders.get(scope)), [])
        return ways + [
            Way(
                rung.model or request.model,
                min(bounds, default=None),
                request.features - rung.features_off,
                rung.output_tokens,
                rung,
            )
            for rung in ladder
        ]

    def _plan(self, request: Request, way: Way) -> Plan | str:
        """A way worked out, or the code of why it cannot be granted whatever is left."""
        if request.key not in self.tree.keys:
            return "invalid_key"
        key = self.settings[request.key]
        if key.disabled:
            return "key_disabled"
        routes = prices.ROUTES.get(way.model, ())
        models = [route.model for route in routes]
        run = self.run(request.key, request.run.id) if request.run else None
        slots = []
        if request.run:
            budget = run.budget if run else self._run_budget(request.key, request.run)
            if not (run and run.ended):
                slots.append(self.slot(budget))
        accounts = sorted({route.account for route in routes}, key=_ACCOUNTS.index)
        scopes = [*self.tree.chain(request.key), *(("account", account) for account in accounts)]
        for budget in (b for scope in scopes for b in self.live(scope)):
            if budget.models is None or budget.models & set(models):
                slots.append(self.slot(budget))
        if len(slots) > MOST_BUDGETS:
            return "budget_config_invalid"
        if request.run and (
            (run is not None and run.ended)
            or _above(request.run.ceiling, key.run_ceiling)
            or _above(request.run.steps, key.run_steps)
        ):
            return "invalid_request"
        if key.allowed_models is not None and way.model not in key.allowed_models:
            return "model_not_allowed"
        if not routes:
            return "model_not_found"
        strict = any(slot.budget.strict for slot in slots)
        limited = any(scope in self.rates for scope in self._rate_scopes(request.key))
        if way.input_tokens is None and (strict or key.ceiling is not None or limited):
            return "invalid_request"
        most_output = min(prices.MAX_OUTPUT[model] for model in models)
        configured = request.output_tokens if request.output_tokens is not None else key.default_output
        wanted = configured if configured is not None else min(most_output, DEFAULT_OUTPUT)
        output = min(cap for cap in (wanted, key.max_output, most_output, way.output_cap) if cap is not None)
        contexts = [prices.CONTEXT[model] for model in models]
        tokens = max(context if way.input_tokens is None else min(way.input_tokens, context) for context in contexts)
        cost = None
        if strict or key.ceiling is not None:
            cost = prices.plan_cost(way.model, tokens, output * request.choices, way.features)
        if strict and not self.policy.check_unknown:
            if cost is None and not key.allow_unpriced:
                return "model_unpriced"
            if self.policy.require_output and configured is None:
                return "output_limit_required"
        if self.policy.check_unknown and self.policy.require_output and configured is None:
            # A cap that nobody set is no bound.
            cost = None
        return Plan(way, tokens, output, cost, slots, accounts, key.allow_unpriced)

    def _run_budget(self, key: str, option: RunOption) -> Budget:
        """The budget of a run as its first call would make it."""
        settings = self.settings[key]
        ceiling = option.ceiling if option.ceiling is not None else settings.run_ceiling
        steps = option.steps if option.steps is not None else settings.run_steps
        return Budget(("run", option.id), "run", ceiling, "total", "UTC", self.now, self.now, steps=steps)

    def _rate_scopes(self, key: str) -> list[Scope]:
        scopes: list[Scope] = [("key", key), ("project", self.tree.keys[key].project)]
        return [scope for scope in scopes if scope in self.rates]

    def _fits(self, request: Request, plan: Plan) -> Verdict:
        """Whether a plan has room everywhere."""
        scopes = self._rate_scopes(request.key)
        used = {scope: self.used(scope) for scope in scopes}
        full = [s for s in scopes if (most := self.rates[s].requests) is not None and used[s][0] >= most]
        if full:
            return Verdict("rate_limit_exceeded", rates=full)
        output, cost = plan.output_tokens, plan.cost
        least = plan.input_tokens + min(1, output) * request.choices
        limits = {scope: most for scope in scopes if (most := self.rates[scope].tokens) is not None}
        full = [scope for scope, most in limits.items() if used[scope][1] + least > most]
        if full:
            never = [scope for scope in full if least > limits[scope]]
            return Verdict("request_over_limit" if never else "tokens_limit_exceeded", cost=cost, rates=never or full)
        for scope, most in limits.items():
            output = min(output, (most - used[scope][1] - plan.input_tokens) // request.choices)
        if output < plan.output_tokens and cost is not None:
            cost = prices.plan_cost(plan.way.model, plan.input_tokens, output * request.choices, plan.way.features)
        ceiling = self.settings[request.key].ceiling
        if cost is not None and _above(cost, ceiling):
            return Verdict("request_over_limit", cost=cost)
        for code, refuses in (("request_over_limit", _over), ("budget_exceeded", _exceeded), ("budget_busy", _busy)):
            for slot in plan.slots:
                if refuses(slot, cost, plan.fits_around):
                    return Verdict(code, cost=cost, slot=slot)
        return Verdict(None, output, cost)

    def _refusal(self, verdict: Verdict) -> Answer:
        answer = Answer("denied", verdict.code, scopes=verdict.rates)
        if verdict.rates:
            if verdict.code != "request_over_limit":
                answer.resets_at = self.minute() + MINUTE
                answer.retry_after = (ceil((answer.resets_at - self.now).total_seconds()),) * 2
        elif slot := verdict.slot:
            answer.scopes, answer.budget = [slot.budget.scope], slot.budget.name
            answer.limit, answer.spent, answer.held = slot.limit, slot.spent, slot.held
            answer.resets_at = slot.window.end
            if verdict.code == "budget_exceeded" and slot.window.end is not None:
                answer.retry_after = (ceil((slot.window.end - self.now).total_seconds()),) * 2
            elif verdict.code == "budget_busy":
                answer.retry_after = (1, 60)
        return answer

    def _take(self, request: Request, plan: Plan, verdict: Verdict) -> Call:
        run = None
        if request.run:
            run = self.run(request.key, request.run.id)
            if run is None:
                run = self._add_run(request.key, request.run.id, plan.slots[0].budget, None)
        held: list[At] = []
        counted: list[At] = []
        for slot in plan.slots:
            at = (slot.budget, slot.window.start)
            period = self._open(slot)
            if slot.budget.strict:
                period.steps += 1
            (held if slot.budget.strict and verdict.cost is not None else counted).append(at)
        above = run.parent if run else None
        while above is not None:
            # The run holds its ceiling there already; what it spends, they spend too.
            counted.append((above.budget, None))
            above = above.parent
        first = prices.ROUTES[plan.way.model][0].model
        place = self.tree.keys[request.key]
        call = Call(
            "",
            request.key,
            request.request_id,
            request.body,
            request.holder,
            first,
            verdict.cost,
            prices.worst_case(first, plan.input_tokens, verdict.output_tokens * request.choices, plan.way.features),
            held,
            counted,
            self.tree.line(place.unit),
            self._rate_scopes(request.key),
            plan.input_tokens + verdict.output_tokens * request.choices,
            verdict.output_tokens,
            plan.way.rung.name if plan.way.rung else None,
            self.now,
            self.now + STALE,
            request.run.id if request.run else None,
        )
        self.calls.append(call)
        return call

    def _open(self, slot: Slot) -> Period:
        budget, start = slot.budget, slot.window.start
        if start not in budget.periods:
            budget.periods[start] = Period(slot.window, self.carried(budget, start))
        return budget.periods[start]

    def _earlier(self, request: Request) -> Call | None:
        """The call that has this request id."""
        for call in self.calls:
            same = call.key == request.key and call.request_id == request.request_id is not None
            if same and call.keeps_its_id(self.now):
                return call
        return None

    # The life of calls.

    def heartbeat(self, call: Call) -> bool:
        """A call is worked on; whether it still lives."""
        if call.state != "open" or call.stale_at < self.now:
            return False
        call.stale_at = self.now + STALE
        return True

    def stale(self) -> list[Call]:
        """Calls that the reconciler would end."""
        return [call for call in self.calls if call.state == "open" and call.stale_at < self.now]

    def reconcile(self) -> int:
        """End them."""
        found = self.stale()
        for call in found:
            call.end(Report("stale"), self.now)
        return len(found)

    # Runs.

    def _add_run(self, key: str, name: str, budget: Budget, parent: Run | None) -> Run:
        self.budgets.append(budget)
        budget.periods[None] = Period(FOR_EVER, 0)
        run = Run(key, name, budget, parent)
        self.runs.append(run)
        return run

    def start_run(self, key: str, option: RunOption, parent_name: str | None) -> tuple[str, str | None]:
        """Status and code."""
        settings = self.settings.get(key)
        if key not in self.tree.keys or settings is None or settings.disabled:
            raise Refused("LB102")
        if parent_name == option.id:
            raise Refused("LB101")
        if run := self.run(key, option.id):
            return "ended" if run.ended else "running", None
        if _above(option.ceiling, settings.run_ceiling) or _above(option.steps, settings.run_steps):
            raise Refused("LB101")
        budget = self._run_budget(key, option)
        parent = None
        if parent_name is not None:
            parent = self.run(key, parent_name)
            if parent is None or parent.ended or budget.limit is None:
                raise Refused("LB101")
            slot = self.slot(parent.budget)
            if slot.limit is not None and budget.limit > slot.limit - slot.spent:
                return "denied", "budget_exceeded"
            if slot.limit is not None and budget.limit > slot.limit - slot.spent - slot.held:
                return "denied", "budget_busy"
        self._add_run(key, option.id, budget, parent)
        return "started", None

    def end_run(self, key: str, name: str) -> Run:
        """End a run and those carved from it."""
        if key not in self.tree.keys or self.settings[key].disabled:
            raise Refused("LB102")
        run = self.run(key, name)
        if run is None:
            raise Refused("LB101")
        ending = [run]
        for ended in ending:
            ending += [child for child in self.runs if child.parent is ended]
            ended.ended = ended.budget.deleted = True
        return run

    # Configuration.

    def _checked(self) -> set[tuple[str, ...]]:
        return violations(self.tree, (budget for budget in self.budgets if not budget.deleted))

    def set_budget(self, scope: Scope, name: str, limit: int | None, kind: str, **options: Any) -> Budget:
        """Make a budget or change the one of that name."""
        old = next((b for b in self.live(scope) if b.name == name), None)
        fresh = Budget(scope, name, limit, kind, "UTC", self.now.replace(microsecond=0), self.now)
        settings = (old or fresh).changed(self.now, limit, kind, options)
        before = self._checked()
        same_periods = old and all(settings[field] == getattr(old, field) for field in ("kind", "zone", "anchor"))
        if old and same_periods:
            kept = {field: getattr(old, field) for field in settings}
            for field_name, value in settings.items():
                setattr(old, field_name, value)
            if self._checked() - before:
                for field_name, value in kept.items():
                    setattr(old, field_name, value)
                raise Refused("LB109")
            return old
        new = replace(fresh, **settings, periods={})
        self.budgets.append(new)
        if old:
            old.deleted = True
        if self._checked() - before:
            self.budgets.remove(new)
            if old:
                old.deleted = False
            raise Refused("LB109")
        return new

    def delete_budget(self, scope: Scope, name: str) -> None:
        """Take a budget away."""
        budget = self._budget(scope, name)
        before = self._checked()
        budget.deleted = True
        if self._checked() - before:
            budget.deleted = False
            raise Refused("LB109")

    def reset_budget(self, scope: Scope, name: str) -> None:
        """Forgive what the current period has spent."""
        budget = self._budget(scope, name)
        start = budget.window(self.now).start
        for call in self.calls:
            if call.state != "open" and (budget, start) in call.charged_to:
                call.forgiven.add((budget.id, start))

    def _budget(self, scope: Scope, name: str) -> Budget:
        budget = next((b for b in self.live(scope) if b.name == name), None)
        if budget is None:
            raise Refused("LB101")
        return budget

    def set_rate(self, scope: Scope, requests: int | None, tokens: int | None) -> None:
        """Limit the requests and tokens a minute of a key or project."""
        if requests is None and tokens is None:
            self.rates.pop(scope, None)
        else:
            self.rates[scope] = Rate(requests, tokens)

    def place(self, key: str, place: Place) -> None:
        """Move a key."""
        before, old = self._checked(), self.tree.keys[key]
        self.tree.place(key, place)
        if self._checked() - before:
            self.tree.keys[key] = old
            raise Refused("LB109")

    def move_unit(self, unit: str, parent: Scope) -> None:
        """Move a unit with all beneath it."""
        before, old = self._checked(), self.tree.units[unit]
        self.tree.move_unit(unit, parent)
        if self._checked() - before:
            self.tree.units[unit] = old
            raise Refused("LB109")

    def delete_scope(self, scope: Scope) -> None:
        """Take a scope away, with all that is set on it."""
        self.tree.delete(scope)
        for budget in self.live(scope):
            budget.deleted = True
        for run in self.runs:
            if scope == ("key", run.key):
                run.budget.deleted = True
        self.rates.pop(scope, None)
        self.ladders.pop(scope, None)


_ACCOUNTS = ("simulator", "spare")
#: What is looked at before the request id.
_BEFORE_THE_ID = ("invalid_request", "invalid_key", "key_disabled", "budget_config_invalid")


def _above(amount: int | None, most: int | None) -> bool:
    return amount is not None and most is not None and amount > most


def _over(slot: Slot, cost: int | None, _: bool) -> bool:
    return slot.budget.strict and cost is not None and _above(cost, slot.limit)


def _exceeded(slot: Slot, cost: int | None, _: bool) -> bool:
    if slot.steps_left is not None and slot.steps_left <= 0:
        return True
    if slot.limit is None or slot.budget.enforcement == "soft" or cost == 0:
        return False
    if slot.budget.strict and cost is not None:
        return slot.spent + cost > slot.limit
    return slot.spent >= slot.limit


def _busy(slot: Slot, cost: int | None, fits_around: bool) -> bool:
    if slot.limit is None or not slot.budget.strict or cost == 0:
        return False
    if cost is None:
        return fits_around and slot.spent + slot.held >= slot.limit
    return slot.spent + slot.held + cost > slot.limit


def _repeat(request: Request, earlier: Call) -> Answer:
    if earlier.body != request.body:
        return Answer("denied", "idempotency_conflict", earlier.id)
    mine = earlier.state == "open" and earlier.holder == request.holder is not None
    answer = Answer("granted" if mine else "granted_again", None, earlier.id, earlier.reserved, rung=earlier.rung)
    if earlier.state == "open":
        answer.output_tokens = earlier.output
    return answer
