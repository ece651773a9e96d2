"""Input of the oracle: records, files, the rules of the table, and the comparison of records by age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from morrow.engine.format import types as t

Row = tuple[Any, ...]
RETRACTIONS = ("-U", "-D")


@dataclass(frozen=True)
class Record:
    """One record of a data file: its key, its number in the bucket's history, its kind, and all columns.

    Values have the form of ``pyarrow.Array.to_pylist``: MAP is a list of pairs, ROW a dict, FLOAT a float of 32 bits.
    """

    key: Row
    sequence: int
    kind: str
    row: Row

    @property
    def retracts(self) -> bool:
        return self.kind in RETRACTIONS


@dataclass(frozen=True)
class File:
    """A data file; `dead` holds the positions in its deletion vector."""

    level: int
    records: Sequence[Record]
    dead: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Rules:
    """The table options that affect a read's rows; engines that combine records use `fields` and `primary_keys`."""

    merge_engine: str = "deduplicate"
    sequence_fields: tuple[str, ...] = ()
    descending: bool = False
    ignore_delete: bool = False
    waits_for_vectors: bool = False
    looks_up: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[t.DataField, ...] = ()
    primary_keys: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, options: Mapping[str, str], fields: Sequence[t.DataField] = (), primary_keys: Sequence[str] = ()
    ) -> Rules:
        return cls(
            merge_engine=options.get("merge-engine", "deduplicate"),
            sequence_fields=names_in(options.get("sequence.field", "")),
            descending=options.get("sequence.field.sort-order") == "descending",
            ignore_delete=options.get("ignore-delete") == "true",
            waits_for_vectors=options.get("deletion-vectors.enabled") == "true"
            and options.get("deletion-vectors.merge-on-read") != "true",
            looks_up=options.get("merge-engine") != "first-row"
            and (
                options.get("changelog-producer") == "lookup"
                or "true" in (options.get("deletion-vectors.enabled"), options.get("force-lookup"))
            ),
            options=options,
            fields=tuple(fields),
            primary_keys=tuple(primary_keys),
        )

    def flag(self, option: str) -> bool:
        return self.options.get(option) == "true"


class RetractionError(Exception):
    """The merge engine or an aggregate function does not support retractions, and the table does not ignore them."""


class NullError(Exception):
    """A null in a NOT NULL column."""


def names_in(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def compare_age(a: Record, b: Record, names: Sequence[str], rules: Rules) -> int:
    """Return a negative number if `a` is older than `b`."""
    at = [names.index(name) for name in rules.sequence_fields]
    by_fields = compare_fields([a.row[i] for i in at], [b.row[i] for i in at], descending=rules.descending)
    return by_fields or a.sequence - b.sequence


def compare_fields(a: Sequence[Any], b: Sequence[Any], *, descending: bool = False) -> int:
    """Compare by the first field that differs; null comes before any value, in either order."""
    for x, y in zip(a, b, strict=True):
        if x is None and y is None:
            continue
        if x is None or y is None:
            return -1 if x is None else 1
        if x != y:
            return (-1 if x < y else 1) * (-1 if descending else 1)
    return 0
