"""Which aggregate function folds a column: ``fields.<column>.aggregate-function`` and the default, checked."""

from __future__ import annotations

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.field_options import (
    AGGREGATE_FUNCTION,
    DEFAULT_AGGREGATE_FUNCTION,
    IGNORE_RETRACT,
    PREFIX,
    FieldOptions,
)
from morrow.engine.merge.functions import function_spec
from morrow.engine.merge.spec import AggregateCall
from morrow.engine.options import TableOptions, flag

DEFAULT_KEY = PREFIX + DEFAULT_AGGREGATE_FUNCTION
REMOVE_RECORD = "aggregation.remove-record-on-delete"


def function_of(options: FieldOptions) -> str | None:
    """The name of the function that options give a column: its own, else the table's default, else none."""
    return options.raw.get(options.key(AGGREGATE_FUNCTION), options.raw.get(DEFAULT_KEY))


def check_functions_known(schema: TableSchema, options: TableOptions, where: str) -> None:
    """Every function that options name must exist, used or not, as Paimon demands.

    Raises:
        Unsupported: a function that Morrow does not know.
    """
    named = {function_of(FieldOptions(field, options.raw, where)) for field in schema.fields}
    for name in sorted(name for name in named if name is not None):
        function_spec(name, where=where)


def check_retraction(options: FieldOptions) -> None:
    """Raises `InvalidArgument` when a column ignores retractions that remove the whole row."""
    if options.flag(IGNORE_RETRACT) and flag(options.raw, REMOVE_RECORD, False, options.where):
        raise InvalidArgument(
            f"{options.where}: the options {options.key(IGNORE_RETRACT)!r} and {REMOVE_RECORD!r} contradict "
            "each other; set one of them"
        )


def aggregate_call(name: str, options: FieldOptions) -> AggregateCall:
    """The function `name` for a column, with the column's options.

    Raises:
        Unsupported: no such function.
        InvalidArgument: the column's type or options do not fit the function.
    """
    spec = function_spec(name, where=options.where)
    check_retraction(options)
    column = options.column
    if not spec.accepts(column.type):
        raise InvalidArgument(
            f"{options.where}: the aggregate function {name} folds {spec.type_names}, and column {column.name!r} is "
            f"{column.type}; choose another {options.key(AGGREGATE_FUNCTION)!r}"
        )
    return spec.read_options(AggregateCall(spec.name, ignore_retract=options.flag(IGNORE_RETRACT)), options)
