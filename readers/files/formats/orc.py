"""ORC data files, decoded by Arrow stripe by stripe.

Java Paimon's encodings and how they are read here (the rows equal those that Java reads):

* CHAR: Java's reader drops trailing blanks, as does this one.
* TIME is an int of milliseconds.
* TIMESTAMP is wall-clock time in the zone of the writer, which each stripe names; LTZ is an instant in UTC. Arrow turns
  the first back into wall-clock time. Two oddities are in the bytes and so in every reader's rows: a fraction in the
  last second before 1970 comes back a second late (ORC cuts seconds towards zero), and dates before 1582-10-15 come
  back days off, in year 1 two days early (the Java writer counts them in a calendar with Julian days).
* Unless the table says ``orc.timestamp-ltz.legacy.type=false``, the Java writer shifts LTZ by the zone of its machine.
  A file with TIMESTAMP columns names that zone and the shift is undone; in a file without any it is taken to be UTC, or
  the value of the option ``morrow.orc.writer-time-zone``.
* Arrow does not decode files directly, but each stripe's columns once `morrow.engine.format.orc_stripes` has checked
  them.
* Arrow refuses timestamps before 1677 and after 2262, which do not fit its nanoseconds; those stripes are decoded by
  `morrow.readers.files.formats.orc_timestamps`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import Unsupported
from morrow.engine.format.file_formats import TIMESTAMPS
from morrow.engine.format.orc_layout import OrcLayout
from morrow.engine.format.orc_stripes import read_columns
from morrow.engine.format.orc_zones import is_utc, offsets
from morrow.engine.format.types import (
    ArrayType,
    CharType,
    DataField,
    DataType,
    DecimalType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    MultisetType,
    RowType,
    TimeType,
    VarCharType,
    VectorType,
)
from morrow.engine.options.declared.formats import MORROW_ORC_WRITER_TIME_ZONE, ORC_TIMESTAMP_LTZ_LEGACY_TYPE
from morrow.engine.units import NANOS_PER_SECOND
from morrow.readers.files.formats.orc_kinds import decoded, read_as
from morrow.readers.files.formats.orc_timestamps import ExactTimestamps
from morrow.readers.files.registry import FileReader, Stripe
from morrow.readers.files.source import Chunk, FileSource, check_rows, member_types

TIMESTAMP_RANGE = "out of range for nanosecond resolution"
"""Arrow's message for timestamps that it cannot hold."""
EARLY_NANOS = 2 * 86_400 * NANOS_PER_SECOND
VALIDITY_AND_OFFSETS = 2
"""Buffers of a list or map array that precede those of its children; a struct has only the first."""


def decode_orc(source: FileSource, fields: Sequence[DataField]) -> Iterator[Chunk]:
    """Yields one chunk per stripe."""
    for stripe in decode_stripes(source, fields):
        yield Chunk(stripe.rows, polars_frame(fields, stripe.columns))


def decode_stripes(source: FileSource, fields: Sequence[DataField]) -> Iterator[Stripe]:
    """Yields the columns `fields` of a whole file.

    Raises:
        CorruptFile, Unsupported, OSError, pa.ArrowException: the last two for bytes that Arrow rejects.
    """
    with source.store.open(source.path) as stream:
        layout = OrcLayout(stream, source.path, source.given.get(MORROW_ORC_WRITER_TIME_ZONE))
        check_rows(source, layout.rows)  # before memory is allocated for as many rows as the file claims
        numbers = column_numbers(layout.columns, fields, source.path)
        kinds = read_as(layout, fields, numbers)
        timed = any(_holds_timestamps(each.type) for each in fields)
        stripes = _TimedStripes(layout, kinds, source) if timed else _PlainStripes(layout, kinds)
        places = {number: place for place, number in enumerate(sorted(set(numbers)))}
        for number in range(len(layout.stripes)):
            if not fields:
                yield Stripe(layout.stripe_rows(number), ())
                continue
            batch, leaf = stripes.read(number, sorted(places))
            columns = tuple(
                converted(batch.column(places[column]), each.type, leaf, (column,))
                for each, column in zip(fields, numbers, strict=True)
            )
            yield Stripe(batch.num_rows, columns)


class _PlainStripes:
    """Stripes as Arrow decodes them."""

    def __init__(self, layout: OrcLayout, kinds: Mapping[int, int]) -> None:
        self.layout, self.kinds = layout, kinds

    def read(self, stripe: int, numbers: Sequence[int]) -> tuple[pa.RecordBatch, Leaf]:
        return decoded(read_columns(self.layout, stripe, numbers), self.kinds), plain_leaf


class _TimedStripes:
    """Stripes with timestamps: decoded by Arrow where that equals Java's result, decoded exactly elsewhere."""

    def __init__(self, layout: OrcLayout, kinds: Mapping[int, int], source: FileSource) -> None:
        self.layout, self.kinds, self.where = layout, kinds, source.path
        self.legacy_ltz = source.given.get(ORC_TIMESTAMP_LTZ_LEGACY_TYPE)
        self.exact: ExactTimestamps | None = None

    def read(self, stripe: int, numbers: Sequence[int]) -> tuple[pa.RecordBatch, Leaf]:
        columns = read_columns(self.layout, stripe, numbers)
        zone = columns.stripe.zone
        try:
            batch = decoded(columns, self.kinds)
        except pa.ArrowInvalid as error:
            if TIMESTAMP_RANGE not in str(error):
                raise
        else:
            if is_utc(zone):
                return batch, plain_leaf
            if not any(map(_holds_early, batch.columns)):
                return batch, zoned_leaf(zone, self.where) if self.legacy_ltz else plain_leaf
        self.exact = self.exact or ExactTimestamps(self.layout, self.legacy_ltz)
        return self.exact.read_stripe(columns, self.kinds), exact_leaf(self.exact)


def _holds_timestamps(type_: DataType) -> bool:
    return isinstance(type_, TIMESTAMPS) or any(map(_holds_timestamps, member_types(type_)))


def _holds_early(array: pa.Array) -> bool:
    """Returns whether a timestamp at any depth is before 1970, or close enough for a zone to have moved it."""
    if pa.types.is_timestamp(array.type):
        first = pc.min(array.cast(pa.int64())).as_py()
        return first is not None and first < EARLY_NANOS
    if pa.types.is_nested(array.type):
        parts = array.flatten() if pa.types.is_struct(array.type) else [array.values]
        return any(map(_holds_early, parts))
    return False


def polars_frame(fields: Sequence[DataField], columns: Sequence[pa.Array]) -> pl.DataFrame:
    """Converts Arrow columns, in the types of `fields`, to a frame."""
    return pl.DataFrame(
        [pl.Series(each.name, pl.from_arrow(column)) for each, column in zip(fields, columns, strict=True)]
    )


def column_numbers(names: Sequence[str], fields: Sequence[DataField], where: str) -> list[int]:
    """Returns numbers of top-level columns by their names."""
    numbers = {name: number for number, name in enumerate(names)}
    for each in fields:
        if each.name not in numbers:
            raise Unsupported(f"a file of the columns {', '.join(names)}, without {each.name!r},", where=where)
    return [numbers[each.name] for each in fields]


Leaf = Callable[[pa.Array, DataType, tuple[int, ...]], pa.Array]
"""Converts Arrow's values to those of an atomic type; the path leads through ORC's type tree to the column."""


def converted(array: pa.Array, type_: DataType, leaf: Leaf, path: tuple[int, ...]) -> pa.Array:
    """Converts `array`, as Arrow reads it from ORC, to the Arrow type of `type_`; nested types member by member.

    Raises:
        pa.ArrowInvalid: values that do not fit the type.
    """
    members = _members(array, type_)
    if not members:
        return leaf(array, type_, path)
    children = [converted(child, member, leaf, (*path, step)) for step, child, member in members]
    return nested_like(array, children, type_.arrow())


def plain_leaf(array: pa.Array, type_: DataType, _path: tuple[int, ...]) -> pa.Array:
    """Converts values that Arrow reads as they are, or nearly so."""
    if type(type_) in VALIDATED:
        array.validate(full=True)  # nothing else checks that text is valid, and that decimals have no more digits
    array = LEAVES[type(type_)](array) if type(type_) in LEAVES else array
    return array if array.type == type_.arrow() else array.cast(type_.arrow())


def zoned_leaf(zone: str, where: str) -> Leaf:
    """Converts like `plain_leaf` where the writer has shifted TIMESTAMP_LTZ by its zone."""

    def leaf(array: pa.Array, type_: DataType, path: tuple[int, ...]) -> pa.Array:
        if isinstance(type_, LocalZonedTimestampType):
            nanos = np.asarray(array.cast(pa.int64()).fill_null(0))
            shift = offsets(nanos // NANOS_PER_SECOND, zone, where) * NANOS_PER_SECOND
            array = pa.array(nanos + shift, mask=np.asarray(array.is_null())).cast(array.type)
        return plain_leaf(array, type_, path)

    return leaf


def exact_leaf(exact: ExactTimestamps) -> Leaf:
    """Converts like `plain_leaf` in a file whose timestamps are read as seconds."""

    def leaf(array: pa.Array, type_: DataType, path: tuple[int, ...]) -> pa.Array:
        return exact.leaf(array, type_, path) if isinstance(type_, TIMESTAMPS) else plain_leaf(array, type_, path)

    return leaf


def nested_like(array: pa.Array, children: Sequence[pa.Array], type_: pa.DataType) -> pa.Array:
    """Returns a list, map or struct array with the nulls and offsets of `array` and other children."""
    buffers = array.buffers()[: 1 if pa.types.is_struct(type_) else VALIDITY_AND_OFFSETS]
    if pa.types.is_map(type_):
        children = [pa.StructArray.from_arrays(list(children), fields=[type_.key_field, type_.item_field])]
    if pa.types.is_fixed_size_list(type_):
        plain = pa.Array.from_buffers(pa.list_(type_.value_field), len(array), buffers, children=list(children))
        return plain.cast(type_)
    return pa.Array.from_buffers(type_, len(array), buffers, children=list(children))


def _members(array: pa.Array, type_: DataType) -> list[tuple[int, pa.Array, DataType]]:
    """Returns step in ORC's type tree, array and type of each member of a nested type."""
    if isinstance(type_, RowType):
        steps = [array.type.get_field_index(member.name) for member in type_.fields]
        if -1 in steps:
            raise pa.ArrowInvalid(f"{array.type} has no member {type_.fields[steps.index(-1)].name!r}")
        return [(step, array.field(step), member.type) for step, member in zip(steps, type_.fields, strict=True)]
    if isinstance(type_, MapType):
        return [(0, array.keys, type_.key), (1, array.items, type_.value)]
    if isinstance(type_, (ArrayType, VectorType)):
        return [(0, array.values, type_.element)]
    if isinstance(type_, MultisetType):
        return [(0, array.keys, type_.element), (1, array.items, IntType(nullable=False))]
    return []


LEAVES: dict[type[DataType], Callable[[pa.Array], pa.Array]] = {
    CharType: lambda array: pc.utf8_rtrim(array, characters=" "),
    TimeType: lambda array: array.cast(pa.int32()).cast(pa.time32("ms")),
}
VALIDATED = frozenset((CharType, VarCharType, DecimalType))


def _row_count(source: FileSource) -> int:
    with source.store.open(source.path) as stream:
        return OrcLayout(stream, source.path).rows


def _stored_names(source: FileSource) -> list[str]:
    with source.store.open(source.path) as stream:
        return list(OrcLayout(stream, source.path).columns)


READER = FileReader(decode=decode_orc, row_count=_row_count, stored_names=_stored_names, stripes=decode_stripes)
