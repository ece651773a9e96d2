"""Columns of VARIANT as arrays: JSON text, paths, and values in other bytes, without a loop over rows.

A column is an Arrow struct of two byte strings, see `variant`. Its bytes are one numpy array. A *node* is a value
within it: the row, the position of its header, and the name under which an object has it. The nodes of all rows are
visited level by level: the members of all objects and the elements of all arrays are found at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format.arrow_buffers import read_validity
from morrow.engine.format.variant import (
    ARRAY,
    OBJECT,
    SHORT_TEXT,
    VERSION,
    WIDTHS,
    Primitive,
    format_primitive,
)
from morrow.engine.format.variant_building import build_variants
from morrow.engine.format.variant_bytes import ByteStrings, scatter, spread

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

FIXED = np.array([WIDTHS.get(info, -1) for info in range(64)], np.int64)
SIZED = (Primitive.STRING, Primitive.BINARY)
ESCAPED = re.compile(r'["\\\x00-\x1f]').pattern
LARGE = {OBJECT: 4, ARRAY: 2}
"""The bit of the info that says that the number of members has 4 bytes."""


def _fail(reason: str) -> CorruptFile:
    return CorruptFile("a VARIANT", reason)


@dataclass(frozen=True)
class Names:
    """The names in the metadata of rows. `metadata` is the number of each row's metadata among the distinct ones."""

    texts: pa.Array
    """The names of all distinct metadata, one after the other (large text)."""
    firsts: Ints
    """The first name of each distinct metadata."""
    counts: Ints
    metadata: Ints

    @classmethod
    def of(cls, array: pa.Array) -> Names:
        """Read a column of metadata. Raises `CorruptFile` or `Unsupported`."""
        encoded = array.dictionary_encode()
        strings = ByteStrings.of(encoded.dictionary)
        numbers = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
        if (strings.ends == strings.starts).any():
            raise _fail("its metadata is empty")
        headers = strings.data[strings.starts]
        if (wrong := headers & 0xF != VERSION).any():
            raise Unsupported(f"a VARIANT of version {headers[wrong.argmax()] & 0xF}")
        widths = (headers >> 6).astype(np.int64) + 1
        counts = strings.unsigned(strings.starts + 1, widths)
        base = strings.starts + 1 + widths * (counts + 2)
        if (base > strings.ends).any():
            raise _fail("its metadata is shorter than its names")
        owner, place = spread(counts)
        at = strings.starts[owner] + 1 + widths[owner] * (place + 1)
        low, high = strings.unsigned(at, widths[owner]), strings.unsigned(at + widths[owner], widths[owner])
        if (low > high).any() or (base[owner] + high > strings.ends[owner]).any():
            raise _fail("the names in its metadata do not fit")
        texts = _check_text(strings.slices(base[owner] + low, high - low, pa.large_string()))
        return cls(texts, np.cumsum(counts) - counts, counts, numbers)

    def find(self, name: str, rows: Ints) -> Ints:
        """Return the number of a name in the metadata of these rows; -1 if the metadata lacks the name."""
        import pyarrow.compute as pc

        places = np.flatnonzero(pc.equal(self.texts, name).to_numpy(zero_copy_only=False))
        owners = np.searchsorted(self.firsts + self.counts, places, side="right")
        numbers = np.full(len(self.firsts), -1, np.int64)
        numbers[owners] = places - self.firsts[owners]
        return numbers[self.metadata[rows]]


def _check_text(array: pa.Array) -> pa.Array:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _fail(f"a text is not UTF-8 ({error})") from error
    return array


@dataclass(frozen=True)
class Nodes:
    """Values: the row, the position of the header, and the name (its place in `Names.texts`; -1: none) of each."""

    rows: Ints
    at: Ints
    names: Ints

    def __getitem__(self, chosen: Any) -> Nodes:
        return Nodes(self.rows[chosen], self.at[chosen], self.names[chosen])

    def __len__(self) -> int:
        return len(self.rows)


class VariantColumn:
    """A column of variants to be read."""

    def __init__(self, array: pa.Array) -> None:
        """Take structs of `value` and `metadata`, in any order. Raises `CorruptFile` for missing bytes."""
        self.length = len(array)
        self.present = np.flatnonzero(read_validity(array))
        value, metadata = (array.field(name).cast(pa.large_binary()) for name in ("value", "metadata"))
        if len(self.present) != len(array):
            value, metadata = (each.take(pa.array(self.present)) for each in (value, metadata))
        if value.null_count or metadata.null_count:
            raise _fail("its value or metadata is null")
        self.bytes = ByteStrings.of(value)
        self._metadata = metadata

    @cached_property
    def names(self) -> Names:
        return Names.of(self._metadata)

    @property
    def metadata(self) -> pa.Array:
        """The metadata of the rows that are not null."""
        return self._metadata

    def roots(self) -> Nodes:
        """Return the values of all rows that are not null; rows count these only."""
        return self.check(Nodes(np.arange(len(self.present)), self.bytes.starts, np.full(len(self.present), -1)))

    def check(self, nodes: Nodes) -> Nodes:
        """Return nodes whose headers lie within their rows. Raises `CorruptFile` otherwise."""
        if (nodes.at >= self.bytes.ends[nodes.rows]).any():
            raise _fail("a value begins behind the end")
        return nodes

    def headers(self, nodes: Nodes) -> tuple[Ints, Ints]:
        """Return the basic types and the infos of values."""
        headers = self.bytes.data[nodes.at].astype(np.int64)
        return headers & 3, headers >> 2

    def _layout(self, nodes: Nodes) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Return the number of members of objects or arrays, positions and widths of ids (0: none), and of offsets."""
        basic, info = self.headers(nodes)
        is_object = basic == OBJECT
        width = (info & 3) + 1
        id_width = np.where(is_object, ((info >> 2) & 3) + 1, 0)
        count_width = np.where(info >> np.where(is_object, LARGE[OBJECT], LARGE[ARRAY]) & 1, 4, 1)
        counts = self.bytes.unsigned(nodes.at + 1, count_width)
        ids = nodes.at + 1 + count_width
        if (ids + counts * (id_width + width) + width > self.bytes.ends[nodes.rows]).any():
            raise _fail("an object or array is longer than the value")
        return counts, ids, id_width, ids + counts * id_width, width

    def members(self, nodes: Nodes) -> tuple[Ints, Nodes]:
        """Return the number of members of objects or arrays, and all members one after the other."""
        counts, ids, id_width, offsets, width = self._layout(nodes)
        owner, place = spread(counts)
        starts = self.bytes.unsigned(offsets[owner] + place * width[owner], width[owner])
        first = offsets + (counts + 1) * width
        rows = nodes.rows[owner]
        names = np.full(len(owner), -1)
        named = id_width[owner] > 0
        if named.any():
            number = self.bytes.unsigned(ids[owner] + place * id_width[owner], id_width[owner])
            metadata = self.names.metadata[rows]
            if (named & (number >= self.names.counts[metadata])).any():
                raise _fail("a member has no name in the metadata")
            names = np.where(named, self.names.firsts[metadata] + number, -1)
        return counts, self.check(Nodes(rows, first[owner] + starts, names))

    def sizes(self, nodes: Nodes) -> Ints:
        """Return the bytes of values, with their headers."""
        basic, info = self.headers(nodes)
        sizes = np.where(basic == SHORT_TEXT, info + 1, FIXED[info] + 1)
        sized = (basic == 0) & np.isin(info, SIZED)
        sizes[sized] = self.bytes.unsigned(nodes.at[sized] + 1, 4) + 5
        if (unknown := (basic == 0) & ~sized & (FIXED[info] < 0)).any():
            raise Unsupported(f"a VARIANT with a value of type {info[unknown.argmax()]}")
        nested = np.flatnonzero(basic >= OBJECT)
        if len(nested):
            some = nodes[nested]
            counts, _, _, offsets, width = self._layout(some)
            total = self.bytes.unsigned(offsets + counts * width, width)
            sizes[nested] = offsets + (counts + 1) * width + total - some.at
        if (nodes.at + sizes > self.bytes.ends[nodes.rows]).any():
            raise _fail("a value is longer than its bytes")
        return sizes

    def raw(self, nodes: Nodes) -> pa.Array:
        """Return the bytes of values (large binary)."""
        return self.bytes.slices(nodes.at, self.sizes(nodes))

    def check_bytes(self) -> None:
        """Check headers, sizes and texts at all depths. Raises `CorruptFile` or `Unsupported`."""
        level, left, _ = self.roots(), len(self.bytes.data), self.names  # the metadata, too
        while len(level):
            left -= len(level)  # members that overlap could be more than the bytes
            if left < 0:
                raise _fail("members overlap")
            self.sizes(level)
            self.texts(level[self.is_text(level)])
            _, level = self.members(level[self.headers(level)[0] >= OBJECT])

    def find(self, path: Sequence[str | int]) -> Nodes:
        """Return the values at a path of names and indices, at most one in a row."""
        import pyarrow.compute as pc

        nodes = self.roots()
        for step in path:
            basic, _ = self.headers(nodes)
            owners = nodes[basic == (OBJECT if isinstance(step, str) else ARRAY)]
            counts, members = self.members(owners)
            if isinstance(step, str):
                is_named = pc.equal(self.names.texts, step).to_numpy(zero_copy_only=False)
                nodes = members[is_named[members.names]] if len(members) else members
            else:
                _, place = spread(counts)
                nodes = members[place == step]
        return nodes

    def texts(self, nodes: Nodes) -> pa.Array:
        """Return the texts of values that are text (large text)."""
        basic, _ = self.headers(nodes)
        long = basic != SHORT_TEXT
        lengths = self.sizes(nodes) - np.where(long, 5, 1)
        return _check_text(self.bytes.slices(nodes.at + np.where(long, 5, 1), lengths, pa.large_string()))

    def is_text(self, nodes: Nodes) -> Bools:
        basic, info = self.headers(nodes)
        found: Bools = (basic == SHORT_TEXT) | ((basic == 0) & (info == Primitive.STRING))
        return found

    def is_null(self, nodes: Nodes) -> Bools:
        """Return whether values are the null of JSON."""
        basic, info = self.headers(nodes)
        found: Bools = (basic == 0) & (info == Primitive.NULL)
        return found

    def _format_leaves(self, nodes: Nodes) -> pa.Array:
        """Return the JSON text of values that are neither objects nor arrays."""
        basic, info = self.headers(nodes)
        self.sizes(nodes)
        groups: list[tuple[Ints, Callable[[Nodes], pa.Array]]] = []
        left = np.ones(len(nodes), np.bool_)

        def take(chosen: Bools, form: Callable[[Nodes], pa.Array]) -> None:
            left[chosen] = False
            if chosen.any():
                groups.append((np.flatnonzero(chosen), form))

        take(self.is_text(nodes), lambda some: quote_json(self.texts(some)))
        for kind, dtype in INTEGERS.items():
            form = _make_integer_form(self.bytes, dtype)
            take((basic == 0) & (info == kind), form)
        take(left.copy(), self._format_others)
        return scatter([(places, form(nodes[places])) for places, form in groups], len(nodes), pa.large_string())

    def _format_others(self, nodes: Nodes) -> pa.Array:
        """Format each distinct value once."""
        raw = self.raw(nodes).dictionary_encode()
        texts = pa.array([format_primitive(each) for each in raw.dictionary.to_pylist()], pa.large_string())
        return texts.take(raw.indices)

    def to_json(self, nodes: Nodes | None = None) -> pa.Array:
        """Return the JSON text of values (by default of all rows that are not null) as large text."""
        import pyarrow.compute as pc

        level = self.roots() if nodes is None else nodes
        levels: list[tuple[Nodes, Ints, Any, Ints]] = []
        while True:
            basic, _ = self.headers(level)
            nested = basic >= OBJECT
            counts, members = self.members(level[nested])
            levels.append((level, np.flatnonzero(nested), basic[nested] == OBJECT, counts))
            if not len(members):
                break
            level = members
        names = _join(quote_json(self.names.texts), ":") if len(levels) > 1 else None
        below: pa.Array = pa.array([], pa.large_string())
        for number, (level, nested, is_object, counts) in reversed(list(enumerate(levels))):
            offsets = np.zeros(len(counts) + 1, np.int64)
            np.cumsum(counts, out=offsets[1:])
            lists = pa.LargeListArray.from_arrays(pa.array(offsets), below)
            joined = pc.binary_join(lists, pa.scalar(",", pa.large_string()))
            opening, closing = (pa.array(pair, pa.large_string()) for pair in (("[", "{"), ("]", "}")))
            kinds = pa.array(is_object.astype(np.int8))
            wholes = _join(opening.take(kinds), joined, closing.take(kinds))
            leaves = np.setdiff1d(np.arange(len(level)), nested, assume_unique=True)
            parts = [(nested, wholes), (leaves, self._format_leaves(level[leaves]))]
            below = scatter(parts, len(level), pa.large_string())
            if number and names is not None:
                named = pa.array(level.names, mask=level.names < 0)
                below = _join(names.take(named).fill_null(""), below)
        return below


def _make_integer_form(strings: ByteStrings, dtype: str) -> Callable[[Nodes], pa.Array]:
    return lambda nodes: pa.array(strings.fixed(nodes.at + 1, dtype)).cast(pa.large_string())


INTEGERS = {Primitive.INT8: "<i1", Primitive.INT16: "<i2", Primitive.INT32: "<i4", Primitive.INT64: "<i8"}


def _join(*parts: pa.Array | str) -> pa.Array:
    """Return the concatenation of large texts, row by row."""
    import pyarrow.compute as pc

    scalars = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*scalars, pa.scalar("", pa.large_string()))


def quote_json(texts: pa.Array) -> pa.Array:
    """Return texts as JSON strings."""
    import pyarrow.compute as pc

    special = pc.match_substring_regex(texts, ESCAPED).to_numpy(zero_copy_only=False)
    quoted = _join('"', texts, '"')
    if not special.any():
        return quoted
    some = texts.filter(pa.array(special)).dictionary_encode()
    escaped = [json.dumps(text, ensure_ascii=False) for text in some.dictionary.to_pylist()]
    made = pa.array(escaped, pa.large_string()).take(some.indices)
    return scatter(
        [(np.flatnonzero(~special), quoted.filter(pa.array(~special))), (np.flatnonzero(special), made)],
        len(texts),
        pa.large_string(),
    )


# --- whole columns ---


def to_json(array: pa.Array) -> pa.Array:
    """Return the JSON text of a column of variants; null stays null. Raises `CorruptFile` or `Unsupported`."""
    column = VariantColumn(array)
    return scatter([(column.present, column.to_json())], column.length, pa.large_string())


def extract(array: pa.Array, path: Sequence[str | int]) -> pa.Array:
    """Return the values at a path as a column of variants; null if a row has none."""
    column = VariantColumn(array)
    nodes = column.find(path)
    value = scatter([(column.present[nodes.rows], column.raw(nodes))], column.length, pa.large_binary())
    metadata = column.metadata.take(pa.array(nodes.rows)).cast(pa.large_binary())
    metadata = scatter([(column.present[nodes.rows], metadata)], column.length, pa.large_binary())
    return build_variants(value, metadata)


def extract_text(array: pa.Array, path: Sequence[str | int]) -> pa.Array:
    """Return the values at a path as text: text as it is, other values as JSON; null for JSON's null and for none."""
    import pyarrow.compute as pc

    column = VariantColumn(array)
    nodes = column.find(path)
    nodes = nodes[~column.is_null(nodes)]
    is_text = column.is_text(nodes)
    others = pc.replace_substring_regex(column.to_json(nodes[~is_text]), '^"(.*)"$', r"\1")  # dates, times, bytes
    parts = [
        (column.present[nodes.rows[is_text]], column.texts(nodes[is_text])),
        (column.present[nodes.rows[~is_text]], others),
    ]
    return scatter(parts, column.length, pa.large_string())


def find_nulls(array: pa.Array) -> Bools:
    """Return whether values are the null of JSON; False for a null row."""
    column = VariantColumn(array)
    found = np.zeros(column.length, np.bool_)
    found[column.present] = column.is_null(column.roots())
    return found


PATH = re.compile(r"""\[(\d+)\]|\.([^.\[]+)|\['([^']+)'\]|\["([^"]+)"\]""")


def parse_path(text: str) -> tuple[str | int, ...]:
    """Return the steps of a path such as ``$.a.b[0]['c d']``. Raises `InvalidArgument`."""
    return tuple(_list_steps(text))


def _list_steps(text: str) -> Iterator[str | int]:
    at = 1
    if not text.startswith("$"):
        raise InvalidArgument(f"{text!r} is not a path; write '$.member[0]'")
    while at < len(text):
        match = PATH.match(text, at)
        if match is None:
            raise InvalidArgument(f"{text!r} is not a path at {text[at:]!r}; write '$.member[0]'")
        index, *names = match.groups()
        yield int(index) if index is not None else next(name for name in names if name is not None)
        at = match.end()
