"""aggregation: every column outside the primary key has a function, last_non_null_value unless options name another."""

from __future__ import annotations

from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.calls import (
    REMOVE_RECORD,
    aggregate_call,
    check_functions_known,
    check_retraction,
    function_of,
)
from morrow.engine.merge.field_options import FieldOptions
from morrow.engine.merge.ordering import check_sequence_fields
from morrow.engine.merge.spec import AggregateCall, ColumnMerge, MergeSpec, OnDelete
from morrow.engine.options import TableOptions, flag

DEFAULT_FUNCTION = "last_non_null_value"
SEQUENCE_FUNCTION = "last_value"
"""What the columns of ``sequence.field`` take: the newest version's value, null or not."""


def aggregation(schema: TableSchema, options: TableOptions, where: str) -> MergeSpec:
    """Describe the merge of an aggregation table.

    ``ignore-delete`` keeps retractions out of the files when rows are written; those in files retract all the same.

    Raises:
        Unsupported: an aggregate function that Morrow does not know.
        InvalidArgument: functions that do not fit their columns, or options that contradict each other.
    """
    check_sequence_fields(schema, options, where)
    check_functions_known(schema, options, where)
    views = {field.name: FieldOptions(field, options.raw, where) for field in schema.fields}
    for name in schema.primary_keys:
        check_retraction(views[name])
    return MergeSpec(
        "aggregation",
        schema.trimmed_primary_keys,
        options.sequence_fields,
        options.sequence_descending,
        columns=tuple(
            ColumnMerge(name, _call(view, name in options.sequence_fields))
            for name, view in views.items()
            if name not in schema.primary_keys
        ),
        on_delete=OnDelete.REMOVE_RECORD if flag(options.raw, REMOVE_RECORD, False, where) else OnDelete.RETRACT,
    )


def _call(options: FieldOptions, is_sequence: bool) -> AggregateCall:
    if is_sequence:
        return aggregate_call(SEQUENCE_FUNCTION, options)
    name = function_of(options)
    return aggregate_call(DEFAULT_FUNCTION if name is None else name, options)
