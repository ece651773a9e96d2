"""Maps in shared columns: a file stores the values of a map in columns that several keys share.

A column of the type MAP<STRING NOT NULL, V> is a struct in the file, and the metadata of its Arrow field (in the
footer's ``ARROW:schema``) names the keys::

    __field_mapping    ARRAY<INT>     the number of the key whose value each column has in this row, -1 for none
    __col_0 ...        V              the values
    __overflow         MAP<INT, V>    values that found no column, by the number of their key

    paimon.map.storage-layout                                   shared-shredding
    paimon.map.shared-shredding.version                         1
    paimon.map.shared-shredding.field-dict                      JSON {key: number}, compressed, a character per byte
    paimon.map.shared-shredding.field-dict-compression          none, lz4 or zstd
    paimon.map.shared-shredding.field-dict-original-size        bytes of the JSON
    paimon.map.shared-shredding.num-columns                     number of columns
    paimon.map.shared-shredding.field-columns                   JSON {number: [columns that have it]}
    paimon.map.shared-shredding.overflow-set                    JSON [numbers in overflows]
    paimon.map.shared-shredding.max-row-width                   entries of the largest map

Null maps are null structs. Maps are rebuilt for all rows at once: first the values of columns, then the overflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import read_fixed_values, read_validity

LAYOUT_KEY, LAYOUT = b"paimon.map.storage-layout", b"shared-shredding"
PREFIX = b"paimon.map.shared-shredding."
VERSION = 1
LAYOUT_SUFFIX = ".map.storage-layout"
"""The end of the options that choose how a column is stored."""
WIDTH_SUFFIX, DEFAULT_MAX_COLUMNS = ".map.shared-shredding.max-columns", 256
MAPPING, COLUMN, OVERFLOW = "__field_mapping", "__col_", "__overflow"
MAX_DICTIONARY_BYTES = 1 << 30
"""Maximum bytes of the keys of a file. More count as damage."""
PIECE_VALUES = 1 << 22
"""Values of all columns that are placed at a time."""
MAX_CLOSE_COLUMNS, MAX_CLOSE_RATIO = 4, 1.25
"""Limits (columns, ratio) by which the largest map may exceed the common ones for all of its keys to get columns."""


class SharedColumns(msgspec.Struct, frozen=True):
    """The number of columns of a map in a file, and its keys by their numbers."""

    count: int
    keys: Mapping[int, str]

    def physical(self, kind: t.MapType) -> t.RowType:
        """Return the type of the struct in the file."""
        return build_physical_type(kind, self.count)


def build_physical_type(kind: t.MapType, count: int) -> t.RowType:
    """Return the type of the struct with `count` columns that stores a map."""
    members: list[tuple[str, t.DataType]] = [(MAPPING, t.ArrayType(element=t.IntType()))]
    members += [(f"{COLUMN}{number}", kind.value) for number in range(count)]
    members.append((OVERFLOW, t.MapType(key=t.IntType(), value=kind.value)))
    fields = (t.DataField(number, name, each) for number, (name, each) in enumerate(members))
    return t.RowType(kind.nullable, tuple(fields))


def is_shareable(kind: t.DataType) -> bool:
    """Return whether files may store columns of a type in shared columns."""
    return isinstance(kind, t.MapType) and isinstance(kind.key, t.VarCharType)


def has_shared_maps(options: Mapping[str, str], fields: Iterable[t.DataField]) -> bool:
    """Return whether files of a table with these options may store one of the columns in shared columns."""
    shares = any(
        key.endswith(LAYOUT_SUFFIX) and value.strip().lower() == LAYOUT.decode() for key, value in options.items()
    )
    return shares and any(is_shareable(field.type) for field in fields)


def find_shared_widths(options: Mapping[str, str], fields: Iterable[t.DataField]) -> dict[str, int]:
    """Return the columns to write in shared columns, and the maximum number of columns of each."""
    found = {}
    for field in fields:
        if options.get(f"fields.{field.name}{LAYOUT_SUFFIX}", "").strip().lower() == LAYOUT.decode():
            found[field.name] = int(options.get(f"fields.{field.name}{WIDTH_SUFFIX}", DEFAULT_MAX_COLUMNS))
    return found


def parse_shared_columns(metadata: Mapping[bytes, bytes] | None, where: str) -> SharedColumns | None:
    """Return how a file stores a map, from the metadata of its Arrow field; None for a plain map.

    Raises `CorruptFile`: a part is missing or damaged. `Unsupported`: another version or codec.
    """
    given = metadata or {}
    if given.get(LAYOUT_KEY) != LAYOUT:
        return None
    names = ("version", "field-dict-original-size", "num-columns")
    version, size, count = (_parse_number(given, name, where) for name in names)
    if version != VERSION:
        raise Unsupported(f"version {version} of shared columns of maps", where=where)
    codec = given.get(PREFIX + b"field-dict-compression", b"zstd").decode().lower()
    try:
        text = given[PREFIX + b"field-dict"].decode().encode("latin-1")
        keys = msgspec.json.decode(_decompress(text, codec, size, where), type=dict[str, int])
    except (KeyError, UnicodeError, OSError, msgspec.MsgspecError) as error:
        raise CorruptFile(where, f"the keys of a map in shared columns are damaged: {error}") from error
    return SharedColumns(count, {number: key for key, number in keys.items()})


def _parse_number(given: Mapping[bytes, bytes], name: str, where: str) -> int:
    text = given.get(PREFIX + name.encode(), b"")
    if not text.isdigit():
        raise CorruptFile(where, f"the {name} of a map in shared columns is {text!r}, not a number")
    return int(text)


def _decompress(data: bytes, codec: str, size: int, where: str) -> bytes:
    if codec == "none":
        return data
    if codec != "zstd":
        raise Unsupported(f"the codec {codec!r} for the keys of a map in shared columns", where=where)
    if size > MAX_DICTIONARY_BYTES:
        raise CorruptFile(where, f"the keys of a map in shared columns have {size} bytes")
    text: bytes = pa.Codec("zstd").decompress(data, size, asbytes=True)
    return text


def rebuild_maps(array: pa.Array, shared: SharedColumns, where: str) -> pa.Array:
    """Return the maps of a struct that `SharedColumns.physical` describes.

    Raises `CorruptFile`: a row without a number for each column, or an unknown key.
    """
    valid = read_validity(array)
    rows = np.flatnonzero(valid)
    mapping, overflow = array.field(0), array.field(shared.count + 1)
    edges = _read_offsets(mapping)
    if (np.diff(edges)[rows] != shared.count).any():
        raise CorruptFile(where, f"a map in shared columns has no numbers for its {shared.count} columns")
    numbers = read_fixed_values(mapping.values, "<i4")[edges[rows][:, None] + np.arange(shared.count)]
    found, columns = np.nonzero(numbers >= 0)
    ends = _read_offsets(overflow)
    sizes = np.where(read_validity(overflow) & valid, np.diff(ends), 0)
    owners = np.repeat(np.arange(len(array)), sizes)
    within = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    key_part, value_part = overflow.values.field(0), overflow.values.field(1)
    places = ends[owners] + within
    all_rows = np.concatenate([rows[found], owners])
    all_keys = np.concatenate([numbers[found, columns], read_fixed_values(key_part, "<i4")[places]])
    all_values = np.concatenate([columns * len(array) + rows[found], shared.count * len(array) + places])
    order = np.argsort(all_rows, kind="stable")
    names = np.array(sorted(shared.keys), np.int64)
    ranks = np.minimum(np.searchsorted(names, all_keys[order]), max(len(names) - 1, 0))
    if len(order) and (not len(names) or (names[ranks] != all_keys[order]).any()):
        raise CorruptFile(where, "a map in shared columns has a key without a name")
    keys = pa.array([shared.keys[number] for number in names.tolist()], pa.large_string()).take(pa.array(ranks))
    pool = pa.concat_arrays([*(array.field(1 + number) for number in range(shared.count)), value_part])
    values = pool.take(pa.array(all_values[order]))
    entry = pa.struct([("key", keys.type), ("value", values.type)])
    made = pa.Array.from_buffers(entry, len(keys), [None], children=[keys, values])
    return _make_list(made, np.bincount(all_rows, minlength=len(array)), valid)


def _read_offsets(array: pa.Array) -> Any:
    width = 8 if pa.types.is_large_list(array.type) else 4
    offsets = np.frombuffer(array.buffers()[1], f"<i{width}", len(array) + 1, array.offset * width)
    return offsets.astype(np.int64)


class SharedKeys:
    """The numbers of the keys of one map column, for the files of a writer."""

    def __init__(self, kind: t.MapType, count: int) -> None:
        self.kind, self.count = kind, count
        self._numbers = dict[str, int]()
        self._lock = Lock()

    @classmethod
    def of(cls, kind: t.MapType, sample: pa.Array, most: int) -> SharedKeys:
        """Choose the number of columns: 9 of 10 maps of a sample fit, all of them if the largest is not much larger."""
        widths = np.sort(np.where(read_validity(sample), np.diff(_read_offsets(sample)), 0))
        common = int(widths[max(-(-len(widths) * 9 // 10), 1) - 1]) if len(widths) else 1
        largest = int(widths[-1]) if len(widths) else 1
        close = largest - common <= MAX_CLOSE_COLUMNS or largest <= common * MAX_CLOSE_RATIO
        return cls(kind, max(min(largest if close else common, most), 1))

    def cut(self, array: pa.Array) -> Iterator[pa.Array]:
        """Cut maps into pieces that take little memory in columns."""
        step = max(PIECE_VALUES // self.count, 1)
        yield from (array[at : at + step] for at in range(0, max(len(array), 1), step))

    def shred(self, array: pa.Array) -> tuple[pa.Array, SharedUse]:
        """Return maps as a struct of `build_physical_type`, and the keys in it. Keys take columns in their order.

        Raises `InvalidArgument`: a key is null.
        """
        valid, count, rows = read_validity(array), self.count, len(array)
        edges = _read_offsets(array)
        sizes = np.where(valid, np.diff(edges), 0)
        owners = np.repeat(np.arange(rows), sizes)
        places = edges[owners] + np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        entries = array.values.take(pa.array(places))
        numbers = self._number(entries.field(0))
        order = np.lexsort((numbers, owners))
        numbers, owners = numbers[order], owners[order]
        values = entries.field(1).take(pa.array(order))
        ranks = np.arange(len(owners)) - (np.cumsum(sizes) - sizes)[owners]
        mapping = np.full((rows, count), -1, np.int32)
        inside = ranks < count
        mapping[owners[inside], ranks[inside]] = numbers[inside]
        lists = _make_list(pa.array(mapping[valid].ravel()), np.where(valid, count, 0), valid)
        columns = []
        for column in range(count):
            chosen = np.flatnonzero(ranks == column)
            wanted = np.zeros(rows, np.int64)
            wanted[owners[chosen]] = chosen
            held = np.zeros(rows, np.bool_)
            held[owners[chosen]] = True
            columns.append(values.take(_mask(wanted, held)))
        over = np.flatnonzero(~inside)
        entry = [pa.array(numbers[over].astype(np.int32)), values.take(pa.array(over))]
        extra = pa.StructArray.from_arrays(entry, ["key", "value"])
        extras = np.bincount(owners[over], minlength=rows)
        members = [lists, *columns, _make_list(extra, extras, extras > 0)]
        names = [MAPPING, *(f"{COLUMN}{number}" for number in range(count)), OVERFLOW]
        kind = pa.struct([pa.field(name, member.type) for name, member in zip(names, members)])
        struct = pa.Array.from_buffers(kind, rows, [_pack(valid)], children=members)
        pairs = np.unique(np.stack([numbers[inside], ranks[inside]], axis=1), axis=0)
        return struct, SharedUse(
            frozenset(map(tuple, pairs.tolist())), frozenset(numbers[over].tolist()), int(sizes.max(initial=0))
        )

    def _number(self, keys: pa.Array) -> Any:
        if keys.null_count:
            raise InvalidArgument("a map in shared columns has a null key; give it a text")
        encoded = keys.cast(pa.large_string()).dictionary_encode()
        with self._lock:
            known = [self._numbers.setdefault(key, len(self._numbers)) for key in encoded.dictionary.to_pylist()]
        return np.array(known, np.int64)[read_fixed_values(encoded.indices, "<i4")]

    def describe(self, uses: Iterable[SharedUse], codec: str) -> dict[bytes, bytes]:
        """Return the metadata of the column in a file whose blocks have these uses."""
        uses = list(uses)
        pairs = sorted({pair for use in uses for pair in use.columns})
        overflow = sorted({number for use in uses for number in use.overflow})
        names = {number: key for key, number in [*self._numbers.items()]}
        held = {names[number]: number for number in {*(number for number, _ in pairs), *overflow}}
        columns = dict[str, list[int]]()
        for number, column in pairs:
            columns.setdefault(str(number), []).append(column)
        text = msgspec.json.encode(held, order="sorted")
        stored = text if codec == "none" else pa.Codec("zstd").compress(text, asbytes=True)
        given = {
            "version": VERSION,
            "field-dict-compression": codec,
            "field-dict-original-size": len(text),
            "field-dict": stored.decode("latin-1"),
            "field-columns": msgspec.json.encode(columns).decode(),
            "overflow-set": msgspec.json.encode(overflow).decode(),
            "num-columns": self.count,
            "max-row-width": max((use.width for use in uses), default=0),
        }
        return {LAYOUT_KEY: LAYOUT} | {PREFIX + name.encode(): str(each).encode() for name, each in given.items()}


class SharedUse(msgspec.Struct, frozen=True):
    """The keys in a block: pairs of key and column, keys in overflows, and the entries of the largest map."""

    columns: frozenset[tuple[int, int]]
    overflow: frozenset[int]
    width: int


def _pack(valid: Any) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _mask(values: Any, valid: Any) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [_pack(valid), pa.py_buffer(values)])


def _make_list(values: pa.Array, sizes: Any, valid: Any) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    buffers = [_pack(valid), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.large_list(values.type), len(sizes), buffers, children=[values])
