"""Aggregate functions as descriptions: their names, the columns they accept, the options they read.

The computation of a function is in the readers. Another package adds one by the entry point
``morrow.aggregate_functions``: an object whose `spec` is a `FunctionSpec`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from morrow.engine.merge.field_options import FieldOptions
from morrow.engine.merge.spec import AggregateCall
from morrow.engine.options.declared import columns
from morrow.engine.options.declaring import ColumnOption
from morrow.engine.options.kinds import AGGREGATE_FUNCTION_PLUGINS
from morrow.engine.plugins import plugin
from morrow.engine.values import replace

NUMERIC = (TinyIntType, SmallIntType, IntType, BigIntType, FloatType, DoubleType, DecimalType)
TEXT = (CharType, VarCharType)
TEMPORAL = (DateType, TimeType, TimestampType, LocalZonedTimestampType)
ORDERED = (*NUMERIC, *TEXT, *TEMPORAL, BinaryType, VarBinaryType)
"""Types that Paimon's min and max compare: BOOLEAN is not among them, unlike in sequence groups."""

LEAST_KEYTIME_MEMBERS = 2
"""The least number of members of a keytime row: a value and its time."""

Accepts = Callable[[DataType], bool]
ReadOptions = Callable[[AggregateCall, FieldOptions], AggregateCall]


def all_options(call: AggregateCall, options: FieldOptions) -> AggregateCall:
    """Passes every option of the column as text, for functions of other packages."""
    return replace(call, options=options.all())


def no_options(call: AggregateCall, _: FieldOptions) -> AggregateCall:
    """Ignores the options: those that a function does not know mean nothing to it, as in Paimon."""
    return call


class FunctionSpec(msgspec.Struct, frozen=True):
    """An aggregate function.

    `accepts` tells whether it folds columns of a type, `type_names` names those types in errors. `retracts`: it can
    retract a value. `read_options` completes a call from the column's options; it raises `InvalidArgument` for options
    that do not fit the column, whose type `accepts` has already checked.
    """

    name: str
    accepts: Accepts
    type_names: str
    retracts: bool = False
    read_options: ReadOptions = all_options


def _any_type(_: DataType) -> bool:
    return True


def _of(*kinds: type[DataType]) -> Accepts:
    return lambda kind: isinstance(kind, kinds)


def _unbounded_text(kind: DataType) -> bool:
    return isinstance(kind, VarCharType) and kind.length == VarCharType().length


def _array_of_rows(kind: DataType) -> bool:
    return isinstance(kind, ArrayType) and isinstance(kind.element, RowType)


def _map_to_rows(kind: DataType) -> bool:
    value = kind.value if isinstance(kind, MapType) else None
    return isinstance(value, RowType) and len(value.fields) >= LEAST_KEYTIME_MEMBERS


def _distinct(call: AggregateCall, options: FieldOptions) -> AggregateCall:
    return replace(call, distinct=options.get(columns.DISTINCT))


def _listagg(call: AggregateCall, options: FieldOptions) -> AggregateCall:
    return replace(_distinct(call, options), delimiter=options.get(columns.LIST_AGG_DELIMITER))


def _nested_key(call: AggregateCall, options: FieldOptions) -> AggregateCall:
    kind = options.column.type
    assert isinstance(kind, ArrayType) and isinstance(kind.element, RowType)
    members = [field.name for field in kind.element.fields]
    names = options.names(columns.NESTED_KEY)
    for name in names:
        if name not in members:
            raise options.invalid(
                columns.NESTED_KEY, f"but {name!r} is no member of the rows; they have {', '.join(members)}"
            )
    newer: ColumnOption[Any]
    for newer in (columns.NESTED_KEY_NULL_STRATEGY, columns.NESTED_SEQUENCE_FIELD):
        if options.get(newer) != newer.default:
            raise Unsupported(f"the option {options.of(newer)}", where=options.where, hint="it changes the merged rows")
    return replace(call, nested_key=names)


def _nested_update(call: AggregateCall, options: FieldOptions) -> AggregateCall:
    return replace(_nested_key(call, options), count_limit=options.get(columns.COUNT_LIMIT))


def _nested_partial_update(call: AggregateCall, options: FieldOptions) -> AggregateCall:
    if not options.names(columns.NESTED_KEY):
        raise InvalidArgument(
            f"{options.where}: the aggregate function {call.function} of column {options.column.name!r} needs the "
            f"option {options.of(columns.NESTED_KEY)}: the members that tell which rows are the same"
        )
    return _nested_key(call, options)


def _keytime(call: AggregateCall, options: FieldOptions) -> AggregateCall:
    kind = options.column.type
    assert isinstance(kind, MapType) and isinstance(kind.value, RowType)
    members = {field.name: field.type for field in kind.value.fields}
    name = options.get(columns.TS_FIELD)
    if name is None:
        name = kind.value.fields[-1].name
    elif name not in members:
        raise options.invalid(columns.TS_FIELD, f"which is no member of the map's rows; they have {', '.join(members)}")
    if not isinstance(members[name], TEXT):
        raise InvalidArgument(
            f"{options.where}: the aggregate function {call.function} of column {options.column.name!r} compares times "
            f"as text, and its time {name!r} is {members[name]}; name a STRING member by {options.of(columns.TS_FIELD)}"
        )
    return replace(call, timestamp_field=name)


def _by_name(specs: Iterable[FunctionSpec]) -> Mapping[str, FunctionSpec]:
    return {spec.name: spec for spec in specs}


BUILT_IN: Mapping[str, FunctionSpec] = _by_name(
    (
        FunctionSpec("sum", _of(*NUMERIC), "numeric types", True, no_options),
        FunctionSpec("product", _of(*NUMERIC), "numeric types", True, no_options),
        # Paimon 0.7 and 0.8 had count; later versions do not open such tables.
        FunctionSpec("count", _of(IntType, BigIntType), "INT and BIGINT", True, no_options),
        FunctionSpec("max", _of(*ORDERED), "numbers, text, bytes and times", False, no_options),
        FunctionSpec("min", _of(*ORDERED), "numbers, text, bytes and times", False, no_options),
        FunctionSpec("last_value", _any_type, "every type", True, no_options),
        FunctionSpec("last_non_null_value", _any_type, "every type", True, no_options),
        FunctionSpec("first_value", _any_type, "every type", False, no_options),
        FunctionSpec("first_non_null_value", _any_type, "every type", False, no_options),
        FunctionSpec("listagg", _unbounded_text, "STRING", False, _listagg),
        FunctionSpec("bool_and", _of(BooleanType), "BOOLEAN", False, no_options),
        FunctionSpec("bool_or", _of(BooleanType), "BOOLEAN", False, no_options),
        FunctionSpec("collect", _of(ArrayType), "ARRAY", True, _distinct),
        FunctionSpec("merge_map", _of(MapType), "MAP", True, no_options),
        FunctionSpec("merge_map_with_keytime", _map_to_rows, "MAP to ROW of two or more members", False, _keytime),
        FunctionSpec("nested_update", _array_of_rows, "ARRAY of ROW", True, _nested_update),
        FunctionSpec("nested_partial_update", _array_of_rows, "ARRAY of ROW", False, _nested_partial_update),
        FunctionSpec("rbm32", _of(VarBinaryType), "VARBINARY and BYTES", False, no_options),
        FunctionSpec("rbm64", _of(VarBinaryType), "VARBINARY and BYTES", False, no_options),
        FunctionSpec("hll_sketch", _of(VarBinaryType), "VARBINARY and BYTES", False, no_options),
        FunctionSpec("theta_sketch", _of(VarBinaryType), "VARBINARY and BYTES", False, no_options),
    )
)

ALIASES: Mapping[str, str] = {"first_not_null_value": "first_non_null_value"}


def function_spec(name: str, *, where: str) -> FunctionSpec:
    """Returns the function of this name: a built-in one, else one that an installed package registered.

    Raises:
        Unsupported: no such function; the column is never folded by another one.
    """
    spec = BUILT_IN.get(ALIASES.get(name, name))
    if spec is not None:
        return spec
    registered = plugin(AGGREGATE_FUNCTION_PLUGINS, name)
    if registered is None:
        raise Unsupported(
            f"the aggregate function {name!r}", where=where, hint=f"known functions: {', '.join(sorted(BUILT_IN))}"
        )
    spec = getattr(registered, "spec", None)
    if not isinstance(spec, FunctionSpec) or spec.name != name:
        raise Unsupported(
            f"the aggregate function {name!r}",
            where=where,
            hint=f"its entry point {AGGREGATE_FUNCTION_PLUGINS} has no FunctionSpec of this name",
        )
    return spec
