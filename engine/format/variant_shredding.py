"""Shredded VARIANT: parts of the values in typed columns of a file, and the rest as bytes.

A column of the file is a group. Only the group of a whole column has metadata::

    group      metadata BINARY, value BINARY (optional), typed_value (optional)
    typed      a number, text, ...: a value of that type; `value` is null
               a LIST of groups: the elements of an array; `value` is null
               a group of groups by name: members of an object, each absent if its value and typed_value are null;
               `value` is an object of the other members, or null
    value      any other value, as the bytes of a VARIANT; null and absent members: `value` and typed_value are null

Columns are rebuilt and taken apart level by level, for all rows at once.

A shredding type says which parts get columns: a ROW of members, an ARRAY of elements, a type of values, or VARIANT for
parts that stay bytes. It is configured, or inferred from the first values. A value goes to a typed column only if it
comes back as it is, except that numbers without a fraction may change between integers and decimals, as in Java.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import CorruptFile, InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import read_validity
from morrow.engine.format.variant import ARRAY, EMPTY_METADATA, MAX_INT64, OBJECT, Primitive, decode
from morrow.engine.format.variant_arrays import INTEGERS, Names, Nodes, VariantColumn
from morrow.engine.format.variant_building import build_containers, build_variants, encode_leaves
from morrow.engine.format.variant_bytes import scatter

if TYPE_CHECKING:
    from datetime import date, datetime

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

VALUE, METADATA, TYPED = "value", "metadata", "typed_value"
ORDER = (VALUE, METADATA)


def is_shredded(stored: pa.DataType, kind: t.DataType) -> bool:
    """Return whether a column of this Arrow type in a file has variants in another layout than `VariantType.arrow`."""
    if isinstance(kind, t.VariantType):
        return not pa.types.is_struct(stored) or tuple(member.name for member in stored) != ORDER
    if not t.has_type(kind, t.VariantType):
        return False
    if isinstance(kind, t.RowType) and pa.types.is_struct(stored):
        members = {member.name: member.type for member in stored}
        return any(each.name in members and is_shredded(members[each.name], each.type) for each in kind.fields)
    if isinstance(kind, t.MapType) and pa.types.is_map(stored):
        return is_shredded(stored.item_type, kind.value)
    if isinstance(kind, t.ArrayType) and (pa.types.is_list(stored) or pa.types.is_large_list(stored)):
        return is_shredded(stored.value_type, kind.element)
    return False


def rebuild(array: pa.Array) -> pa.Array:
    """Return a shredded column as a column of variants. Raises `CorruptFile` for members that contradict the layout."""
    present = np.flatnonzero(read_validity(array))
    chosen = array if len(present) == len(array) else array.take(pa.array(present))
    members = {chosen.type.field(i).name for i in range(chosen.type.num_fields)}
    if METADATA not in members or not members <= {VALUE, METADATA, TYPED}:
        raise CorruptFile("a VARIANT", f"a column with the members {', '.join(sorted(members))}")
    metadata = chosen.field(METADATA).cast(pa.large_binary())
    if metadata.null_count:
        raise CorruptFile("a VARIANT", "its metadata is null")
    value = _Rebuilder(metadata).rebuild(chosen, np.arange(len(present)))
    if value.null_count:
        raise CorruptFile("a VARIANT", "a value is missing")
    columns = [scatter([(present, each)], len(array), pa.large_binary()) for each in (value, metadata)]
    return build_variants(*columns)


class _Rebuilder:
    """The values of groups, with the metadata of their rows."""

    def __init__(self, metadata: pa.Array) -> None:
        self._metadata = metadata
        self._names = Names.of(metadata)

    def rebuild(self, group: pa.Array, rows: Ints) -> pa.Array:
        """Return the bytes of the values of a group (large binary); null for absent members."""
        import pyarrow.compute as pc

        members = {group.type.field(i).name: i for i in range(group.type.num_fields)}
        value = pa.nulls(len(group), pa.large_binary())
        if VALUE in members:
            value = group.field(members[VALUE]).cast(pa.large_binary())
        if TYPED not in members:
            return value
        typed = group.field(members[TYPED])
        is_typed = read_validity(typed)
        places = np.flatnonzero(is_typed)
        some = typed if len(places) == len(typed) else typed.take(pa.array(places))
        if pa.types.is_struct(typed.type):
            made = self._rebuild_objects(some, value.take(pa.array(places)), rows[places])
        elif pa.types.is_list(typed.type) or pa.types.is_large_list(typed.type):
            made = self._rebuild_arrays(some, rows[places])
        else:
            made = encode_leaves(some)
        if len(places) == len(group):
            return made
        return pc.if_else(pa.array(is_typed), scatter([(places, made)], len(group), pa.large_binary()), value)

    def _rebuild_arrays(self, lists: pa.Array, rows: Ints) -> pa.Array:
        counts = lists.value_lengths().cast(pa.int64()).to_numpy(zero_copy_only=False)
        members = self.rebuild(lists.flatten(), np.repeat(rows, counts))
        if members.null_count:
            raise CorruptFile("a VARIANT", "an element of an array is missing")
        return build_containers(counts, members, np.zeros(len(counts), np.bool_))

    def _rebuild_objects(self, objects: pa.Array, rest: pa.Array, rows: Ints) -> pa.Array:
        owners: list[Ints] = []
        numbers: list[Ints] = []
        blobs: list[pa.Array] = []
        names: list[pa.Array] = []
        for i in range(objects.type.num_fields):
            name = objects.type.field(i).name
            found = self.rebuild(objects.field(i), rows)
            owner = np.flatnonzero(read_validity(found))
            number = self._names.find(name, rows[owner])
            if (number < 0).any():
                raise CorruptFile("a VARIANT", f"the metadata of a row lacks the name {name!r}")
            owners.append(owner)
            numbers.append(number)
            blobs.append(found.take(pa.array(owner)))
            names.append(pa.array([name], pa.large_string()).take(pa.array(np.zeros(len(owner), np.int64))))
        others = np.flatnonzero(read_validity(rest))
        if len(others):
            column, nodes, owner = self._list_members(rest, others, rows)
            owners.append(others[owner])
            blobs.append(column.raw(nodes))
            metadata = column.names.metadata[nodes.rows]
            numbers.append(nodes.names - column.names.firsts[metadata])
            names.append(column.names.texts.take(pa.array(nodes.names)))
        return _join_members(len(objects), owners, numbers, blobs, names)

    def _list_members(self, rest: pa.Array, others: Ints, rows: Ints) -> tuple[VariantColumn, Nodes, Ints]:
        """Return the members of the objects in `value`, and the places of their owners in `others`."""
        metadata = self._metadata.take(pa.array(rows[others]))
        column = VariantColumn(build_variants(rest.take(pa.array(others)), metadata))
        roots = column.roots()
        basic, _ = column.headers(roots)
        if (basic != OBJECT).any():
            raise CorruptFile("a VARIANT", "a value beside the members of an object is not an object")
        counts, nodes = column.members(roots)
        return column, nodes, np.repeat(np.arange(len(others)), counts)


def _join_members(
    length: int, owners: list[Ints], numbers: list[Ints], blobs: list[pa.Array], names: list[pa.Array]
) -> pa.Array:
    """Return objects of members that are given in several parts."""
    owner = np.concatenate([np.zeros(0, np.int64), *owners])
    order = np.argsort(owner, kind="stable")
    owner = owner[order]
    number = np.concatenate([np.zeros(0, np.int64), *numbers])[order]
    members = pa.concat_arrays([pa.array([], pa.large_binary()), *blobs]).take(pa.array(order))
    texts = pa.concat_arrays([pa.array([], pa.large_string()), *names]).take(pa.array(order))
    rank = rank_names(texts)
    by_name = np.lexsort((rank, owner))
    if ((owner[by_name][1:] == owner[by_name][:-1]) & (rank[by_name][1:] == rank[by_name][:-1])).any():
        raise CorruptFile("a VARIANT", "an object has a member twice")
    counts = np.bincount(owner, minlength=length)
    return build_containers(counts, members, np.ones(length, np.bool_), number, by_name)


def rank_names(texts: pa.Array) -> Ints:
    """Return numbers that sort names by their bytes; equal names have equal numbers."""
    encoded = texts.dictionary_encode()
    distinct = [each.encode() for each in encoded.dictionary.to_pylist()]
    order = sorted(range(len(distinct)), key=distinct.__getitem__)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    codes = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
    return ranks[codes] if len(codes) else codes


def rebuild_within(array: pa.Array, kind: t.DataType) -> pa.Array:
    """Return a column of a file with its shredded variants rebuilt, at any depth."""
    if isinstance(kind, t.VariantType):
        return rebuild(array)
    if not t.has_type(kind, t.VariantType):
        return array
    nulls = array.is_null() if array.null_count else None
    if isinstance(kind, t.RowType):
        given = {array.type.field(i).name: array.field(i) for i in range(array.type.num_fields)}
        fields = [each for each in kind.fields if each.name in given]
        members = [rebuild_within(given[each.name], each.type) for each in fields]
        return pa.StructArray.from_arrays(members, [each.name for each in fields], mask=nulls)
    if isinstance(kind, t.MapType):
        lists = array.cast(pa.list_(pa.struct([array.type.key_field.with_nullable(True), array.type.item_field])))
        entries = lists.flatten()
        item = rebuild_within(entries.field(1), kind.value)
        offsets = _count_offsets(lists)
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), entries.field(0), item, mask=nulls)
    assert isinstance(kind, t.ArrayType)
    values = rebuild_within(array.flatten(), kind.element)
    return pa.ListArray.from_arrays(pa.array(_count_offsets(array), pa.int32()), values, mask=nulls)


def _count_offsets(lists: pa.Array) -> Ints:
    lengths = lists.value_lengths().fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(lengths)])


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
MAX_EXACT_DOUBLE = 2.0**53
"""The number up to which DOUBLE represents all integers exactly."""
MIN_DAY, MAX_DAY, DAY_MICROS = -719_162, 2_932_896, 86_400_000_000
"""The days of the years 1 to 9999, counted from 1970."""
NULL_VALUE = b"\0"
"""The bytes of the null of JSON."""
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
        width: the maximum number of types in it. depth: the deepest object or array that is looked into.
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

    Raises `InvalidArgument`: it is not the JSON of a ROW. `Unsupported`: an unknown type.
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


# --- parts: values at a path that have a column of their own ---


class PartLeaves(NamedTuple):
    """The leaf columns of a file, by dotted names, that determine a part of a column's variants."""

    typed: str
    kind: pa.DataType
    """The type of the leaf `typed`, which has the values of the part."""
    others: tuple[str, ...]
    """Leaves that hold values as bytes: those of the part, and of the objects that contain it."""


def find_part_leaves(name: str, stored: pa.DataType, path: Sequence[str | int]) -> PartLeaves | None:
    """Return the leaves for a path in a column of this Arrow type; None if no column holds the part."""
    others: list[str] = []
    for step in (*path, None):
        members = {each.name: each.type for each in stored} if pa.types.is_struct(stored) else {}
        if TYPED not in members:
            return None
        others += [f"{name}.{VALUE}"] if VALUE in members else []
        name, stored = f"{name}.{TYPED}", members[TYPED]
        if step is None:
            break
        if not isinstance(step, str) or "." in step or not pa.types.is_struct(stored):
            return None
        if (at := stored.get_field_index(step)) < 0:
            return None
        name, stored = f"{name}.{step}", stored.field(at).type
    return None if pa.types.is_nested(stored) else PartLeaves(name, stored, tuple(others))


def decide_part(group: pa.Array, path: Sequence[str | int], kind: t.DataType) -> tuple[pa.Array, Bools] | None:
    """Return a part of a shredded column, cast to `kind`, and a mask of the rows that need the whole variant.

    A value is the result of casting the part's text to `kind`, null if there is no part. `group` needs only the leaves
    of `find_part_leaves`, without leaves of bytes that are all null. Returns None if all rows need the whole variant.
    """
    present, undecided = np.asarray(read_validity(group), np.bool_), np.zeros(len(group), np.bool_)
    for step in (*path, None):
        members = {group.type.field(i).name: group.field(i) for i in range(group.type.num_fields)}
        typed = members[TYPED]
        is_typed = present & read_validity(typed)
        if VALUE in members:
            undecided |= present & ~is_typed & _holds_value(members[VALUE])
        present = is_typed
        group = typed if step is None else typed.field(step)
    found = convert_part(_keep(group, present), kind)
    return None if found is None else (found[0], undecided | found[1])


def _holds_value(blobs: pa.Array) -> Bools:
    """Return whether there is a value other than the null of JSON."""
    import pyarrow.compute as pc

    blobs = blobs.cast(pa.large_binary())
    held = pc.fill_null(pc.not_equal(blobs, NULL_VALUE), False)
    return np.asarray(held.to_numpy(zero_copy_only=False), np.bool_)


def _keep(array: pa.Array, kept: Bools) -> pa.Array:
    import pyarrow.compute as pc

    return array if bool(kept.all()) else pc.if_else(pa.array(kept), array, pa.scalar(None, array.type))


def convert_part(values: pa.Array, kind: t.DataType) -> tuple[pa.Array, Bools] | None:
    """Convert values of a typed column as a cast of their text does; also return a mask of the values left out.

    Conversions keep the order of values. Returns None if all values need the cast of their text.
    """
    stored, target = values.type, kind.arrow()
    here = read_validity(values)
    if isinstance(kind, t.VarCharType) and (pa.types.is_string(stored) or pa.types.is_large_string(stored)):
        return values.cast(target), np.zeros(len(values), np.bool_)
    if isinstance(kind, t.BooleanType) and pa.types.is_boolean(stored):
        return values, np.zeros(len(values), np.bool_)
    if isinstance(kind, (t.DateType, t.TimestampType)) and stored == target:
        unit = 1 if isinstance(kind, t.DateType) else DAY_MICROS
        numbers = values.cast(pa.int32() if unit == 1 else pa.int64()).fill_null(0).to_numpy().astype(np.int64)
        fits = (numbers >= MIN_DAY * unit) & (numbers < (MAX_DAY + 1) * unit)
        return _keep(values, fits), here & ~fits
    if isinstance(kind, (t.FloatType, t.DoubleType)) and stored == target:
        fits = np.isfinite(values.fill_null(0).to_numpy())
        return _keep(values, fits), here & ~fits
    return _convert_numbers(values, kind, here)


def _convert_numbers(values: pa.Array, kind: t.DataType, here: Bools) -> tuple[pa.Array, Bools] | None:
    stored = values.type
    if pa.types.is_integer(stored):
        unscaled, scale = values.cast(pa.int64()).fill_null(0).to_numpy(), 0
    elif pa.types.is_decimal128(stored) and stored.precision <= MAX_LONG_DIGITS:
        low = np.frombuffer(values.buffers()[1], "<i8")[2 * values.offset : 2 * (values.offset + len(values)) : 2]
        unscaled, scale = np.where(here, low, 0), stored.scale
    else:
        return None
    factor = 10**scale
    if isinstance(kind, t.INTEGER_TYPES):
        bits = kind.arrow().bit_width - 1
        numbers = np.sign(unscaled) * (np.abs(unscaled) // factor) if scale else unscaled
        fits = (numbers >= -(2**bits)) & (numbers <= 2**bits - 1)
        made = pa.array(np.where(fits, numbers, 0)).cast(kind.arrow())
    elif isinstance(kind, t.DoubleType):
        fits = np.abs(unscaled.astype(np.float64)) <= MAX_EXACT_DOUBLE  # and so a division rounds once
        made = pa.array(unscaled / float(factor))
    elif isinstance(kind, t.DecimalType) and kind.precision <= MAX_LONG_DIGITS and kind.scale >= scale:
        fits = np.abs(unscaled.astype(np.float64)) < 10.0 ** (kind.precision - kind.scale + scale)
        made = _keep(values, fits)
        made = made if pa.types.is_decimal(stored) else made.cast(pa.int64()).cast(pa.decimal128(19, 0))
        made = made.cast(pa.decimal256(76, kind.scale)).cast(kind.arrow())
    else:
        return None
    return _keep(made, fits & here), here & ~fits
