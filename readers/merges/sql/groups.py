"""Sequence groups in SQL: helper columns that rank the versions of a key by a group, and their effect on it."""

from __future__ import annotations

from dataclasses import dataclass

from morrow.engine.merge.spec import OnDelete, SequenceGroup
from morrow.readers.expressions.sql import quote_identifier
from morrow.readers.merges.sql.rows import APPEND, PREPEND, RETRACT, START, UNDO
from morrow.readers.merges.sql.statement import Item, Names


@dataclass(frozen=True)
class Helpers:
    """The names of the helper columns that all groups share."""

    version: str
    version_count: str
    retracts: str
    removes: str
    inserted: str

    @classmethod
    def named(cls, names: Names) -> Helpers:
        return cls(*(names.fresh(name) for name in ("version", "version_count", "retracts", "removes", "inserted")))


@dataclass(frozen=True)
class GroupColumns:
    """The helper columns of one group.

    `rank` orders the versions by the group's own fields, `step` names the effect of a version on the group, `place`
    puts older versions before the others. `reverses`: some function of the group depends on that order. `on_delete`:
    the effect of retractions, None where there are none.
    """

    group: SequenceGroup
    helpers: Helpers
    rank: str
    step: str
    place: str
    reverses: bool
    on_delete: OnDelete | None

    @classmethod
    def named(
        cls, names: Names, group: SequenceGroup, helpers: Helpers, *, reverses: bool, on_delete: OnDelete | None
    ) -> GroupColumns:
        stem = "_".join(group.sequence)
        rank, step, place = (names.fresh(f"{stem}_{role}") for role in ("rank", "step", "place"))
        return cls(group, helpers, rank, step, place, reverses, on_delete)

    @property
    def stepped(self) -> bool:
        """Whether the group needs `step`; else all versions that count are added."""
        return self.reverses or self.on_delete is not None

    @property
    def touched(self) -> str:
        """The condition that a version affects the group: some of its sequence fields is not null."""
        return self._sequence("IS NOT NULL", "OR")

    @property
    def untouched(self) -> str:
        return self._sequence("IS NULL", "AND")

    def _sequence(self, test: str, joined: str) -> str:
        tests = [f"{quote_identifier(name)} {test}" for name in self.group.sequence]
        return tests[0] if len(tests) == 1 else f"({f' {joined} '.join(tests)})"

    @property
    def counted(self) -> str:
        """The condition that a version counts; a single version of a key is its row as it is stored."""
        return f"{self.step} IS NOT NULL" if self.stepped else f"({self.touched} OR {self.helpers.version_count} = 1)"

    @property
    def steps(self) -> dict[str, str]:
        """The conditions of the steps that a version may take."""
        if not self.stepped:
            return {APPEND: "TRUE"}
        kinds = [APPEND, *([PREPEND] if self.reverses else []), *([START] if self.on_delete else [])]
        kinds += [RETRACT, UNDO] if self.on_delete is OnDelete.RETRACT else []
        return {kind: f"{self.step} = '{kind}'" for kind in kinds}

    def ranked(self, key: str, age: str) -> Item:
        fields = ", ".join(f"{quote_identifier(name)} NULLS FIRST" for name in self.group.sequence)
        return Item(f"row_number() OVER (PARTITION BY {key} ORDER BY {fields}, {age})", self.rank)

    def leads(self, window: str) -> str:
        """Returns the condition that a version is at least as new as those before it, by the group's own fields."""
        return f"{self.rank} = max({self.rank}) OVER {window}"

    def step_items(self, removal: str | None, window: str) -> list[Item]:
        """Returns `step`, and `place` if it is needed. `removal`: the condition that a version has removed the row."""
        cases: list[tuple[str, str | None]] = [(removal, START)] if removal else []
        cases += [*self._first_cases(), (self.untouched, None), *self._retraction_cases()]
        last = PREPEND if self.reverses else APPEND
        if self.reverses:
            cases.append((self.leads(window), APPEND))
        lines = [f"  WHEN {condition} THEN {_literal(step)}" for condition, step in cases]
        items = [Item("\n".join(["CASE", *lines, f"  ELSE {_literal(last)}", "END"]), self.step)]
        if self.reverses:
            version = self.helpers.version
            items.append(Item(f"CASE WHEN {self.step} = '{PREPEND}' THEN -{version} ELSE {version} END", self.place))
        return items

    def _first_cases(self) -> list[tuple[str, str | None]]:
        """Returns the cases of a single version, stored as it is, and of a retraction first, which starts the row."""
        h = self.helpers
        first_retracts = f"{h.version} = 1 AND {h.retracts}"
        if self.on_delete is None:
            return [(f"{h.version_count} = 1", APPEND)]
        ignored = self.on_delete is OnDelete.IGNORE
        starts = first_retracts if ignored else f"{first_retracts} AND {self.untouched}"
        return [(f"{h.version_count} = 1", START), (starts, START)]

    def _retraction_cases(self) -> list[tuple[str, str | None]]:
        h = self.helpers
        if self.on_delete is not OnDelete.RETRACT:
            return []
        return [(f"{h.retracts} AND {h.version} = 1", UNDO), (h.retracts, RETRACT)]


def _literal(step: str | None) -> str:
    return "NULL" if step is None else f"'{step}'"
