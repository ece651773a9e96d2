"""ORC data files, decoded by Arrow stripe by stripe.

What Java Paimon writes, and what is made of it here (the rows equal those that Java reads):

* CHAR(n) is padded or cut by nobody, but Java's reader drops trailing blanks of CHAR: so does this one.
* TIME is an int of milliseconds.
* TIMESTAMP is wall-clock time in the zone of the writer, which each stripe names; LTZ is an instant in UTC. Arrow turns the first
  back into wall-clock time. Two oddities are in the bytes and so in every reader's rows: a fraction in the last
  second before 1970 comes back a second late (ORC cuts seconds towards zero), and dates before 1582-10-15 two or more days
  early (the Java writer goes through a calendar with Julian days).
* Arrow refuses timestamps before 1677 and after 2262, which do not fit its nanoseconds; those stripes are decoded by
  `morrow.readers.files.orc_timestamps`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc

from morrow.engine.errors import CorruptFile
from morrow.engine.format.types import (
    ArrayType,
    CharType,
    DataField,
    DataType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    MultisetType,
    RowType,
    TimestampType,
    TimeType,
    VectorType,
)
from morrow.readers.files.orc_timestamps import ExactTimestamps
from morrow.readers.files.source import Chunk, FileSource

TIMESTAMP_RANGE = "out of range for nanosecond resolution"
"""What Arrow says of timestamps that it cannot hold."""
VALIDITY_AND_OFFSETS = 2
"""Buffers that a list or map array has before those of its children; a struct has only the first."""


def decode_orc(source: FileSource, fields: Sequence[DataField]) -> Iterator[Chunk]:
    """One chunk per stripe."""
    with source.store.open(source.path) as stream:
        file = orc.ORCFile(pa.PythonFile(stream, mode="r"))
        numbers = column_numbers(file.schema, fields, source.path)
        exact: ExactTimestamps | None = None
        for stripe in range(file.nstripes):
            leaf: Leaf = plain_leaf
            try:
                batch = file.read_stripe(stripe, columns=numbers)
            except pa.ArrowInvalid as error:
                if TIMESTAMP_RANGE not in str(error):
                    raise
                exact = exact or ExactTimestamps(source.store.read(source.path), source.path)
                batch, leaf = exact.read_stripe(stripe, numbers), exact_leaf(exact)
            columns = [
                converted(batch.column(each.name), each.type, leaf, (number,))
                for each, number in zip(fields, numbers)
            ]
            yield Chunk(batch.num_rows, polars_frame(fields, columns))


def polars_frame(fields: Sequence[DataField], columns: Sequence[pa.Array]) -> pl.DataFrame:
    """Arrow columns, in the types of `fields`, as a frame."""
    return pl.DataFrame([pl.Series(each.name, pl.from_arrow(column)) for each, column in zip(fields, columns)])


def column_numbers(schema: pa.Schema, fields: Sequence[DataField], where: str) -> list[int]:
    """Numbers of top-level columns: a name with a dot in it would be taken for a path by ORC."""
    numbers = {name: number for number, name in enumerate(schema.names)}
    for each in fields:
        if each.name not in numbers:
            raise CorruptFile(where, f"has no column {each.name!r}; its columns are {', '.join(schema.names)}")
    return [numbers[each.name] for each in fields]


Leaf = Callable[[pa.Array, DataType, tuple[int, ...]], pa.Array]
"""Makes values of an atomic type of what Arrow read; the path leads through ORC's type tree to the column."""


def converted(array: pa.Array, type_: DataType, leaf: Leaf, path: tuple[int, ...]) -> pa.Array:
    """`array` as Arrow reads it from ORC, in the Arrow type of `type_`; nested types member by member.

    Raises:
        pa.ArrowInvalid: values that do not fit the type.
    """
    members = _members(array, type_)
    if not members:
        return leaf(array, type_, path)
    children = [converted(child, member, leaf, (*path, step)) for step, child, member in members]
    return nested_like(array, children, type_.arrow())


def plain_leaf(array: pa.Array, type_: DataType, _path: tuple[int, ...]) -> pa.Array:
    """Values that Arrow reads as they are, or nearly so."""
    array = LEAVES[type(type_)](array) if type(type_) in LEAVES else array
    return array if array.type == type_.arrow() else array.cast(type_.arrow())


def exact_leaf(exact: ExactTimestamps) -> Leaf:
    """Like `plain_leaf` in a file whose timestamps are read as seconds."""

    def leaf(array: pa.Array, type_: DataType, path: tuple[int, ...]) -> pa.Array:
        timestamp = isinstance(type_, (TimestampType, LocalZonedTimestampType))
        return exact.leaf(array, type_, path) if timestamp else plain_leaf(array, type_, path)

    return leaf


def nested_like(array: pa.Array, children: Sequence[pa.Array], type_: pa.DataType) -> pa.Array:
    """A list, map or struct array with the nulls and offsets of `array` and other children."""
    buffers = array.buffers()[: 1 if pa.types.is_struct(type_) else VALIDITY_AND_OFFSETS]
    if pa.types.is_map(type_):
        children = [pa.StructArray.from_arrays(list(children), fields=[type_.key_field, type_.item_field])]
    if pa.types.is_fixed_size_list(type_):
        plain = pa.Array.from_buffers(pa.list_(type_.value_field), len(array), buffers, children=list(children))
        return plain.cast(type_)
    return pa.Array.from_buffers(type_, len(array), buffers, children=list(children))


def _members(array: pa.Array, type_: DataType) -> list[tuple[int, pa.Array, DataType]]:
    """Step in ORC's type tree, array and type of each member of a nested type."""
    if isinstance(type_, RowType):
        steps = {array.type.field(i).name: i for i in range(array.type.num_fields)}
        return [(steps[member.name], array.field(steps[member.name]), member.type) for member in type_.fields]
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
