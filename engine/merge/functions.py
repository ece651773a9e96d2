"""Aggregate functions as descriptions: names, accepted columns, options, and the function of each column.

The readers compute the functions. Another package can add one by the entry point ``morrow.aggregate_functions``: an
object whose `spec` is a `FunctionSpec`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.spec import AggregateCall, FieldOptions
from morrow.engine.options import TableOptions
from morrow.engine.options.declarations import AGGREGATE_FUNCTION_PLUGINS, ColumnOption
from morrow.engine.options.declared import merging
from morrow.engine.options.declared.merging import (
    AGGREGATE_FUNCTION,
    AGGREGATION_REMOVE_RECORD_ON_DELETE,
    FIELDS_DEFAULT_AGGREGATE_FUNCTION,
    IGNORE_RETRACT,
)
from morrow.engine.plugins import load_plugin
from morrow.engine.structs import replace

NUMERIC = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.FloatType, t.DoubleType, t.DecimalType)
TEXT = (t.CharType, t.VarCharType)
TEMPORAL = (t.DateType, t.TimeType, t.TimestampType, t.LocalZonedTimestampType)
ORDERED = (*NUMERIC, *TEXT, *TEMPORAL, t.BinaryType, t.VarBinaryType)
"""Types that Paimon's min and max compare. BOOLEAN is not one of them, unlike in sequence groups."""

MIN_KEYTIME_MEMBERS = 2
"""The least number of members of a keytime row: a value and its time."""

Accepts = Callable[[t.DataType], bool]
ReadOptions = Callable[[AggregateCall, FieldOptions], AggregateCall]


def pass_all_options(call: AggregateCall, options: FieldOptions) -> AggregateCall:
    """Pass every option of the column as text, for functions of other packages."""
    return replace(call, options=options.all())


def ignore_options(call: AggregateCall, _: FieldOptions) -> AggregateCall:
    """Ignore the options: a function ignores options it does not know, as in Paimon."""
    return call


class FunctionSpec(msgspec.Struct, frozen=True):
    """An aggregate function.

    `accepts` returns whether it folds columns of a type; `type_names` names those types in errors. `retracts`: it can
    retract a value. `read_options` completes a call from the column's options. It raises `InvalidArgument` for options
    that do not fit the column; `accepts` has already checked the column's type.
    """

    name: str
    accepts: Accepts
    type_names: str
    retracts: bool = False
    read_options: ReadOptions = pass_all_options


def _accept_any_type(_: t.DataType) -> bool:
    return True


def _accept_kinds(*kinds: type[t.DataType]) -> Accepts:
    return lambda kind: isinstance(kind, kinds)


def _is_unbounded_text(kind: t.DataType) -> bool:
    return isinstance(kind, t.VarCharType) and kind.length == t.VarCharType().length


def _is_array_of_rows(kind: t.DataType) -> bool:
    return isinstance(kind, t.ArrayType) and isinstance(kind.element, t.RowType)


def _is_map_to_rows(kind: t.DataType) -> bool:
    value = kind.value if isinstance(kind, t.MapType) else None
    return isinstance(value, t.RowType) and len(value.fields) >= MIN_KEYTIME_MEMBERS


def _read_distinct(call: AggregateCall, options: FieldOptions) -> AggregateCall:
    return replace(call, distinct=options.get(merging.DISTINCT))


def _read_listagg(call: AggregateCall, options: FieldOptions) -> AggregateCall:
    return replace(_read_distinct(call, options), delimiter=options.get(merging.LIST_AGG_DELIMITER))


def _read_nested_key(call: AggregateCall, options: FieldOptions) -> AggregateCall:
    kind = options.column.type
    assert isinstance(kind, t.ArrayType) and isinstance(kind.element, t.RowType)
    members = [field.name for field in kind.element.fields]
    names, sequence = options.names(merging.NESTED_KEY), options.get(merging.NESTED_SEQUENCE_FIELD)
    for option, named in ((merging.NESTED_KEY, names), (merging.NESTED_SEQUENCE_FIELD, sequence)):
        for name in named:
            if name not in members:
                raise options.invalid(
                    option, f"but {name!r} is not a member of the rows, which have {', '.join(members)}"
                )
    nulls = options.get(merging.NESTED_KEY_NULL_STRATEGY)
    newer: ColumnOption[Any]
    for newer in (merging.NESTED_KEY_NULL_STRATEGY, merging.NESTED_SEQUENCE_FIELD):
        if options.get(newer) != newer.default and not names:
            raise options.invalid(newer, f"which needs {options.of(merging.NESTED_KEY)}")
    return replace(call, nested_key=names, nested_sequence=sequence, nested_nulls=nulls)


def _read_nested_update(call: AggregateCall, options: FieldOptions) -> AggregateCall:
    return replace(_read_nested_key(call, options), count_limit=options.get(merging.COUNT_LIMIT))


def _read_nested_partial_update(call: AggregateCall, options: FieldOptions) -> AggregateCall:
    if not options.names(merging.NESTED_KEY):
        raise InvalidArgument(
            f"{options.where}: the aggregate function {call.function} of column {options.column.name!r} needs the "
            f"option {options.of(merging.NESTED_KEY)}: the members that tell which rows are the same"
        )
    return _read_nested_key(call, options)


def _read_keytime(call: AggregateCall, options: FieldOptions) -> AggregateCall:
    kind = options.column.type
    assert isinstance(kind, t.MapType) and isinstance(kind.value, t.RowType)
    members = {field.name: field.type for field in kind.value.fields}
    name = options.get(merging.TS_FIELD)
    if name is None:
        name = kind.value.fields[-1].name
    elif name not in members:
        raise options.invalid(
            merging.TS_FIELD, f"which is not a member of the map's rows; they have {', '.join(members)}"
        )
    if not isinstance(members[name], TEXT):
        raise InvalidArgument(
            f"{options.where}: the aggregate function {call.function} of column {options.column.name!r} compares times "
            f"as text, and its time {name!r} is {members[name]}; name a STRING member by {options.of(merging.TS_FIELD)}"
        )
    return replace(call, timestamp_field=name)


BUILT_IN: Mapping[str, FunctionSpec] = {
    spec.name: spec
    for spec in (
        FunctionSpec("sum", _accept_kinds(*NUMERIC), "numeric types", True, ignore_options),
        FunctionSpec("product", _accept_kinds(*NUMERIC), "numeric types", True, ignore_options),
        # Paimon 0.7 and 0.8 had count; later versions do not open such tables.
        FunctionSpec("count", _accept_kinds(t.IntType, t.BigIntType), "INT and BIGINT", True, ignore_options),
        FunctionSpec("max", _accept_kinds(*ORDERED), "numbers, text, bytes and times", False, ignore_options),
        FunctionSpec("min", _accept_kinds(*ORDERED), "numbers, text, bytes and times", False, ignore_options),
        FunctionSpec("last_value", _accept_any_type, "every type", True, ignore_options),
        FunctionSpec("last_non_null_value", _accept_any_type, "every type", True, ignore_options),
        FunctionSpec("first_value", _accept_any_type, "every type", False, ignore_options),
        FunctionSpec("first_non_null_value", _accept_any_type, "every type", False, ignore_options),
        FunctionSpec("listagg", _is_unbounded_text, "STRING", False, _read_listagg),
        FunctionSpec("bool_and", _accept_kinds(t.BooleanType), "BOOLEAN", False, ignore_options),
        FunctionSpec("bool_or", _accept_kinds(t.BooleanType), "BOOLEAN", False, ignore_options),
        FunctionSpec("collect", _accept_kinds(t.ArrayType), "ARRAY", True, _read_distinct),
        FunctionSpec("merge_map", _accept_kinds(t.MapType), "MAP", True, ignore_options),
        FunctionSpec(
            "merge_map_with_keytime", _is_map_to_rows, "MAP to ROW of two or more members", False, _read_keytime
        ),
        FunctionSpec("nested_update", _is_array_of_rows, "ARRAY of ROW", True, _read_nested_update),
        FunctionSpec("nested_partial_update", _is_array_of_rows, "ARRAY of ROW", False, _read_nested_partial_update),
        FunctionSpec("rbm32", _accept_kinds(t.VarBinaryType), "VARBINARY and BYTES", False, ignore_options),
        FunctionSpec("rbm64", _accept_kinds(t.VarBinaryType), "VARBINARY and BYTES", False, ignore_options),
        FunctionSpec("hll_sketch", _accept_kinds(t.VarBinaryType), "VARBINARY and BYTES", False, ignore_options),
        FunctionSpec("theta_sketch", _accept_kinds(t.VarBinaryType), "VARBINARY and BYTES", False, ignore_options),
    )
}

ALIASES: Mapping[str, str] = {"first_not_null_value": "first_non_null_value"}


def find_function_spec(name: str, *, where: str) -> FunctionSpec:
    """Return the function of this name: a built-in one, or one that an installed package registered.

    Raises `Unsupported`: no such function; another function is never substituted.
    """
    spec = BUILT_IN.get(ALIASES.get(name, name))
    if spec is not None:
        return spec
    registered = load_plugin(AGGREGATE_FUNCTION_PLUGINS, name)
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


def find_function_name(options: FieldOptions) -> str | None:
    """Return the name of the function that options set for a column: its own, else the table's default, else None."""
    own = options.get(AGGREGATE_FUNCTION)
    return options.given.get(FIELDS_DEFAULT_AGGREGATE_FUNCTION) if own is None else own


def check_functions_known(schema: TableSchema, options: TableOptions, where: str) -> None:
    """Check that every function that options name exists, even if unused, as Paimon requires.

    Raises `Unsupported`: a function that Morrow does not know.
    """
    named = {find_function_name(FieldOptions(field, options.given)) for field in schema.fields}
    for name in sorted(name for name in named if name is not None):
        find_function_spec(name, where=where)


def check_retraction(options: FieldOptions) -> None:
    """Raise `InvalidArgument` if a column ignores retractions that remove the whole row."""
    if options.get(IGNORE_RETRACT) and options.given.get(AGGREGATION_REMOVE_RECORD_ON_DELETE):
        raise InvalidArgument(
            f"{options.where}: the options {options.of(IGNORE_RETRACT)} and "
            f"{AGGREGATION_REMOVE_RECORD_ON_DELETE} contradict "
            "each other; set one of them"
        )


def build_aggregate_call(name: str, options: FieldOptions) -> AggregateCall:
    """Return the function `name` for a column, with the column's options.

    Raises:
        Unsupported: no such function.
        InvalidArgument: the column's type or options do not fit the function.
    """
    spec = find_function_spec(name, where=options.where)
    check_retraction(options)
    column = options.column
    if not spec.accepts(column.type):
        raise InvalidArgument(
            f"{options.where}: the aggregate function {name} folds {spec.type_names}, and column {column.name!r} is "
            f"{column.type}; choose another {options.of(AGGREGATE_FUNCTION)}"
        )
    return spec.read_options(AggregateCall(spec.name, ignore_retract=options.get(IGNORE_RETRACT)), options)
