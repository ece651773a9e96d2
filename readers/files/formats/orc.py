"""ORC data files, decoded by Arrow stripe by stripe.

Java Paimon's encodings and how they are read here (the result equals Java's):

* CHAR: Java's reader drops trailing blanks, as does this one.
* TIME is an int of milliseconds.
* TIMESTAMP is wall-clock time in the zone of the writer, which each stripe names; LTZ is an instant in UTC. Arrow turns
  TIMESTAMP back into wall-clock time. Two errors are in the bytes and so in every reader's rows. A fraction in the last
  second before 1970 is read a second late, since ORC cuts seconds towards zero. Dates before 1582-10-15 are read days
  off (in year 1 two days early), since the Java writer counts them in a calendar with Julian days.
* Unless the table sets ``orc.timestamp-ltz.legacy.type=false``, the Java writer shifts LTZ by the zone of its machine.
  A file with TIMESTAMP columns names that zone, and the shift is undone. For other files the zone is assumed to be UTC,
  or the value of the option ``morrow.orc.writer-time-zone``.
* Arrow does not decode whole files. It decodes each stripe's columns after `morrow.engine.format.orc_stripes` has
  checked them.
* Whole numbers have the same encoding at every width. Numbers of another width than the table's type are read as BIGINT
  and narrowed, so that nothing is cut off. For other types only kinds that Paimon or Hive write are accepted.

Arrow's timestamps are limited to nanoseconds in 64 bits, 1677 to 2262. In zones other than UTC they also differ from
Java's before 1970 (seconds lost to a fraction, local mean times). A timestamp column has two integer streams: seconds
since 2015-01-01 in the writer's zone, stored exactly like a LONG column, and nanoseconds. So for such stripes
timestamps are declared to Arrow as LONG: it returns the seconds, with nulls and nesting. The nanoseconds are taken from
their stream (`morrow.engine.format.orc_columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format import orc_stripes as stored
from morrow.engine.format import types as t
from morrow.engine.format.file_formats import TIMESTAMPS
from morrow.engine.format.orc_columns import UTC, ZEROS_BITS, compute_orc_epoch, decode_unsigned, find_offsets, is_utc
from morrow.engine.format.orc_file import DECIMAL, DIRECT_V2, LONG, SECONDARY, TIMESTAMP_INSTANT, OrcLayout
from morrow.engine.format.orc_file import Stripe as FileStripe
from morrow.engine.format.orc_stripes import (
    DATA,
    LENGTH,
    PRESENT,
    TIMES,
    StripeColumns,
    check_lengths,
    count_bytes,
    count_values,
    count_varints,
    read_columns,
)
from morrow.engine.library_versions import CHECKS_ORC_TIMESTAMPS, import_array
from morrow.engine.options.declared.files import MORROW_ORC_WRITER_TIME_ZONE, ORC_TIMESTAMP_LTZ_LEGACY_TYPE
from morrow.engine.units import NANOS_PER_MILLI, NANOS_PER_SECOND
from morrow.readers.files.registry import FileReader, Stripe
from morrow.readers.files.source import (
    OTHER_READER,
    OTHER_TYPE,
    Chunk,
    FileSource,
    check_rows,
    has_timestamps,
    list_member_types,
)

TIMESTAMP_RANGE = "out of range for nanosecond resolution"
"""Arrow's message for timestamps that it cannot hold."""
EARLY_NANOS = 2 * 86_400 * NANOS_PER_SECOND
VALIDITY_AND_OFFSETS = 2
"""Number of buffers of a list or map array before its children's buffers; a struct has only the first."""


def decode_orc(source: FileSource, fields: Sequence[t.DataField]) -> Iterator[Chunk]:
    """Yield one chunk per stripe."""
    for stripe in decode_stripes(source, fields):
        yield Chunk(stripe.rows, to_polars_frame(fields, stripe.columns))


def decode_stripes(source: FileSource, fields: Sequence[t.DataField]) -> Iterator[Stripe]:
    """Yield the columns `fields` of a whole file.

    Raises `CorruptFile`, `Unsupported`, `OSError`, `pa.ArrowException`: the last two for bytes that Arrow rejects.
    """
    with source.store.open(source.path) as stream:
        layout = OrcLayout(stream, source.path, source.given.get(MORROW_ORC_WRITER_TIME_ZONE))
        check_rows(source, layout.rows)  # before memory is allocated for as many rows as the file claims
        numbers = find_column_numbers(layout.columns, fields, source.path)
        kinds = read_as(layout, fields, numbers)
        timed = any(has_timestamps(each.type) for each in fields)
        stripes = _TimedStripes(layout, kinds, source) if timed else _PlainStripes(layout, kinds)
        places = {number: place for place, number in enumerate(sorted(set(numbers)))}
        for number in range(len(layout.stripes)):
            if not fields:
                yield Stripe(layout.stripe_rows(number), ())
                continue
            batch, leaf = stripes.read(number, sorted(places))
            columns = tuple(
                convert_array(batch.column(places[column]), each.type, leaf, (column,))
                for each, column in zip(fields, numbers, strict=True)
            )
            yield Stripe(batch.num_rows, columns)


class _PlainStripes:
    """Stripes as Arrow decodes them."""

    def __init__(self, layout: OrcLayout, kinds: Mapping[int, int]) -> None:
        self.layout, self.kinds = layout, kinds

    def read(self, stripe: int, numbers: Sequence[int]) -> tuple[pa.RecordBatch, Leaf]:
        return decode_stripe_columns(read_columns(self.layout, stripe, numbers), self.kinds), convert_plain_leaf


class _TimedStripes:
    """Stripes with timestamps: decoded by Arrow if the result equals Java's, otherwise decoded exactly."""

    def __init__(self, layout: OrcLayout, kinds: Mapping[int, int], source: FileSource) -> None:
        self.layout, self.kinds, self.where = layout, kinds, source.path
        self.legacy_ltz = source.given.get(ORC_TIMESTAMP_LTZ_LEGACY_TYPE)
        self.exact: ExactTimestamps | None = None

    def read(self, stripe: int, numbers: Sequence[int]) -> tuple[pa.RecordBatch, Leaf]:
        columns = read_columns(self.layout, stripe, numbers)
        zone = columns.stripe.zone
        batch = self._decode(columns) if CHECKS_ORC_TIMESTAMPS else None
        if batch is not None and is_utc(zone):
            return batch, convert_plain_leaf
        if batch is not None and not any(map(_has_early_timestamps, batch.columns)):
            return batch, make_zoned_leaf(zone, self.where) if self.legacy_ltz else convert_plain_leaf
        self.exact = self.exact or ExactTimestamps(self.layout, self.legacy_ltz)
        return self.exact.read_stripe(columns, self.kinds), make_exact_leaf(self.exact)

    def _decode(self, columns: StripeColumns) -> pa.RecordBatch | None:
        """Return the stripe as Arrow decodes it; None if a timestamp is beyond Arrow's range."""
        try:
            return decode_stripe_columns(columns, self.kinds)
        except pa.ArrowInvalid as error:
            if TIMESTAMP_RANGE not in str(error):
                raise
            return None


def _has_early_timestamps(array: pa.Array) -> bool:
    """Return whether a timestamp at any depth is before 1970, or close enough for a zone to have moved it."""
    if pa.types.is_timestamp(array.type):
        first = pc.min(array.cast(pa.int64())).as_py()
        return first is not None and first < EARLY_NANOS
    if pa.types.is_nested(array.type):
        parts = array.flatten() if pa.types.is_struct(array.type) else [array.values]
        return any(map(_has_early_timestamps, parts))
    return False


def to_polars_frame(fields: Sequence[t.DataField], columns: Sequence[pa.Array]) -> pl.DataFrame:
    """Convert Arrow columns, in the types of `fields`, to a frame."""
    return pl.DataFrame([import_array(column).alias(each.name) for each, column in zip(fields, columns, strict=True)])


def find_column_numbers(names: Sequence[str], fields: Sequence[t.DataField], where: str) -> list[int]:
    """Return numbers of top-level columns by their names."""
    numbers = {name: number for number, name in enumerate(names)}
    for each in fields:
        if each.name not in numbers:
            raise Unsupported(f"a file of the columns {', '.join(names)}, without {each.name!r},", where=where)
    return [numbers[each.name] for each in fields]


Leaf = Callable[[pa.Array, t.DataType, tuple[int, ...]], pa.Array]
"""Converts Arrow's values to an atomic type; the path leads through ORC's type tree to the column."""


def convert_array(array: pa.Array, type_: t.DataType, leaf: Leaf, path: tuple[int, ...]) -> pa.Array:
    """Convert `array`, as Arrow reads it from ORC, to the Arrow type of `type_`; nested types member by member.

    Raises `pa.ArrowInvalid`: values that do not fit the type.
    """
    members = _list_members(array, type_)
    if not members:
        return leaf(array, type_, path)
    children = [convert_array(child, member, leaf, (*path, step)) for step, child, member in members]
    return rebuild_nested(array, children, type_.arrow())


def convert_plain_leaf(array: pa.Array, type_: t.DataType, _path: tuple[int, ...]) -> pa.Array:
    """Convert values that Arrow reads as they are, or nearly so."""
    if type(type_) in VALIDATED:
        array.validate(full=True)  # nothing else checks that text is valid, and that decimals have no more digits
    array = LEAVES[type(type_)](array) if type(type_) in LEAVES else array
    return array if array.type == type_.arrow() else array.cast(type_.arrow())


def make_zoned_leaf(zone: str, where: str) -> Leaf:
    """Return a function like `convert_plain_leaf` that undoes the writer's shift of TIMESTAMP_LTZ by its zone."""

    def leaf(array: pa.Array, type_: t.DataType, path: tuple[int, ...]) -> pa.Array:
        if isinstance(type_, t.LocalZonedTimestampType):
            nanos = np.asarray(array.cast(pa.int64()).fill_null(0))
            shift = find_offsets(nanos // NANOS_PER_SECOND, zone, where) * NANOS_PER_SECOND
            array = pa.array(nanos + shift, mask=np.asarray(array.is_null())).cast(array.type)
        return convert_plain_leaf(array, type_, path)

    return leaf


def make_exact_leaf(exact: ExactTimestamps) -> Leaf:
    """Return a function like `convert_plain_leaf` for a file whose timestamps are read as seconds."""

    def leaf(array: pa.Array, type_: t.DataType, path: tuple[int, ...]) -> pa.Array:
        return (
            exact.leaf(array, type_, path) if isinstance(type_, TIMESTAMPS) else convert_plain_leaf(array, type_, path)
        )

    return leaf


def rebuild_nested(array: pa.Array, children: Sequence[pa.Array], type_: pa.DataType) -> pa.Array:
    """Return a list, map or struct array with the nulls and offsets of `array` and other children."""
    buffers = array.buffers()[: 1 if pa.types.is_struct(type_) else VALIDITY_AND_OFFSETS]
    if pa.types.is_map(type_):
        children = [pa.StructArray.from_arrays(list(children), fields=[type_.key_field, type_.item_field])]
    if pa.types.is_fixed_size_list(type_):
        plain = pa.Array.from_buffers(pa.list_(type_.value_field), len(array), buffers, children=list(children))
        return plain.cast(type_)
    return pa.Array.from_buffers(type_, len(array), buffers, children=list(children))


def _list_members(array: pa.Array, type_: t.DataType) -> list[tuple[int, pa.Array, t.DataType]]:
    """Return step in ORC's type tree, array and type of each member of a nested type."""
    if isinstance(type_, t.RowType):
        steps = [array.type.get_field_index(member.name) for member in type_.fields]
        if -1 in steps:
            raise pa.ArrowInvalid(f"{array.type} has no member {type_.fields[steps.index(-1)].name!r}")
        return [(step, array.field(step), member.type) for step, member in zip(steps, type_.fields, strict=True)]
    if isinstance(type_, t.MapType):
        return [(0, array.keys, type_.key), (1, array.items, type_.value)]
    if isinstance(type_, (t.ArrayType, t.VectorType)):
        return [(0, array.values, type_.element)]
    if isinstance(type_, t.MultisetType):
        return [(0, array.keys, type_.element), (1, array.items, t.IntType(nullable=False))]
    return []


LEAVES: dict[type[t.DataType], Callable[[pa.Array], pa.Array]] = {
    t.CharType: lambda array: pc.utf8_rtrim(array, characters=" "),
    t.TimeType: lambda array: array.cast(pa.int32()).cast(pa.time32("ms")),
}
VALIDATED = frozenset((t.CharType, t.VarCharType, t.DecimalType))


def _read_row_count(source: FileSource) -> int:
    with source.store.open(source.path) as stream:
        return OrcLayout(stream, source.path).rows


def _read_stored_names(source: FileSource) -> list[str]:
    with source.store.open(source.path) as stream:
        return list(OrcLayout(stream, source.path).columns)


READER = FileReader(
    decode=decode_orc, row_count=_read_row_count, stored_names=_read_stored_names, stripes=decode_stripes
)

MAX_RUN_VALUES, MAX_FREE_RUNS = 256, 1 << 10
"""A stream's values are counted only if it has at most `rows / MAX_RUN_VALUES + MAX_FREE_RUNS` runs, so that counting
is cheap."""
_TEXT = stored.TEXTS
_SMALL = frozenset((stored.BYTE,)) | stored.WHOLE
KINDS: dict[type[t.DataType], frozenset[int]] = {
    t.BooleanType: frozenset((stored.BOOLEAN,)),
    t.TinyIntType: _SMALL,
    t.SmallIntType: _SMALL,
    t.IntType: _SMALL,
    t.BigIntType: _SMALL,
    t.TimeType: _SMALL,
    t.FloatType: frozenset(stored.WIDTHS),
    t.DoubleType: frozenset(stored.WIDTHS),
    t.DecimalType: frozenset((DECIMAL,)),
    t.DateType: frozenset((stored.DATE,)),
    t.TimestampType: stored.TIMES,
    t.LocalZonedTimestampType: stored.TIMES,
    t.CharType: _TEXT,
    t.VarCharType: _TEXT,
    t.BinaryType: _TEXT,
    t.VarBinaryType: _TEXT,
    t.BlobType: _TEXT,
    t.ArrayType: frozenset((stored.LIST,)),
    t.MapType: frozenset((stored.MAP,)),
    t.MultisetType: frozenset((stored.MAP,)),
    t.RowType: frozenset((stored.STRUCT,)),
}
"""The ORC kinds that may hold a type; other types may be held by any kind."""
USUAL = {t.SmallIntType: stored.SHORT, t.IntType: stored.INT, t.TimeType: stored.INT, t.BigIntType: stored.LONG}


def read_as(layout: OrcLayout, fields: Sequence[t.DataField], columns: Sequence[int]) -> dict[int, int]:
    """Return the kind to read each node of the type tree as, if it differs from the file's kind.

    Raises `Unsupported`: a column cannot hold the type that the table gives it.
    """
    found: dict[int, int] = {}
    for field, column in zip(fields, columns, strict=True):
        _compare(layout, layout.types[0].children[column], field.type, field.name, found)
    return found


def _compare(layout: OrcLayout, node: int, type_: t.DataType, name: str, found: dict[int, int]) -> None:
    if node >= len(layout.types):
        raise CorruptFile(layout.where, "the types of the ORC file do not form a tree")
    found_type = layout.types[node]
    kind = found_type.kind
    if kind not in KINDS.get(type(type_), (kind,)):
        raise Unsupported(
            OTHER_TYPE.format(name, f"of the ORC type number {kind}", type_),
            where=layout.where,
            hint=OTHER_READER,
        )
    if kind in stored.WHOLE and kind != USUAL.get(type(type_)):
        found[node] = stored.LONG
    for member, child in _list_member_nodes(found_type.names, found_type.children, type_):
        if child > node:
            _compare(layout, child, member, name, found)


def _list_member_nodes(
    names: Sequence[str], children: Sequence[int], type_: t.DataType
) -> list[tuple[t.DataType, int]]:
    if isinstance(type_, t.RowType):
        numbers = dict(zip(names, children))
        return [(member.type, numbers[member.name]) for member in type_.fields if member.name in numbers]
    return list(zip(list_member_types(type_), children))


def decode_stripe_columns(columns: StripeColumns, kinds: Mapping[int, int]) -> pa.RecordBatch:
    """Decode the columns of a stripe with Arrow, reading the nodes in `kinds` as the given kind.

    Raises:
        CorruptFile: the streams claim more memory than their size justifies, or do not hold the values of the rows.
    """
    check_lengths(columns)
    batch = orc.ORCFile(pa.BufferReader(columns.file(kinds))).read_stripe(0)
    for node, array in zip(columns.columns, batch.columns, strict=True):
        _check(columns, node, array, columns.stripe.rows)
    return batch


def _check(columns: StripeColumns, node: int, array: pa.Array, slots: int) -> None:
    """Check that the streams of a column hold exactly its values.

    If they do not, damage has made more or fewer values null, or moved values from one row to another. `slots` are the
    rows, or items, in which no struct above the node is null.
    """
    type_, values = columns.layout.types[node], len(array) - array.null_count
    for kind, expected in ((PRESENT, slots), (DATA, values), (LENGTH, values), (SECONDARY, values)):
        if (node, kind) in columns.streams:
            found = _count_stream_values(columns, node, kind, array, expected)
            if found is not None and found != expected:
                raise columns.corrupt(node, f"{found} values in its stream {kind} where its rows have {expected}")
    for child, member in zip(type_.children, _list_children(array)):
        _check(columns, child, member, values if type_.kind == stored.STRUCT else len(member))


def _count_stream_values(columns: StripeColumns, node: int, kind: int, array: pa.Array, expected: int) -> int | None:
    """Count the values that a stream holds; return None if counting would be slow."""
    type_, data, where = columns.layout.types[node].kind, columns.streams[node, kind], columns.layout.where
    most = columns.stripe.rows // MAX_RUN_VALUES + MAX_FREE_RUNS
    if kind == PRESENT or type_ == stored.BOOLEAN:
        count = count_bytes(data, where, most)
        return expected if count in (None, -(-expected // 8)) else 8 * count
    if type_ == stored.BYTE:
        return count_bytes(data, where, most)
    has_dictionary = columns.stripe.encodings[node] in (stored.DICTIONARY, stored.DICTIONARY_V2)
    if type_ in stored.TEXTS and not has_dictionary:
        return expected if kind == LENGTH or _count_text_bytes(array) == len(data) else -1
    if has_dictionary and kind != DATA:
        return expected  # as many as there are entries
    if type_ in stored.WIDTHS:
        return len(data) // stored.WIDTHS[type_] if len(data) % stored.WIDTHS[type_] == 0 else -1
    if type_ == DECIMAL and kind == DATA:
        return count_varints(data)
    return count_values(data, where, version=columns.version(node), most_runs=most)


def _count_text_bytes(array: pa.Array) -> int:
    offsets = array.buffers()[1]
    if not len(array) or offsets is None:
        return 0
    ends = np.frombuffer(offsets, np.int32)[array.offset :][: len(array) + 1]
    return int(ends[-1]) - int(ends[0])


def _list_children(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_struct(array.type):
        return [array.field(number) for number in range(array.type.num_fields)]
    if pa.types.is_map(array.type):
        return [array.keys, array.items]
    return [array.values] if pa.types.is_list(array.type) else []


UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

Integers = npt.NDArray[np.int64]


class ExactTimestamps:
    """The columns of a file with timestamps read as seconds; `leaf` converts them to timestamps."""

    def __init__(self, layout: OrcLayout, legacy_ltz: bool) -> None:
        self.layout, self.where, self.legacy_ltz = layout, layout.where, legacy_ltz
        timed = (node for node, type_ in enumerate(layout.types) if type_.kind in TIMES)
        self.kinds = dict.fromkeys(timed, LONG)

    def read_stripe(self, columns: StripeColumns, kinds: Mapping[int, int]) -> pa.RecordBatch:
        """Read the columns of a stripe with timestamps as int64 seconds."""
        self.stripe: FileStripe = columns.stripe
        return decode_stripe_columns(columns, {**kinds, **self.kinds})

    def leaf(self, seconds: pa.Array, type_: t.DataType, path: tuple[int, ...]) -> pa.Array:
        """Return timestamps from their seconds; `path` leads from the root of the type tree to the column.

        Raises:
            CorruptFile: the nanoseconds do not match.
            Unsupported: an old encoding, or a value that the Arrow type cannot hold.
        """
        assert isinstance(type_, (t.TimestampType, t.LocalZonedTimestampType))
        column = self._column(path)
        valid = seconds.is_valid().to_numpy(zero_copy_only=False)
        nanos = np.zeros(len(seconds), np.int64)
        nanos[valid] = self._nanos(column, int(valid.sum()))
        zone = self.stripe.zone
        instant = self.layout.types[column].kind == TIMESTAMP_INSTANT
        whole = np.asarray(seconds.fill_null(0)) + compute_orc_epoch(UTC if instant else zone, self.where)
        # Writers cut seconds towards zero, and every reader undoes this if there is a fraction.
        whole = whole - ((whole < 0) & (nanos > NANOS_PER_MILLI - 1))
        if not instant or self.legacy_ltz:
            whole = whole + find_offsets(whole, zone, self.where)
        arrow = type_.arrow()
        per_second = UNITS_PER_SECOND[arrow.unit]
        bound = (2**63 - 1) // per_second - 1
        if (np.abs(whole[valid]) > bound).any():
            raise Unsupported(
                f"a {type_} before 1677 or after 2262",
                where=self.where,
                hint="Arrow counts nanoseconds in 64 bits; lower the column's precision to 6 and rewrite the file",
            )
        values = whole * per_second + nanos // (NANOS_PER_SECOND // per_second)
        return pa.array(values, mask=~valid).cast(arrow)

    def _column(self, path: tuple[int, ...]) -> int:
        column = 0
        for step in path:
            column = self.layout.types[column].children[step]
        return column

    def _nanos(self, column: int, count: int) -> Integers:
        if self.stripe.encodings[column : column + 1] != (DIRECT_V2,):
            raise Unsupported("ORC timestamps in the encoding of Hive 0.11", where=self.where)
        raw = decode_unsigned(self.layout.stream_bytes(self.stripe, column, SECONDARY), count, self.where)
        signed = raw.view(np.int64)  # Arrow's writer has negative nanoseconds before 1970
        zeros = signed & ((1 << ZEROS_BITS) - 1)
        nanos: Integers = (signed >> ZEROS_BITS) * 10 ** np.where(zeros > 0, zeros + 1, 0)
        if nanos.size and (int(nanos.max()) >= NANOS_PER_SECOND or int(nanos.min()) <= -NANOS_PER_SECOND):
            raise CorruptFile(self.where, "a timestamp with more nanoseconds than a second has")
        return nanos
