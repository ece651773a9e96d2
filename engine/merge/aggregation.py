"""aggregation: every column outside the primary key has a function, last_non_null_value unless options name another."""

from __future__ import annotations

from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.calls import (
    aggregate_call,
    check_functions_known,
    check_retraction,
    function_of,
)
from morrow.engine.merge.field_options import FieldOptions
from morrow.engine.merge.ordering import check_sequence_fields
from morrow.engine.merge.spec import AggregateCall, ColumnMerge, MergeSpec, OnDelete, Rule
from morrow.engine.options import TableOptions
from morrow.engine.options.declared.merging import AGGREGATION_REMOVE_RECORD_ON_DELETE

DEFAULT_FUNCTION = "last_non_null_value"
SEQUENCE_FUNCTION = "last_value"
"""The function of the columns of ``sequence.field``: the newest version's value, null or not."""


def aggregation(schema: TableSchema, options: TableOptions, where: str) -> MergeSpec:
    """Describes the merge of an aggregation table.

    ``ignore-delete`` drops retractions when rows are written; retractions in files still retract.

    Raises:
        Unsupported: an aggregate function that Morrow does not know.
        InvalidArgument: functions that do not fit their columns, or options that contradict each other.
    """
    check_sequence_fields(schema, options, where)
    check_functions_known(schema, options, where)
    views = {field.name: FieldOptions(field, options.given) for field in schema.fields}
    for name in schema.primary_keys:
        check_retraction(views[name])
    removes = options.given.get(AGGREGATION_REMOVE_RECORD_ON_DELETE)
    return MergeSpec(
        "aggregation",
        Rule.AGGREGATE,
        schema.trimmed_primary_keys,
        options.sequence_fields,
        options.sequence_descending,
        columns=tuple(
            ColumnMerge(name, _call(view, name in options.sequence_fields))
            for name, view in views.items()
            if name not in schema.primary_keys
        ),
        on_delete=OnDelete.REMOVE_RECORD if removes else OnDelete.RETRACT,
        updatable=False,
        undeletable=None
        if removes
        else "overwrite the table with the rows that stay, or make another table with "
        f"{AGGREGATION_REMOVE_RECORD_ON_DELETE.key}",
    )


def _call(options: FieldOptions, is_sequence: bool) -> AggregateCall:
    if is_sequence:
        return aggregate_call(SEQUENCE_FUNCTION, options)
    name = function_of(options)
    return aggregate_call(DEFAULT_FUNCTION if name is None else name, options)
