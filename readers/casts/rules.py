"""Supported casts: one row per rule of Java's CastExecutors that ALTER TABLE can make necessary.

(Java also has STRING to ARRAY, MAP and ROW for default values; a column's type never changes that way.)
"""

from __future__ import annotations

from collections.abc import Sequence

from morrow.engine.format import types as t
from morrow.engine.format.type_equality import same_values
from morrow.readers.casts import nested, numeric, parse, temporal, text
from morrow.readers.casts.base import RULES, Rule, no_rule, resolve

INTEGERS = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)
SECONDS = (t.IntType, t.BigIntType)
APPROXIMATE = (t.FloatType, t.DoubleType)
BOOLEAN = (t.BooleanType,)
DECIMAL = (t.DecimalType,)
CHARACTERS = (t.CharType, t.VarCharType)
BYTES = (t.BinaryType, t.VarBinaryType)
DATE = (t.DateType,)
TIME = (t.TimeType,)
TIMESTAMPS = (t.TimestampType, t.LocalZonedTimestampType)

Types = Sequence[type[t.DataType]]

TABLE: tuple[tuple[Types, Types, Rule], ...] = (
    (INTEGERS, (*INTEGERS, *APPROXIMATE), numeric.integer_to_number),
    (APPROXIMATE, INTEGERS, numeric.approximate_to_integer),
    (APPROXIMATE, APPROXIMATE, numeric.approximate_to_approximate),
    (INTEGERS, DECIMAL, numeric.integer_to_decimal),
    (APPROXIMATE, DECIMAL, numeric.approximate_to_decimal),
    (DECIMAL, INTEGERS, numeric.decimal_to_integer),
    (DECIMAL, APPROXIMATE, numeric.decimal_to_approximate),
    (DECIMAL, DECIMAL, numeric.rescale_decimal),
    (BOOLEAN, (*INTEGERS, *APPROXIMATE, *DECIMAL), numeric.boolean_to_number),
    (INTEGERS, BOOLEAN, numeric.integer_to_boolean),
    (SECONDS, TIMESTAMPS, temporal.integer_to_timestamp),
    (TIMESTAMPS, SECONDS, temporal.timestamp_to_integer),
    (TIMESTAMPS, TIMESTAMPS, temporal.timestamp_to_timestamp),
    (TIMESTAMPS, DATE, temporal.timestamp_to_date),
    (TIMESTAMPS, TIME, temporal.timestamp_to_time),
    (DATE, TIMESTAMPS, temporal.date_to_timestamp),
    (TIME, TIMESTAMPS, temporal.time_to_timestamp),
    (INTEGERS, CHARACTERS, text.integer_to_text),
    (BOOLEAN, CHARACTERS, text.boolean_to_text),
    ((t.FloatType,), CHARACTERS, text.float_to_text),
    ((t.DoubleType,), CHARACTERS, text.double_to_text),
    (DECIMAL, CHARACTERS, text.decimal_to_text),
    (DATE, CHARACTERS, text.date_to_text),
    (TIME, CHARACTERS, text.time_to_text),
    (TIMESTAMPS, CHARACTERS, text.timestamp_to_text),
    (CHARACTERS, CHARACTERS, text.text_to_text),
    (BYTES, CHARACTERS, text.binary_to_text),
    ((t.ArrayType,), CHARACTERS, nested.array_to_text),
    ((t.MapType,), CHARACTERS, nested.map_to_text),
    ((t.RowType,), CHARACTERS, nested.row_to_text),
    (CHARACTERS, BOOLEAN, parse.text_to_boolean),
    (CHARACTERS, INTEGERS, parse.text_to_integer),
    (CHARACTERS, APPROXIMATE, parse.text_to_approximate),
    (CHARACTERS, DECIMAL, parse.text_to_decimal),
    (CHARACTERS, DATE, parse.text_to_date),
    (CHARACTERS, TIME, parse.text_to_time),
    (CHARACTERS, TIMESTAMPS, parse.text_to_timestamp),
    (CHARACTERS, BYTES, parse.text_to_binary),
    (BYTES, BYTES, parse.binary_to_binary),
    ((t.RowType,), (t.RowType,), nested.row_to_row),
    ((t.ArrayType,), (t.ArrayType,), nested.array_to_array),
    ((t.MapType,), (t.MapType,), nested.map_to_map),
)

RULES.update({(source, target): rule for sources, targets, rule in TABLE for source in sources for target in targets})


def is_allowed(source: t.DataType, target: t.DataType) -> bool:
    """Returns whether a column written as `source` can be read as `target`, as in Java; nested types by members."""
    if same_values(source, target):
        return True
    if resolve(source, target) is None:
        return False
    return all(is_allowed(inner, outer) for inner, outer in _parts(source, target))


def require_allowed(source: t.DataType, target: t.DataType, *, where: str | None = None) -> None:
    """Raises unless the cast is allowed.

    Raises:
        Unsupported: Java has no such cast.
    """
    if not is_allowed(source, target):
        raise no_rule(source, target, where)


def _parts(source: t.DataType, target: t.DataType) -> list[tuple[t.DataType, t.DataType]]:
    """Returns the casts of elements, values and members that make up a nested cast."""
    to_text = isinstance(target, t.CharType | t.VarCharType)
    string = t.VarCharType()
    if isinstance(source, t.ArrayType):
        return [(source.element, target.element if isinstance(target, t.ArrayType) else string)]
    if isinstance(source, t.MapType):
        if isinstance(target, t.MapType):
            # A change of the key type has no rule: VARIANT stands for "none".
            keys = (source.key, target.key if source.key == target.key else t.VariantType())
            return [keys, (source.value, target.value)]
        return [(source.key, string), (source.value, string)]
    if isinstance(source, t.RowType):
        if to_text:
            return [(field.type, string) for field in source.fields]
        targets = {field.id: field.type for field in target.fields} if isinstance(target, t.RowType) else {}
        return [(field.type, targets[field.id]) for field in source.fields if field.id in targets]
    return []
