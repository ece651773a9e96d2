"""Columns of a stripe of an ORC data file, checked and copied into a small separate file, for Arrow to decode.

ORC has no checksums, and Arrow's reader trusts the file: a damaged length makes it fill gigabytes, an empty chunk lets
it read past its memory. So Arrow never sees the file. The streams of the columns that are read are decompressed here,
and become the only stripe of an uncompressed file, whose frame is written anew from checked values: the types, which
streams there are, and their lengths. Numbers in the streams that determine memory (lengths of text, lists and maps,
sizes of dictionaries, digits of decimals) are checked first: `orc_lengths`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.orc_layout import DECIMAL, SECONDARY, TIMESTAMP, OrcLayout, OrcType, Stripe
from morrow.engine.format.protobuf import message, numbered

MAGIC, VERSION = b"ORC", b"\x00\x0c"
PRESENT, DATA, LENGTH, DICTIONARY_DATA = range(4)
"""Stream.kind; the others are indexes, but for SECONDARY."""
DIRECT, DICTIONARY, DIRECT_V2, DICTIONARY_V2 = range(4)
"""ColumnEncoding.kind."""
BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, STRING, BINARY = range(9)
LIST, MAP, STRUCT, DATE, VARCHAR, CHAR, INSTANT = 10, 11, 12, 15, 16, 17, 18
"""Type.kind."""
WHOLE = frozenset((SHORT, INT, LONG))
TEXTS = frozenset((STRING, BINARY, VARCHAR, CHAR))
TIMES = frozenset((TIMESTAMP, INSTANT))
WIDTHS = {FLOAT: 4, DOUBLE: 8}
MOST_DEPTH = 64

Streams = Mapping[tuple[int, int], bytes]
"""Streams by column and kind."""


@dataclass(frozen=True)
class Column:
    """A node of an ORC file to be written: its type, encoding and streams by kind; members are separate nodes."""

    kind: int
    encoding: int = DIRECT
    streams: Mapping[int, bytes] = field(default_factory=dict)
    members: Mapping[str, Column] = field(default_factory=dict)
    dictionary: int = 0
    precision: int = 0
    scale: int = 0


def orc_file(root: Column, rows: int, zone: str = "") -> bytes:
    """Returns an uncompressed ORC file of one stripe, whose rows are structs like `root`."""
    nodes: list[tuple[Column, list[int]]] = []
    _number(root, nodes)
    streams = [(number, kind, data) for number, (node, _) in enumerate(nodes) for kind, data in node.streams.items()]
    encodings = [numbered(2, _numbers({1: node.encoding, 2: node.dictionary})) for node, _ in nodes]
    stream_entries = [numbered(1, _numbers({1: kind, 2: number, 3: len(data)})) for number, kind, data in streams]
    stripe_footer = message([*stream_entries, *encodings, *([numbered(3, zone.encode())] if zone else [])])
    length = sum(len(data) for _, _, data in streams)
    footer = message(
        [
            numbered(1, len(MAGIC)),
            numbered(2, len(MAGIC) + length + len(stripe_footer)),
            numbered(3, _numbers({1: len(MAGIC), 2: 0, 3: length, 4: len(stripe_footer), 5: rows})),
            *(numbered(4, _type(node, children)) for node, children in nodes),
            numbered(6, rows),
        ]
    )
    script = _numbers({1: len(footer), 2: 0, 5: 0}) + message([numbered(4, VERSION), numbered(8000, MAGIC)])
    return b"".join([MAGIC, *(data for _, _, data in streams), stripe_footer, footer, script, bytes([len(script)])])


def _number(node: Column, nodes: list[tuple[Column, list[int]]]) -> int:
    number = len(nodes)
    children: list[int] = []
    nodes.append((node, children))
    children.extend(_number(member, nodes) for member in node.members.values())
    return number


def _type(node: Column, children: Sequence[int]) -> bytes:
    names = [numbered(3, name.encode()) for name in node.members] if node.kind == STRUCT else []
    digits = [numbered(5, node.precision), numbered(6, node.scale)] if node.kind == DECIMAL else []
    return message([numbered(1, node.kind), *(numbered(2, child) for child in children), *names, *digits])


def _numbers(values: Mapping[int, int]) -> bytes:
    return message(numbered(number, value) for number, value in values.items())


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
        """Returns an ORC file of one stripe with these columns; nodes in `kinds` are declared to be of that kind."""
        types = self.layout.types
        timed = any(kinds.get(node, types[node].kind) == TIMESTAMP for node in self.nodes)
        zone = self.stripe.zone if timed and self.stripe.names_zone else ""
        members = {types[0].names[types[0].children.index(node)]: self.column(node, kinds) for node in self.columns}
        return orc_file(Column(STRUCT, members=members), self.stripe.rows, zone)

    def column(self, node: int, kinds: Mapping[int, int], is_key: bool = False) -> Column:
        """Returns a node with all below it. Keys of maps are declared never null: Arrow would end the process."""
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
        """Returns a stream of a column, empty where there is none."""
        return self.streams.get((node, kind), b"")

    def version(self, node: int) -> int:
        """Returns the version of the encoding of the integers."""
        return 1 if self.stripe.encodings[node] in (DIRECT, DICTIONARY) else 2

    def corrupt(self, node: int, problem: str) -> CorruptFile:
        return CorruptFile(self.layout.where, f"its column {node} has {problem}")


def read_columns(layout: OrcLayout, number: int, columns: Sequence[int]) -> StripeColumns:
    """Reads these columns of the root, in this order, from a stripe.

    Raises:
        CorruptFile: the file contradicts itself.
        Unsupported: an unknown type or encoding.
    """
    stripe, where = layout.stripe(number), layout.where
    if len(stripe.encodings) != len(layout.types):
        raise CorruptFile(where, f"a stripe has {len(stripe.encodings)} encodings for {len(layout.types)} columns")
    nodes = _nodes(layout, columns)
    wanted = {(node, kind) for node in nodes for kind in _kinds(layout.types[node], stripe.encodings[node], where)}
    if (
        len({stripe.encodings[node] in (DIRECT, DICTIONARY) for node in nodes if layout.types[node].kind not in _PLAIN})
        > 1
    ):
        raise Unsupported("an ORC stripe with integers of both versions", where=where)
    packed = layout.ranges({name: place for name, place in stripe.streams.items() if name in wanted})
    streams = {name: layout.unpacked(data) for name, data in packed.items()}
    return StripeColumns(layout, stripe, nodes, streams)


# --- types and encodings ---


def _nodes(layout: OrcLayout, columns: Sequence[int]) -> tuple[int, ...]:
    """Returns the root and the nodes of these columns, in order."""
    types, where = layout.types, layout.where
    if not types or types[0].kind != STRUCT or len(types[0].names) != len(types[0].children):
        raise CorruptFile(where, "the rows of the ORC file are no structs")
    nodes = [0]
    for column in sorted(set(columns)):
        _gather(types, types[0].children[column], nodes, 0, where)
    return tuple(nodes)


def _gather(types: Sequence[OrcType], node: int, nodes: list[int], depth: int, where: str) -> None:
    """Appends a node and those below it, which come after it in the file."""
    if not nodes[-1] < node < len(types) or (depth and node != nodes[-1] + 1):
        raise CorruptFile(where, "the types of the ORC file are no tree")
    if depth > MOST_DEPTH:
        raise Unsupported(f"more than {MOST_DEPTH} levels of nested types", where=where)
    type_ = types[node]
    wanted = {LIST: 1, MAP: 2}.get(type_.kind, len(type_.names) if type_.kind == STRUCT else 0)
    if len(type_.children) != wanted or len(set(type_.names)) != len(type_.names):
        raise CorruptFile(where, f"a type of kind {type_.kind} with {len(type_.children)} members")
    nodes.append(node)
    for child in type_.children:
        _gather(types, child, nodes, depth + 1, where)


def _kinds(type_: OrcType, encoding: int, where: str) -> tuple[int, ...]:
    """Returns the kinds of streams that a column of this type and encoding has."""
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
"""Kinds of types without integers in their streams, whose encoding has no versions."""
