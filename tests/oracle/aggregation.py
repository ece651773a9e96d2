"""`aggregation`: every column has a function, `last_non_null_value` unless the options say otherwise.

Fields of ``sequence.field`` take the last value, null or not. With ``aggregation.remove-record-on-delete`` a ``-D``
restarts the row with its own values, and the key is deleted unless a later record follows; otherwise the functions
handle retractions. ``ignore-delete`` is for writers: records that have reached a file are merged.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.columns import aggregator_of, function_of, restarted
from tests.oracle.records import Record, Rules


def fold_aggregation(records: Sequence[Record], names: Sequence[str], rules: Rules) -> Record:
    functions = [aggregator_of(aggregate_function(name, rules), name, rules) for name in names]
    row: list[object] = [None] * len(names)
    removed = False
    for record in records:
        removed = rules.flag("aggregation.remove-record-on-delete") and record.kind == "-D"
        if removed:
            row = restarted(record.row, rules)
            continue
        for i, (function, value) in enumerate(zip(functions, record.row, strict=True)):
            merge = function.retract if record.retracts else function.agg
            row[i] = merge(row[i], value)
    newest = records[-1]
    return Record(newest.key, newest.sequence, "-D" if removed else "+I", tuple(row))


def aggregate_function(name: str, rules: Rules) -> str:
    if name in rules.sequence_fields:
        return "last_value"
    if name in rules.primary_keys:
        return "primary-key"
    return function_of(name, rules) or "last_non_null_value"
