"""Column names: names reserved for Morrow, and users' names used literally.

Morrow works on frames that hold a table's columns, and adds columns of its own to them. Their names begin with
``_KEY__KEY_``, which no table column does: Paimon refuses names that begin with ``_KEY_``, and the copies of key
columns in data files are named ``_KEY_`` plus the column's name. All names of Morrow are defined here. No other
module creates a name for use among users' columns.

Where names are compared case-insensitively (DuckDB, Spark) that is not enough, and `find_free_name` finds a free name.

In Paimon a name such as ``*`` or ``^a.*$`` is like any other, but in most functions of Polars it is a pattern.
`col`, `cols` and `get_member` are Polars' ``col`` and ``struct.field`` without patterns; users' names go through them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl
import polars.selectors as cs

KEY_PREFIX = "_KEY_"
"""The prefix of the copies of key columns in data files; no column of a table begins with it."""
OWN_PREFIX = KEY_PREFIX + KEY_PREFIX


def reserve_name(*words: object) -> str:
    """Return a reserved name of Morrow. The first word says what it names; only the last word may come from a user."""
    return OWN_PREFIX + "_".join(map(str, words))


POSITION = reserve_name("position")
"""The 0-based position of the row in its data file, or in several consecutive files that share a mask."""
ROW = reserve_name("row")
"""The number of a row in the current frame."""
FILE = reserve_name("file")
"""The number, the size or the name of the file that a row is in."""
KEY_ROW = reserve_name("key_row")
"""The row of the requested key in the result of a key lookup (Int64)."""
KEY_NUMBER = reserve_name("key_number")
"""The number of the row's key, in the order of keys (Int64); merges carry it along."""
RUN_LEVEL = reserve_name("level")
"""The level of the file that a row of a sorted run comes from (Int32)."""
BUCKET = reserve_name("bucket")
PARTITION = reserve_name("partition")
HASH = reserve_name("hash")
FINGERPRINT = reserve_name("fingerprint")
"""A number that is equal for equal keys."""
ORDER = reserve_name("order")
COUNT = reserve_name("count")
OLD_ROW, NEW_ROW = reserve_name("old_row"), reserve_name("new_row")
CURVE = reserve_name("curve")
TASK = reserve_name("task")
"""The task of a Spark job that writes the row."""
MASK = reserve_name("mask")
FIRST_BIT = reserve_name("first_bit")
"""The bit number of a file's first row among the bits of all masks; negative for a file without a mask."""
KEY_HERE, ROW_HERE = reserve_name("key_here"), reserve_name("row_here")
VIEW = reserve_name("view")
"""The alias of the relation that Spark reads, which locates a table's rows in Spark's plans."""
SPARKS_OLD_KEY = "__original_row_id_"
"""Spark's prefix of columns with the old key of an updated row, which it adds after the table's columns."""

FILE_PATH, ROW_INDEX = "__paimon_file_path", "__paimon_row_index"
"""Paimon's names of the hidden columns that locate a row: its file, and its position in the file."""
ROW_PARTITION, ROW_BUCKET = "__paimon_partition", "__paimon_bucket"
"""Paimon's names of the hidden columns of a row's partition, a struct of its keys, and of its bucket."""
SCORE = "__paimon_search_score"
"""Paimon's name of the column with the score of a row that a search found."""

# Columns that are added to manifest entries:
EXTRA, INDEX, PATH, KEEP = reserve_name("extra"), reserve_name("index"), reserve_name("path"), reserve_name("keep")
SECTION = reserve_name("section")
BUCKET_NUMBER = reserve_name("bucket_number")
"""The number that `plan.sections.number_buckets` gives the entry (Int64)."""
MODERN_DATES = reserve_name("modern_dates")
"""The columns that `plan.pruning.add_modern_dates` finds in the entry's file (List(String); null: none)."""
BUCKET_MATCHES, KEYS_MATCH, VALUES_MATCH = (
    reserve_name("bucket_matches"),
    reserve_name("keys_match"),
    reserve_name("values_match"),
)
"""Whether the entry's bucket, keys and values may match the filter (Boolean), see `plan.planner.decode_outlined`."""
VECTOR = reserve_name("vector")
"""The deletion vector of the entry's file: its row in `DeletionVectors.ranges` (-1: none), or its index file (null)."""
INDEX_FILE, ENTRY = reserve_name("index_file"), reserve_name("entry")
ADDS, DELETES, BASE, DELETED_FIRST = (
    reserve_name("adds"),
    reserve_name("deletes"),
    reserve_name("base"),
    reserve_name("deleted_first"),
)
CHANGED, KIND, ALONE, GONE, NEEDED = (
    reserve_name("changed"),
    reserve_name("kind"),
    reserve_name("alone"),
    reserve_name("gone"),
    reserve_name("needed"),
)
FAILED = reserve_name("failed")


def is_pattern(name: str) -> bool:
    """Return whether Polars interprets the name as a pattern."""
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def col(name: str) -> pl.Expr:
    """Return the column with exactly this name."""
    return cs.by_name(name).as_expr() if is_pattern(name) else pl.col(name)


def cols(names: Iterable[str]) -> list[pl.Expr]:
    """Return the columns with exactly these names."""
    return [col(name) for name in names]


def join_by_names(left: pl.DataFrame, right: pl.DataFrame, names: Sequence[str], **how: Any) -> pl.DataFrame:
    """Join frames by columns of the same names. Joins of Polars 1 take no selectors, which `col` uses for patterns.

    `how`: arguments of `pl.DataFrame.join`.
    """
    plain = {name: reserve_name(f"join_{number}") for number, name in enumerate(names) if is_pattern(name)}
    if not plain:
        return left.join(right, on=list(names), **how)
    keys = [plain.get(name, name) for name in names]
    found = left.rename(plain).join(right.rename(plain), on=keys, **how)
    return found.rename({other: name for name, other in plain.items() if other in found.columns})


def get_series(frame: pl.DataFrame, name: str) -> pl.Series:
    """Return the column with this name as a series whose methods work, see `clear_pattern_name`."""
    return clear_pattern_name(frame.get_column(name))


def clear_pattern_name(column: pl.Series) -> pl.Series:
    """Return the series, unnamed if its name is a pattern: many methods of series look themselves up by name."""
    return column.alias("") if is_pattern(column.name) else column


def select_exactly(*names: str) -> cs.Selector:
    """Return the columns with exactly these names, for functions that take no expressions (``drop``)."""
    return cs.by_name(*names)


def get_member(row: pl.Expr, name: str, names: Sequence[str]) -> pl.Expr:
    """Return the member `name` of rows whose members are `names`, in order."""
    if not is_pattern(name):
        return row.struct.field(name)
    # Here Polars cannot select members by literal name or by number, so the members are renamed.
    renamed = row.struct.rename_fields([f"m{i}" for i in range(len(names))])
    return renamed.struct.field(f"m{names.index(name)}").alias(name)


def find_free_name(wanted: str, taken: Iterable[str]) -> str:
    """Return `wanted`, with underscores appended until it differs from all names in `taken`, ignoring case."""
    folded = {each for name in taken for each in (name.casefold(), name.lower())}
    while wanted.casefold() in folded or wanted.lower() in folded:
        wanted += "_"
    return wanted


TARGET, SOURCE = "target", "source"
"""The sides of a merge in conditions and values."""
