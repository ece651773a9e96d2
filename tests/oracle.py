"""The row-wise oracle: what a table holds, by the plainest possible reading of the rules.

A bucket is a list of files; a file is a list of records in key order. All records of one key are lined up, oldest
first, and given one by one to the merge engine, whose answer is the row. That is all there is, and it is slow.

Rules, as Java Paimon has them:

- Age: the fields of ``sequence.field``, in turn, then the sequence number. A null is older than any value, also when
  ``sequence.field.sort-order`` is descending, which turns all other comparisons round.
- ``-U`` and ``-D`` retract. `deduplicate` keeps the newest record, and the key is gone if that one retracts; with
  ``ignore-delete`` retractions are as good as not there. `first-row` keeps the oldest and refuses retractions.
- ``rowkind.field`` is for writers: it has become the record's kind, and a reader takes the kind.
- With deletion vectors, and for `first-row`, level 0 waits for compaction: batch reads do not see it. What is in the
  upper levels then is merged already, and a position in a vector is dead.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, ...]
RETRACTIONS = ("-U", "-D")


@dataclass(frozen=True)
class Record:
    """One record of a data file: its key, its number in the bucket's history, what it does, and all columns."""

    key: Row
    sequence: int
    kind: str
    row: Row


@dataclass(frozen=True)
class File:
    """A data file. `dead` are the positions in its deletion vector."""

    level: int
    records: Sequence[Record]
    dead: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Rules:
    """The table options that bear on what a read returns."""

    merge_engine: str = "deduplicate"
    sequence_fields: tuple[str, ...] = ()
    descending: bool = False
    ignore_delete: bool = False
    deletion_vectors: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Rules:
        return cls(
            merge_engine=options.get("merge-engine", "deduplicate"),
            sequence_fields=tuple(f for f in options.get("sequence.field", "").split(",") if f),
            descending=options.get("sequence.field.sort-order") == "descending",
            ignore_delete=options.get("ignore-delete") == "true",
            deletion_vectors=options.get("deletion-vectors.enabled") == "true",
            options=options,
        )


class RetractionError(Exception):
    """The merge engine takes no retractions and the table does not ignore them."""


Merge = Callable[[Sequence[Record], Sequence[str], Rules], "Row | None"]
"""All records of one key, oldest first, and the column names: the row that a read returns, or None for no row."""


def deduplicate(records: Sequence[Record], names: Sequence[str], rules: Rules) -> Row | None:  # noqa: ARG001
    newest = None
    for record in records:
        if rules.ignore_delete and record.kind in RETRACTIONS:
            continue
        newest = record
    return None if newest is None or newest.kind in RETRACTIONS else newest.row


def first_row(records: Sequence[Record], names: Sequence[str], rules: Rules) -> Row | None:  # noqa: ARG001
    first = None
    for record in records:
        if record.kind in RETRACTIONS:
            if rules.ignore_delete:
                continue
            raise RetractionError(record)
        if first is None:
            first = record
    return None if first is None else first.row


MERGE_ENGINES: dict[str, Merge] = {"deduplicate": deduplicate, "first-row": first_row}


def read_bucket(files: Sequence[File], names: Sequence[str], options: Mapping[str, str]) -> list[Row]:
    """The rows of one bucket of a primary-key table, in no particular order."""
    rules = Rules.of(options)
    without_level_0 = rules.deletion_vectors or rules.merge_engine == "first-row"
    by_key: dict[Row, list[Record]] = defaultdict(list)
    for file in files:
        if without_level_0 and file.level == 0:
            continue
        for position, record in enumerate(file.records):
            if position not in file.dead:
                by_key[record.key].append(record)
    merge = MERGE_ENGINES[rules.merge_engine]
    by_age = functools.cmp_to_key(functools.partial(compare_age, names=names, rules=rules))
    merged = (merge(sorted(records, key=by_age), names, rules) for records in by_key.values())
    return [row for row in merged if row is not None]


def compare_age(a: Record, b: Record, names: Sequence[str], rules: Rules) -> int:
    """Negative when `a` is older than `b`."""
    for name in rules.sequence_fields:
        x, y = a.row[names.index(name)], b.row[names.index(name)]
        if x is None and y is None:
            continue
        if x is None or y is None:
            return -1 if x is None else 1
        if x != y:
            return (-1 if x < y else 1) * (-1 if rules.descending else 1)
    return a.sequence - b.sequence
