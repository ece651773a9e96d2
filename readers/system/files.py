"""System tables of a snapshot's files: data files, key ranges, partitions, buckets, manifests and indexes.

``$files`` and ``$file_key_ranges`` list the live data files. Scans of the table see the same files, except for level
0, which is always listed here. They are ordered by partition and bucket, within a bucket as in the manifests. (Java's
order is arbitrary: it iterates over a hash map.)

Value statistics are shown as text, in the columns of the schema that is read: ``{a=1, b=null}``. A file's statistics
cover columns of the schema it was written with, and only some of them (`morrow.engine.format.manifest_entries`).
Columns are matched by field id; a value of another type is cast as a row's value would be. A column that the file's
schema does not have is null in every row, so its null count is the number of rows; a column without statistics shows
null.
A file without any statistics shows ``{}``.

``$partitions`` and ``$buckets`` are sums over all manifest entries, from which a DELETE subtracts what its ADD
counted. Only the time of the last update is the newest file's time, even if that file was deleted later. Java counts
the same way, so the result changes when manifests are merged.

``$manifests`` lists the manifests of a snapshot, changelog manifests last. ``$table_indexes`` lists its index files
and the ranges of their deletion vectors, ``$file_indexes`` the indexes of its data files. Partitions are shown as
``{2024-01-01, 7}``, in ``$partitions`` as ``dt=2024-01-01/hour=7``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.binary_row import decode_columns, read_arities
from morrow.engine.format.manifest_entries import ADD, DELETION_VECTORS_INDEX, UNKNOWN
from morrow.engine.format.paths import INDEX_SUFFIX, POSTPONE_BUCKET, check_segment
from morrow.engine.format.schema import TableSchema
from morrow.engine.names import cols
from morrow.engine.plan.data_files import ENDING, build_file_paths
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.manifests import (
    list_changelog_manifests,
    list_manifests,
    read_index_entries,
    read_manifest_entries,
)
from morrow.engine.plan.metadata import TableMetadata
from morrow.readers.casts import cast_array
from morrow.readers.casts.dtypes import to_arrow_array, to_polars_dtype, to_polars_schema, to_series
from morrow.readers.casts.java_strings import format_stored_values, format_values, join_texts, to_java_sort_key
from morrow.readers.system.base import MetadataTable, TableState, make_columns, make_frame

FILE_COLUMNS = make_columns(
    partition="STRING",
    bucket="INT NOT NULL",
    file_path="STRING NOT NULL",
    file_format="STRING NOT NULL",
    schema_id="BIGINT NOT NULL",
    level="INT NOT NULL",
    record_count="BIGINT NOT NULL",
    file_size_in_bytes="BIGINT NOT NULL",
    min_key="STRING",
    max_key="STRING",
    null_value_counts="STRING NOT NULL",
    min_value_stats="STRING NOT NULL",
    max_value_stats="STRING NOT NULL",
    min_sequence_number="BIGINT",
    max_sequence_number="BIGINT",
    creation_time="TIMESTAMP(3)",
    deleteRowCount="BIGINT",
    file_source="STRING",
    first_row_id="BIGINT",
    write_cols=t.ArrayType(element=t.VarCharType()),
)
KEY_RANGE_COLUMNS = make_columns(
    **{field.name: field.type for field in FILE_COLUMNS[:10]},
    first_row_id="BIGINT",
)

SOURCES = {0: "APPEND", 1: "COMPACT"}

AS_STORED: Mapping[str, str] = {
    "bucket": "_BUCKET",
    "schema_id": "_SCHEMA_ID",
    "level": "_LEVEL",
    "record_count": "_ROW_COUNT",
    "file_size_in_bytes": "_FILE_SIZE",
    "min_sequence_number": "_MIN_SEQUENCE_NUMBER",
    "max_sequence_number": "_MAX_SEQUENCE_NUMBER",
    "creation_time": "_CREATION_TIME",
    "deleteRowCount": "_DELETE_ROW_COUNT",
    "first_row_id": "_FIRST_ROW_ID",
    "write_cols": "_WRITE_COLS",
}

Derive: TypeAlias = Callable[[TableState, pl.DataFrame], pl.Series]


def _make_files(state: TableState, wanted: Collection[str]) -> pl.DataFrame:
    if state.snapshot is None:
        return make_frame(FILE_COLUMNS, [])
    metadata = state.metadata
    files = read_live_entries(metadata, state.snapshot, state.schema).frame.filter(is_real_bucket(state))
    partition = partition_rows(files["_PARTITION"], state.schema, where=metadata.where)
    files = files.with_columns(partition.alias("partition")).sort("partition", "_BUCKET", maintain_order=True)
    derived = [make(state, files).alias(name) for name, make in _DERIVED.items() if name in wanted]
    stats = format_value_stats(metadata, state.schema, files, [name for name in STATS_COLUMNS if name in wanted])
    stored = {name: column for name, column in AS_STORED.items() if name in wanted}
    return files.select("partition", *derived, *stats, **stored)


def _build_paths(state: TableState, files: pl.DataFrame) -> pl.Series:
    """Return the path of each file; external paths are returned as stored, even if they must not be read."""
    if not files.height:
        return pl.Series([], dtype=pl.String)
    metadata = state.metadata
    inside = files.with_columns(pl.lit(None, dtype=pl.String).alias("_EXTERNAL_PATH"))
    base = metadata.store.url(metadata.root).removesuffix(metadata.root)
    return files["_EXTERNAL_PATH"].fill_null(base + build_file_paths(metadata, state.schema, state.options, inside))


def _extract_formats(_state: TableState, files: pl.DataFrame) -> pl.Series:
    return files["_FILE_NAME"].str.extract(ENDING).fill_null("")


def _name_sources(_state: TableState, files: pl.DataFrame) -> pl.Series:
    return files["_FILE_SOURCE"].replace_strict(SOURCES, default=None, return_dtype=pl.String)


def _make_key_formatter(stored: str) -> Derive:
    """Return a formatter of this column's keys as ``[1, a]``, typed by the file's schema; null without a key."""

    def texts(state: TableState, files: pl.DataFrame) -> pl.Series:
        metadata = state.metadata
        keyed = files.select("_SCHEMA_ID", stored).with_row_index("row")
        keyed = keyed.filter(pl.Series(read_arities(keyed[stored], where=metadata.where) > 0))
        parts = [pl.DataFrame(schema={"row": pl.UInt32, "text": pl.String})]
        for (schema_id,), part in keyed.group_by("_SCHEMA_ID", maintain_order=True):
            schema = metadata.schema(int(str(schema_id)))
            types = [schema.by_name[name].type for name in schema.trimmed_primary_keys or schema.by_name]
            columns = format_stored_values(part[stored], types, range(len(types)), where=metadata.where)
            text = join_texts([("", column) for column in columns], "[]", part.height)
            parts.append(part.select("row", text.alias("text")))
        rows = pl.DataFrame({"row": pl.int_range(files.height, dtype=pl.UInt32, eager=True)})
        return rows.join(pl.concat(parts), on="row", how="left", maintain_order="left")["text"]

    return texts


_DERIVED: Mapping[str, Derive] = {
    "file_path": _build_paths,
    "file_format": _extract_formats,
    "min_key": _make_key_formatter("_MIN_KEY"),
    "max_key": _make_key_formatter("_MAX_KEY"),
    "file_source": _name_sources,
}

FILES = MetadataTable(
    "files", "the live data files of a snapshot, with their statistics", FILE_COLUMNS, _make_files, travels=True
)
FILE_KEY_RANGES = MetadataTable(
    "file_key_ranges", "the live data files of a snapshot and their keys", KEY_RANGE_COLUMNS, _make_files, travels=True
)

NULL_COUNTS, MINIMA, MAXIMA = "null_value_counts", "min_value_stats", "max_value_stats"
STATS_COLUMNS = (NULL_COUNTS, MINIMA, MAXIMA)
_MEMBERS = {MINIMA: "_MIN_VALUES", MAXIMA: "_MAX_VALUES"}
_COVERED, _ROW, _EMPTY = "covered", "row", "{}"


@dataclass(frozen=True)
class _Column:
    """A column that is read, its field in the file's schema, and its index in the statistics (each None if absent)."""

    read: t.DataField
    written: t.DataField | None
    place: int | None


@dataclass(frozen=True)
class _Layout:
    """Files of one schema whose statistics cover the same columns: `stored` by name, `columns` in Java's order."""

    stored: tuple[str, ...]
    schema: TableSchema
    columns: tuple[_Column, ...]

    @property
    def known(self) -> list[_Column]:
        return [column for column in self.columns if column.place is not None]


def format_value_stats(
    metadata: TableMetadata, schema: TableSchema, files: pl.DataFrame, wanted: Collection[str]
) -> pl.DataFrame:
    """Return the wanted `STATS_COLUMNS`, a row for each of `files` (columns of manifest entries), in order.

    Raises:
        CorruptFile: statistics lack a value for one of their columns. FileMissing: a schema is gone.
        Unsupported: a value that cannot be cast to the type its column has now.
    """
    names = [name for name in STATS_COLUMNS if name in wanted]
    if not names or not files.height:
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    covered = files["_VALUE_STATS_COLS"].zip_with(files["_VALUE_STATS_COLS"].is_not_null(), files["_WRITE_COLS"])
    rows = files.select("_SCHEMA_ID", "_VALUE_STATS", "_ROW_COUNT", covered.alias(_COVERED)).with_row_index(_ROW)
    parts = []
    for (schema_id, stored), part in rows.group_by("_SCHEMA_ID", _COVERED, maintain_order=True):
        layout = _make_layout(metadata.schema(int(str(schema_id))), schema, stored)
        texts = {name: _format_stats(name, layout, part, metadata.where) for name in names}
        parts.append(part.select(_ROW).with_columns(**texts))
    return pl.concat(parts).sort(_ROW).select(names)


def _make_layout(written: TableSchema, read: TableSchema, stored: object) -> _Layout:
    names = tuple(written.by_name) if stored is None else tuple(stored)  # type: ignore[arg-type]  # a list of names
    by_id = {field.id: field for field in written.fields}
    places = {name: place for place, name in enumerate(names)}

    def column(field: t.DataField) -> _Column:
        before = by_id.get(field.id)
        return _Column(field, before, None if before is None else places.get(before.name))

    columns = sorted(map(column, read.fields), key=lambda column: to_java_sort_key(column.read.name))
    return _Layout(names, written, tuple(columns))


def _format_stats(name: str, layout: _Layout, part: pl.DataFrame, where: str) -> pl.Series:
    stats = part["_VALUE_STATS"].struct
    absent = pl.Series(read_arities(stats.field("_MIN_VALUES"), where=where) == 0)
    if name == NULL_COUNTS:
        found = _format_null_counts(layout, stats.field("_NULL_COUNTS"), part["_ROW_COUNT"], where)
    else:
        found = _format_bounds(layout, stats.field(_MEMBERS[name]), absent, where)
    shown = [(f"{column.read.name}=", text) for column, text in zip(layout.columns, found, strict=True)]
    texts = join_texts(shown, "{}", part.height)
    if layout.stored and absent.any():
        texts = texts.zip_with(~absent, pl.Series([_EMPTY]))
    return texts


def _format_null_counts(layout: _Layout, counts: pl.Series, rows: pl.Series, where: str) -> list[pl.Series]:
    sizes = counts.list.len()
    if ((sizes != len(layout.stored)) & (sizes != 0)).any():
        raise Unsupported(
            f"statistics whose null counts are not for the file's {len(layout.stored)} columns", where=where
        )

    def of(column: _Column) -> pl.Series:
        if column.written is None:
            return rows.cast(pl.String)
        if column.place is None:
            return _make_nulls(len(rows))
        return counts.list.get(column.place, null_on_oob=True).cast(pl.String)

    return [of(column) for column in layout.columns]


def _format_bounds(layout: _Layout, stored: pl.Series, absent: pl.Series, where: str) -> list[pl.Series]:
    if absent.any():
        stored = stored.zip_with(~absent, pl.Series([None], dtype=pl.Binary))
    known = layout.known
    same = [c for c in known if c.written is not None and t.has_same_values(c.written.type, c.read.type)]
    changed = [c for c in known if c not in same]
    types = [layout.schema.by_name[name].type if name in layout.schema.by_name else UNKNOWN for name in layout.stored]
    texts = dict(
        zip(_list_ids(same), format_stored_values(stored, types, _list_places(same), where=where), strict=True)
    )
    values = decode_columns(stored, types, where=where, columns=_list_places(changed), unrepresentable="null")
    texts |= {c.read.id: _cast_text(c, value, where) for c, value in zip(changed, values, strict=True)}
    nothing = _make_nulls(len(stored))
    return [texts.get(column.read.id, nothing) for column in layout.columns]


def _cast_text(column: _Column, values: pl.Series, where: str) -> pl.Series:
    """Return the text of a value in the column's current type."""
    if values.null_count() == len(values):  # nested values are never shown
        return _make_nulls(len(values))
    assert column.written is not None
    source, target = column.written.type, column.read.type
    place = f"{where}, column {column.read.name}"
    cast = cast_array(to_arrow_array(values, source), source, target, where=place)
    return format_values(to_series(column.read.name, cast, target), target)


def _list_ids(columns: Sequence[_Column]) -> list[int]:
    return [column.read.id for column in columns]


def _list_places(columns: Sequence[_Column]) -> list[int]:
    return [column.place for column in columns if column.place is not None]


def _make_nulls(count: int) -> pl.Series:
    return pl.Series([None], dtype=pl.String).new_from_index(0, count)


PARTITION_COLUMNS = make_columns(
    partition="STRING",
    record_count="BIGINT NOT NULL",
    file_size_in_bytes="BIGINT NOT NULL",
    file_count="BIGINT NOT NULL",
    last_update_time="TIMESTAMP(3)",
    created_at="TIMESTAMP(3)",
    created_by="STRING",
    updated_by="STRING",
    options="STRING",
    total_buckets="INT NOT NULL",
    done="BOOLEAN NOT NULL",
    deleted_record_count="BIGINT",
)
"""Columns of ``$partitions``. Four of them are null, and `done` is false, unless a catalog manages the partitions."""
UNMANAGED = ("created_at", "created_by", "updated_by", "options")

BUCKET_COLUMNS = make_columns(
    partition="STRING",
    bucket="INT NOT NULL",
    record_count="BIGINT NOT NULL",
    file_size_in_bytes="BIGINT NOT NULL",
    file_count="BIGINT NOT NULL",
    last_update_time="TIMESTAMP(3)",
)

COUNTED = ("_KIND", "_PARTITION", "_BUCKET", "_TOTAL_BUCKETS", "_ROW_COUNT", "_FILE_SIZE", "_CREATION_TIME")


def is_real_bucket(state: TableState) -> pl.Expr:
    """Return a condition for the entries that scans of the table see: postponed rows are not in a bucket yet."""
    return pl.col("_BUCKET") >= 0 if state.options.bucket == POSTPONE_BUCKET else pl.lit(True)


def partition_sums(state: TableState, keys: Sequence[str], kept: pl.Expr) -> pl.DataFrame | None:
    """Return counts of each group of entries that still has files; None for a table without a snapshot."""
    if state.snapshot is None:
        return None
    manifests = list_manifests(state.metadata, state.snapshot)
    if not manifests.height:
        return None
    entries = pl.concat([frame.select(COUNTED) for frame in read_manifest_entries(state.metadata, manifests)])
    sign = pl.when(pl.col("_KIND") == ADD).then(1).otherwise(-1)
    return (
        entries.lazy()
        .filter(kept)
        .group_by(keys)
        .agg(
            (pl.col("_ROW_COUNT") * sign).sum().alias("record_count"),
            (pl.col("_FILE_SIZE") * sign).sum().alias("file_size_in_bytes"),
            sign.cast(pl.Int64).sum().alias("file_count"),
            pl.col("_CREATION_TIME").max().alias("last_update_time"),
            pl.col("_TOTAL_BUCKETS").last().alias("total_buckets"),
        )
        .filter(pl.col("file_count") > 0)
        .collect()
    )


def _make_partitions(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    sums = partition_sums(state, ["_PARTITION"], is_real_bucket(state))
    if sums is None:
        return make_frame(PARTITION_COLUMNS, [])
    default, where = state.options.partition_default_name, state.metadata.where
    dtypes = to_polars_schema(PARTITION_COLUMNS)
    return sums.with_columns(
        partition_specs(sums["_PARTITION"], state.schema, default, where=where).alias("partition"),
        *(pl.lit(None, dtypes[name]).alias(name) for name in UNMANAGED),
        pl.lit(False).alias("done"),
        pl.Series("deleted_record_count", _count_deleted(state, sums["_PARTITION"]), pl.Int64),
    ).sort("partition")


def _count_deleted(state: TableState, partitions: pl.Series) -> pl.Series:
    """Return the rows that deletion vectors mark as dead in each of these partitions; null if that is not recorded."""
    none = pl.Series([0], dtype=pl.Int64).new_from_index(0, len(partitions))
    entries = None if state.snapshot is None else read_index_entries(state.metadata, state.snapshot)
    if entries is None or not state.options.deletion_vectors:
        return none
    ranges = entries.filter(pl.col("_INDEX_TYPE") == DELETION_VECTORS_INDEX).select(
        "_PARTITION", pl.col("_DELETIONS_VECTORS_RANGES").explode().struct.field("_CARDINALITY")
    )
    unknown = pl.col("_CARDINALITY").is_null().any()
    dead = ranges.group_by("_PARTITION").agg(pl.when(~unknown).then(pl.col("_CARDINALITY").sum()).alias("dead"))
    found = pl.DataFrame({"_PARTITION": partitions}).join(dead, on="_PARTITION", how="left", maintain_order="left")
    without = ~partitions.is_in(dead["_PARTITION"].implode())
    return found["dead"].zip_with(~without, none)


def _make_buckets(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    sums = partition_sums(state, ["_PARTITION", "_BUCKET"], pl.lit(True))
    if sums is None:
        return make_frame(BUCKET_COLUMNS, [])
    partition = partition_rows(sums["_PARTITION"], state.schema, where=state.metadata.where).alias("partition")
    return sums.rename({"_BUCKET": "bucket"}).with_columns(partition).sort("partition", "bucket")


PARTITIONS = MetadataTable(
    "partitions", "rows, bytes and files of each partition", PARTITION_COLUMNS, _make_partitions, travels=True
)
BUCKETS = MetadataTable("buckets", "rows, bytes and files of each bucket", BUCKET_COLUMNS, _make_buckets, travels=True)

MANIFEST_COLUMNS = make_columns(
    file_name="STRING NOT NULL",
    file_size="BIGINT NOT NULL",
    num_added_files="BIGINT NOT NULL",
    num_deleted_files="BIGINT NOT NULL",
    schema_id="BIGINT NOT NULL",
    min_partition_stats="STRING",
    max_partition_stats="STRING",
    min_row_id="BIGINT",
    max_row_id="BIGINT",
)


def _make_manifests(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    metadata, snapshot = state.metadata, state.snapshot
    if snapshot is None:
        return make_frame(MANIFEST_COLUMNS, [])
    changelog = list_changelog_manifests(metadata, snapshot)
    listed = list_manifests(metadata, snapshot)
    listed = listed if changelog is None else pl.concat([listed, changelog])
    stats = listed["_PARTITION_STATS"].struct
    return listed.select(
        file_name="_FILE_NAME",
        file_size="_FILE_SIZE",
        num_added_files="_NUM_ADDED_FILES",
        num_deleted_files="_NUM_DELETED_FILES",
        schema_id="_SCHEMA_ID",
        min_partition_stats=partition_rows(stats.field("_MIN_VALUES"), state.schema, where=metadata.where),
        max_partition_stats=partition_rows(stats.field("_MAX_VALUES"), state.schema, where=metadata.where),
        min_row_id="_MIN_ROW_ID",
        max_row_id="_MAX_ROW_ID",
    )


MANIFESTS = MetadataTable("manifests", "the manifests of a snapshot", MANIFEST_COLUMNS, _make_manifests, travels=True)

RANGES = t.ArrayType(
    element=t.RowType(
        fields=make_columns(
            f0="STRING NOT NULL",  # the data file
            f1="INT NOT NULL",  # start of its vector
            f2="INT NOT NULL",  # length of its vector
            _CARDINALITY="BIGINT",
        )
    )
)
INDEX_COLUMNS = make_columns(
    partition="STRING",
    bucket="INT NOT NULL",
    index_type="STRING NOT NULL",
    file_name="STRING NOT NULL",
    file_size="BIGINT NOT NULL",
    row_count="BIGINT NOT NULL",
    dv_ranges=RANGES,
    row_range_start="BIGINT",
    row_range_end="BIGINT",
    index_field_id="INT",
    index_field_name="STRING",
)


def _make_indexes(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    metadata, snapshot = state.metadata, state.snapshot
    entries = None if snapshot is None else read_index_entries(metadata, snapshot)
    if entries is None:
        return make_frame(INDEX_COLUMNS, [])
    of_rows = pl.col("_GLOBAL_INDEX").struct
    ids = pl.concat_list(of_rows.field("_INDEX_FIELD_ID"), of_rows.field("_EXTRA_FIELD_IDS").fill_null([]))
    names = {field.id: field.name for field in state.schema.fields}
    named = ids.list.eval(pl.element().replace_strict(names, default=None, return_dtype=pl.String))
    return entries.select(
        partition_rows(entries["_PARTITION"], state.schema, where=metadata.where).alias("partition"),
        # A column that was dropped has no name, and neither has the index.
        pl.when(of_rows.field("_INDEX_FIELD_ID").is_not_null() & ~named.list.eval(pl.element().is_null()).list.any())
        .then(named.list.join(","))
        .alias("index_field_name"),
        row_range_start=of_rows.field("_ROW_RANGE_START"),
        row_range_end=of_rows.field("_ROW_RANGE_END"),
        index_field_id=of_rows.field("_INDEX_FIELD_ID"),
        bucket="_BUCKET",
        index_type="_INDEX_TYPE",
        file_name="_FILE_NAME",
        file_size="_FILE_SIZE",
        row_count="_ROW_COUNT",
        dv_ranges=pl.col("_DELETIONS_VECTORS_RANGES").cast(to_polars_dtype(RANGES)),
    )


TABLE_INDEXES = MetadataTable(
    "table_indexes", "the index files of a snapshot", INDEX_COLUMNS, _make_indexes, travels=True
)

FILE_INDEX_COLUMNS = make_columns(
    partition="STRING",
    bucket="INT NOT NULL",
    file_path="STRING NOT NULL",
    file_size_in_bytes="BIGINT NOT NULL",
    record_count="BIGINT NOT NULL",
    schema_id="BIGINT NOT NULL",
    column_name="STRING NOT NULL",
    index_type="STRING NOT NULL",
    storage_type="STRING NOT NULL",
    index_file_path="STRING",
    index_size_in_bytes="BIGINT NOT NULL",
    index_container_size_in_bytes="BIGINT NOT NULL",
    is_empty="BOOLEAN NOT NULL",
)
EMBEDDED, BESIDE = "EMBEDDED", "FILE"
"""The places of an index: in the manifest entry of its data file, or in a file beside it."""


def _make_file_indexes(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    if state.snapshot is None:
        return make_frame(FILE_INDEX_COLUMNS, [])
    from morrow.engine.format.file_index import read_file_index  # few tables have an index

    metadata = state.metadata
    files = read_live_entries(metadata, state.snapshot, state.schema).frame.filter(is_real_bucket(state))
    has_file = pl.col("_EXTRA_FILES").list.eval(pl.element().str.ends_with(INDEX_SUFFIX)).list.any()
    files = files.filter(pl.col("_EMBEDDED_FILE_INDEX").is_not_null() | has_file)
    partition = partition_rows(files["_PARTITION"], state.schema, where=metadata.where)
    files = files.with_columns(partition.alias("partition")).sort("partition", "_BUCKET", maintain_order=True)
    files = files.with_columns(_build_paths(state, files).alias("shown"))
    paths: Iterable[str] = build_file_paths(metadata, state.schema, state.options, files) if files.height else ()
    rows = []
    for file, path in zip(files.iter_rows(named=True), paths):
        data, shown, where = file["_EMBEDDED_FILE_INDEX"], None, f"{path} (embedded index)"
        if data is None:
            name = check_segment(next(each for each in file["_EXTRA_FILES"] if each.endswith(INDEX_SUFFIX)), path)
            where, shown = f"{path.rpartition('/')[0]}/{name}", f"{file['shown'].rpartition('/')[0]}/{name}"
            data = metadata.store.read(where)
        about = (file["partition"], file["_BUCKET"], file["shown"], file["_FILE_SIZE"], file["_ROW_COUNT"])
        rows += [
            (
                *(*about, file["_SCHEMA_ID"], column, index.kind, EMBEDDED if shown is None else BESIDE, shown),
                *(len(index.body or b""), len(data), index.body is None),
            )
            for column, indexes in read_file_index(data, where=where).columns.items()
            for index in indexes
        ]
    return make_frame(FILE_INDEX_COLUMNS, rows)


FILE_INDEXES = MetadataTable(
    "file_indexes", "the indexes of the data files of a snapshot", FILE_INDEX_COLUMNS, _make_file_indexes, travels=True
)

STRING = t.VarCharType()


def partition_rows(stored: pl.Series, schema: TableSchema, *, where: str) -> pl.Series:
    """Format partitions, stored as in manifests (Binary), as ``{a, null}``: values without names, cast to STRING.

    Raises `CorruptFile`: the bytes are not a partition of the table.
    """

    def show(distinct: pl.Series) -> pl.Series:
        return join_texts(
            [("", text) for text in partition_columns(distinct, schema, where=where)], "{}", len(distinct)
        )

    return _map_distinct(stored, show)


def partition_columns(stored: pl.Series, schema: TableSchema, *, where: str) -> list[pl.Series]:
    """Return the text of each partition column, null for null. Raises as `partition_rows`."""
    types = [schema.by_name[name].type for name in schema.partition_keys]
    values = decode_columns(stored, types, where=where)
    return [
        to_series(value.name, cast_array(to_arrow_array(value, kind), kind, STRING, where=where), STRING)
        for value, kind in zip(values, types, strict=True)
    ]


def partition_specs(stored: pl.Series, schema: TableSchema, default_name: str, *, where: str) -> pl.Series:
    """Format ``dt=2024-01-01/hour=7``: null or blank values get the name of the default partition.

    Raises as `partition_rows`.
    """
    if not schema.partition_keys:
        return pl.Series([""], dtype=pl.String).new_from_index(0, len(stored))
    texts = partition_columns(stored, schema, where=where)
    named = pl.DataFrame([text.alias(name) for name, text in zip(schema.partition_keys, texts, strict=True)])
    parts = [
        pl.concat_str(
            pl.lit(f"{name}="),
            pl.when(text.str.strip_chars() != "").then(text).otherwise(pl.lit(default_name)),
        )
        for name, text in zip(schema.partition_keys, cols(schema.partition_keys))
    ]
    return named.select(pl.concat_str(parts, separator="/")).to_series()


def _map_distinct(values: pl.Series, function: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Apply `function` once to each distinct value: tables have many more files than partitions."""
    distinct = values.unique(maintain_order=True)
    if len(distinct) == len(values):
        return function(values)
    known = pl.DataFrame({"value": distinct, "text": function(distinct)})
    wanted = pl.DataFrame({"value": values})
    return wanted.join(known, on="value", how="left", maintain_order="left", nulls_equal=True)["text"]
