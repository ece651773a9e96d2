"""File pruning by bucket hash, key statistics, value statistics and file indexes.

Every mask is conservative: true if the file may hold a matching row. It is also true if statistics are absent,
truncated, or not of the column's current type. If another process has decoded the entries without their statistics, the
masks are columns of the entries (`engine.plan.planner.decode_outlined`).

A predicate is evaluated on minima, maxima and null counts instead of rows, for all files at once. A file is excluded
only if the statistics prove that no row matches:

- A null bound is unknown and proves nothing; nor do bounds that contradict each other.
- The minimum of a long string is cut to a prefix and is a lower bound. The maximum is cut, its last character is
  incremented, and it is an upper bound. So ranges are compared, and a value proves something only if both bounds meet.
- Bounds of floats leave out NaN, which is the greatest value. So upper bounds of floats prove nothing for ``>`` and
  ``>=``, and equal bounds prove nothing for ``!=`` and ``NOT IN``.
- A column whose values are all null matches no comparison.
- A partition value is handled as a file whose minimum and maximum are equal and exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import make_series
from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.file_formats import get_format
from morrow.engine.format.manifest_entries import ColumnStats, decode_column_stats
from morrow.engine.format.paths import INDEX_SUFFIX, check_segment
from morrow.engine.format.schema import ROW_ID, TableSchema
from morrow.engine.names import BUCKET_MATCHES, KEEP, KEYS_MATCH, MODERN_DATES, PATH, ROW, VALUES_MATCH
from morrow.engine.options import TableOptions
from morrow.engine.plan.data_files import build_file_paths, parse_file_formats
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import (
    ALWAYS,
    And,
    Leaf,
    Op,
    Or,
    Predicate,
    Value,
    combine_predicates,
    find_columns,
    find_successor,
    split_conjuncts,
    translate_predicate,
)
from morrow.engine.plan.sections import find_distinct, find_schema_ids
from morrow.engine.polars_threads import open_threads
from morrow.engine.structs import replace

if TYPE_CHECKING:
    from morrow.engine.format.file_index import FileIndex, IndexResult

MAX_BUCKET_KEYS = 1000
"""The limit of combinations of key values hashed for bucket pruning; a longer IN list prunes nothing."""

MAX_HASHED_FILES = 1000
"""The limit of files whose first keys are hashed, which takes about a millisecond; of more files, every n-th is."""

INDEX_READERS = 4

SchemaTest = Callable[[TableMetadata, Sequence[t.DataField], Predicate, pl.DataFrame], pl.Series]
"""Tests files that were all written with the same columns; the predicate uses the names of these columns."""


def project_predicate(predicate: Predicate, kept: frozenset[str]) -> Predicate:
    """Project `predicate` on the columns `kept`: every row that satisfies it satisfies the result too."""
    if isinstance(predicate, Leaf):
        return predicate if predicate.column in kept else ALWAYS
    parts = tuple(project_predicate(child, kept) for child in predicate.children)
    if isinstance(predicate, And):
        return combine_predicates(*parts)
    return ALWAYS if ALWAYS in parts else Or(parts)


def mask_by_bucket(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, predicate: Predicate, entries: pl.DataFrame
) -> pl.Series:
    """Mask entries whose bucket may have a matching row: the filter restricts all bucket keys to values.

    Nothing is excluded if first keys lie in other buckets than their hashes say; see `has_misplaced_keys`.
    """
    if BUCKET_MATCHES in entries.columns:
        return entries[BUCKET_MATCHES]
    everything = pl.repeat(True, entries.height, eager=True)
    # A partition keeps the bucket count it was written with until it is overwritten (rescale).
    found = compute_pinned_buckets(schema, options, predicate, lambda: entries["_TOTAL_BUCKETS"].unique().to_list())
    if found is None:
        return everything
    mask = everything
    for total, buckets in found.items():
        mask &= (entries["_TOTAL_BUCKETS"] != total) | entries["_BUCKET"].is_in(pl.Series(buckets).implode())
    mask |= mask_changed_keys(metadata, schema, options, entries)
    if mask.all() or not has_misplaced_keys(metadata, schema, options, entries):
        return mask
    return everything


def compute_pinned_buckets(
    schema: TableSchema, options: TableOptions, predicate: Predicate, list_totals: Callable[[], Iterable[int]]
) -> dict[int, list[int]] | None:
    """Return the buckets of matching rows for each number of buckets; None unless all bucket keys have given values.

    `list_totals` returns the numbers of buckets of the table's files.
    """
    keys = options.bucket_key or schema.trimmed_primary_keys
    values = _find_pinned_values(predicate, keys) if options.bucket > 0 and keys else None
    if values is None:
        return None
    from morrow.engine.format.buckets import compute_buckets  # only filters on all bucket keys use hashes

    types = [schema.by_name[name].type for name in keys]
    combinations = list(zip(*itertools.product(*values)))
    literals = [_to_column(values, kind) for values, kind in zip(combinations, types)]
    return {
        total: find_distinct(compute_buckets(literals, types, total, options.bucket_function))
        for total in list_totals()
        if total > 0
    }


def _to_column(values: Sequence[Value], kind: t.DataType) -> pl.Series | pa.Array:
    if any(isinstance(value, np.datetime64) for value in values):
        return pa.array(values, kind.arrow())  # this call imports pandas
    return pl.Series(values, dtype=t.to_polars_dtype(kind))


def mask_changed_keys(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, entries: pl.DataFrame
) -> pl.Series:
    """Mask entries of files that return other bucket keys than were hashed.

    ORC drops trailing blanks of CHAR. After the key was widened, negative integers have other hashes.
    """
    keys = options.bucket_key or schema.trimmed_primary_keys
    mask = _mask_other_types(metadata, schema, keys, entries)
    if any(isinstance(schema.by_name[name].type, t.CharType) for name in keys):
        mask |= _mask_inexact(entries, metadata.where)
    return mask


def has_cut_keys(metadata: TableMetadata, schema: TableSchema, entries: pl.DataFrame) -> bool:
    """Return whether bounds of ORC files have CHAR keys with trailing blanks, which rows of these files lack."""
    types = [schema.by_name[name].type for name in schema.trimmed_primary_keys]
    columns = [i for i, kind in enumerate(types) if isinstance(kind, t.CharType)]
    if not columns:
        return False
    files = entries.filter(_mask_inexact(entries, metadata.where) & (entries["_BUCKET"] >= 0))
    bounds = pl.concat([files["_MIN_KEY"], files["_MAX_KEY"]])
    found = decode_columns(bounds, types, where=metadata.where, columns=columns)
    return any(each.str.ends_with(" ").any() for each in found)


def has_rehashed_keys(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, entries: pl.DataFrame
) -> bool:
    """Return whether files have negative bucket keys from before these were widened: they hash differently now."""
    if not schema.trimmed_primary_keys:
        return False
    keys = options.bucket_key or schema.trimmed_primary_keys
    files = entries.filter(
        _mask_other_types(metadata, schema, keys, entries)
        & (entries["_BUCKET"] >= 0)
        & (entries["_TOTAL_BUCKETS"] != 1)
    )
    ids = {schema.by_name[name].id for name in keys}
    for number in find_schema_ids(files):
        old, part = metadata.schema(number), files.filter(files["_SCHEMA_ID"] == number)
        wanted = [field.name for field in old.fields if field.id in ids and isinstance(field.type, t.INTEGER_TYPES)]
        for each in read_key_stats(metadata, old, wanted, part).values():
            if each.minimum is None or (each.minimum < 0).fill_null(True).any():
                return True
    return False


def _mask_inexact(entries: pl.DataFrame, where: str) -> pl.Series:
    formats = parse_file_formats(entries, where)
    return formats.is_in([name for name in formats.unique() if not get_format(name, where).is_exact])


def has_misplaced_keys(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, entries: pl.DataFrame
) -> bool:
    """Return whether files of a table with fixed buckets begin with keys whose hashes belong to other buckets.

    pypaimon wrote such tables before 1.4: it took the MD5 of a key. Append tables record no whole key: always False.
    """
    from morrow.engine.format.buckets import compute_buckets

    keys, files = (
        schema.trimmed_primary_keys,
        entries.filter((entries["_TOTAL_BUCKETS"] > 1) & (entries["_BUCKET"] >= 0)),
    )
    named = options.bucket_key or keys
    if options.bucket <= 0 or not files.height or not keys or not set(named) <= set(keys):
        return False
    files = files.gather_every(-(-files.height // MAX_HASHED_FILES))
    types, columns = [schema.by_name[name].type for name in keys], [keys.index(name) for name in named]
    for (total,), part in files.group_by("_TOTAL_BUCKETS"):
        first = decode_columns(part["_MIN_KEY"], types, where=metadata.where, columns=columns)
        found = [each.to_arrow() for each in first], [types[each] for each in columns]
        computed = make_series(compute_buckets(*found, cast(int, total), options.bucket_function))
        if (computed != part["_BUCKET"]).any():
            return True
    return False


def _find_pinned_values(predicate: Predicate, keys: Sequence[str]) -> list[tuple[Value, ...]] | None:
    """Return the possible values of each key; None if one is not restricted or there are too many combinations."""
    pinned = {
        part.column: part.literals
        for part in split_conjuncts(predicate)
        if isinstance(part, Leaf) and part.op in (Op.EQ, Op.IN) and part.literals
    }
    values = [pinned[key] for key in keys if key in pinned]
    if len(values) < len(keys) or math.prod(map(len, values)) > MAX_BUCKET_KEYS:
        return None
    if any(isinstance(value, float) and not abs(value) > 0 for column in values for value in column):
        return None  # 0.0 equals -0.0, and NaNs equal each other, but their hashes differ
    return values


def mask_by_key(metadata: TableMetadata, schema: TableSchema, predicate: Predicate, entries: pl.DataFrame) -> pl.Series:
    """Mask entries whose key statistics may match; valid also for files that merge, since versions share their key."""
    if KEYS_MATCH in entries.columns:
        return entries[KEYS_MATCH]
    keys = schema.trimmed_primary_keys
    part = project_predicate(predicate, frozenset(keys))
    if part == ALWAYS:
        return pl.repeat(True, entries.height, eager=True)
    wanted = [name for name in keys if name in find_columns(part)]
    return make_series(
        mask_by_stats(part, StatsFrame(entries["_ROW_COUNT"], read_key_stats(metadata, schema, wanted, entries)))
    )


def read_key_stats(
    metadata: TableMetadata, schema: TableSchema, wanted: Sequence[str], entries: pl.DataFrame
) -> dict[str, ColumnStats]:
    """Return the statistics of the `wanted` columns of the trimmed primary key.

    Bounds from before one of these columns was widened are unknown: a narrower integer is stored in fewer bytes.
    """
    stats = entries["_KEY_STATS"].struct
    is_narrow = _mask_other_types(metadata, schema, wanted, entries)
    types = {name: schema.by_name[name].type for name in schema.trimmed_primary_keys}
    found = decode_column_stats(
        stats.field("_MIN_VALUES").set(is_narrow, None),
        stats.field("_MAX_VALUES").set(is_narrow, None),
        stats.field("_NULL_COUNTS"),
        None,
        types,
        wanted,
        where=metadata.where,
    )
    return _loosen_bounds(found, types, entries, metadata.where)


def _loosen_bounds(
    found: dict[str, ColumnStats], types: Mapping[str, t.DataType], entries: pl.DataFrame, where: str
) -> dict[str, ColumnStats]:
    """Return the statistics with lower bounds of CHAR that also hold for values whose trailing blanks ORC dropped.

    A value without its blanks is below a bound only if the bound has a blank or a control character after it.
    """
    cut = [name for name in found if isinstance(types[name], t.CharType) and found[name].minimum is not None]
    if not cut:
        return found
    inexact = _mask_inexact(entries, where)
    for name in cut:
        low = cast(pl.Series, found[name].minimum)
        low = low.zip_with(~inexact, low.str.replace(r"(?s)[\x00-\x20].*", ""))
        found[name] = replace(found[name], minimum=low)
    return found


def _mask_other_types(
    metadata: TableMetadata, schema: TableSchema, names: Sequence[str], entries: pl.DataFrame
) -> pl.Series:
    """Mask entries of files that were written before one of these columns got its current stored type."""
    kinds = {schema.by_name[name].id: schema.by_name[name].type for name in names}
    others = [
        number
        for number in find_schema_ids(entries)
        if number != schema.id
        and any(not _is_stored_alike(f.type, kinds[f.id]) for f in metadata.schema(number).fields if f.id in kinds)
    ]
    return entries["_SCHEMA_ID"].is_in(others)


def _is_stored_alike(old: t.DataType, new: t.DataType) -> bool:
    return t.has_same_values(old, new) or (isinstance(old, t.VarCharType) and isinstance(new, t.VarCharType))


def mask_by_value(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, predicate: Predicate, entries: pl.DataFrame
) -> pl.Series | None:
    """Mask entries whose value statistics may match; only for files that are not merged."""
    del options
    if VALUES_MATCH in entries.columns:
        return entries[VALUES_MATCH]
    return _run_by_schema(metadata, schema, predicate, entries, _mask_values)


def mask_by_row_id(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, predicate: Predicate, entries: pl.DataFrame
) -> pl.Series | None:
    """Mask entries whose row ids may match; return None if the predicate does not restrict them."""
    del metadata, schema, options
    part = project_predicate(predicate, frozenset((ROW_ID,)))
    if part == ALWAYS:
        return None
    first, rows = entries["_FIRST_ROW_ID"], entries["_ROW_COUNT"]
    known = ColumnStats(minimum=first, maximum=first + rows - 1, null_count=None)
    return make_series(mask_by_stats(part, StatsFrame(rows, {ROW_ID: known})))


def mask_by_index(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, predicate: Predicate, entries: pl.DataFrame
) -> pl.Series | None:
    """Mask entries whose file index may match; return None if no file has an index."""
    embedded = entries["_EMBEDDED_FILE_INDEX"].is_not_null()
    beside = entries["_EXTRA_FILES"].list.eval(pl.element().str.ends_with(INDEX_SUFFIX)).list.any().fill_null(False)
    if not options.file_index_enabled or not (embedded | beside).any():
        return None
    paths = build_file_paths(metadata, schema, options, entries)
    numbered = entries.with_columns(paths.alias(PATH))
    return _run_by_schema(metadata, schema, predicate, numbered, _mask_indexes)


def _run_by_schema(
    metadata: TableMetadata, schema: TableSchema, predicate: Predicate, entries: pl.DataFrame, test: SchemaTest
) -> pl.Series:
    """Run `test` on the files of each schema, with the filter translated to the columns of those files."""
    rows = entries.with_row_index(ROW)
    parts = []
    for (schema_id,), group in rows.group_by(["_SCHEMA_ID"], maintain_order=True):
        written = metadata.schema(int(str(schema_id)))
        translated = translate_predicate(predicate, written.fields, schema.fields)
        kept = test(metadata, written.fields, translated, group)
        parts.append(group.select(ROW, pl.Series(KEEP, kept)))
    return pl.concat(parts).sort(ROW)[KEEP]


def _mask_values(
    metadata: TableMetadata, fields: Sequence[t.DataField], predicate: Predicate, entries: pl.DataFrame
) -> pl.Series:
    types = {field.name: field.type for field in fields}
    wanted = [name for name in types if name in find_columns(predicate)]
    return make_series(mask_by_stats(predicate, read_value_stats(entries, types, wanted, where=metadata.where)))


def _mask_indexes(
    metadata: TableMetadata, fields: Sequence[t.DataField], predicate: Predicate, entries: pl.DataFrame
) -> pl.Series:
    types = {field.name: field.type for field in fields}

    def may_match(row: tuple[str, bytes | None, list[str] | None, int]) -> bool:
        path, embedded, extra, row_count = row
        index = load_file_index(metadata, path, embedded, extra)
        return index is None or not _evaluate_index(predicate, index, types, row_count).is_none

    if any(isinstance(types[name], t.CharType) for name in find_columns(predicate)):  # indexes have the blanks
        entries = entries.with_columns(
            pl.when(~_mask_inexact(entries, metadata.where)).then("_EMBEDDED_FILE_INDEX"),
            pl.when(~_mask_inexact(entries, metadata.where)).then("_EXTRA_FILES"),
        )
    columns_of = entries.select(PATH, "_EMBEDDED_FILE_INDEX", "_EXTRA_FILES", "_ROW_COUNT")
    with open_threads(INDEX_READERS) as pool:
        return pl.Series(list(pool.map(may_match, columns_of.iter_rows())), dtype=pl.Boolean)


def load_file_index(
    metadata: TableMetadata, path: str, embedded: bytes | None, extra: list[str] | None
) -> FileIndex | None:
    """Return the index of the data file at `path`, embedded in its entry or an extra file; None without an index.

    Raises `CorruptFile`, `Unsupported`, `FileMissing`, `UnsafePath`.
    """
    from morrow.engine.format.file_index import read_file_index  # few tables have an index, and this import takes 15 ms

    if embedded is not None:
        return read_file_index(embedded, where=f"{path} (embedded index)")
    names = [name for name in extra or () if name.endswith(INDEX_SUFFIX)]
    if not names:
        return None
    beside = f"{path.rsplit('/', 1)[0]}/{check_segment(names[0], metadata.where)}"
    return read_file_index(metadata.store.read(beside), where=beside)


def _evaluate_index(
    predicate: Predicate, index: FileIndex, types: dict[str, t.DataType], row_count: int
) -> IndexResult:
    """Return the rows that may match: the intersection over the parts of an AND, the union over those in an OR."""
    from morrow.engine.format.file_index import ALL, NONE

    if isinstance(predicate, Leaf):
        kind = types[predicate.column]
        return index.evaluate(predicate.column, kind, predicate.op.value, predicate.literals, row_count=row_count)
    results = [_evaluate_index(child, index, types, row_count) for child in predicate.children]
    return reduce(and_ if isinstance(predicate, And) else or_, results, ALL if isinstance(predicate, And) else NONE)


__all__ = ["ColumnStats", "StatsFrame", "mask_by_stats", "read_value_stats"]

Mask = npt.NDArray[np.bool_]

SUCCESSOR_OF_D7FF = "?"
"""Java's writer increments U+D7FF to a lone surrogate, which UTF-8 encodes as a question mark: not an upper bound."""
ABOVE_SURROGATES = "\ue000"


class StatsFrame(msgspec.Struct, frozen=True, eq=False):
    """Statistics of many files, one row per file: `row_count` (Int64; null unknown) and the columns that have any."""

    row_count: pl.Series
    columns: Mapping[str, ColumnStats]
    _known: dict[str, _Bounds | None] = msgspec.field(default_factory=dict)

    def bounds(self, name: str) -> _Bounds | None:
        """Return the trustworthy bounds of a column, None without any. Cached, as a filter may ask a thousand times."""
        if name not in self._known:
            self._known[name] = _make_bounds(self.columns[name])
        return self._known[name]

    def __len__(self) -> int:
        return len(self.row_count)


def read_value_stats(
    entries: pl.DataFrame, types: Mapping[str, t.DataType], wanted: Sequence[str], *, where: str
) -> StatsFrame:
    """Return the statistics of the `wanted` columns, of these `types`, in entries that were written with one schema."""
    stats = entries["_VALUE_STATS"].struct
    found = decode_column_stats(
        stats.field("_MIN_VALUES"),
        stats.field("_MAX_VALUES"),
        stats.field("_NULL_COUNTS"),
        entries.select(pl.coalesce("_VALUE_STATS_COLS", "_WRITE_COLS")).to_series(),
        types,
        wanted,
        where=where,
    )
    return StatsFrame(entries["_ROW_COUNT"], _loosen_bounds(found, types, entries, where))


def mask_by_stats(predicate: Predicate, stats: StatsFrame) -> Mask:
    """Return True for each file that may hold a row for which `predicate` is true; a False is proven.

    The result has one bool per file. Literals must be of their column's type, bounds of its Polars dtype.
    """
    if isinstance(predicate, Leaf):
        return _evaluate_leaf(predicate, stats)
    masks = (mask_by_stats(child, stats) for child in predicate.children)
    if isinstance(predicate, And):
        return reduce(np.logical_and, masks, np.ones(len(stats), dtype=np.bool_))
    return reduce(np.logical_or, masks, np.zeros(len(stats), dtype=np.bool_))


class _Bounds(msgspec.Struct, frozen=True):
    """Bounds of one column: null if unknown; `floats` means that NaN may lie above the maximum."""

    lower: pl.Series
    upper: pl.Series
    floats: bool


def _evaluate_leaf(leaf: Leaf, stats: StatsFrame) -> Mask:
    maybe = np.ones(len(stats), dtype=np.bool_)
    column = stats.columns.get(leaf.column)
    if column is None:
        return maybe
    if leaf.op is Op.IS_NULL:
        return maybe if column.null_count is None else ~_to_sure_mask(column.null_count == 0)
    if column.null_count is not None:
        maybe = ~_to_sure_mask(column.null_count == stats.row_count)
    bounds = stats.bounds(leaf.column)
    if bounds is None or leaf.op is Op.IS_NOT_NULL:
        return maybe
    return maybe & ~_EXCLUDED[leaf.op](bounds, leaf.literals)


def _make_bounds(column: ColumnStats) -> _Bounds | None:
    lower, upper = column.minimum, column.maximum
    if lower is None and upper is None:
        return None
    lower = pl.Series([None] * len(upper), dtype=upper.dtype) if lower is None and upper is not None else lower
    upper = pl.Series([None] * len(lower), dtype=lower.dtype) if upper is None and lower is not None else upper
    assert lower is not None
    assert upper is not None
    if lower.dtype.is_nested() or upper.dtype.is_nested():
        return None
    floats = lower.dtype.is_float()
    if floats:
        lower, upper = lower.fill_nan(None), upper.fill_nan(None)
    if upper.dtype == pl.String:
        upper = upper.str.replace(r"\?$", ABOVE_SURROGATES)
    contradicting = _to_sure_mask(lower > upper)
    if contradicting.any():
        known = pl.Series(~contradicting)
        lower, upper = (bound.zip_with(known, pl.Series([None], dtype=bound.dtype)) for bound in (lower, upper))
    return _Bounds(lower, upper, floats)


def _to_sure_mask(condition: pl.Series) -> Mask:
    """Return a mask that is true if the condition is true: null (unknown) counts as false."""
    known = condition.fill_null(False) if condition.null_count() else condition
    sure: Mask = known.to_numpy().astype(np.bool_, copy=False)
    return sure


def _to_typed(value: Value, like: pl.Series) -> pl.Series:
    """Return the literal as one value of the bounds' dtype, without a cast or rounding."""
    if isinstance(value, np.datetime64):  # nanoseconds, which Python's datetime lacks: as an integer
        return pl.Series([int(value.astype("datetime64[ns]").astype(np.int64))], dtype=pl.Int64).cast(like.dtype)
    return pl.Series([value], dtype=like.dtype)


def _to_series(values: Sequence[Value], like: pl.Series) -> pl.Series:
    """Return literals as values of the bounds' dtype."""
    if any(isinstance(value, np.datetime64) for value in values):
        return pl.concat([_to_typed(value, like) for value in values])
    return pl.Series(values, dtype=like.dtype)


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _exclude_nothing(bounds: _Bounds) -> Mask:
    return np.zeros(len(bounds.lower), dtype=np.bool_)


def _is_outside(bounds: _Bounds, value: Value) -> Mask:
    """Return a mask of the files in which no value equals this one."""
    if _is_nan(value):
        return _exclude_nothing(bounds)
    literal = _to_typed(value, bounds.lower)
    return _to_sure_mask(bounds.lower > literal) | _to_sure_mask(bounds.upper < literal)


def _is_only(bounds: _Bounds, value: Value) -> Mask:
    """Return a mask of the files in which every non-null value equals this one: the bounds meet, so neither was cut."""
    if bounds.floats:
        return _exclude_nothing(bounds)
    return _to_sure_mask(bounds.lower == _to_typed(value, bounds.lower)) & _to_sure_mask(
        bounds.upper == _to_typed(value, bounds.upper)
    )


def _exclude_less(bounds: _Bounds, literals: tuple[Value, ...], *, or_equal: bool) -> Mask:
    value = literals[0]
    if _is_nan(value):
        return _exclude_nothing(bounds)
    literal = _to_typed(value, bounds.lower)
    return _to_sure_mask(bounds.lower > literal if or_equal else bounds.lower >= literal)


def _exclude_greater(bounds: _Bounds, literals: tuple[Value, ...], *, or_equal: bool) -> Mask:
    if bounds.floats:
        value = literals[0]
        never = _is_nan(value) and not or_equal
        return np.full(len(bounds.lower), never, dtype=np.bool_)
    literal = _to_typed(literals[0], bounds.upper)
    return _to_sure_mask(bounds.upper < literal if or_equal else bounds.upper <= literal)


def _exclude_all_of(bounds: _Bounds, literals: tuple[Value, ...]) -> Mask:
    """Evaluate IN: no literal lies within the bounds. One binary search per file, however long the list."""
    if any(map(_is_nan, literals)):
        return _exclude_nothing(bounds)
    values = _to_series(literals, bounds.lower).unique().sort() if literals else bounds.lower.clear()
    first = values.search_sorted(bounds.lower, side="left")
    last = values.search_sorted(bounds.upper, side="right")
    known = (bounds.lower.is_not_null() & bounds.upper.is_not_null()).to_numpy()
    below = _to_sure_mask(bounds.lower > values.tail(1)) if len(values) else np.ones(len(bounds.lower), dtype=np.bool_)
    above = _to_sure_mask(bounds.upper < values.head(1)) if len(values) else below
    between: Mask = known & (first.to_numpy() >= last.to_numpy())
    return between | below | above


def _exclude_other_than(bounds: _Bounds, literals: tuple[Value, ...]) -> Mask:
    """Evaluate NOT IN: the file holds a single value, which is in the list. One pass over the list serves all files."""
    if bounds.floats or not literals:
        return _exclude_nothing(bounds)
    excluded = _to_sure_mask(bounds.lower == bounds.upper)
    if excluded.any():
        listed = _to_series(literals, bounds.lower)
        excluded[excluded] = _to_sure_mask(bounds.lower.filter(pl.Series(excluded)).is_in(listed.implode()))
    return excluded


def _exclude_prefix(bounds: _Bounds, literals: tuple[Value, ...]) -> Mask:
    """Evaluate STARTS WITH p: strings from p up to, not including, the successor of p."""
    prefix = str(literals[0])
    excluded = _to_sure_mask(bounds.upper < _to_typed(prefix, bounds.upper))
    successor = find_successor(prefix)
    if successor is None:
        return excluded
    return excluded | _to_sure_mask(bounds.lower >= _to_typed(successor, bounds.lower))


def _exclude_other_prefix(bounds: _Bounds, literals: tuple[Value, ...]) -> Mask:
    """Evaluate NOT STARTS WITH p: all strings lie between two that start with p."""
    prefix = str(literals[0])
    return _to_sure_mask(bounds.lower.str.starts_with(prefix)) & _to_sure_mask(bounds.upper.str.starts_with(prefix))


_EXCLUDED: dict[Op, Callable[[_Bounds, tuple[Value, ...]], Mask]] = {
    Op.EQ: lambda bounds, literals: _is_outside(bounds, literals[0]),
    Op.NE: lambda bounds, literals: _is_only(bounds, literals[0]),
    Op.LT: lambda bounds, literals: _exclude_less(bounds, literals, or_equal=False),
    Op.LE: lambda bounds, literals: _exclude_less(bounds, literals, or_equal=True),
    Op.GT: lambda bounds, literals: _exclude_greater(bounds, literals, or_equal=False),
    Op.GE: lambda bounds, literals: _exclude_greater(bounds, literals, or_equal=True),
    Op.IN: _exclude_all_of,
    Op.NOT_IN: _exclude_other_than,
    Op.STARTS_WITH: _exclude_prefix,
    Op.NOT_STARTS_WITH: _exclude_other_prefix,
}

ORC = r"(?i)\.orc$"

FIRST_MODERN = date(1583, 1, 1)
"""Some weeks after the switch of calendars: writers may have recorded bounds in either calendar, or in a time zone."""

ORC_ROW = "_ROW"


def is_without_statistics(schema: TableSchema, entries: pl.DataFrame) -> bool:
    """Return whether dates of ORC files may be read although the entries lack statistics about them."""
    told = "_VALUE_STATS" in entries.columns or MODERN_DATES in entries.columns
    if told or not any(isinstance(field.type, t.DateType) for field in schema.fields):
        return False
    return bool(entries["_FILE_NAME"].str.contains(ORC).any())


def add_modern_dates(metadata: TableMetadata, entries: pl.DataFrame) -> pl.DataFrame:
    """Add `MODERN_DATES`: the DATE columns of ORC files that certainly hold no date before `FIRST_MODERN`.

    The entries stay unchanged if no file has such columns, or if statistics are missing.
    """
    if "_VALUE_STATS" not in entries.columns:
        return entries
    is_orc = entries["_FILE_NAME"].str.contains(ORC)
    if not is_orc.any():
        return entries
    parts = []
    for (schema_id,), group in entries.with_row_index(ORC_ROW).filter(is_orc).group_by(["_SCHEMA_ID"]):
        types = {field.name: field.type for field in metadata.schema(int(str(schema_id))).fields}
        dates = [name for name, kind in types.items() if isinstance(kind, t.DateType)]
        if not dates:
            continue
        stats = read_value_stats(group, types, dates, where=metadata.where)
        modern = [~mask_by_stats(Leaf(name, Op.LT, (FIRST_MODERN,)), stats) for name in dates]
        names = [pl.when(pl.Series(flags)).then(pl.lit(name)) for name, flags in zip(dates, modern)]
        lists = pl.select(pl.concat_list(names).list.drop_nulls()).to_series()
        parts.append(pl.DataFrame([group[ORC_ROW], lists.alias(MODERN_DATES)]))
    if not parts:
        return entries
    return (
        entries.with_row_index(ORC_ROW)
        .join(pl.concat(parts), on=ORC_ROW, how="left", maintain_order="left")
        .drop(ORC_ROW)
    )
