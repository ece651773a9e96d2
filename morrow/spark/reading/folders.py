"""Partitions that Spark discovers itself, from paths like ``dt=2024-05-14/hour=7/bucket-0/data-1.parquet``.

One scan then reads any number of partitions, and Spark skips those that a later filter rules out before it opens a
file. Paimon's folders are named as Hive's except for nulls and for values whose text Spark would read differently, so
each folder is checked against the value in the metadata.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from morrow.engine.format import types as t
from morrow.engine.format.types import DataField
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.values import replace

SPARKS_NULL = "__HIVE_DEFAULT_PARTITION__"
BUCKET_AND_FILE = 2
"""Segments of a path after those of the partition."""

EPOCH = dt.date(1970, 1, 1)

PLAIN = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.VarCharType, t.CharType)
"""Types whose values Spark reads from the names that Paimon gives to folders."""


@dataclass(frozen=True)
class Folders:
    """The folder above the partitions, and the columns that Spark takes from the folder names in it.

    Those in `days` are dates that Paimon writes as days since 1970 (unless ``partition.legacy-name`` is false).
    """

    base: str
    fields: tuple[DataField, ...]
    days: frozenset[str]


def base_of(plan: ScanPlan, files: Iterable[tuple[str, tuple[object, ...]]]) -> Folders | None:
    """Returns the folder where Spark has to start to find the partitions of these files, given by path and partition.

    None when it would find other values than these, or would have to start in several folders.
    """
    fields = tuple(plan.schema.by_name[name] for name in plan.schema.partition_keys)
    partitions = {(path.rsplit("/", BUCKET_AND_FILE)[0], partition) for path, partition in files}
    bases, in_days = set(), set()
    for folder, partition in partitions:
        base, *named = folder.rsplit("/", len(fields))
        if len(named) < len(fields) or not all(map(_says, named, fields, partition)):
            return None
        bases.add(base)
        in_days.add(tuple(map(_in_days, named, fields)))
    if len(bases) != 1 or len(in_days) != 1:
        return None
    days = {field.name for field, is_in_days in zip(fields, in_days.pop()) if is_in_days}
    seen = (replace(f, type=t.IntType()) if f.name in days else f for f in fields)
    return Folders(bases.pop(), tuple(seen), frozenset(days))


def _in_days(segment: str, field: DataField) -> bool:
    return isinstance(field.type, t.DateType) and segment.rpartition("=")[2].lstrip("-").isdigit()


def _says(segment: str, field: DataField, value: object) -> bool:
    """Returns whether Spark reads this value from a folder of this name."""
    name, _, written = segment.partition("=")
    if name != field.name or value is None:
        return False
    if isinstance(value, dt.date) and isinstance(field.type, t.DateType):
        return written in (value.isoformat(), str((value - EPOCH).days))
    if not isinstance(field.type, PLAIN):
        return False
    text = str(value)
    # Spark unescapes byte by byte, so it gets ASCII right.
    found = unquote(written) if text.isascii() else written
    return found == text and text not in ("", SPARKS_NULL)
