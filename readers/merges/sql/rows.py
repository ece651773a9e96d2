"""The versions of a key as one column sees them: those that count, their order, and the effect of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from morrow.engine.format.types import DataType
from morrow.engine.merge.spec import AggregateCall
from morrow.engine.values import replace

START, APPEND, PREPEND, RETRACT, UNDO = "start", "append", "prepend", "retract", "undo"
"""The effect of a version on a column: it is its first value, is added as the newest or as the oldest one, is
retracted; or it is a first value that is retracted at once."""


@dataclass(frozen=True)
class Rows:
    """One column of the aggregated rows, as SQL.

    `version` and `place` order the rows: as they came, and with the older ones of a sequence group before the others.
    `steps` has a condition for each step that a row may take; `counted` is the condition that it takes any (None: all
    do), `step` the column that names the step, if any. `cut`: there may have been versions before these,
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
        """The condition that a row retracts its value."""
        return " OR ".join(self.steps[step] for step in (RETRACT, UNDO) if step in self.steps)

    @property
    def only_appends(self) -> bool:
        return set(self.steps) <= {APPEND}

    def variables(self, *wanted: str) -> tuple[str, ...]:
        """Returns names for variables of a lambda: DuckDB would resolve one that is also a column's to the column."""
        return tuple(self._variable(name) for name in wanted)

    def _variable(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        return name

    def where(self, *conditions: str) -> str:
        """Returns a FILTER clause for the rows that count and meet the conditions; empty if those are all rows."""
        every = [condition for condition in (self.counted, *conditions) if condition]
        return f" FILTER (WHERE {' AND '.join(every)})" if every else ""

    def refusing(self) -> Rows:
        """Returns the rows of a query that fails if any of them retracts."""
        return replace(self, steps={step: c for step, c in self.steps.items() if step not in (RETRACT, UNDO)})

    def without_retractions(self) -> Rows:
        """Returns the rows that remain when retractions are ignored; a first value that is retracted at once stays."""
        if not self.may_retract:
            return self
        steps = dict(self.refusing().steps)
        if UNDO in self.steps:
            steps[START] = f"({self.steps[START]} OR {self.steps[UNDO]})"
        counted = [condition for condition in (self.counted, f"NOT {self.steps[RETRACT]}") if condition]
        return replace(self, steps=steps, counted=" AND ".join(counted), step=None)


Build = Callable[[Rows], str | None]
"""Returns an aggregate expression for rows, or None where SQL has none."""
