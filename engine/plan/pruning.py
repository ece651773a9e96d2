"""File pruning by bucket hash, key statistics, value statistics and file indexes.

Every mask here is conservative: true where the file may hold a matching row, and true wherever statistics are absent,
truncated or of another type than the current one. Where another process has decoded the entries and has left their
statistics behind (`outlined`), it has told the masks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from morrow.engine.format.paths import INDEX_SUFFIX, segment
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.stats import column_stats
from morrow.engine.format.types import DataField, DataType
from morrow.engine.names import BUCKET_MATCHES, KEEP, KEYS_MATCH, PATH, ROW, VALUES_MATCH
from morrow.engine.options import TableOptions
from morrow.engine.plan.data_files import file_paths
from morrow.engine.plan.evolution import translate_predicate
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import (
    ALWAYS,
    And,
    Leaf,
    Op,
    Or,
    Predicate,
    Value,
    columns,
    conjunction,
    conjuncts,
)
from morrow.engine.plan.stats_pruning import StatsFrame, keep_mask, value_stats

if TYPE_CHECKING:
    from morrow.engine.format.file_index import FileIndex, IndexResult

MOST_BUCKET_KEYS = 1000
"""The most combinations of key values hashed for bucket pruning; a longer IN list prunes nothing."""

INDEX_READERS = 4

SchemaTest = Callable[[TableMetadata, Sequence[DataField], Predicate, pl.DataFrame], pl.Series]
"""Tests files that were all written with the same columns; the predicate names those."""


def projected(predicate: Predicate, kept: frozenset[str]) -> Predicate:
    """Projects `predicate` on the columns `kept`: every row that satisfies it satisfies the result too."""
    if isinstance(predicate, Leaf):
        return predicate if predicate.column in kept else ALWAYS
    parts = tuple(projected(child, kept) for child in predicate.children)
    if isinstance(predicate, And):
        return conjunction(*parts)
    return ALWAYS if ALWAYS in parts else Or(parts)


def bucket_mask(schema: TableSchema, options: TableOptions, predicate: Predicate, entries: pl.DataFrame) -> pl.Series:
    """Masks entries whose bucket may have a matching row: the filter pins all bucket keys to values (``=``, ``IN``)."""
    if BUCKET_MATCHES in entries.columns:
        return entries[BUCKET_MATCHES]
    everything = pl.repeat(True, entries.height, eager=True)
    keys = options.bucket_key or schema.trimmed_primary_keys
    if options.bucket <= 0 or not keys:
        return everything
    values = _pinned(predicate, keys)
    if values is None:
        return everything
    from morrow.engine.format.bucket import bucket_of  # only filters on all keys hash anything

    types = [schema.by_name[name].type for name in keys]
    combinations = list(zip(*itertools.product(*values)))
    literals = [pa.array(column, kind.arrow()) for column, kind in zip(combinations, types)]
    mask = everything
    # A partition keeps the bucket count it was written with until it is overwritten (rescale).
    for total in entries["_TOTAL_BUCKETS"].unique().to_list():
        if total < 1:
            continue
        buckets = pl.Series(bucket_of(literals, types, total, options.bucket_function))
        mask &= (entries["_TOTAL_BUCKETS"] != total) | entries["_BUCKET"].is_in(buckets.unique().implode())
    return mask


def _pinned(predicate: Predicate, keys: Sequence[str]) -> list[tuple[Value, ...]] | None:
    """Returns the possible values of each key, None when one is not pinned or there are too many combinations."""
    pinned = {
        part.column: part.literals
        for part in conjuncts(predicate)
        if isinstance(part, Leaf) and part.op in (Op.EQ, Op.IN) and part.literals
    }
    values = [pinned[key] for key in keys if key in pinned]
    if len(values) < len(keys) or math.prod(map(len, values)) > MOST_BUCKET_KEYS:
        return None
    if any(isinstance(value, float) and not abs(value) > 0 for column in values for value in column):
        return None  # 0.0 equals -0.0, and NaNs each other, whose hashes differ
    return values


def key_mask(metadata: TableMetadata, schema: TableSchema, predicate: Predicate, entries: pl.DataFrame) -> pl.Series:
    """Masks entries whose key statistics may match; sound for files that merge, since versions share their key."""
    if KEYS_MATCH in entries.columns:
        return entries[KEYS_MATCH]
    keys = schema.trimmed_primary_keys
    part = projected(predicate, frozenset(keys))
    if part == ALWAYS:
        return pl.repeat(True, entries.height, eager=True)
    types = {name: schema.by_name[name].type for name in keys}
    stats = entries["_KEY_STATS"].struct
    found = column_stats(
        stats.field("_MIN_VALUES"),
        stats.field("_MAX_VALUES"),
        stats.field("_NULL_COUNTS"),
        None,
        types,
        [name for name in keys if name in columns(part)],
        where=metadata.where,
    )
    return pl.Series(keep_mask(part, StatsFrame(entries["_ROW_COUNT"], found)))


def value_mask(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, predicate: Predicate, entries: pl.DataFrame
) -> pl.Series | None:
    """Masks entries whose value statistics may match; only for files that nothing is merged with."""
    del options
    if VALUES_MATCH in entries.columns:
        return entries[VALUES_MATCH]
    return _by_schema(metadata, schema, predicate, entries, _value_mask)


def index_mask(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, predicate: Predicate, entries: pl.DataFrame
) -> pl.Series | None:
    """Masks entries whose file index may match; returns None when there is no index to ask."""
    embedded = entries["_EMBEDDED_FILE_INDEX"].is_not_null()
    beside = entries["_EXTRA_FILES"].list.eval(pl.element().str.ends_with(INDEX_SUFFIX)).list.any().fill_null(False)
    if not options.file_index_enabled or not (embedded | beside).any():
        return None
    paths = file_paths(metadata, schema, options, entries)
    numbered = entries.with_columns(paths.alias(PATH))
    return _by_schema(metadata, schema, predicate, numbered, _index_mask)


def _by_schema(
    metadata: TableMetadata, schema: TableSchema, predicate: Predicate, entries: pl.DataFrame, test: SchemaTest
) -> pl.Series:
    """Runs `test` on the files of each schema, with the filter in the columns of those files."""
    rows = entries.with_row_index(ROW)
    parts = []
    for (schema_id,), group in rows.group_by(["_SCHEMA_ID"], maintain_order=True):
        written = metadata.schema(int(str(schema_id)))
        translated = translate_predicate(predicate, written.fields, schema.fields)
        kept = test(metadata, written.fields, translated, group)
        parts.append(group.select(ROW, pl.Series(KEEP, kept)))
    return pl.concat(parts).sort(ROW)[KEEP]


def _value_mask(
    metadata: TableMetadata, fields: Sequence[DataField], predicate: Predicate, entries: pl.DataFrame
) -> pl.Series:
    types = {field.name: field.type for field in fields}
    wanted = [name for name in types if name in columns(predicate)]
    return pl.Series(keep_mask(predicate, value_stats(entries, types, wanted, where=metadata.where)))


def _index_mask(
    metadata: TableMetadata, fields: Sequence[DataField], predicate: Predicate, entries: pl.DataFrame
) -> pl.Series:
    types = {field.name: field.type for field in fields}

    def may_match(row: tuple[str, bytes | None, list[str] | None, int]) -> bool:
        path, embedded, extra, row_count = row
        index = file_index(metadata, path, embedded, extra)
        return index is None or not _index_rows(predicate, index, types, row_count).is_none

    columns_of = entries.select(PATH, "_EMBEDDED_FILE_INDEX", "_EXTRA_FILES", "_ROW_COUNT")
    with ThreadPoolExecutor(INDEX_READERS) as pool:
        return pl.Series(list(pool.map(may_match, columns_of.iter_rows())), dtype=pl.Boolean)


def file_index(metadata: TableMetadata, path: str, embedded: bytes | None, extra: list[str] | None) -> FileIndex | None:
    """Returns the index of the data file at `path`, embedded in its entry or one of its extra files; None without one.

    Raises:
        CorruptFile, Unsupported, FileMissing, UnsafePath.
    """
    from morrow.engine.format.file_index import read_file_index  # few tables have one, and it takes 15 ms to import

    if embedded is not None:
        return read_file_index(embedded, where=f"{path} (embedded index)")
    names = [name for name in extra or () if name.endswith(INDEX_SUFFIX)]
    if not names:
        return None
    beside = f"{path.rsplit('/', 1)[0]}/{segment(names[0], metadata.where)}"
    return read_file_index(metadata.store.read(beside), where=beside)


def _index_rows(predicate: Predicate, index: FileIndex, types: dict[str, DataType], row_count: int) -> IndexResult:
    """Returns the rows that may match: of an AND those of all parts, of an OR those of any part."""
    from morrow.engine.format.file_index import ALL, NONE

    if isinstance(predicate, Leaf):
        kind = types[predicate.column]
        return index.evaluate(predicate.column, kind, predicate.op.value, predicate.literals, row_count=row_count)
    results = [_index_rows(child, index, types, row_count) for child in predicate.children]
    return reduce(and_ if isinstance(predicate, And) else or_, results, ALL if isinstance(predicate, And) else NONE)
