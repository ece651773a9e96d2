"""Tables without a catalog to write files for, and helpers that read the files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

from morrow.engine.format import types as t
from morrow.engine.format.binary_row import decode_row
from morrow.engine.format.manifest_entries import EMPTY_ROW, DataFileMeta, FileSource
from morrow.engine.format.schema import SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD, TableSchema
from morrow.engine.format.types import parse_atomic
from morrow.engine.io.local import LocalStore
from morrow.engine.io.store import FileStore
from morrow.engine.options import parse_write_options
from morrow.engine.plan.metadata import TableMetadata
from morrow.readers.casts.dtypes import to_polars_schema, to_series
from morrow.readers.files import FileSource as Source
from morrow.readers.files import scan
from morrow.writers.files.data_files import Placement, build_file_path, write_files
from morrow.writers.target import WriteTarget
from tests.support.hostile_names import names_of_columns, renamings
from tests.support.renamed_members import moved, with_members
from tests.support.value_pools import NESTED, POOLS

PLACE = Placement(EMPTY_ROW, 0)


def columns(schema: str) -> tuple[t.DataField, ...]:
    """Parse ``id BIGINT NOT NULL; name STRING`` to columns with the ids 0, 1, ..."""
    parts = [part.strip().partition(" ") for part in schema.split(";")]
    return tuple(t.DataField(i, name, parse_atomic(kind)) for i, (name, _, kind) in enumerate(parts))


def target(
    folder: Path,
    schema: str | Sequence[t.DataField],
    *,
    keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    store: FileStore | None = None,
) -> WriteTarget:
    """Describe a table in `folder` that has no files yet."""
    fields = columns(schema) if isinstance(schema, str) else tuple(schema)
    metadata = TableMetadata(store or LocalStore(), str(folder))
    table = TableSchema(3, fields, len(fields) - 1, (), tuple(keys), dict(options or {}))
    write = parse_write_options(table.options, keyed=bool(keys), where=metadata.where)
    return WriteTarget(metadata, table, metadata.options(table), write)


def frame(table: WriteTarget, *rows: Sequence[Any]) -> pl.DataFrame:
    """Build a frame of rows of this table."""
    return pl.DataFrame(list(rows), schema=to_polars_schema(table.schema.fields), orient="row")


def versions(rows: pl.DataFrame, *, kinds: Sequence[int] | None = None, first: int = 0) -> pl.DataFrame:
    """Add row kinds (inserts by default) and sequence numbers that start at `first`."""
    return rows.with_columns(
        pl.int_range(first, first + rows.height, dtype=pl.Int64, eager=True).alias("_SEQUENCE_NUMBER"),
        pl.Series("_VALUE_KIND", [0] * rows.height if kinds is None else kinds, pl.Int8),
    )


def write(table: WriteTarget, *frames: pl.DataFrame, level: int = 0, **how: Any) -> list[DataFileMeta]:
    return write_files(table, PLACE, frames, level=level, source=FileSource.APPEND, **how)


def write_one(table: WriteTarget, rows: pl.DataFrame, **how: Any) -> DataFileMeta:
    (file,) = write(table, rows, **how)
    return file


def path_of(table: WriteTarget, file: DataFileMeta) -> Path:
    return Path(build_file_path(table, PLACE, file.file_name))


def read(table: WriteTarget, files: DataFileMeta | Iterable[DataFileMeta]) -> pl.DataFrame:
    """Read the rows of files as scans do, followed by the system columns of keyed tables."""
    listed = [files] if isinstance(files, DataFileMeta) else list(files)
    fields = [*table.schema.fields, *((SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD) if table.keyed else ())]
    formats = [file.file_name.rpartition(".")[2] for file in listed]
    sources = [
        Source(table.store, str(path_of(table, file)), file.file_size, file.row_count, kind, table.schema.options)
        for file, kind in zip(listed, formats, strict=True)
    ]
    return scan(sources, fields).collect()


def bounds(table: WriteTarget, file: DataFileMeta) -> dict[str, tuple[Any, Any, int | None]]:
    """Decode the minimum, maximum and null count of each column in the value statistics."""
    names = file.value_stats_cols if file.value_stats_cols is not None else tuple(table.schema.by_name)
    kinds = [table.schema.by_name[name].type for name in names]
    stats = file.value_stats
    low, high = (decode_row(row, kinds, where="stats") for row in (stats.min_values, stats.max_values))
    return dict(zip(names, zip(low, high, stats.null_counts, strict=True), strict=True))


# --- random rows ---

DEEP: dict[t.DataType, list[Any]] = {
    t.ArrayType(element=t.MapType(key=t.IntType(nullable=False), value=t.ArrayType(element=t.VarCharType()))): [
        [[(1, ["a", None])], [], None],
        [],
    ],
    t.RowType(
        fields=(
            t.DataField(80, "must", t.BigIntType(nullable=False)),
            t.DataField(81, "times", t.ArrayType(element=t.TimestampType(precision=9))),
            t.DataField(82, "tags", t.MultisetType(element=t.VarCharType(nullable=False))),
        )
    ): [
        {"must": 1, "times": [0, -1, None], "tags": [("x", 2)]},
        {"must": -5, "times": None, "tags": None},
    ],
    t.TimestampType(precision=9): [0, -1, 1_700_000_000_123_456_789],
    t.LocalZonedTimestampType(precision=9): [0, 10**18 + 1],
}
"""Types for Parquet only: nested types, and timestamps in nanoseconds (as integers)."""

KINDS = [parse_atomic(name) for name in POOLS] + list(NESTED)


POOL_BY_TYPE: dict[t.DataType, list[Any]] = {parse_atomic(name): pool for name, pool in POOLS.items()} | NESTED | DEEP
MEMBERS = ("x", "y", "must", "times", "tags")
"""The member names of the ROW types in the pools."""


@st.composite
def random_columns(
    draw: st.DrawFn, kinds: Sequence[t.DataType] = tuple(KINDS), usable: Callable[[str], bool] = bool
) -> tuple[t.DataField, ...]:
    """Draw up to six columns of these types, with hostile names (if `usable`) for columns and ROW members."""
    chosen = draw(st.lists(st.tuples(st.sampled_from(kinds), st.booleans()), min_size=1, max_size=6))
    names = draw(names_of_columns(len(chosen), usable=usable))
    members = draw(renamings(MEMBERS, usable))
    return tuple(
        t.DataField(i, name, with_members(kind, members.__getitem__).with_nullable(null))
        for i, (name, (kind, null)) in enumerate(zip(names, chosen, strict=True))
    )


@st.composite
def random_rows(draw: st.DrawFn, fields: Sequence[t.DataField]) -> pl.DataFrame:
    """Draw up to 30 rows of these columns, with a third of the nullable values null."""
    count = draw(st.integers(1, 30))
    data = {f.name: draw(st.lists(_values(f.type), min_size=count, max_size=count)) for f in fields}
    return pl.DataFrame([_series(f, data[f.name]) for f in fields])


def _values(kind: t.DataType) -> st.SearchStrategy[Any]:
    some = st.sampled_from(_pool(kind.with_nullable(True)))
    return st.one_of(some, some, st.none()) if kind.nullable else some


def _pool(kind: t.DataType) -> list[Any]:
    """Find the pool of a type, or of a type that differs only in its member names."""
    shape = _shape(kind)
    return next([moved(v, k, kind) for v in pool] for k, pool in POOL_BY_TYPE.items() if _shape(k) == shape)


def is_deep(kind: t.DataType) -> bool:
    """Return whether a type is in `DEEP`, ignoring its member names."""
    return _shape(kind.with_nullable(True)) in map(_shape, DEEP)


def _shape(kind: t.DataType) -> t.DataType:
    return with_members(kind, lambda _: "")


def _series(column: t.DataField, values: list[Any]) -> pl.Series:
    return to_series(column.name, pa.array(values, column.type.arrow()), column.type)
