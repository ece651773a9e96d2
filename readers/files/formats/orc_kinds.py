"""Checks of ORC column types against the table's, and of decoded values against the streams' contents.

Whole numbers have one encoding, whatever their width: those of another width than the table's are read as BIGINT and
narrowed, so that nothing is cut off. For other types only kinds that Paimon or Hive write for the type are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format import orc_stripes as stored
from morrow.engine.format.orc_layout import DECIMAL, SECONDARY, OrcLayout
from morrow.engine.format.orc_lengths import check_lengths
from morrow.engine.format.orc_stripes import DATA, LENGTH, PRESENT, StripeColumns
from morrow.engine.format.orc_walk import count_bytes, count_values, count_varints
from morrow.engine.format.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataField,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    MultisetType,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from morrow.readers.files.source import OTHER_READER, OTHER_TYPE, member_types

RUN_VALUES, FREE_RUNS = 256, 1 << 10
"""Streams are counted while all but some of their runs have so many values: that costs next to nothing."""
_TEXT = stored.TEXTS
_SMALL = frozenset((stored.BYTE,)) | stored.WHOLE
KINDS: dict[type[DataType], frozenset[int]] = {
    BooleanType: frozenset((stored.BOOLEAN,)),
    TinyIntType: _SMALL,
    SmallIntType: _SMALL,
    IntType: _SMALL,
    BigIntType: _SMALL,
    TimeType: _SMALL,
    FloatType: frozenset(stored.WIDTHS),
    DoubleType: frozenset(stored.WIDTHS),
    DecimalType: frozenset((DECIMAL,)),
    DateType: frozenset((stored.DATE,)),
    TimestampType: stored.TIMES,
    LocalZonedTimestampType: stored.TIMES,
    CharType: _TEXT,
    VarCharType: _TEXT,
    BinaryType: _TEXT,
    VarBinaryType: _TEXT,
    ArrayType: frozenset((stored.LIST,)),
    MapType: frozenset((stored.MAP,)),
    MultisetType: frozenset((stored.MAP,)),
    RowType: frozenset((stored.STRUCT,)),
}
"""Kinds of ORC that may hold a type; types that are not here may be held by any."""
USUAL = {SmallIntType: stored.SHORT, IntType: stored.INT, TimeType: stored.INT, BigIntType: stored.LONG}


def read_as(layout: OrcLayout, fields: Sequence[DataField], columns: Sequence[int]) -> dict[int, int]:
    """Returns the kinds as which nodes of the type tree are read, where they differ from the file's.

    Raises:
        Unsupported: a column cannot be of the type that the table gives it.
    """
    found: dict[int, int] = {}
    for field, column in zip(fields, columns, strict=True):
        _compare(layout, layout.types[0].children[column], field.type, field.name, found)
    return found


def _compare(layout: OrcLayout, node: int, type_: DataType, name: str, found: dict[int, int]) -> None:
    if node >= len(layout.types):
        raise CorruptFile(layout.where, "the types of the ORC file are no tree")
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
    for member, child in _members(found_type.names, found_type.children, type_):
        if child > node:
            _compare(layout, child, member, name, found)


def _members(names: Sequence[str], children: Sequence[int], type_: DataType) -> list[tuple[DataType, int]]:
    if isinstance(type_, RowType):
        numbers = dict(zip(names, children))
        return [(member.type, numbers[member.name]) for member in type_.fields if member.name in numbers]
    return list(zip(member_types(type_), children))


def decoded(columns: StripeColumns, kinds: Mapping[int, int]) -> pa.RecordBatch:
    """Returns the columns of a stripe as Arrow decodes them; nodes of `kinds` as if they were of that kind.

    Raises:
        CorruptFile: the streams claim more memory than their size justifies, or do not hold the values of the rows.
    """
    check_lengths(columns)
    batch = orc.ORCFile(pa.BufferReader(columns.file(kinds))).read_stripe(0)
    for node, array in zip(columns.columns, batch.columns, strict=True):
        _check(columns, node, array, columns.stripe.rows)
    return batch


def _check(columns: StripeColumns, node: int, array: pa.Array, slots: int) -> None:
    """Checks that the streams of a column hold exactly its values.

    If they do not, damage has made more or fewer values null, or moved values from one row to another. `slots` are the
    rows, or items, in which no struct above the node is null.
    """
    type_, values = columns.layout.types[node], len(array) - array.null_count
    for kind, expected in ((PRESENT, slots), (DATA, values), (LENGTH, values), (SECONDARY, values)):
        if (node, kind) in columns.streams:
            found = _counted(columns, node, kind, array, expected)
            if found is not None and found != expected:
                raise columns.corrupt(node, f"{found} values in its stream {kind} where its rows have {expected}")
    for child, member in zip(type_.children, _children(array)):
        _check(columns, child, member, values if type_.kind == stored.STRUCT else len(member))


def _counted(columns: StripeColumns, node: int, kind: int, array: pa.Array, expected: int) -> int | None:
    """Counts the values that a stream holds; None where counting would take long."""
    type_, data, where = columns.layout.types[node].kind, columns.streams[node, kind], columns.layout.where
    most = columns.stripe.rows // RUN_VALUES + FREE_RUNS
    if kind == PRESENT or type_ == stored.BOOLEAN:
        count = count_bytes(data, where, most)
        return expected if count in (None, -(-expected // 8)) else 8 * count
    if type_ == stored.BYTE:
        return count_bytes(data, where, most)
    has_dictionary = columns.stripe.encodings[node] in (stored.DICTIONARY, stored.DICTIONARY_V2)
    if type_ in stored.TEXTS and not has_dictionary:
        return expected if kind == LENGTH or _text_bytes(array) == len(data) else -1
    if has_dictionary and kind != DATA:
        return expected  # as many as there are entries
    if type_ in stored.WIDTHS:
        return len(data) // stored.WIDTHS[type_] if len(data) % stored.WIDTHS[type_] == 0 else -1
    if type_ == DECIMAL and kind == DATA:
        return count_varints(data)
    return count_values(data, where, version=columns.version(node), most_runs=most)


def _text_bytes(array: pa.Array) -> int:
    offsets = array.buffers()[1]
    if not len(array) or offsets is None:
        return 0
    ends = np.frombuffer(offsets, np.int32)[array.offset :][: len(array) + 1]
    return int(ends[-1]) - int(ends[0])


def _children(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_struct(array.type):
        return [array.field(number) for number in range(array.type.num_fields)]
    if pa.types.is_map(array.type):
        return [array.keys, array.items]
    return [array.values] if pa.types.is_list(array.type) else []
