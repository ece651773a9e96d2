"""Sections of a plan: the smallest sets of files of a bucket whose key ranges overlap.

The files of a section are read together: they are merged, or read one after another without a merge. A section of one
file needs no merge. Sections are found by one sort of all key bounds and a running maximum, for all buckets at once.

The module also checks manifest entries against other metadata: the order of keys, the columns of schemas.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import OTHER_WRITER, CorruptFile, Unsupported
from morrow.engine.format.arrow_buffers import make_series
from morrow.engine.format.binary_row import Value, decode_columns, to_python_rows
from morrow.engine.format.schema import SYSTEM_FIELD_ID_START, TableSchema
from morrow.engine.format.types import INTEGER_TYPES, DataType, VarCharType, to_polars_dtype
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.names import BUCKET_NUMBER, SECTION
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import ScanRequest, SectionKind

KEY_BOUNDS = "_MIN_KEY", "_MAX_KEY"


class Sectioned(msgspec.Struct, frozen=True):
    """Entries with a section number each; within a section they are ordered by their least key.

    `kinds`: the kinds of sections other than RAW; `bounds`: the least and greatest key of each MERGE section.
    """

    frame: pl.DataFrame
    kinds: Mapping[int, SectionKind] = msgspec.field(default_factory=dict)
    bounds: Mapping[int, tuple[tuple[Value, ...], tuple[Value, ...]]] = msgspec.field(default_factory=dict)


def divide_entries(
    metadata: TableMetadata, request: ScanRequest, spec: MergeSpec | None, frame: pl.DataFrame
) -> Sectioned:
    """Divide visible entries into sections."""
    if spec is None and request.options.data_evolution and frame.height:
        return _make_stitch_sections(frame)
    if spec is None or spec.hides_level_zero or not frame.height:
        return _make_raw_sections(frame)
    return _make_merge_sections(metadata, request.schema, frame)


def _make_raw_sections(frame: pl.DataFrame) -> Sectioned:
    """Make one RAW section per bucket."""
    groups = number_buckets(frame)
    order = np.argsort(groups, kind="stable")
    return Sectioned(_order_frame(frame, order, groups, groups[order]))


def _make_stitch_sections(frame: pl.DataFrame) -> Sectioned:
    """Make one STITCH section of files that share row ids: they hold different columns of the same rows."""
    groups = number_buckets(frame)
    first = frame["_FIRST_ROW_ID"].fill_null(-1).to_numpy()
    last = first + np.maximum(frame["_ROW_COUNT"].to_numpy(), 1) - 1
    order = np.lexsort((first, groups))
    sections = number_sections(groups[order], first[order], last[order])
    kinds = dict.fromkeys(find_distinct(sections), SectionKind.STITCH)
    return Sectioned(_order_frame(frame, order, groups, sections), kinds)


def _make_merge_sections(metadata: TableMetadata, schema: TableSchema, frame: pl.DataFrame) -> Sectioned:
    """Make one MERGE section of files whose keys overlap, and one RAW section of all other files of a bucket."""
    groups = number_buckets(frame)
    keys = decode_key_bounds(metadata, schema, frame)
    low, high = rank_keys(keys).reshape(2, -1)
    check_key_order(frame, keys, low > high, metadata.where)
    order = np.lexsort((low, groups))
    sections = number_sections(groups[order], low[order], high[order])
    merged = np.bincount(sections)[sections] > 1
    # Raw sections are numbered after merged ones.
    numbers = np.where(merged, sections, len(sections) + np.unique(groups[order], return_inverse=True)[1])
    kinds = dict.fromkeys(find_distinct(numbers[merged]), SectionKind.MERGE)
    bounds = _find_section_bounds(metadata, keys, order[merged], high, numbers[merged])
    return Sectioned(_order_frame(frame, order, groups, numbers), kinds, bounds)


def _order_frame(
    frame: pl.DataFrame, order: npt.NDArray[np.intp], groups: npt.NDArray[np.int64], sections: npt.NDArray[np.int64]
) -> pl.DataFrame:
    """Return `frame` in this order; `groups` belong to its rows before ordering, `sections` to the ordered rows."""
    moved = (order[1:] < order[:-1]).any()
    return (frame[make_series(order)] if moved else frame).hstack(
        [make_series(groups[order]).alias(BUCKET_NUMBER), make_series(sections).alias(SECTION)]
    )


def mask_holders(metadata: TableMetadata, field_id: int, frame: pl.DataFrame) -> pl.Series:
    """Return for each file whether it holds the column with this id."""
    names = pl.Series("schema", find_schema_ids(frame), dtype=pl.Int64)
    of_schema = [next((f.name for f in metadata.schema(i).fields if f.id == field_id), None) for i in names]
    name = frame["_SCHEMA_ID"].cast(pl.Int64).replace_strict(names, pl.Series(of_schema), return_dtype=pl.String)
    written = frame["_WRITE_COLS"]
    return name.is_not_null() & (written.is_null() | written.list.contains(name).fill_null(False))


def find_schema_ids(frame: pl.DataFrame) -> list[int]:
    return find_distinct(frame["_SCHEMA_ID"].to_numpy())


def find_distinct(values: npt.NDArray[np.integer]) -> list[int]:
    """Return the distinct values, ascending."""
    if len(values) == 1:  # as in lookups of one key
        return [int(values[0])]
    # If only the values are requested, numpy imports its masked arrays.
    found: list[int] = np.unique(values, return_counts=True)[0].tolist()
    return found


def decode_key_bounds(metadata: TableMetadata, schema: TableSchema, frame: pl.DataFrame) -> Sequence[pl.Series]:
    """Return the key columns, each with the minima of all files followed by the maxima.

    Bounds of files from before a key column was widened are cast to its type.

    Raises `Unsupported`: the type of a key column was changed in another way.
    """
    names = schema.trimmed_primary_keys
    types = [schema.by_name[name].type.with_nullable(True) for name in names]
    bounds, ids = pl.concat([frame["_MIN_KEY"], frame["_MAX_KEY"]]), pl.concat([frame["_SCHEMA_ID"]] * 2)
    groups = dict[tuple[DataType, ...], list[int]]()
    for schema_id in find_schema_ids(frame):
        written = {f.id: f.type.with_nullable(True) for f in metadata.schema(schema_id).fields}
        before = [written.get(schema.by_name[name].id) for name in names]
        for name, old, new in zip(names, before, types, strict=True):
            if old is None or (old != new and not is_key_widening(old, new)):
                raise Unsupported(f"a primary key column whose type was changed ({name!r})", where=metadata.where)
        groups.setdefault(tuple(kind for kind in before if kind is not None), []).append(schema_id)
    if list(groups) in ([], [tuple(types)]):
        return decode_columns(bounds, types, where=metadata.where)
    order, pieces = [], list[Sequence[pl.Series]]()
    for kinds, of in groups.items():
        chosen = ids.is_in(of)
        order.append(chosen.arg_true())
        decoded = decode_columns(bounds.filter(chosen), kinds, where=metadata.where)
        pieces.append([part.cast(to_polars_dtype(kind)) for part, kind in zip(decoded, types, strict=True)])
    back = pl.concat(order).arg_sort()
    return [pl.concat(parts)[back] for parts in zip(*pieces, strict=True)]


def is_key_widening(old: DataType, new: DataType) -> bool:
    """Return whether values keep their order and text when a key column gets this type: a wider integer or text."""
    if isinstance(old, INTEGER_TYPES) and isinstance(new, INTEGER_TYPES):
        return INTEGER_TYPES.index(type(old)) <= INTEGER_TYPES.index(type(new))
    return isinstance(old, VarCharType) and isinstance(new, VarCharType) and old.length <= new.length


def _find_section_bounds(
    metadata: TableMetadata,
    keys: Sequence[pl.Series],
    files: npt.NDArray[np.intp],
    high: npt.NDArray[np.int64],
    sections: npt.NDArray[np.int64],
) -> Mapping[int, tuple[tuple[Value, ...], tuple[Value, ...]]]:
    """Return the least and greatest key of each MERGE section; `files` are in sections, ordered by least key."""
    if not len(files):
        return {}
    numbers, first = np.unique(sections, return_index=True)
    last = np.append(first[1:], len(files)) - 1
    greatest = files[np.lexsort((high[files], sections))[last]]
    ends = np.concatenate([files[first], len(high) + greatest])
    rows = to_python_rows([column[make_series(ends)] for column in keys], where=metadata.where)
    return dict(zip(numbers.tolist(), zip(rows[: len(numbers)], rows[len(numbers) :])))


def group_by_section(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[int], list[int]]:
    """Return entries grouped by section, in order of first appearance; also the sections' numbers and start offsets.

    The last offset is the number of entries. Entries of a section keep their order.
    """
    found, first, counts = np.unique(frame[SECTION].to_numpy(), return_index=True, return_counts=True)
    appeared = np.argsort(first, kind="stable")
    numbers, starts = found[appeared].tolist(), [0, *np.cumsum(counts[appeared]).tolist()]
    if len(found) < 2 or len(counts) == frame.height:
        return frame, numbers, starts
    place = np.empty(len(found), np.int64)
    place[appeared] = np.arange(len(found))
    order = np.argsort(place[np.searchsorted(found, frame[SECTION].to_numpy())], kind="stable")
    moved = (order[1:] < order[:-1]).any()
    return frame[make_series(order)] if moved else frame, numbers, starts


def number_sections(
    groups: npt.NDArray[np.int64], low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the section of each file, ascending from 0.

    Args: files sorted by group (bucket) and then by `low`; `low` and `high` are ranks of the key bounds.
    Two files are in one section when a chain of overlapping ranges (bounds included) joins them.
    """
    if not len(groups):
        return np.empty(0, np.int64)
    # Ranks of different groups are shifted apart, so one running maximum serves all groups.
    spread = np.int64(high.max() + 1)
    reach = np.maximum.accumulate(high + groups * spread)
    starts = np.ones(len(groups), bool)
    starts[1:] = (low + groups * spread)[1:] > reach[:-1]
    return np.cumsum(starts) - 1


def rank_keys(bounds: Sequence[pl.Series]) -> npt.NDArray[np.int64]:
    """Return the ranks of composite keys, one Series per column, in key order; equal keys have equal ranks."""
    return _rank_rows(pl.DataFrame([column.alias(f"k{i}") for i, column in enumerate(bounds)]))


def number_buckets(frame: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return a number for each file's partition and bucket, ascending in the order of _PARTITION and then _BUCKET.

    The numbers come from the column `BUCKET_NUMBER` if it exists.
    """
    if BUCKET_NUMBER in frame.columns:
        return frame[BUCKET_NUMBER].to_numpy()
    if frame["_PARTITION"].n_unique() <= 1:
        return frame["_BUCKET"].to_numpy().astype(np.int64)
    return _rank_rows(frame[["_PARTITION", "_BUCKET"]])


def _rank_rows(rows: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return the dense rank of each row in the order of its columns, nulls first."""
    if rows.width == 1 and rows.dtypes[0].is_integer() and not rows.to_series().null_count():
        # If only the inverse is requested, numpy imports its masked arrays.
        return np.unique(rows.to_series().to_numpy(), return_index=True, return_inverse=True)[2]
    return rows.select(pl.struct(rows.columns).rank("dense")).to_series().cast(pl.Int64).to_numpy()


SYSTEM_PREFIX = "_"
"""The prefix of the columns that Paimon adds to files."""


def check_key_order(
    entries: pl.DataFrame, keys: Sequence[pl.Series], reversed_: npt.NDArray[np.bool_], where: str
) -> None:
    """Check that no least key is above the greatest; `reversed_` marks the entries whose least key is.

    Raises:
        Unsupported: the least key is NaN. pypaimon sorts NaN first, and writes it several times.
        CorruptFile: another least key is above the greatest.
    """
    if reversed_.any():
        number = int(np.flatnonzero(reversed_)[0])
        name, least = entries["_FILE_NAME"][number], [column[number] for column in keys]
        if any(isinstance(value, float) and math.isnan(value) for value in least):
            hint = "Paimon sorts NaN last; delete these rows by the program that wrote them, or rewrite the table"
            raise Unsupported(f"the file {name}, whose keys begin with NaN", where=where, hint=hint)
        raise CorruptFile(where, f"the least key of {name} is above its greatest")


def check_columns(schemas: Iterable[TableSchema], read: TableSchema, entries: pl.DataFrame, where: str) -> None:
    """Check that files hold columns of the schemas they were written with, and that those lead to the schema read.

    Args:
        schemas: the schemas of the entries.
        read: the schema whose columns are read.

    Raises:
        Unsupported: a file was written without columns, or with a column that its schema does not have; or a column
            that is read reuses an id that an older schema had assigned to a column that it no longer has.
    """
    for schema in schemas:
        if schema.id < read.id:
            for field in read.fields:
                known = field.id > schema.highest_field_id or any(f.id == field.id for f in schema.fields)
                if not known and field.id < SYSTEM_FIELD_ID_START:
                    raise Unsupported(
                        f"the column {field.name!r} of schema {read.id} with the id {field.id}, which was given before "
                        f"schema {schema.id} and is not in it,",
                        where=where,
                        hint="give a column that comes back an id of its own",
                    )
        written = entries["_WRITE_COLS"].filter(entries["_SCHEMA_ID"] == schema.id)
        if written.null_count() < len(written):
            if (written.list.len() == 0).any():
                raise Unsupported("a file with none of the table's columns", where=where, hint=OTHER_WRITER)
            strange = set(written.explode(empty_as_null=False).drop_nulls().unique()) - set(schema.by_name)
            if columns := sorted(name for name in strange if not name.startswith(SYSTEM_PREFIX)):
                raise Unsupported(
                    f"a file with the column {columns[0]!r}, which its schema {schema.id} lacks,",
                    where=where,
                    hint=OTHER_WRITER,
                )
