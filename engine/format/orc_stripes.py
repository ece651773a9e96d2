"""Columns of an ORC stripe, checked and copied into a small separate file, for Arrow to decode.

ORC lacks checksums, and Arrow's reader trusts the file: a damaged length makes it fill gigabytes, an empty chunk lets
it read beyond its memory. So Arrow never reads the original file. The streams of the selected columns are decompressed
here, and become the only stripe of an uncompressed file, whose footers are written from checked values: the types,
the streams, and their lengths. Numbers in the streams that determine memory use (lengths of text, lists and maps,
sizes of dictionaries, digits of decimals) are checked first.

Arrow decodes the lengths as numbers: in a file with the same nulls, structs and lists, the length stream of a text,
list or map becomes the data stream of a BIGINT column. Arrow decodes it as signed, but lengths are unsigned. This
halves numbers and flips signs, except in delta runs, in which only the first value is changed like this. A length is
therefore at most twice the number read, plus three times a number read within a run before it. If this bound is too
large, the numbers are read again, exactly, as the entries of a dictionary of all small numbers.

A list in a list is checked after the check of the outer list.

Values of streams are counted from the headers of their runs, without decoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc as orc

from morrow.engine.errors import MISWRITTEN, CorruptFile, Unsupported
from morrow.engine.format.orc_columns import (
    BIT_WIDTHS,
    DIRECT_RUN,
    LITERALS,
    PATCHED_BASE,
    SHORT_REPEAT,
    SHORT_REPEAT_MIN,
    decode_bytes,
    decode_whole,
)
from morrow.engine.format.orc_file import (
    DECIMAL,
    MAX_PRECISION,
    SECONDARY,
    TIMESTAMP,
    OrcLayout,
    OrcType,
    Stripe,
    encode_message,
    make_field,
    read_varint,
)

MAGIC, VERSION = b"ORC", b"\x00\x0c"
PRESENT, DATA, LENGTH, DICTIONARY_DATA = range(4)
"""Kinds of streams: values of ``Stream.kind``. The others are indexes, except for SECONDARY."""
DIRECT, DICTIONARY, DIRECT_V2, DICTIONARY_V2 = range(4)
"""Encodings of columns: values of ``ColumnEncoding.kind``."""
BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, STRING, BINARY = range(9)
LIST, MAP, STRUCT, DATE, VARCHAR, CHAR, INSTANT = 10, 11, 12, 15, 16, 17, 18
"""Kinds of types: values of ``Type.kind``."""
WHOLE = frozenset((SHORT, INT, LONG))
TEXTS = frozenset((STRING, BINARY, VARCHAR, CHAR))
TIMES = frozenset((TIMESTAMP, INSTANT))
WIDTHS = {FLOAT: 4, DOUBLE: 8}
MAX_DEPTH = 64

Streams = Mapping[tuple[int, int], bytes]
"""Streams by column and kind."""


@dataclass(frozen=True)
class Column:
    """A node of an ORC file to write: its type, encoding and streams by kind; members are separate nodes."""

    kind: int
    encoding: int = DIRECT
    streams: Mapping[int, bytes] = field(default_factory=dict)
    members: Mapping[str, Column] = field(default_factory=dict)
    dictionary: int = 0
    precision: int = 0
    scale: int = 0


def build_orc_file(root: Column, rows: int, zone: str = "") -> bytes:
    """Return an uncompressed ORC file of one stripe, whose rows have the struct type `root`."""
    nodes: list[tuple[Column, list[int]]] = []
    _number(root, nodes)
    streams = [(number, kind, data) for number, (node, _) in enumerate(nodes) for kind, data in node.streams.items()]
    encodings = [make_field(2, _encode_numbers({1: node.encoding, 2: node.dictionary})) for node, _ in nodes]
    stream_entries = [
        make_field(1, _encode_numbers({1: kind, 2: number, 3: len(data)})) for number, kind, data in streams
    ]
    stripe_footer = encode_message([*stream_entries, *encodings, *([make_field(3, zone.encode())] if zone else [])])
    length = sum(len(data) for _, _, data in streams)
    footer = encode_message(
        [
            make_field(1, len(MAGIC)),
            make_field(2, len(MAGIC) + length + len(stripe_footer)),
            make_field(3, _encode_numbers({1: len(MAGIC), 2: 0, 3: length, 4: len(stripe_footer), 5: rows})),
            *(make_field(4, _encode_type(node, children)) for node, children in nodes),
            make_field(6, rows),
        ]
    )
    script = _encode_numbers({1: len(footer), 2: 0, 5: 0}) + encode_message(
        [make_field(4, VERSION), make_field(8000, MAGIC)]
    )
    return b"".join([MAGIC, *(data for _, _, data in streams), stripe_footer, footer, script, bytes([len(script)])])


def _number(node: Column, nodes: list[tuple[Column, list[int]]]) -> int:
    number = len(nodes)
    children: list[int] = []
    nodes.append((node, children))
    children.extend(_number(member, nodes) for member in node.members.values())
    return number


def _encode_type(node: Column, children: Sequence[int]) -> bytes:
    names = [make_field(3, name.encode()) for name in node.members] if node.kind == STRUCT else []
    digits = [make_field(5, node.precision), make_field(6, node.scale)] if node.kind == DECIMAL else []
    return encode_message([make_field(1, node.kind), *(make_field(2, child) for child in children), *names, *digits])


def _encode_numbers(values: Mapping[int, int]) -> bytes:
    return encode_message(make_field(number, value) for number, value in values.items())


@dataclass(frozen=True)
class StripeColumns:
    """Some columns of a stripe: the nodes of their types in order, and their streams, decompressed."""

    layout: OrcLayout
    stripe: Stripe
    nodes: tuple[int, ...]
    streams: Streams

    @property
    def columns(self) -> tuple[int, ...]:
        """The nodes of the columns themselves."""
        wanted = frozenset(self.nodes)
        return tuple(child for child in self.layout.types[0].children if child in wanted)

    def file(self, kinds: Mapping[int, int]) -> bytes:
        """Return an ORC file of one stripe with these columns; nodes in `kinds` are declared to be of that kind."""
        types = self.layout.types
        timed = any(kinds.get(node, types[node].kind) == TIMESTAMP for node in self.nodes)
        zone = self.stripe.zone if timed and self.stripe.names_zone else ""
        members = {types[0].names[types[0].children.index(node)]: self.column(node, kinds) for node in self.columns}
        return build_orc_file(Column(STRUCT, members=members), self.stripe.rows, zone)

    def column(self, node: int, kinds: Mapping[int, int], is_key: bool = False) -> Column:
        """Return a node with its descendants. Map keys are declared non-null, as Arrow would crash the process."""
        type_ = self.layout.types[node]
        names = type_.names or tuple(map(str, type_.children))
        keys = type_.children[:1] if type_.kind == MAP else ()
        streams = range(DATA if is_key else PRESENT, SECONDARY + 1)
        return Column(
            kinds.get(node, type_.kind),
            self.stripe.encodings[node],
            {kind: self.streams[node, kind] for kind in streams if (node, kind) in self.streams},
            {name: self.column(child, kinds, child in keys) for name, child in zip(names, type_.children, strict=True)},
            self.stripe.dictionaries[node],
            type_.precision,
            type_.scale,
        )

    def stream(self, node: int, kind: int) -> bytes:
        """Return a stream of a column, empty if there is none."""
        return self.streams.get((node, kind), b"")

    def version(self, node: int) -> int:
        """Return the version of the integer encoding."""
        return 1 if self.stripe.encodings[node] in (DIRECT, DICTIONARY) else 2

    def corrupt(self, node: int, problem: str) -> CorruptFile:
        """Return the error about damage to a column. Members of structs have a hint of their own."""
        where, described = self.layout.where, f"its column {node} has {problem}"
        if any(node in type_.children for type_ in self.layout.types[1:] if type_.kind == STRUCT):
            return CorruptFile(where, described, hint=MISWRITTEN)
        return CorruptFile(where, described)


def read_columns(layout: OrcLayout, number: int, columns: Sequence[int]) -> StripeColumns:
    """Read these columns of the root, in this order, from a stripe.

    Raises:
        CorruptFile: the file contradicts itself.
        Unsupported: an unknown type or encoding.
    """
    stripe, where = layout.stripe(number), layout.where
    if len(stripe.encodings) != len(layout.types):
        raise CorruptFile(where, f"a stripe has {len(stripe.encodings)} encodings for {len(layout.types)} columns")
    nodes = _list_nodes(layout, columns)
    wanted = {
        (node, kind) for node in nodes for kind in _list_stream_kinds(layout.types[node], stripe.encodings[node], where)
    }
    if (
        len({stripe.encodings[node] in (DIRECT, DICTIONARY) for node in nodes if layout.types[node].kind not in _PLAIN})
        > 1
    ):
        raise Unsupported("an ORC stripe with integers of both versions", where=where)
    packed = layout.ranges({name: place for name, place in stripe.streams.items() if name in wanted})
    streams = {name: layout.unpacked(data) for name, data in packed.items()}
    return StripeColumns(layout, stripe, nodes, streams)


# --- types and encodings ---


def _list_nodes(layout: OrcLayout, columns: Sequence[int]) -> tuple[int, ...]:
    """Return the root and the nodes of these columns, in order."""
    types, where = layout.types, layout.where
    if not types or types[0].kind != STRUCT or len(types[0].names) != len(types[0].children):
        raise CorruptFile(where, "the rows of the ORC file are not structs")
    nodes = [0]
    for column in sorted(set(columns)):
        _gather(types, types[0].children[column], nodes, 0, where)
    return tuple(nodes)


def _gather(types: Sequence[OrcType], node: int, nodes: list[int], depth: int, where: str) -> None:
    """Append a node and its descendants, which follow it in the file."""
    if not nodes[-1] < node < len(types) or (depth and node != nodes[-1] + 1):
        raise CorruptFile(where, "the types of the ORC file do not form a tree")
    if depth > MAX_DEPTH:
        raise Unsupported(f"more than {MAX_DEPTH} levels of nested types", where=where)
    type_ = types[node]
    wanted = {LIST: 1, MAP: 2}.get(type_.kind, len(type_.names) if type_.kind == STRUCT else 0)
    if len(type_.children) != wanted or len(set(type_.names)) != len(type_.names):
        raise CorruptFile(where, f"a type of kind {type_.kind} with {len(type_.children)} members")
    nodes.append(node)
    for child in type_.children:
        _gather(types, child, nodes, depth + 1, where)


def _list_stream_kinds(type_: OrcType, encoding: int, where: str) -> tuple[int, ...]:
    """Return the kinds of streams that a column of this type and encoding has."""
    known = _STREAMS.get((type_.kind, encoding))
    if known is None:
        raise Unsupported(f"an ORC column of kind {type_.kind} in the encoding {encoding}", where=where)
    return known


_STREAMS: dict[tuple[int, int], tuple[int, ...]] = {
    (STRUCT, DIRECT): (PRESENT,),
    **{(kind, DIRECT): (PRESENT, DATA) for kind in (BOOLEAN, BYTE, FLOAT, DOUBLE)},
    **{(kind, each): (PRESENT, DATA) for kind in (*WHOLE, DATE) for each in (DIRECT, DIRECT_V2)},
    **{(kind, each): (PRESENT, DATA, SECONDARY) for kind in (*TIMES, DECIMAL) for each in (DIRECT, DIRECT_V2)},
    **{(kind, each): (PRESENT, LENGTH) for kind in (LIST, MAP) for each in (DIRECT, DIRECT_V2)},
    **{(kind, each): (PRESENT, DATA, LENGTH) for kind in TEXTS for each in (DIRECT, DIRECT_V2)},
    **{
        (kind, each): (PRESENT, DATA, LENGTH, DICTIONARY_DATA) for kind in TEXTS for each in (DICTIONARY, DICTIONARY_V2)
    },
}
"""Kinds of streams by kind of type and encoding."""
_PLAIN = frozenset((BOOLEAN, BYTE, FLOAT, DOUBLE, STRUCT))
"""Kinds of types whose streams lack integers, so that their encoding does not have versions."""

Numbers = npt.NDArray[np.int64]
LISTS = frozenset((LIST, MAP))
RUN = 512
"""Maximum values per run."""
TEXT_WIDE, TEXT_ROOM = 4, 1 << 24
"""Text is checked exactly only beyond this multiple of the bytes in its stream, plus this many bytes."""
LIST_WIDE, LIST_ROOM = 16, 1 << 23
"""List items are checked exactly only beyond this multiple of the parent rows or items, plus this number."""
ITEMS_PER_BYTE = 8
"""Items are counted only if there are more than this number per byte: then runs are long, and counting is fast."""
SMALL = 1 << 16
"""Lengths below this limit have an entry in the dictionary."""
ENTRY_BYTES = 4


def check_lengths(columns: StripeColumns) -> None:
    """Check that the columns of a stripe do not take more memory than the contents of their streams justify.

    Raises `CorruptFile`: the columns take more memory, or a stream ends early.
    """
    found = [place for node in columns.columns for place in _find_places(columns, node, (0, node))]
    for depth in range(max((place.depth for place in found), default=-1) + 1):
        level = [place for place in found if place.depth == depth]
        for place, values in zip(level, _read_numbers(columns, level, LONG), strict=True):
            _CHECKS[columns.layout.types[place.node].kind](columns, place, values)


@dataclass(frozen=True)
class _Place:
    """A node whose lengths (or scales) are checked: its path from the root, and the number of enclosing lists."""

    path: tuple[int, ...]
    depth: int

    @property
    def node(self) -> int:
        return self.path[-1]


def _find_places(columns: StripeColumns, node: int, path: tuple[int, ...], depth: int = 0) -> Iterator[_Place]:
    type_ = columns.layout.types[node]
    if type_.kind == MAP:
        _check_keys(columns, type_.children[0])
    if type_.kind in TEXTS and columns.stripe.encodings[node] in (DICTIONARY, DICTIONARY_V2):
        _check_dictionary(columns, node)
    elif type_.kind in _CHECKS:
        yield _Place(path, depth)
    for child in type_.children:
        yield from _find_places(columns, child, (*path, child), depth + (type_.kind in LISTS))


def _read_numbers(columns: StripeColumns, places: Sequence[_Place], kind: int) -> list[Numbers]:
    """Return the non-null numbers of each node, decoded as columns of this kind."""
    wanted = {place.path for place in places}
    root = _copy_nodes(columns, (0,), wanted, kind)
    batch = orc.ORCFile(pa.BufferReader(build_orc_file(root, columns.stripe.rows))).read_stripe(0)
    found = dict(_iterate_leaves(root, batch.to_struct_array(), (0,)))
    return [found[place.path] for place in places]


def _copy_nodes(columns: StripeColumns, path: tuple[int, ...], wanted: set[tuple[int, ...]], kind: int) -> Column:
    """Copy the nodes on the paths to the wanted nodes, and turn the wanted nodes into number columns."""
    node = path[-1]
    type_, encoding = columns.layout.types[node], columns.stripe.encodings[node]
    present = {PRESENT: columns.streams[node, PRESENT]} if (node, PRESENT) in columns.streams else {}
    if path in wanted:
        numbers = columns.stream(node, SECONDARY if type_.kind == DECIMAL else LENGTH)
        if kind == LONG:
            return Column(LONG, DIRECT if columns.version(node) == 1 else DIRECT_V2, {**present, DATA: numbers})
        return _build_dictionary({**present, DATA: numbers}, columns.version(node))
    below = {each[: len(path) + 1] for each in wanted if each[: len(path)] == path}
    members = {str(each[-1]): _copy_nodes(columns, each, wanted, kind) for each in sorted(below)}
    if type_.kind in LISTS:  # a map with one wanted member becomes a list
        return Column(
            LIST,
            encoding,
            {**present, LENGTH: columns.stream(node, LENGTH)},
            {"0": Column(STRUCT, members=members)},
        )
    return Column(STRUCT, encoding, present, members)


def _build_dictionary(streams: Mapping[int, bytes], version: int) -> Column:
    """Return a column with a dictionary of all numbers below `SMALL`, in four bytes each."""
    if version == 1:
        lengths = bytes([127, 0, ENTRY_BYTES]) * (SMALL // 130) + bytes([SMALL % 130 - 3, 0, ENTRY_BYTES])
    else:
        lengths = bytes([0xC1, 0xFF, ENTRY_BYTES, 0]) * (SMALL // RUN)
    entries = np.arange(SMALL, dtype=np.uint32).tobytes()
    dictionary = {**streams, LENGTH: lengths, DICTIONARY_DATA: entries}
    return Column(BINARY, DICTIONARY if version == 1 else DICTIONARY_V2, dictionary, dictionary=SMALL)


def _iterate_leaves(node: Column, array: pa.Array, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Numbers]]:
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
        yield from _iterate_leaves(member, array.field(number), (*path, int(name)))


def _is_possibly_above(read: Numbers, limit: int) -> bool:
    """Return whether the sum of lengths that were read as signed numbers may exceed the limit."""
    if not read.size:
        return False
    greatest = max(int(read.max()), -int(read.min()))
    if (2 + 3) * greatest * read.size <= limit:
        return False
    sizes = np.abs(read.astype(np.float64))
    blocks = np.maximum.reduceat(sizes, np.arange(0, sizes.size, RUN))
    near = np.maximum(blocks, np.concatenate([blocks[:1], blocks[:-1]]))
    return bool(2 * sizes.sum() + 3 * RUN * near.sum() > limit)


def _sum_lengths(columns: StripeColumns, place: _Place, count: int) -> int:
    """Return the exact sum of the lengths."""
    try:
        (lengths,) = _read_numbers(columns, [place], BINARY)
    except (pa.ArrowException, OSError):  # one of the lengths is not small
        if columns.version(place.node) == 1:
            return 1 << 63
        lengths = decode_whole(columns.stream(place.node, LENGTH), count, columns.layout.where, signed=False)
        if int(lengths.min(initial=0)) < 0 or int(lengths.max(initial=0)) >= 1 << 40:
            raise columns.corrupt(place.node, "a length beyond 40 bits") from None
    return int(lengths.sum())


# --- the checks ---


def _check_text(columns: StripeColumns, place: _Place, read: Numbers) -> None:
    size = len(columns.stream(place.node, DATA))
    if _is_possibly_above(read, TEXT_WIDE * size + TEXT_ROOM) and _sum_lengths(columns, place, len(read)) > size:
        raise columns.corrupt(place.node, f"lengths that add up to more than the {size} bytes of their values")


def _check_list(columns: StripeColumns, place: _Place, read: Numbers) -> None:
    limit = LIST_WIDE * len(read) + LIST_ROOM
    if not _is_possibly_above(read, limit):
        return
    items = _sum_lengths(columns, place, len(read))
    if items <= limit:
        return
    for child in columns.layout.types[place.node].children:
        if items > _count_held(columns, child, items):
            raise columns.corrupt(place.node, f"lists of {items} items, more than there are")


def _check_keys(columns: StripeColumns, key: int) -> None:
    """Refuse keys that certainly have nulls: keys are read as non-null, which fails if some are null."""
    data, where = columns.stream(key, PRESENT), columns.layout.where
    bits = decode_bytes(data, count_bytes(data, where) or 0, where)
    if bits.size and int(np.unpackbits(bits).sum()) <= 8 * (bits.size - 1):
        raise Unsupported("a MAP with keys that are null", where=where)


def _check_scales(columns: StripeColumns, place: _Place, read: Numbers) -> None:
    if int(read.max(initial=0)) > MAX_PRECISION or int(read.min(initial=0)) < -MAX_PRECISION:
        raise columns.corrupt(place.node, f"decimals of more than {MAX_PRECISION} digits")


def _check_dictionary(columns: StripeColumns, node: int) -> None:
    """Check the lengths of a dictionary's entries, which are independent of rows, nulls and enclosing lists."""
    entries, size = columns.stripe.dictionaries[node], len(columns.stream(node, DICTIONARY_DATA))
    stream = columns.stream(node, LENGTH)
    found = count_values(stream, columns.layout.where, version=columns.version(node))
    if found != entries:
        raise columns.corrupt(node, f"a dictionary of {entries} entries with {found} lengths")
    encoding = DIRECT if columns.version(node) == 1 else DIRECT_V2
    root = Column(STRUCT, members={"0": Column(LONG, encoding, {DATA: stream})})
    read = orc.ORCFile(pa.BufferReader(build_orc_file(root, entries))).read_stripe(0).column(0) if entries else ()
    if _is_possibly_above(np.asarray(read, np.int64), TEXT_WIDE * size + TEXT_ROOM) and columns.version(node) == 2:
        lengths = decode_whole(stream, entries, columns.layout.where, signed=False)
        if int(lengths.min(initial=0)) < 0 or int(lengths.max(initial=0)) > size or int(lengths.sum()) > size:
            raise columns.corrupt(node, f"lengths that add up to more than the {size} bytes of its dictionary")


_CHECKS = {
    **dict.fromkeys(TEXTS, _check_text),
    **dict.fromkeys(LISTS, _check_list),
    DECIMAL: _check_scales,
}


def _count_held(columns: StripeColumns, node: int, most: int) -> int:
    """Return how many values (including nulls) the streams of a member have; `most` if counting is too expensive."""
    where, type_ = columns.layout.where, columns.layout.types[node]
    if (node, PRESENT) in columns.streams:
        return 8 * (count_bytes(columns.streams[node, PRESENT], where) or 0)
    if type_.kind == STRUCT:
        return min((_count_held(columns, child, most) for child in type_.children), default=0)
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


REPEAT_MIN = 3
"""Minimum number of values in a byte run, and in a run of version 1."""
CONTROL_VALUES = 256
SIGN = 0x80
MAX_WIDTH = BIT_WIDTHS[-1]


def count_values(data: bytes, where: str, *, version: int = 2, most_runs: int | None = None) -> int | None:
    """Count the values of a whole integer stream; return None if it has more than `most_runs` runs.

    Raises `CorruptFile`: the stream ends within a run, or a run is invalid.
    """
    at, end, values, widths = 0, len(data), 0, BIT_WIDTHS
    left = end if most_runs is None else most_runs
    try:
        while at < end:
            left -= 1
            if left < 0:
                return None
            head = data[at]
            if version == 1:
                count, at = _read_old_run(data, at, where)
            elif head >> 6 == DIRECT_RUN:
                count = ((head & 1) << 8 | data[at + 1]) + 1
                at += 2 + (count * widths[head >> 1 & 31] + 7 >> 3)
            elif head >> 6 == SHORT_REPEAT:
                count = (head & 7) + SHORT_REPEAT_MIN
                at += 2 + (head >> 3 & 7)
            else:
                count = ((head & 1) << 8 | data[at + 1]) + 1
                at = (_skip_patched if head >> 6 == PATCHED_BASE else _skip_delta)(data, at, count, where)
            values += count
    except IndexError as error:
        raise CorruptFile(where, "an integer stream ends within the head of a run") from error
    if at != end:
        raise CorruptFile(where, f"an integer stream ends {at - end} bytes before its last run does")
    return values


def _skip_patched(data: bytes, at: int, count: int, where: str) -> int:
    width, base_size, patch_width = (
        BIT_WIDTHS[data[at] >> 1 & 31],
        (data[at + 2] >> 5) + 1,
        BIT_WIDTHS[data[at + 2] & 31],
    )
    gap_width, patches = (data[at + 3] >> 5) + 1, data[at + 3] & 31
    if not patches or gap_width + patch_width > MAX_WIDTH:
        raise CorruptFile(where, "a patched run without patches, or with patches of more than 64 bits")
    entry_width: int = next(each for each in BIT_WIDTHS if each >= gap_width + patch_width)
    end: int = at + 4 + base_size + (count * width + 7 >> 3) + (patches * entry_width + 7 >> 3)
    return end


def _skip_delta(data: bytes, at: int, count: int, where: str) -> int:
    code = data[at] >> 1 & 31
    _, at = read_varint(data, at + 2, where)
    _, at = read_varint(data, at, where)
    return at + (max(count - 2, 0) * BIT_WIDTHS[code] + 7 >> 3 if code else 0)


def _read_old_run(data: bytes, at: int, where: str) -> tuple[int, int]:
    """Read a run of version 1: a step and a base, or literal varints."""
    control = data[at]
    if control < LITERALS:
        return control + REPEAT_MIN, read_varint(data, at + 2, where)[1]
    at += 1
    for _ in range(CONTROL_VALUES - control):
        _, at = read_varint(data, at, where)
    return CONTROL_VALUES - control, at


def count_bytes(data: bytes, where: str, most_runs: int | None = None) -> int | None:
    """Count the bytes of a byte stream; return None if it has more than `most_runs` runs.

    Raises `CorruptFile`: the stream ends within a run.
    """
    at, end, count = 0, len(data), 0
    left = end if most_runs is None else most_runs
    while at < end:
        left -= 1
        if left < 0:
            return None
        control = data[at]
        if control < LITERALS:
            count, at = count + control + REPEAT_MIN, at + 2
        else:
            count, at = count + CONTROL_VALUES - control, at + 1 + CONTROL_VALUES - control
    if at != end:
        raise CorruptFile(where, "a byte stream ends within a run")
    return count


def count_varints(data: bytes) -> int:
    """Count the base-128 numbers that end in these bytes."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) < SIGN))
