"""The versions of a key as one column sees them: which of them count, in which order, and what each does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from morrow.engine.format.types import DataType
from morrow.engine.merge.spec import AggregateCall

START, APPEND, PREPEND, RETRACT, UNDO = "start", "append", "prepend", "retract", "undo"
"""What a version does to a column: it is its first value, is added as the newest or as the oldest one, is taken back;
or it is a first value that is taken back at once."""


@dataclass(frozen=True)
class Rows:
    """A column of the rows that are aggregated, as SQL.

    `version` and `place` order the rows: as they came, and with the older ones of a sequence group before the others.
    `steps` has a condition for each step that a row may take; `counted` is the condition that it takes any (None: all
    do), `step` the column that names the step, if there is one. `cut`: there may have been versions before these,
    which a removal of the row has ended. `taken`: the names of all columns, casefolded.
    """

    column: str
    type: DataType
    call: AggregateCall
    version: str
    place: str
    steps: Mapping[str, str]
    counted: str | None = None
    step: str | None = None
    in_group: bool = False
    cut: bool = False
    taken: frozenset[str] = frozenset()

    @property
    def may_retract(self) -> bool:
        return not self.steps.keys().isdisjoint((RETRACT, UNDO))

    @property
    def retracts(self) -> str:
        """The condition that a row takes its value back."""
        return " OR ".join(self.steps[step] for step in (RETRACT, UNDO) if step in self.steps)

    @property
    def only_appends(self) -> bool:
        return set(self.steps) <= {APPEND}

    def variables(self, *wanted: str) -> tuple[str, ...]:
        """Names for the variables of a lambda: DuckDB would take one that is a column's for the column."""
        return tuple(self._variable(name) for name in wanted)

    def _variable(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        return name

    def where(self, *conditions: str) -> str:
        """A FILTER clause for the rows that count and meet the conditions; empty if that is all rows."""
        every = [condition for condition in (self.counted, *conditions) if condition]
        return f" FILTER (WHERE {' AND '.join(every)})" if every else ""

    def refusing(self) -> Rows:
        """The rows of a query that fails if any of them retracts."""
        return replace(self, steps={step: c for step, c in self.steps.items() if step not in (RETRACT, UNDO)})

    def without_retractions(self) -> Rows:
        """The rows that remain when retractions change nothing; a first value that is taken back at once stays."""
        if not self.may_retract:
            return self
        steps = dict(self.refusing().steps)
        if UNDO in self.steps:
            steps[START] = f"({self.steps[START]} OR {self.steps[UNDO]})"
        counted = [condition for condition in (self.counted, f"NOT {self.steps[RETRACT]}") if condition]
        return replace(self, steps=steps, counted=" AND ".join(counted), step=None)


Build = Callable[[Rows], str | None]
"""An aggregate expression for rows, or None where SQL has none."""
