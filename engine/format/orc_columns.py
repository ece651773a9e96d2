"""Decoders of ORC metadata files and run-length encoded integers, and time zones of ORC writers.

ORC lacks checksums, and some damaged files crash the process in Arrow's reader. So manifests are decoded here.

Every stream must have exactly the number of values that the rows need, every length must fit, every dictionary index
must have an entry, and text must be UTF-8. Only the types of manifests are supported: TINYINT, INT, BIGINT, STRING,
BINARY, TIMESTAMP, lists and structs, integers in run-length encoding version 2.

Integers are stored in runs of up to 512 values, each in one of four encodings.

The two highest bits of a run's first byte give its encoding (bit fields are big-endian)::

    0  short repeat   2 type, 3 bytes of value - 1, 3 count - 3; the value
    1  direct         2 type, 5 width code, 9 count - 1; count values of that width
    2  patched base   direct's header, then 3 bytes of base - 1, 5 patch width code, 3 gap width - 1, 5 patches;
                      the base, count values, patches of (gap, high bits)
    3  delta          direct's header; base varint, first delta zigzag varint, count - 2 deltas of that width
                      (width code 0: every delta is the first)

Signed integers are zigzag numbers in short repeats, direct runs and the bases of delta runs; the base of a patched run
has its sign in the highest bit.

Bytes, and bits (eight per byte, highest first), have a separate encoding: a control byte c, then for c < 128 one byte
that is repeated c + 3 times, else 256 - c literal bytes.

ORC's TIMESTAMP is stored relative to the time zone of the writer. Paimon's writer also shifts TIMESTAMP_LTZ by this
zone, unless ``orc.timestamp-ltz.legacy.type`` is false. Reading reverses both with the offsets that Java uses: the
offsets of the time zone database from 1900 on, and today's standard offset of the zone before 1900, never local mean
time.
"""

from __future__ import annotations

import datetime as dt
import io
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.orc_file import SECONDARY, OrcLayout, OrcType, Stripe, read_varint
from morrow.engine.units import MILLIS_PER_SECOND, NANOS_PER_MILLI

PRESENT, DATA, LENGTH, DICTIONARY_DATA = range(4)
"""Kinds of streams: values of ``Stream.kind``."""
DIRECT, DICTIONARY, DIRECT_V2, DICTIONARY_V2 = range(4)
"""Encodings of columns: values of ``ColumnEncoding.kind``."""
BYTE, SHORT, INT, LONG, STRING, BINARY, TIMESTAMP, LIST, STRUCT = 1, 2, 3, 4, 7, 8, 9, 10, 12
"""Kinds of types: values of ``Type.kind``."""
MAX_DEPTH = 16
ZEROS_BITS = 3
"""Low bits of a nanosecond value: the number of removed decimal zeros, minus one (0 = none)."""


def read_orc(data: bytes, where: str, most_bytes: int) -> pa.Table:
    """Read the rows of an ORC file as a table, decompressing at most `most_bytes`.

    Raises:
        CorruptFile: parts of the file contradict each other.
        Unsupported: a type or encoding that metadata files do not use.
    """
    layout = OrcLayout(io.BytesIO(data), where, most_bytes=most_bytes)
    if not layout.types or layout.types[0].kind != STRUCT:
        raise CorruptFile(where, "the rows of the ORC file are not structs")
    schema = _to_arrow_type(layout.types, 0, 0, where)
    rows = [layout.stripe(number) for number in range(len(layout.stripes))]
    if sum(stripe.rows for stripe in rows) > len(data):
        raise CorruptFile(where, f"it claims more rows than its {len(data)} bytes can name files")
    parts = [_Columns(layout, stripe).column(0, stripe.rows, 0) for stripe in rows]
    if not parts:  # pyarrow before 26 cannot make an empty table from them
        return pa.schema(list(schema)).empty_table()
    return pa.Table.from_struct_array(pa.chunked_array(parts, schema))


@dataclass(frozen=True)
class _Columns:
    """The columns of one stripe."""

    layout: OrcLayout
    stripe: Stripe

    def column(self, node: int, count: int, depth: int) -> pa.Array:
        """Decode the column `node` of the type tree, for `count` rows (for a member: its non-null structs)."""
        where = self.layout.where
        kind = self.layout.types[node].kind
        if depth > MAX_DEPTH or kind not in _DECODERS:
            raise Unsupported(f"an ORC column of kind {kind} in a metadata file", where=where)
        present = np.ones(count, np.bool_)
        if (node, PRESENT) in self.stripe.streams:
            present = decode_bits(self.stream(node, PRESENT), count, where)
        return _DECODERS[kind](self, node, present, depth)

    def stream(self, node: int, kind: int) -> bytes:
        return self.layout.stream_bytes(self.stripe, node, kind)

    def integers(self, node: int, kind: int, count: int, *, signed: bool) -> Signed:
        values = decode_whole(self.stream(node, kind), count, self.layout.where, signed=signed)
        if not signed and (values < 0).any():
            raise CorruptFile(self.layout.where, "an ORC length beyond 63 bits")
        return values

    def encoding(self, node: int, *known: int) -> int:
        encoding = self.stripe.encodings[node] if node < len(self.stripe.encodings) else -1
        if encoding not in known:
            raise Unsupported(f"the ORC encoding {encoding} in a metadata file", where=self.layout.where)
        return encoding

    def corrupt(self, problem: str) -> CorruptFile:
        return CorruptFile(self.layout.where, problem)


def _spread(values: npt.NDArray[np.int64], present: Bits) -> npt.NDArray[np.int64]:
    """Return the values at the positions of the present rows; 0 for other rows."""
    if present.all():
        return values
    out = np.zeros(len(present), values.dtype)
    out[present] = values
    return out


def _pack_validity(present: Bits) -> pa.Buffer | None:
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def _decode_integers(columns: _Columns, node: int, present: Bits, _depth: int) -> pa.Array:
    columns.encoding(node, DIRECT_V2)
    values = columns.integers(node, DATA, int(present.sum()), signed=True)
    kind = _ATOMS[columns.layout.types[node].kind]
    limit = 1 << (kind.bit_width - 1)
    if kind.bit_width < 64 and ((values < -limit) | (values >= limit)).any():
        raise columns.corrupt(f"a number beyond {kind}")
    return pa.array(_spread(values, present), mask=~present).cast(kind)


def _decode_tinyint(columns: _Columns, node: int, present: Bits, _depth: int) -> pa.Array:
    columns.encoding(node, DIRECT)
    values = decode_bytes(columns.stream(node, DATA), int(present.sum()), columns.layout.where).view(np.int8)
    return pa.array(_spread(values.astype(np.int64), present), mask=~present).cast(pa.int8())


def _decode_timestamps(columns: _Columns, node: int, present: Bits, _depth: int) -> pa.Array:
    columns.encoding(node, DIRECT_V2)
    where, zone, count = columns.layout.where, columns.stripe.zone, int(present.sum())
    seconds = columns.integers(node, DATA, count, signed=True)
    if (np.abs(seconds) >> 40).any():
        raise columns.corrupt("a timestamp that no calendar has")
    stored = columns.integers(node, SECONDARY, count, signed=False)
    zeros = stored & ((1 << ZEROS_BITS) - 1)
    nanos = (stored >> ZEROS_BITS) * 10 ** np.where(zeros > 0, zeros + 1, 0)
    if ((nanos < 0) | (nanos >= MILLIS_PER_SECOND * NANOS_PER_MILLI)).any():
        raise columns.corrupt("a timestamp with more nanoseconds than a second has")
    instants = seconds + compute_orc_epoch(zone, where)
    clock = (instants + find_offsets(instants, zone, where)) * MILLIS_PER_SECOND + nanos // NANOS_PER_MILLI
    return pa.array(_spread(clock, present), mask=~present).cast(pa.timestamp("ms"))


def _decode_text(columns: _Columns, node: int, present: Bits, _depth: int) -> pa.Array:
    kind, count = _ATOMS[columns.layout.types[node].kind], int(present.sum())
    if columns.encoding(node, DIRECT_V2, DICTIONARY_V2) == DIRECT_V2:
        lengths = columns.integers(node, LENGTH, count, signed=False)
        return _check_text(
            _cut(columns, columns.stream(node, DATA), _spread(lengths, present), kind, _pack_validity(present)), columns
        )
    size = columns.stripe.dictionaries[node]
    data = columns.stream(node, DICTIONARY_DATA)
    entries = _cut(columns, data, columns.integers(node, LENGTH, size, signed=False), kind, None)
    numbers = columns.integers(node, DATA, count, signed=False)
    if (numbers >= size).any():
        raise columns.corrupt(f"a number of a dictionary of {size} entries that is not below that")
    if numbers.size and int(np.diff(np.asarray(entries.buffers()[1]).view(np.int64)).max()) * count > MAX_TEXT_BYTES:
        raise columns.corrupt("a dictionary that would be written out to more than a metadata file holds")
    return _check_text(entries, columns).take(pa.array(_spread(numbers, present), mask=~present))


MAX_TEXT_BYTES = 1 << 28
"""Maximum bytes of a column after its dictionary is expanded."""


def _cut(columns: _Columns, data: bytes, lengths: Signed, kind: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
    """Split `data` into consecutive values of these lengths, whose sum must be the size of `data`."""
    if (lengths > len(data)).any() or int(lengths.sum()) != len(data):
        raise columns.corrupt(f"lengths that do not add up to the {len(data)} bytes of their values")
    edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return pa.Array.from_buffers(kind, len(lengths), [validity, pa.py_buffer(edges), pa.py_buffer(data)])


def _check_text(array: pa.Array, columns: _Columns) -> pa.Array:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise columns.corrupt(f"text that is not UTF-8 ({error})") from error
    return array


def _decode_list(columns: _Columns, node: int, present: Bits, depth: int) -> pa.Array:
    columns.encoding(node, DIRECT_V2)
    lengths = columns.integers(node, LENGTH, int(present.sum()), signed=False)
    if (lengths > columns.layout.size << 16).any() or int(lengths.sum()) > columns.layout.size << 16:
        raise columns.corrupt("a list longer than the file can hold")
    edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(_spread(lengths, present))])
    (child,) = columns.layout.types[node].children
    items = columns.column(child, int(edges[-1]), depth + 1)
    kind = pa.large_list(items.type)
    return pa.Array.from_buffers(kind, len(present), [_pack_validity(present), pa.py_buffer(edges)], children=[items])


def _decode_struct(columns: _Columns, node: int, present: Bits, depth: int) -> pa.Array:
    type_, count = columns.layout.types[node], int(present.sum())
    members = [columns.column(child, count, depth + 1) for child in type_.children]
    if count < len(present):  # members are stored only for rows with a non-null struct
        places = np.zeros(len(present), np.int64)
        places[present] = np.arange(count)
        members = [member.take(pa.array(places, mask=~present)) for member in members]
    fields = [pa.field(name, member.type) for name, member in zip(type_.names, members, strict=True)]
    return pa.Array.from_buffers(pa.struct(fields), len(present), [_pack_validity(present)], children=members)


_ATOMS: dict[int, pa.DataType] = {
    BYTE: pa.int8(),
    SHORT: pa.int16(),
    INT: pa.int32(),
    LONG: pa.int64(),
    STRING: pa.large_string(),
    BINARY: pa.large_binary(),
    TIMESTAMP: pa.timestamp("ms"),
}

_DECODERS: dict[int, Callable[[_Columns, int, Bits, int], pa.Array]] = {
    BYTE: _decode_tinyint,
    SHORT: _decode_integers,
    INT: _decode_integers,
    LONG: _decode_integers,
    STRING: _decode_text,
    BINARY: _decode_text,
    TIMESTAMP: _decode_timestamps,
    LIST: _decode_list,
    STRUCT: _decode_struct,
}


def _to_arrow_type(types: tuple[OrcType, ...], node: int, depth: int, where: str) -> pa.DataType:
    """Return the Arrow type of a node, and check it: a tree of known kinds, one item type per list, distinct names."""
    if not 0 <= node < len(types) or depth > MAX_DEPTH:
        raise CorruptFile(where, "the types of the ORC file do not form a tree")
    type_ = types[node]
    if type_.kind in _ATOMS:
        return _ATOMS[type_.kind]
    if any(child <= node for child in type_.children):
        raise CorruptFile(where, "the types of the ORC file do not form a tree")
    members = [_to_arrow_type(types, child, depth + 1, where) for child in type_.children]
    if type_.kind == LIST and len(members) == 1:
        return pa.large_list(members[0])
    if type_.kind == STRUCT and members and len(type_.names) == len(members) == len(set(type_.names)):
        return pa.struct([pa.field(name, member) for name, member in zip(type_.names, members)])
    raise Unsupported(f"an ORC column of kind {type_.kind} in a metadata file", where=where)


SHORT_REPEAT, DIRECT_RUN, PATCHED_BASE, DELTA = range(4)
SHORT_REPEAT_MIN = 3
BIT_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""Bits of each width code; code 0 means 0 in delta runs."""

LITERALS = 128
"""Control bytes from this value on count the literal bytes that follow."""

Values = npt.NDArray[np.uint64]
Signed = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bits = npt.NDArray[np.bool_]
_MASK = (1 << 64) - 1


def decode_unsigned(data: bytes, count: int, where: str) -> Values:
    """Return the first `count` values of a stream.

    Raises `CorruptFile`: the stream has fewer values, or a run is invalid.
    """
    return _decode_runs(data, count, where, signed=False)[0][:count]


def decode_whole(data: bytes, count: int, where: str, *, signed: bool) -> Signed:
    """Return the values of a stream of exactly `count` values.

    Raises `CorruptFile`: the stream has fewer or more values, or a run is invalid.
    """
    values, end = _decode_runs(data, count, where, signed=signed)
    if len(values) != count or end != len(data):
        raise CorruptFile(where, f"an integer stream holds more than {count} values")
    return values.view(np.int64)


def decode_bytes(data: bytes, count: int, where: str) -> Bytes:
    """Return the bytes of a byte stream of exactly `count` bytes.

    Raises `CorruptFile`: the stream has fewer or more bytes.
    """
    source = np.frombuffer(data, np.uint8)
    runs: list[Bytes] = []
    at = found = 0
    while at < len(data) and found <= count:
        control = data[at]
        literal = control >= LITERALS
        size = 256 - control if literal else control + SHORT_REPEAT_MIN
        stored = source[at + 1 : at + 1 + (size if literal else 1)]
        runs.append(stored if literal else np.repeat(stored, size))
        at += 1 + (size if literal else 1)
        found += len(runs[-1])
    if found != count or at != len(data):
        raise CorruptFile(where, f"a byte stream does not hold {count} bytes")
    return np.concatenate(runs) if runs else np.empty(0, np.uint8)


def decode_bits(data: bytes, count: int, where: str) -> Bits:
    """Return the bits of a stream of exactly `count` bits, padded to whole bytes.

    Raises `CorruptFile`: the stream has fewer or more bits.
    """
    return np.unpackbits(decode_bytes(data, -(-count // 8), where))[:count].astype(np.bool_)


def _decode_runs(data: bytes, count: int, where: str, *, signed: bool) -> tuple[Values, int]:
    """Return at least the first `count` values, in whole runs, and the position of the byte after them."""
    runs: list[Values] = []
    at = found = 0
    try:
        while found < count:
            values, at = _RUNS[data[at] >> 6](data, at, where, signed)
            runs.append(values)
            found += len(values)
    except (IndexError, ValueError, StopIteration, OverflowError) as error:
        raise CorruptFile(where, f"an integer stream ends after {found} of {count} values") from error
    return np.concatenate(runs) if runs else np.empty(0, np.uint64), at


def _decode_zigzag(values: Values) -> Values:
    return (values >> np.uint64(1)) ^ (np.uint64(0) - (values & np.uint64(1)))


def _decode_short_repeat(data: bytes, at: int, _where: str, signed: bool) -> tuple[Values, int]:
    header = data[at]
    size, count = (header >> 3 & 7) + 1, (header & 7) + SHORT_REPEAT_MIN
    value = _read_big_endian(data, at + 1, size)
    values = np.full(count, value, np.uint64)
    return _decode_zigzag(values) if signed else values, at + 1 + size


def _decode_direct(data: bytes, at: int, _where: str, signed: bool) -> tuple[Values, int]:
    width, count = BIT_WIDTHS[data[at] >> 1 & 31], _count(data, at)
    values, end = _unpack_values(data, at + 2, width, count)
    return _decode_zigzag(values) if signed else values, end


def _decode_patched_base(data: bytes, at: int, _where: str, signed: bool) -> tuple[Values, int]:
    width, count = BIT_WIDTHS[data[at] >> 1 & 31], _count(data, at)
    base_size, patch_width = (data[at + 2] >> 5) + 1, BIT_WIDTHS[data[at + 2] & 31]
    gap_width, patches = (data[at + 3] >> 5) + 1, data[at + 3] & 31
    at += 4
    base = _read_big_endian(data, at, base_size)
    values, at = _unpack_values(data, at + base_size, width, count)
    entry_width = next(w for w in BIT_WIDTHS if w >= gap_width + patch_width)
    entries, at = _unpack_values(data, at, entry_width, patches)
    places = np.cumsum(entries >> np.uint64(patch_width)).astype(np.int64)
    # A gap too large for its field is a chain of entries with patch 0, and adding zeros is harmless.
    patch = (entries & np.uint64((1 << patch_width) - 1)) << np.uint64(width)
    values = values.copy()
    np.bitwise_or.at(values, places, patch)
    sign = 1 << (8 * base_size - 1)
    if signed and base & sign:
        base = sign - base
    return values + np.array([base & _MASK], np.uint64), at


def _decode_delta(data: bytes, at: int, where: str, signed: bool) -> tuple[Values, int]:
    code, count = data[at] >> 1 & 31, _count(data, at)
    base, at = read_varint(data, at + 2, where)
    if signed:
        base = ((base >> 1) ^ -(base & 1)) & _MASK
    zigzag, at = read_varint(data, at, where)
    first = (zigzag >> 1) ^ -(zigzag & 1)
    deltas = np.full(count - 1, first, np.int64)
    if code and count > 2:
        rest, at = _unpack_values(data, at, BIT_WIDTHS[code], count - 2)
        deltas[1:] = rest.astype(np.int64) * (-1 if first < 0 else 1)
    steps = np.concatenate([np.array([base], np.uint64).view(np.int64), deltas])
    return np.cumsum(steps).view(np.uint64), at


_RUNS = {
    SHORT_REPEAT: _decode_short_repeat,
    DIRECT_RUN: _decode_direct,
    PATCHED_BASE: _decode_patched_base,
    DELTA: _decode_delta,
}


def _read_big_endian(data: bytes, at: int, size: int) -> int:
    if at + size > len(data):
        raise IndexError
    return int.from_bytes(data[at : at + size], "big")


def _count(data: bytes, at: int) -> int:
    return ((data[at] & 1) << 8 | data[at + 1]) + 1


def _unpack_values(data: bytes, at: int, width: int, count: int) -> tuple[Values, int]:
    """Return `count` big-endian values of `width` bits from byte `at`, and the position of the byte after them."""
    end = at + (count * width + 7) // 8
    bits = np.unpackbits(np.frombuffer(data[at:end], np.uint8))[: count * width].reshape(count, width)
    wide = np.zeros((count, 64), np.uint8)
    wide[:, 64 - width :] = bits
    return np.packbits(wide, axis=1).view(">u8").ravel().astype(np.uint64), end


UTC = "UTC"
UTC_NAMES = frozenset({"", UTC, "GMT", "Etc/UTC", "Etc/GMT", "Z"})
JAVA_FIRST_SECOND = int(dt.datetime(1900, 1, 1, tzinfo=dt.UTC).timestamp())
ORC_EPOCH = dt.datetime(2015, 1, 1)
"""The epoch of seconds in ORC files, on the clock of the writer."""
DAY_SECONDS = 86_400
CYCLE = range(2060, 2088)
"""28 years with every combination of leap year and first weekday, used to look up zone rules of later years."""

Integers = npt.NDArray[np.int64]


def is_utc(zone: str) -> bool:
    """Return whether this zone is UTC."""
    return zone in UTC_NAMES


def compute_orc_epoch(zone: str, where: str) -> int:
    """Return the instant (seconds since 1970 in UTC) from which ORC counts in this zone."""
    tzinfo = dt.UTC if is_utc(zone) else _load_zone(zone, where)
    return int(ORC_EPOCH.replace(tzinfo=tzinfo).timestamp())


def find_offsets(instants: Integers, zone: str, where: str) -> Integers:
    """Return the seconds by which clocks of `zone` are ahead of UTC at these instants (seconds since 1970).

    Raises `Unsupported`: the time zone database lacks the zone.
    """
    if is_utc(zone):
        return np.zeros(len(instants), np.int64)
    today = dt.datetime(2025, 1, 1, tzinfo=_load_zone(zone, where))
    standard = (today.utcoffset() or dt.timedelta()) - (today.dst() or dt.timedelta())
    near = np.where(instants < JAVA_FIRST_SECOND, 0, _move_into_cycle(instants))
    clock = pl.Series(near * 1_000).cast(pl.Datetime("ms", UTC)).dt.convert_time_zone(zone).dt.replace_time_zone(None)
    found: Integers = (clock.to_physical() // 1_000).to_numpy() - near
    return np.where(instants < JAVA_FIRST_SECOND, int(standard.total_seconds()), found)


def _load_zone(zone: str, where: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = "install the time zone database (the package tzdata)"
        raise Unsupported(f"the time zone {zone!r} of an ORC file", where=where, hint=hint) from error


def _move_into_cycle(instants: Integers) -> Integers:
    """Move instants after `CYCLE` into the year of `CYCLE` with the same calendar, as zone tables end in 2100."""
    limit = _find_year_start(CYCLE.stop) * DAY_SECONDS
    years = np.where(
        instants < limit, CYCLE.start, instants.astype("datetime64[s]").astype("datetime64[Y]").astype(int) + 1970
    )
    start, following = _find_year_starts(years), _find_year_starts(years + 1)
    twin = _find_twin_years()[following - start - 365, start % 7]
    return np.where(instants < limit, instants, instants + (twin - start) * DAY_SECONDS)


@lru_cache(maxsize=1)
def _find_twin_years() -> Integers:
    """Return the first day of a year of `CYCLE` by [leap year, weekday of the first day]."""
    table = np.zeros((2, 7), np.int64)
    for year in CYCLE:
        start = _find_year_start(year)
        table[_find_year_start(year + 1) - start - 365, start % 7] = start
    return table


def _find_year_start(year: int) -> int:
    return int(_find_year_starts(np.array([year]))[0])


def _find_year_starts(years: Integers) -> Integers:
    days: Integers = (years - 1970).astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    return days
