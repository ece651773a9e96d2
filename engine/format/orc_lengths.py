"""Checks of the memory that columns of an ORC stripe take, from their streams of lengths, before they are decoded.

Arrow decodes the lengths as numbers: in a file of the same nulls, structs and lists, the length stream of a text, list
or map becomes that of a BIGINT column. Arrow takes it as signed, but lengths are unsigned: this halves numbers and
flips signs, except in runs of deltas, where it so changes the first value only. A length is therefore at most twice the
number read, plus three times a number read within a run before it. Where that bound is too large, the numbers are read
once more, exactly, as the entries of a dictionary of all small numbers.

A list in a list is checked after the outer list has passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc as orc

from morrow.engine.errors import Unsupported
from morrow.engine.format.orc_layout import DECIMAL, MAX_PRECISION, SECONDARY
from morrow.engine.format.orc_rle import decode_bytes, decode_whole
from morrow.engine.format.orc_stripes import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATA,
    DICTIONARY,
    DICTIONARY_DATA,
    DICTIONARY_V2,
    DIRECT,
    DIRECT_V2,
    LENGTH,
    LIST,
    LONG,
    MAP,
    PRESENT,
    STRUCT,
    TEXTS,
    WIDTHS,
    Column,
    StripeColumns,
    orc_file,
)
from morrow.engine.format.orc_walk import count_bytes, count_values, count_varints

Numbers = npt.NDArray[np.int64]
LISTS = frozenset((LIST, MAP))
RUN = 512
"""The most values of a run."""
TEXT_WIDE, TEXT_ROOM = 4, 1 << 24
"""Text is not checked exactly up to this many times the bytes in its stream, plus this many bytes."""
LIST_WIDE, LIST_ROOM = 16, 1 << 23
"""The same for list items, in multiples of the rows and items."""
ITEMS_PER_BYTE = 8
"""Items are counted where there are more than this many per byte: then the runs are long, and counting is fast."""
SMALL = 1 << 16
"""Lengths below this have an entry in the dictionary."""
ENTRY_BYTES = 4


def check_lengths(columns: StripeColumns) -> None:
    """Checks that the columns of a stripe take no more memory than the contents of their streams justify.

    Raises:
        CorruptFile: they take more, or a stream ends early.
    """
    found = [place for node in columns.columns for place in _places(columns, node, (0, node))]
    for depth in range(max((place.depth for place in found), default=-1) + 1):
        level = [place for place in found if place.depth == depth]
        for place, values in zip(level, _numbers(columns, level, LONG), strict=True):
            _CHECKS[columns.layout.types[place.node].kind](columns, place, values)


@dataclass(frozen=True)
class _Place:
    """A node whose lengths (or scales) are checked: its path from the root, and the number of lists it lies in."""

    path: tuple[int, ...]
    depth: int

    @property
    def node(self) -> int:
        return self.path[-1]


def _places(columns: StripeColumns, node: int, path: tuple[int, ...], depth: int = 0) -> Iterator[_Place]:
    type_ = columns.layout.types[node]
    if type_.kind == MAP:
        _check_keys(columns, type_.children[0])
    if type_.kind in TEXTS and columns.stripe.encodings[node] in (DICTIONARY, DICTIONARY_V2):
        _check_dictionary(columns, node)
    elif type_.kind in _CHECKS:
        yield _Place(path, depth)
    for child in type_.children:
        yield from _places(columns, child, (*path, child), depth + (type_.kind in LISTS))


def _numbers(columns: StripeColumns, places: Sequence[_Place], kind: int) -> list[Numbers]:
    """Returns the numbers of each node that are not null, as columns of that kind read them."""
    wanted = {place.path for place in places}
    root = _mirrored(columns, (0,), wanted, kind)
    batch = orc.ORCFile(pa.BufferReader(orc_file(root, columns.stripe.rows))).read_stripe(0)
    found = dict(_leaves(root, batch.to_struct_array(), (0,)))
    return [found[place.path] for place in places]


def _mirrored(columns: StripeColumns, path: tuple[int, ...], wanted: set[tuple[int, ...]], kind: int) -> Column:
    """Copies the nodes on the paths to the wanted ones, and makes columns of numbers of these."""
    node = path[-1]
    type_, encoding = columns.layout.types[node], columns.stripe.encodings[node]
    present = {PRESENT: columns.streams[node, PRESENT]} if (node, PRESENT) in columns.streams else {}
    if path in wanted:
        numbers = columns.stream(node, SECONDARY if type_.kind == DECIMAL else LENGTH)
        if kind == LONG:
            return Column(LONG, DIRECT if columns.version(node) == 1 else DIRECT_V2, {**present, DATA: numbers})
        return _entries({**present, DATA: numbers}, columns.version(node))
    below = {each[: len(path) + 1] for each in wanted if each[: len(path)] == path}
    members = {str(each[-1]): _mirrored(columns, each, wanted, kind) for each in sorted(below)}
    if type_.kind in LISTS:  # a map with one wanted member is a list of it
        return Column(
            LIST,
            encoding,
            {**present, LENGTH: columns.stream(node, LENGTH)},
            {"0": Column(STRUCT, members=members)},
        )
    return Column(STRUCT, encoding, present, members)


def _entries(streams: Mapping[int, bytes], version: int) -> Column:
    """Returns a column with a dictionary that holds every number below `SMALL` in four bytes."""
    if version == 1:
        lengths = bytes([127, 0, ENTRY_BYTES]) * (SMALL // 130) + bytes([SMALL % 130 - 3, 0, ENTRY_BYTES])
    else:
        lengths = bytes([0xC1, 0xFF, ENTRY_BYTES, 0]) * (SMALL // RUN)
    entries = np.arange(SMALL, dtype=np.uint32).tobytes()
    dictionary = {**streams, LENGTH: lengths, DICTIONARY_DATA: entries}
    return Column(BINARY, DICTIONARY if version == 1 else DICTIONARY_V2, dictionary, dictionary=SMALL)


def _leaves(node: Column, array: pa.Array, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Numbers]]:
    if node.kind == LIST:
        node, array = node.members["0"], array.values
    if node.kind != STRUCT:
        numbers = array.drop_null()
        if node.kind == LONG:
            yield path, np.asarray(numbers)
        else:
            data = numbers.cast(pa.binary(ENTRY_BYTES)).buffers()[1]
            yield path, np.frombuffer(data or b"", np.uint32)[: len(numbers)].astype(np.int64)
        return
    for number, (name, member) in enumerate(node.members.items()):
        yield from _leaves(member, array.field(number), (*path, int(name)))


def _may_exceed(read: Numbers, limit: int) -> bool:
    """Returns whether the sum of the lengths, which were read as signed numbers, may be above the limit."""
    if not read.size:
        return False
    greatest = max(int(read.max()), -int(read.min()))
    if (2 + 3) * greatest * read.size <= limit:
        return False
    sizes = np.abs(read.astype(np.float64))
    blocks = np.maximum.reduceat(sizes, np.arange(0, sizes.size, RUN))
    near = np.maximum(blocks, np.concatenate([blocks[:1], blocks[:-1]]))
    return bool(2 * sizes.sum() + 3 * RUN * near.sum() > limit)


def _total(columns: StripeColumns, place: _Place, count: int) -> int:
    """Returns the exact sum of the lengths."""
    try:
        (lengths,) = _numbers(columns, [place], BINARY)
    except (pa.ArrowException, OSError):  # one of them is not small
        if columns.version(place.node) == 1:
            return 1 << 63
        lengths = decode_whole(columns.stream(place.node, LENGTH), count, columns.layout.where, signed=False)
        if int(lengths.min(initial=0)) < 0 or int(lengths.max(initial=0)) >= 1 << 40:
            raise columns.corrupt(place.node, "a length beyond 40 bits") from None
    return int(lengths.sum())


# --- the checks ---


def _check_text(columns: StripeColumns, place: _Place, read: Numbers) -> None:
    size = len(columns.stream(place.node, DATA))
    if _may_exceed(read, TEXT_WIDE * size + TEXT_ROOM) and _total(columns, place, len(read)) > size:
        raise columns.corrupt(place.node, f"lengths that add up to more than the {size} bytes of their values")


def _check_list(columns: StripeColumns, place: _Place, read: Numbers) -> None:
    limit = LIST_WIDE * len(read) + LIST_ROOM
    if not _may_exceed(read, limit):
        return
    items = _total(columns, place, len(read))
    if items <= limit:
        return
    for child in columns.layout.types[place.node].children:
        if items > _held(columns, child, items):
            raise columns.corrupt(place.node, f"lists of {items} items, more than there are")


def _check_keys(columns: StripeColumns, key: int) -> None:
    """Refuses null keys where they are certain: keys are read as if none were null, which fails where some are."""
    data, where = columns.stream(key, PRESENT), columns.layout.where
    bits = decode_bytes(data, count_bytes(data, where) or 0, where)
    if bits.size and int(np.unpackbits(bits).sum()) <= 8 * (bits.size - 1):
        raise Unsupported("a MAP with keys that are null", where=where)


def _check_scales(columns: StripeColumns, place: _Place, read: Numbers) -> None:
    if int(read.max(initial=0)) > MAX_PRECISION or int(read.min(initial=0)) < -MAX_PRECISION:
        raise columns.corrupt(place.node, f"decimals of more than {MAX_PRECISION} digits")


def _check_dictionary(columns: StripeColumns, node: int) -> None:
    """Checks the lengths of a dictionary's entries, which are separate from the rows: no nulls, no enclosing lists."""
    entries, size = columns.stripe.dictionaries[node], len(columns.stream(node, DICTIONARY_DATA))
    stream = columns.stream(node, LENGTH)
    found = count_values(stream, columns.layout.where, version=columns.version(node))
    if found != entries:
        raise columns.corrupt(node, f"a dictionary of {entries} entries with {found} lengths")
    encoding = DIRECT if columns.version(node) == 1 else DIRECT_V2
    root = Column(STRUCT, members={"0": Column(LONG, encoding, {DATA: stream})})
    read = orc.ORCFile(pa.BufferReader(orc_file(root, entries))).read_stripe(0).column(0) if entries else ()
    if _may_exceed(np.asarray(read, np.int64), TEXT_WIDE * size + TEXT_ROOM) and columns.version(node) == 2:
        lengths = decode_whole(stream, entries, columns.layout.where, signed=False)
        if int(lengths.min(initial=0)) < 0 or int(lengths.max(initial=0)) > size or int(lengths.sum()) > size:
            raise columns.corrupt(node, f"lengths that add up to more than the {size} bytes of its dictionary")


_CHECKS = {
    **dict.fromkeys(TEXTS, _check_text),
    **dict.fromkeys(LISTS, _check_list),
    DECIMAL: _check_scales,
}


def _held(columns: StripeColumns, node: int, most: int) -> int:
    """Returns how many values, null or not, the streams of a member can give; `most` where counting does not pay."""
    where, type_ = columns.layout.where, columns.layout.types[node]
    if (node, PRESENT) in columns.streams:
        return 8 * (count_bytes(columns.streams[node, PRESENT], where) or 0)
    if type_.kind == STRUCT:
        return min((_held(columns, child, most) for child in type_.children), default=0)
    direct = columns.stripe.encodings[node] in (DIRECT, DIRECT_V2)
    data = columns.stream(node, LENGTH if type_.kind in LISTS or (type_.kind in TEXTS and direct) else DATA)
    if type_.kind in WIDTHS:
        return len(data) // WIDTHS[type_.kind]
    if type_.kind == DECIMAL:
        return count_varints(data)
    if type_.kind in (BOOLEAN, BYTE):
        return (count_bytes(data, where) or 0) * (8 if type_.kind == BOOLEAN else 1)
    if most <= ITEMS_PER_BYTE * len(data):
        return most
    return count_values(data, where, version=columns.version(node)) or 0
