"""Taking values of VARIANT apart into typed columns, the reverse of `variant_shredding.rebuild`.

A shredding type says which parts get columns: a ROW of members, an ARRAY of elements, a type of values, or VARIANT for
parts that stay bytes. It is configured, or inferred from the first values. A value goes to a typed column only if it
comes back as it is, except that numbers without a fraction may change between integers and decimals, as in Java.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.variant import ARRAY, EMPTY_METADATA, MAX_INT64, OBJECT, Primitive, decode
from morrow.engine.format.variant_arrays import INTEGERS, Nodes, VariantColumn
from morrow.engine.format.variant_building import build_containers
from morrow.engine.format.variant_bytes import scatter
from morrow.engine.format.variant_shredding import METADATA, TYPED, VALUE

if TYPE_CHECKING:
    from datetime import date, datetime

Ints: TypeAlias = npt.NDArray[np.int64]
Places: TypeAlias = npt.NDArray[np.intp]

SCALARS = (
    *(t.BooleanType, *t.INTEGER_TYPES, t.FloatType, t.DoubleType, t.DecimalType, t.CharType, t.VarCharType),
    *(t.BinaryType, t.VarBinaryType, t.DateType, t.TimestampType, t.LocalZonedTimestampType),
)
FIXED: Mapping[type[t.DataType], tuple[Primitive, str]] = {
    t.DoubleType: (Primitive.DOUBLE, "<f8"),
    t.FloatType: (Primitive.FLOAT, "<f4"),
    t.DateType: (Primitive.DATE, "<i4"),
    t.TimestampType: (Primitive.TIMESTAMP_NTZ, "<i8"),
    t.LocalZonedTimestampType: (Primitive.TIMESTAMP, "<i8"),
}
DECIMALS = (Primitive.DECIMAL4, Primitive.DECIMAL8, Primitive.DECIMAL16)
MAX_LONG_DIGITS = 18
MAX_MEMBERS = 1000
"""Maximum members of an object whose types are merged, as in Java."""


def check_shredding_type(kind: t.DataType, where: str) -> None:
    """Raise `InvalidArgument` for a type into which no part of a variant can be shredded."""
    if isinstance(kind, t.RowType) and kind.fields:
        for field in kind.fields:
            check_shredding_type(field.type, where)
    elif isinstance(kind, t.ArrayType):
        check_shredding_type(kind.element, where)
    elif not isinstance(kind, (*SCALARS, t.VariantType)):
        raise InvalidArgument(f"{where}: a VARIANT cannot be shredded into {kind}; use atomic types, ROW and ARRAY")


def build_group_type(kind: t.DataType, *, is_top: bool = False) -> pa.DataType:
    """Return the Arrow type of a shredded column, or of a group within one."""
    members = [pa.field(METADATA, pa.binary(), nullable=False)] if is_top else []
    members.append(pa.field(VALUE, pa.binary()))
    if isinstance(kind, t.RowType):
        fields = [pa.field(each.name, build_group_type(each.type), nullable=False) for each in kind.fields]
        members.append(pa.field(TYPED, pa.struct(fields)))
    elif isinstance(kind, t.ArrayType):
        members.append(pa.field(TYPED, pa.list_(pa.field("element", build_group_type(kind.element), nullable=False))))
    elif not isinstance(kind, t.VariantType):
        members.append(pa.field(TYPED, _to_arrow(kind)))
    return pa.struct(members)


def _to_arrow(kind: t.DataType) -> pa.DataType:
    if isinstance(kind, t.TimestampType):
        return pa.timestamp("us")
    return pa.timestamp("us", "UTC") if isinstance(kind, t.LocalZonedTimestampType) else kind.arrow()


def shred(array: pa.Array, kind: t.DataType) -> pa.Array:
    """Return a column of variants as a shredded column of the type `build_group_type(kind, is_top=True)`."""
    column = VariantColumn(array)
    roots = column.roots()
    group = _shred(column, roots, np.arange(len(roots)), len(roots), kind)
    target = build_group_type(kind, is_top=True)
    members = [column.metadata.cast(pa.binary()), *(group.field(i) for i in range(group.type.num_fields))]
    made = pa.StructArray.from_arrays(members, fields=list(target))
    if len(roots) == len(array):
        return made
    places = np.full(len(array), -1, np.int64)
    places[column.present] = np.arange(len(roots))
    return made.take(pa.array(places, mask=places < 0))


def _shred(column: VariantColumn, nodes: Nodes, places: Places, length: int, kind: t.DataType) -> pa.Array:
    """Return a group of `length` values, of which those at `places` are `nodes` and the others are absent."""
    basic, _ = column.headers(nodes)
    target = build_group_type(kind)
    if isinstance(kind, t.VariantType):
        return pa.StructArray.from_arrays([_to_bytes(column, nodes, places, length)], fields=list(target))
    if isinstance(kind, t.RowType):
        is_typed = basic == OBJECT
        typed, rest = _shred_objects(column, nodes[is_typed], places[is_typed], length, kind, target.field(TYPED).type)
    elif isinstance(kind, t.ArrayType):
        is_typed = basic == ARRAY
        typed = _shred_arrays(column, nodes[is_typed], places[is_typed], length, kind, target.field(TYPED).type)
        rest = None
    else:
        values, is_typed = _shred_scalars(column, nodes, kind)
        typed = scatter([(places[is_typed], values)], length, _to_arrow(kind))
        rest = None
    left = _to_bytes(column, nodes[~is_typed], places[~is_typed], length)
    if rest is not None:
        left = _coalesce(left, rest)
    return pa.StructArray.from_arrays([left, typed], fields=list(target))


def _coalesce(first: pa.Array, second: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.coalesce(first, second)


def _to_bytes(column: VariantColumn, nodes: Nodes, places: Places, length: int) -> pa.Array:
    return scatter([(places, column.raw(nodes))], length, pa.large_binary()).cast(pa.binary())


def _null_mask(places: Places, length: int) -> pa.Array:
    mask = np.ones(length, np.bool_)
    mask[places] = False
    return pa.array(mask)


def _shred_objects(
    column: VariantColumn, nodes: Nodes, places: Places, length: int, kind: t.RowType, target: pa.DataType
) -> tuple[pa.Array, pa.Array]:
    """Return the typed members of objects, and objects of their other members (null if there are none)."""
    import pyarrow.compute as pc

    counts, members = column.members(nodes)
    owner = np.repeat(np.arange(len(nodes)), counts)
    left = np.ones(len(members), np.bool_)
    groups = []
    for field in kind.fields:
        is_named = pc.equal(column.names.texts, field.name).to_numpy(zero_copy_only=False)
        chosen = is_named[members.names] if len(members) else np.zeros(0, np.bool_)
        left &= ~chosen
        groups.append(_shred(column, members[chosen], places[owner[chosen]], length, field.type))
    typed = pa.StructArray.from_arrays(groups, fields=list(target), mask=_null_mask(places, length))
    others, owners = members[left], owner[left]
    numbers = others.names - column.names.firsts[column.names.metadata[others.rows]]
    having, sizes = np.unique(owners, return_counts=True)
    made = build_containers(sizes, column.raw(others), np.ones(len(having), np.bool_), numbers)
    return typed, scatter([(places[having], made)], length, pa.large_binary()).cast(pa.binary())


def _shred_arrays(
    column: VariantColumn, nodes: Nodes, places: Places, length: int, kind: t.ArrayType, target: pa.DataType
) -> pa.Array:
    counts, members = column.members(nodes)
    elements = _shred(column, members, np.arange(len(members)), len(members), kind.element)
    lengths = np.zeros(length, np.int64)
    lengths[places] = counts
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, elements, target, mask=_null_mask(places, length))


def _shred_scalars(column: VariantColumn, nodes: Nodes, kind: t.DataType) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Return values that have the type, and which nodes they are."""
    basic, info = column.headers(nodes)
    primitive = basic == 0
    arrow = _to_arrow(kind)
    if isinstance(kind, (t.CharType, t.VarCharType)):
        chosen = column.is_text(nodes)
        return column.texts(nodes[chosen]).cast(arrow), chosen
    if isinstance(kind, t.BooleanType):
        chosen = primitive & ((info == Primitive.TRUE) | (info == Primitive.FALSE))
        return pa.array(info[chosen] == Primitive.TRUE), chosen
    if isinstance(kind, (t.BinaryType, t.VarBinaryType)):
        chosen = primitive & (info == Primitive.BINARY)
        some = nodes[chosen]
        return column.bytes.slices(some.at + 5, column.sizes(some) - 5).cast(arrow), chosen
    if type(kind) in FIXED:
        primary, dtype = FIXED[type(kind)]
        chosen = primitive & (info == primary)
        numbers = pa.array(column.bytes.fixed(nodes.at[chosen] + 1, dtype))
        return (numbers if numbers.type == arrow else numbers.cast(arrow)), chosen
    return _shred_numbers(column, nodes, kind, arrow)


def _shred_numbers(
    column: VariantColumn, nodes: Nodes, kind: t.DataType, arrow: pa.DataType
) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Return whole numbers, and decimals that keep their value, as integers or decimals."""
    basic, info = column.headers(nodes)
    is_whole = (basic == 0) & np.isin(info, tuple(INTEGERS))
    numbers = np.zeros(len(nodes), np.int64)
    for primitive, dtype in INTEGERS.items():
        some = is_whole & (info == primitive)
        numbers[some] = column.bytes.fixed(nodes.at[some] + 1, dtype)
    if isinstance(kind, t.DecimalType):
        limit = 10 ** min(kind.precision - kind.scale, MAX_LONG_DIGITS)
        fits = is_whole & (np.abs(numbers) < limit)
        whole = pa.array(numbers[fits]).cast(pa.decimal128(19, 0)).cast(pa.decimal256(76, kind.scale)).cast(arrow)
    else:
        bits = arrow.bit_width - 1
        fits = is_whole & (numbers >= -(2**bits)) & (numbers <= 2**bits - 1)
        whole = pa.array(numbers[fits]).cast(arrow)
    is_decimal = (basic == 0) & np.isin(info, DECIMALS)
    values, kept = _convert_decimals(column.raw(nodes[is_decimal]), kind, arrow)
    where = np.flatnonzero(is_decimal)[kept]
    chosen = fits.copy()
    chosen[where] = True
    made = scatter([(np.flatnonzero(fits), whole), (where, values)], len(nodes), arrow)
    return made.filter(pa.array(chosen)), chosen


def _convert_decimals(raw: pa.Array, kind: t.DataType, arrow: pa.DataType) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Convert each distinct decimal once."""
    encoded = raw.dictionary_encode()
    made = [_convert_decimal(decode(each, EMPTY_METADATA), kind) for each in encoded.dictionary.to_pylist()]
    values = pa.array(made, arrow).take(encoded.indices)
    kept = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    return values.filter(pa.array(kept)), kept


def _convert_decimal(value: Decimal, kind: t.DataType) -> Decimal | int | None:
    if isinstance(kind, t.DecimalType):
        scaled = round(value, kind.scale) if -int(value.as_tuple().exponent) > kind.scale else value
        fits = scaled == value and abs(value) < 10 ** (kind.precision - kind.scale)
        return value.quantize(Decimal(1).scaleb(-kind.scale)) if fits and kind.precision <= 28 else None
    bits = kind.arrow().bit_width - 1
    whole = int(value)
    return whole if whole == value and -(2**bits) <= whole < 2**bits else None


# --- inference ---


class _Counted:
    """The members of objects: the type and the number of values of each."""

    def __init__(self, members: Mapping[str, tuple[Any, int]]) -> None:
        self.members = dict(sorted(members.items())[:MAX_MEMBERS])


class _List:
    """The elements of arrays."""

    def __init__(self, element: Any) -> None:
        self.element = element


def infer_shredding_type(values: Sequence[object], *, width: int, depth: int, ratio: float) -> t.DataType:
    """Return the shredding type of Python values, as Java infers it; VARIANT if no part is worth a column.

    Args:
        width: the most types in it. depth: the deepest object or array that is looked into.
        ratio: the share of the values that must have a member to give it a column.
    """
    observed: Any = None
    for value in values:
        observed = _merge(observed, _observe(value, depth))
    return _finalize(observed, len(values) * ratio, _Budget(width))


def _observe(value: object, depth: int) -> Any:
    if value is None:
        return None
    if isinstance(value, (dict, list)):
        if depth <= 0:
            return t.VariantType()
        if isinstance(value, dict):
            return _Counted({name: (_observe(each, depth - 1), 1) for name, each in value.items()})
        return _List(_merge_all(_observe(each, depth - 1) for each in value) or t.VariantType())
    if isinstance(value, bool):
        return t.BooleanType()
    if isinstance(value, (int, Decimal)):
        digits = Decimal(value).normalize().as_tuple()
        scale = max(-int(digits.exponent), 0)
        precision = max(len(digits.digits) + max(int(digits.exponent), 0), scale, 1)
        if isinstance(value, int):
            scale, precision = 0, len(str(abs(value)))
            if precision > MAX_LONG_DIGITS and abs(value) <= MAX_INT64:
                return t.BigIntType()
        return _decimal(precision, scale)
    return OBSERVED.get(type(value).__name__, _observe_other)(value)


def _decimal(precision: int, scale: int) -> t.DataType:
    return t.DecimalType(precision=precision, scale=scale) if precision <= 38 else t.VariantType()


def _observe_other(_: object) -> t.DataType:
    return t.VariantType()


def _observe_datetime(value: datetime) -> t.DataType:
    return t.TimestampType() if value.tzinfo is None else t.LocalZonedTimestampType()


def _observe_date(_: date) -> t.DataType:
    return t.DateType()


OBSERVED: Mapping[str, Any] = {
    "str": lambda _: t.VarCharType(),
    "float": lambda _: t.DoubleType(),
    "bytes": lambda _: t.VarBinaryType(),
    "date": _observe_date,
    "datetime": _observe_datetime,
}


def _merge_all(found: Iterable[Any]) -> Any:
    merged: Any = None
    for each in found:
        merged = _merge(merged, each)
    return merged


def _merge(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, _Counted) and isinstance(other, _Counted):
        members = dict(one.members)
        for name, (kind, count) in other.members.items():
            known, before = members.get(name, (None, 0))
            members[name] = (_merge(known, kind), before + count)
        return _Counted(members)
    if isinstance(one, _List) and isinstance(other, _List):
        return _List(_merge(one.element, other.element))
    if isinstance(one, t.BigIntType) and isinstance(other, t.DecimalType):
        one, other = other, one
    if isinstance(one, t.DecimalType) and isinstance(other, t.BigIntType):
        if one.scale == 0 and one.precision <= MAX_LONG_DIGITS:
            return other
        other = t.DecimalType(precision=19)
    if isinstance(one, t.DecimalType) and isinstance(other, t.DecimalType):
        scale = max(one.scale, other.scale)
        return _decimal(max(one.precision - one.scale, other.precision - other.scale) + scale, scale)
    return one if one == other else t.VariantType()


class _Budget:
    """The number of types that may still be used."""

    def __init__(self, left: int) -> None:
        self.left = left


def _finalize(observed: Any, least: float, budget: _Budget) -> t.DataType:
    budget.left -= 1
    if budget.left <= 0 or observed is None:
        return t.VariantType()
    if isinstance(observed, _Counted):
        kept: list[t.DataField] = []
        for name, (kind, count) in observed.members.items():
            if count >= least and budget.left > 0:
                kept.append(t.DataField(len(kept), name, _finalize(kind, least, budget)))
        return t.RowType(fields=tuple(kept)) if kept else t.VariantType()
    if isinstance(observed, _List):
        return t.ArrayType(element=_finalize(observed.element, least, budget))
    if isinstance(observed, t.DecimalType):
        if observed.precision > MAX_LONG_DIGITS:
            return t.DecimalType(precision=t.MAX_DECIMAL_PRECISION, scale=observed.scale)
        return t.DecimalType(precision=MAX_LONG_DIGITS, scale=observed.scale) if observed.scale else t.BigIntType()
    found: t.DataType = observed
    return found


def parse_shredding_types(text: str, where: str) -> dict[str, t.DataType]:
    """Return the shredding types of columns from the JSON of ``variant.shreddingSchema``. Ids of fields have no effect.

    Raises:
        InvalidArgument: it is not the JSON of a ROW. Unsupported: an unknown type.
    """
    try:
        node = json.loads(text, object_hook=lambda member: {"id": 0, **member})  # pypaimon writes no ids
        kind = t.from_json(node, where=where)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidArgument(f"{where}: variant.shreddingSchema is not the JSON of a ROW type: {text!r}") from error
    if not isinstance(kind, t.RowType):
        raise InvalidArgument(f"{where}: variant.shreddingSchema is {kind}; give a ROW of the columns")
    for field in kind.fields:
        check_shredding_type(field.type, f"{where}: the column {field.name!r} of variant.shreddingSchema")
    return {field.name: field.type for field in kind.fields}
