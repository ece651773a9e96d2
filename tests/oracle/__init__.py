"""The row-wise oracle computes a table's rows by the simplest possible reading of the rules.

A bucket is a list of files; a file is a list of records in key order. All records of one key are collected, oldest
first, and passed one by one to the merge engine, which returns the row. This is all, and it is slow.

Rules of Java Paimon 1.4.2:

- Age: the fields of ``sequence.field``, in turn, then the sequence number. A null is older than any value, also when
  ``sequence.field.sort-order`` is descending, which reverses all other comparisons.
- ``rowkind.field`` is for writers: it has become the record's kind, and a reader uses the kind.
- A key with one record is returned as stored, never merged; a single retraction gives no row.
- With deletion vectors, and for `first-row`, level 0 waits for compaction and batch reads skip it. Upper levels are
  then already merged, and a position in a vector is dead.
- If compactions look up a key's previous row (``changelog-producer=lookup``, deletion vectors, ``force-lookup``), they
  store the merged row: above level 0, only the record of the lowest level counts. This does not apply to `first-row`.
- Such a compaction also merges a single record (`looked_up`): a retraction of nothing becomes a row there.
- The modules of the engines describe how each merges the records of a key.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from morrow.engine.format import types as t
from tests.oracle.aggregation import fold_aggregation
from tests.oracle.choosing import deduplicate, first_row
from tests.oracle.partial_update import fold_partial_update
from tests.oracle.records import File, NullError, Record, RetractionError, Row, Rules, compare_age

Merge = Callable[[Sequence[Record], Sequence[str], Rules], Row | None]
"""A function of all records of a key, oldest first, and the column names; it returns the read row, or None."""

Fold = Callable[[Sequence[Record], Sequence[str], Rules], Record]
"""A function like `Merge` of an engine that combines records; it returns the record that is stored."""


def merge_record(fold: Fold, records: Sequence[Record], names: Sequence[str], rules: Rules) -> Record:
    """Merge records, but return a single record as it is."""
    return records[0] if len(records) == 1 else fold(records, names, rules)


def partial_update(records: Sequence[Record], names: Sequence[str], rules: Rules) -> Row | None:
    merged = merge_record(fold_partial_update, records, names, rules)
    return None if merged.retracts else merged.row


def aggregation(records: Sequence[Record], names: Sequence[str], rules: Rules) -> Row | None:
    merged = merge_record(fold_aggregation, records, names, rules)
    return None if merged.retracts else merged.row


def looked_up(records: Sequence[Record], names: Sequence[str], rules: Rules) -> Row | None:
    """Compute the row that lookup compactions have made of all records of a key, oldest first."""
    fold = FOLDS.get(rules.merge_engine)
    if fold is None:
        return MERGE_ENGINES[rules.merge_engine](records, names, rules)
    merged = fold(records, names, rules)
    return None if merged.retracts else merged.row


FOLDS: dict[str, Fold] = {"partial-update": fold_partial_update, "aggregation": fold_aggregation}
MERGE_ENGINES: dict[str, Merge] = {
    "deduplicate": deduplicate,
    "first-row": first_row,
    "partial-update": partial_update,
    "aggregation": aggregation,
}


def read_bucket(
    files: Sequence[File],
    names: Sequence[str],
    options: Mapping[str, str],
    fields: Sequence[t.DataField] = (),
    primary_keys: Sequence[str] = (),
) -> list[Row]:
    """Read the rows of one bucket of a primary-key table, in no particular order.

    Partial-update and aggregation need `fields` and `primary_keys`, since they use types and leave the key unchanged.
    """
    rules = Rules.of(options, fields, primary_keys)
    without_level_0 = rules.waits_for_vectors or rules.merge_engine == "first-row"
    by_key: dict[Row, list[Record]] = defaultdict(list)
    upper: dict[Row, Record] = {}
    for file in sorted(files, key=lambda file: -file.level):
        if without_level_0 and file.level == 0:
            continue
        for position, record in enumerate(file.records):
            if position in file.dead:
                continue
            if rules.looks_up and file.level > 0:
                upper[record.key] = record  # replaces the record of a higher level
            else:
                by_key[record.key].append(record)
    for key, record in upper.items():
        by_key[key].append(record)
    merge = MERGE_ENGINES[rules.merge_engine]
    merged = (merge(by_age(records, names, rules), names, rules) for records in by_key.values())
    return [row for row in merged if row is not None]


def by_age(records: Sequence[Record], names: Sequence[str], rules: Rules) -> list[Record]:
    """Sort records by age, the oldest first."""
    return sorted(records, key=functools.cmp_to_key(functools.partial(compare_age, names=names, rules=rules)))


__all__ = [
    "FOLDS",
    "MERGE_ENGINES",
    "File",
    "NullError",
    "Record",
    "RetractionError",
    "Row",
    "Rules",
    "aggregation",
    "by_age",
    "compare_age",
    "deduplicate",
    "first_row",
    "looked_up",
    "merge_record",
    "partial_update",
    "read_bucket",
]
