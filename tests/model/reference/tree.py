"""The tree of an org: what is beneath what, the chain of a key, what may be moved where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

#: Kind and name. Names are never used twice.
Scope = tuple[str, str]

MAX_DEPTH = 4


class Refused(Exception):
    """A change that is not made, with the SQLSTATE it is refused with."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


@dataclass(frozen=True)
class Place:
    """Where a key is."""

    project: str
    unit: str | None = None
    member: str | None = None
    tags: tuple[str, ...] = ()


class Tree:
    """One org."""

    def __init__(
        self,
        org: str,
        projects: tuple[str, ...],
        units: dict[str, Scope],
        members: tuple[str, ...],
        tags: tuple[str, ...],
        keys: dict[str, Place],
    ) -> None:
        self.org = org
        self.projects = list(projects)
        #: Unit to what it is under.
        self.units = dict(units)
        self.members = list(members)
        self.tags = list(tags)
        self.keys = dict(keys)

    def scopes(self) -> Iterator[Scope]:
        """All that is there and can carry a budget, but for accounts."""
        yield "org", self.org
        for kind, names in (
            ("project", self.projects),
            ("unit", self.units),
            ("member", self.members),
            ("tag", self.tags),
            ("key", self.keys),
        ):
            yield from ((kind, name) for name in names)

    def line(self, unit: str | None) -> list[str]:
        """A unit and those above it, upward."""
        found = []
        while unit is not None:
            found.append(unit)
            kind, name = self.units[unit]
            unit = name if kind == "unit" else None
        return found

    def project_of(self, unit: str) -> str:
        """The project of a unit."""
        return self.units[self.line(unit)[-1]][1]

    def under(self, unit: str) -> set[str]:
        """A unit and all units beneath it."""
        return {other for other in self.units if unit in self.line(other)}

    def chain(self, key: str) -> list[Scope]:
        """The scopes of a key, in the order in which they are checked, between the run and the accounts."""
        place = self.keys[key]
        return [
            ("key", key),
            *(("tag", tag) for tag in sorted(place.tags)),
            *([("member", place.member)] if place.member else []),
            *(("unit", unit) for unit in self.line(place.unit)),
            ("project", place.project),
            ("org", self.org),
        ]

    def children(self, scope: Scope) -> list[Scope]:
        """What is right beneath a scope; of an org without its members."""
        kind, name = scope
        if kind == "org":
            return [("project", project) for project in self.projects]
        units: list[Scope] = [("unit", unit) for unit, parent in self.units.items() if parent == scope]
        if kind == "project":
            return units + [("key", key) for key, place in self.keys.items() if place.project == name and not place.unit]
        if kind == "unit":
            return units + [("key", key) for key, place in self.keys.items() if place.unit == name]
        return [("key", key) for key, place in self.keys.items() if kind == "member" and place.member == name]

    def beneath(self, scope: Scope) -> list[Scope]:
        """All that a scope's budgets stand over."""
        found = list(self.children(scope))
        for child in found:
            found += self.children(child)
        if scope[0] == "org":
            found += [("member", member) for member in self.members]
        return found

    # Changes.

    def add_unit(self, name: str, parent: Scope) -> None:
        """Create a unit."""
        if parent[0] == "unit" and len(self.line(parent[1])) >= MAX_DEPTH:
            raise Refused("LB101")
        self.units[name] = parent

    def place(self, key: str, place: Place) -> None:
        """Create or move a key."""
        if place.unit and self.project_of(place.unit) != place.project:
            raise Refused("LB101")
        self.keys[key] = place

    def move_unit(self, unit: str, parent: Scope) -> None:
        """Move a unit with all beneath it."""
        moved = self.under(unit)
        if parent[0] == "unit" and parent[1] in moved:
            raise Refused("LB101")
        depth = len(self.line(parent[1])) if parent[0] == "unit" else 0
        height = max(self.line(other).index(unit) for other in moved) + 1
        if depth + height > MAX_DEPTH:
            raise Refused("LB101")
        project = self.project_of(parent[1]) if parent[0] == "unit" else parent[1]
        if project != self.project_of(unit) and any(place.unit in moved for place in self.keys.values()):
            raise Refused("LB101")
        self.units[unit] = parent

    def delete(self, scope: Scope) -> None:
        """Take a scope away that has nothing beneath it."""
        kind, name = scope
        if kind == "tag":
            busy = any(name in place.tags for place in self.keys.values())
        else:
            busy = kind != "key" and bool(self.children(scope))
            busy = busy or (kind == "project" and any(place.project == name for place in self.keys.values()))
        if busy:
            raise Refused("LB101")
        if kind == "unit":
            del self.units[name]
        elif kind == "key":
            del self.keys[name]
        else:
            {"project": self.projects, "member": self.members, "tag": self.tags}[kind].remove(name)
