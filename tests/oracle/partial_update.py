"""`partial-update`: later non-null values overwrite, unless sequence groups and their functions decide.

A sequence group has fields that order it, which are compared with the merged row's. A record that is as new or
newer overwrites the protected columns, also with nulls, or is aggregated; an older one is aggregated in reverse, or
skipped. A record whose sequence fields are all null does not change the group.

Retractions: the values of a first one stay in the row. ``ignore-delete`` skips later ones; groups retract their
protected columns, and ``partial-update.remove-record-on-sequence-group`` or ``partial-update.remove-record-on-delete``
restarts the row with the values of the ``-D``. Without any of these options a retraction is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.oracle.columns import aggregator_of, function_of, restarted
from tests.oracle.records import NullError, Record, RetractionError, Rules, compare_fields, names_in

PREFIX, SUFFIX = "fields.", ".sequence-group"


class PartialUpdate:
    """The merge of one key, record by record; columns are identified by position."""

    def __init__(self, names: Sequence[str], rules: Rules) -> None:
        self.rules = rules
        self.groups = sequence_groups(names, rules)
        self.functions = {
            i: aggregator_of(f, name, rules) for i, name in enumerate(names) if (f := self._function(i, name))
        }
        removing = names_in(rules.options.get("partial-update.remove-record-on-sequence-group", ""))
        self.removing = {names.index(name) for name in removing}
        self.row: list[Any] = [None] * len(names)
        self.started = self.inserted = self.removed = False
        self.sequence = 0

    def _function(self, column: int, name: str) -> str | None:
        if any(column in sequence for sequence in self.groups.values()):
            return None
        return "primary-key" if name in self.rules.primary_keys else function_of(name, self.rules)

    def add(self, record: Record) -> None:
        self.removed = False
        if record.retracts:
            self._retraction(record)
            return
        self.sequence = record.sequence
        if self.groups:
            self._update_groups(record.row)
        else:
            self._update(record.row)
        self.started = self.inserted = True

    def _update(self, new: Sequence[Any]) -> None:
        for i, (value, field) in enumerate(zip(new, self.rules.fields, strict=True)):
            if value is not None:
                self.row[i] = value
            elif not field.type.nullable:
                raise NullError(field.name)

    def _update_groups(self, new: Sequence[Any]) -> None:
        for i, value in enumerate(new):
            sequence, function = self.groups.get(i), self.functions.get(i)
            if sequence is None:
                if function is not None:
                    self.row[i] = function.agg(self.row[i], value)
                elif value is not None:
                    self.row[i] = value
            elif is_empty(new, sequence):
                continue
            elif self._is_newer(new, sequence):
                if i in sequence:
                    for j in sequence:
                        self.row[j] = new[j]
                else:
                    self.row[i] = value if function is None else function.agg(self.row[i], value)
            elif function is not None:
                self.row[i] = function.agg_reversed(self.row[i], value)

    def _retraction(self, record: Record) -> None:
        if not self.started:
            self.row = restarted(record.row, self.rules)
            self.started = True
        if self.rules.ignore_delete:
            return
        self.sequence = record.sequence
        if self.groups:
            self._retract_groups(record)
        elif not self.rules.flag("partial-update.remove-record-on-delete"):
            raise RetractionError(record)
        elif record.kind == "-D":
            self._remove(record)

    def _retract_groups(self, record: Record) -> None:
        new = record.row
        for i, value in enumerate(new):
            sequence, function = self.groups.get(i), self.functions.get(i)
            if sequence is None or is_empty(new, sequence):
                continue
            if not self._is_newer(new, sequence):
                if function is not None:
                    self.row[i] = function.retract(self.row[i], value)
            elif i in sequence:
                if record.kind == "-D" and self.removing.intersection(sequence):
                    self._remove(record)
                    return
                for j in sequence:
                    self.row[j] = new[j]
            else:
                self.row[i] = None if function is None else function.retract(self.row[i], value)

    def _remove(self, record: Record) -> None:
        self.removed = True
        self.row = restarted(record.row, self.rules)

    def _is_newer(self, new: Sequence[Any], sequence: tuple[int, ...]) -> bool:
        return compare_fields([new[j] for j in sequence], [self.row[j] for j in sequence]) >= 0


def is_empty(row: Sequence[Any], sequence: tuple[int, ...]) -> bool:
    return all(row[j] is None for j in sequence)


def sequence_groups(names: Sequence[str], rules: Rules) -> dict[int, tuple[int, ...]]:
    """Map protected columns, and the sequence fields themselves, to the sequence fields of their group."""
    groups: dict[int, tuple[int, ...]] = {}
    for option, protected in rules.options.items():
        if option.startswith(PREFIX) and option.endswith(SUFFIX):
            fields = names_in(option.removeprefix(PREFIX).removesuffix(SUFFIX))
            sequence = tuple(names.index(name) for name in fields)
            groups.update({names.index(name): sequence for name in (*names_in(protected), *fields)})
    return groups


def fold_partial_update(records: Sequence[Record], names: Sequence[str], rules: Rules) -> Record:
    merge = PartialUpdate(names, rules)
    for record in records:
        merge.add(record)
    kind = "-D" if merge.removed or not merge.inserted else "+I"
    return Record(records[0].key, merge.sequence, kind, tuple(merge.row))
