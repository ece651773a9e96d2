"""Buckets as SQL that Spark compiles, for keys whose BinaryRow SQL can build; no row passes through Python.

Paimon hashes the bytes of a BinaryRow (`morrow.engine.format.binary_row`): header and null bits, a slot of 8 bytes for
each field, then values too long for their slots, in whole words. The hash is Murmur3 with seed 42, as is Spark's
``hash`` of a BINARY of whole words. Columns have names that need no quotes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from morrow.engine.format import types as t
from morrow.engine.format.binary_row import HEADER_BITS, bit_set_width, fixed_width
from morrow.engine.format.binary_row_slots import INLINE_MARK, MAX_INLINE_LENGTH, SLOT_WIDTH
from morrow.writers.buckets.fixed import FixedRouter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NULL_SLOT = f"X'{'00' * SLOT_WIDTH}'"


@dataclass(frozen=True)
class _Part:
    """A column in a row: its slot, by the offset where its variable part would begin, and that part (BINARY)."""

    slot: Callable[[str], str]
    size: str | None = None
    variable: str | None = None


def bucket_sql(router: FixedRouter, columns: Mapping[str, str], schema: StructType) -> str | None:
    """Returns SQL for the bucket of each row (INT), as `FixedRouter.buckets`; None where Spark cannot compute it.

    Args:
        columns: the names in the data of the columns of the table.
        schema: the schema of the data, by those names.
    """
    if router.count == 1:
        return "0"
    parts = [_part(field, columns.get(field.name), schema) for field in router.keys]
    known = [part for part in parts if part is not None]
    if router.function != "default" or len(known) < len(parts) or bit_set_width(len(parts)) > SLOT_WIDTH:
        return None
    nullable = [(at, columns[field.name]) for at, field in enumerate(router.keys) if field.type.nullable]
    return f"abs(hash({_row(known, nullable)}) % {router.count})"


def _row(parts: Sequence[_Part], nullable: Sequence[tuple[int, str]]) -> str:
    bits = " | ".join(f"IF({column} IS NULL, shiftleft(1L, {HEADER_BITS + at}), 0L)" for at, column in nullable)
    pieces = [_word(bits) if bits else NULL_SLOT]
    variable, begin = [], str(fixed_width(len(parts)))
    for part in parts:
        pieces.append(part.slot(begin))
        if part.size is not None and part.variable is not None:
            variable.append(part.variable)
            begin = f"{begin} + {part.size}"
    return f"concat({', '.join(pieces + variable)})"


def _part(field: t.DataField, column: str | None, schema: StructType) -> _Part | None:
    """Returns the part of a field; None for a type without SQL here, a missing column, or replaced nulls."""
    made = _PARTS.get(type(field.type))
    if made is None or column is None or field.default_value is not None:
        return None
    given, build = made
    return build(column) if type(schema[column].dataType).__name__ in given else None


def _word(value: str) -> str:
    """Returns the 8 bytes of a BIGINT, the lowest first."""
    moved = (f"shiftleft(shiftright({value}, {at}) & 255L, {56 - at})" for at in range(0, 64, 8))
    return f"unhex(lpad(hex({' | '.join(moved)}), 16, '0'))"


def _number(value: str, bits: int) -> Callable[[str], _Part]:
    """Returns a slot that begins with an integer of this many bits, and is zero otherwise."""
    mask = f" & {(1 << bits) - 1}L" if bits < 64 else ""

    def part(column: str) -> _Part:
        word = _word(f"(CAST({value.format(column)} AS BIGINT){mask})")
        return _Part(lambda _: f"coalesce({word}, {NULL_SLOT})")

    return part


def _bytes(column: str) -> _Part:
    """Returns a part of bytes: a few are in the slot, with their number; otherwise it has their number and place."""
    length, data = f"octet_length({column})", f"CAST({column} AS BINARY)"
    is_long, words = f"{length} > {MAX_INLINE_LENGTH}", f"({length} + 7 & -8)"
    inline = f"concat(rpad({data}, {MAX_INLINE_LENGTH}, X'00'), unhex(hex({length} | {INLINE_MARK % 256})))"

    def slot(begin: str) -> str:
        place = _word(f"(CAST({length} AS BIGINT) | shiftleft(CAST({begin} AS BIGINT), 32))")
        return f"CASE WHEN {column} IS NULL THEN {NULL_SLOT} WHEN {is_long} THEN {place} ELSE {inline} END"

    return _Part(slot, f"IF({is_long}, {words}, 0)", f"IF({is_long}, rpad({data}, {words}, X'00'), X'')")


_INTEGERS = ("ByteType", "ShortType", "IntegerType", "LongType")
_PARTS: Mapping[type[t.DataType], tuple[Sequence[str], Callable[[str], _Part]]] = {
    t.BooleanType: (("BooleanType",), _number("{}", 8)),
    t.TinyIntType: (_INTEGERS, _number("{}", 8)),
    t.SmallIntType: (_INTEGERS, _number("{}", 16)),
    t.IntType: (_INTEGERS, _number("{}", 32)),
    t.BigIntType: (_INTEGERS, _number("{}", 64)),
    t.DateType: (("DateType",), _number("unix_date({})", 32)),
    t.VarCharType: (("StringType", "VarcharType"), _bytes),
    t.VarBinaryType: (("BinaryType",), _bytes),
}
"""By the type of the table: the Spark types whose values it takes unchanged, and their part of a row."""
