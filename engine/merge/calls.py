"""The aggregate function of a column: ``fields.<column>.aggregate-function`` and the default, checked."""

from __future__ import annotations

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.field_options import FieldOptions
from morrow.engine.merge.functions import function_spec
from morrow.engine.merge.spec import AggregateCall
from morrow.engine.options import TableOptions
from morrow.engine.options.declared.columns import AGGREGATE_FUNCTION, IGNORE_RETRACT
from morrow.engine.options.declared.merging import (
    AGGREGATION_REMOVE_RECORD_ON_DELETE,
    FIELDS_DEFAULT_AGGREGATE_FUNCTION,
)


def function_of(options: FieldOptions) -> str | None:
    """Returns the name of the function that options give a column: its own, else the table's default, else None."""
    own = options.get(AGGREGATE_FUNCTION)
    return options.given.get(FIELDS_DEFAULT_AGGREGATE_FUNCTION) if own is None else own


def check_functions_known(schema: TableSchema, options: TableOptions, where: str) -> None:
    """Checks that every function that options name exists, used or not, as Paimon demands.

    Raises:
        Unsupported: a function that Morrow does not know.
    """
    named = {function_of(FieldOptions(field, options.given)) for field in schema.fields}
    for name in sorted(name for name in named if name is not None):
        function_spec(name, where=where)


def check_retraction(options: FieldOptions) -> None:
    """Raises `InvalidArgument` when a column ignores retractions that remove the whole row."""
    if options.get(IGNORE_RETRACT) and options.given.get(AGGREGATION_REMOVE_RECORD_ON_DELETE):
        raise InvalidArgument(
            f"{options.where}: the options {options.of(IGNORE_RETRACT)} and "
            f"{AGGREGATION_REMOVE_RECORD_ON_DELETE} contradict "
            "each other; set one of them"
        )


def aggregate_call(name: str, options: FieldOptions) -> AggregateCall:
    """Returns the function `name` for a column, with the column's options.

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
            f"{column.type}; choose another {options.of(AGGREGATE_FUNCTION)}"
        )
    return spec.read_options(AggregateCall(spec.name, ignore_retract=options.get(IGNORE_RETRACT)), options)
