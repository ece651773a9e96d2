"""Whether a cast keeps values: whether the cast back gives them again, and no text or number is cut, rounded or null.

Casts from text to other types are looked at for nulls alone. A text that is no value of the type makes every read fail,
with the call that sets the type back; nothing is lost in silence.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.type_equality import same_values
from morrow.engine.schema.changes import Path
from morrow.engine.schema.nested import ELEMENT, VALUE
from morrow.engine.values import replace
from morrow.readers.casts.base import Cast, apply, resolve, shown_value
from morrow.readers.casts.native import WHOLE_DIGITS, WIDTHS

TEXTS = (t.CharType, t.VarCharType)
BYTES = (t.BinaryType, t.VarBinaryType)
NESTED = (t.ArrayType, t.MapType, t.MultisetType, t.RowType, t.VectorType)
TIMES = (t.TimestampType, t.LocalZonedTimestampType)
WHOLE_BITS: dict[type[t.DataType], int] = {t.FloatType: 24, t.DoubleType: 53}
"""The bits of whole numbers that each has exactly."""
EXACT_DIGITS: dict[type[t.DataType], int] = {t.FloatType: 6, t.DoubleType: 15}
"""The decimal digits that each keeps, whatever they are."""
BITS = dict(zip(WIDTHS, (8, 16, 32, 64), strict=True))


@dataclass(frozen=True)
class Loss:
    """A value that a cast does not keep, at the path of the column or member, and what becomes of it."""

    path: Path
    source: t.DataType
    target: t.DataType
    value: object
    made: object


def keeps_all(source: t.DataType, target: t.DataType) -> bool:
    """Returns whether every value of one type has its own value of the other, whatever the values are."""
    if same_values(source, target):
        return True
    goal = target.__class__
    if isinstance(source, TEXTS) and isinstance(target, TEXTS):
        return source.length <= target.length
    if isinstance(source, BYTES) and isinstance(target, BYTES):
        return source.length <= target.length
    if target == t.VarCharType(nullable=target.nullable):
        return not isinstance(source, (*NESTED, *BYTES))
    if isinstance(source, t.BooleanType):
        return goal in BITS or goal in WHOLE_BITS
    if (bits := BITS.get(source.__class__)) is not None:
        if isinstance(target, t.DecimalType):
            return target.precision - target.scale >= WHOLE_DIGITS[source.__class__]
        return bits <= BITS.get(goal, 0) or bits <= WHOLE_BITS.get(goal, 0)
    if isinstance(source, t.DecimalType):
        if isinstance(target, t.DecimalType):
            grows = target.precision - target.scale >= source.precision - source.scale
            return grows and target.scale >= source.scale
        return source.precision <= EXACT_DIGITS.get(goal, 0)
    if isinstance(target, TIMES):
        if target.precision > t.ARROW_MICROS_PRECISION:  # nanoseconds reach from 1677 to 2262 only
            return False
        return isinstance(source, t.DateType) or (isinstance(source, TIMES) and source.precision <= target.precision)
    return isinstance(source, t.FloatType) and goal is t.DoubleType


def first_loss(array: pa.Array, cast: Cast) -> Loss | None:
    """Returns a value that the cast does not keep, None where it keeps all of them; of nested types by their members.

    Raises:
        Unsupported: a value that cannot be cast, or a cast that Java does not have.
    """
    source, target = cast.source, cast.target
    if keeps_all(source, target):
        return None
    if isinstance(source, t.RowType) and isinstance(target, t.RowType):
        kinds = {field.id: field for field in target.fields}
        for field, values in zip(source.fields, array.flatten(), strict=True):
            if (new := kinds.get(field.id)) is not None:
                found = first_loss(values, cast.inside(new.name, field.type, new.type))
                if found is not None:
                    return found
        return None
    if isinstance(source, t.ArrayType) and isinstance(target, t.ArrayType):
        return first_loss(array.flatten(), cast.inside(ELEMENT, source.element, target.element))
    if isinstance(source, t.MapType) and isinstance(target, t.MapType):
        return first_loss(array.items, cast.inside(VALUE, source.value, target.value))
    return _of_values(array, cast)


def _of_values(array: pa.Array, cast: Cast) -> Loss | None:
    of_text = isinstance(cast.source, TEXTS) and not isinstance(cast.target, TEXTS)
    try:
        made = apply(array, cast)
    except Unsupported:
        if of_text:
            return None
        raise
    kept = made.is_valid() if of_text else pc.and_(made.is_valid(), _is_kept(array, made, cast))
    lost = pc.and_(array.is_valid(), pc.invert(pc.fill_null(kept, False)))
    at = pc.index(lost, pa.scalar(True)).as_py()
    if at < 0:
        return None
    path = () if cast.change is None else cast.change.path
    return Loss(path, cast.source, cast.target, shown_value(array[at : at + 1]), shown_value(made[at : at + 1]))


def _is_kept(array: pa.Array, made: pa.Array, cast: Cast) -> pa.Array:
    """Returns whether each value is the one that it was cast from."""
    source, target = cast.source, cast.target
    if isinstance(target, TEXTS) and not isinstance(source, NESTED):
        text = t.VarCharType()
        whole = apply(array, replace(cast, target=text))
        blanks = " " if isinstance(target, t.CharType) else ""  # those that CHAR adds are no values
        is_whole = pc.equal(pc.utf8_rtrim(whole, blanks), pc.utf8_rtrim(made, blanks))
        if not isinstance(source, BYTES):
            return is_whole
        return pc.and_(is_whole, pc.equal(apply(whole, replace(cast, source=text, target=source)), array))
    if isinstance(target, BYTES) and isinstance(source, BYTES):
        return pc.less_equal(pc.binary_length(array), target.length)
    if source.__class__ in BITS and target.__class__ in WHOLE_BITS:
        doubles = made.cast(pa.float64())
        inside = pc.less(doubles, float(2**63))
        whole = pc.if_else(inside, doubles, 0.0).cast(pa.int64(), safe=False)
        return pc.and_(inside, pc.equal(whole, array.cast(pa.int64())))
    if resolve(target, source) is None:
        return pa.array([False]).take(pa.array([0] * len(array)))
    back = apply(made, replace(cast, source=target, target=source))
    if pa.types.is_floating(array.type):
        return pc.or_(pc.equal(back, array), pc.and_(pc.is_nan(back), pc.is_nan(array)))
    return pc.equal(back, array)
