"""Finds the merge of a table: its engine by name, built in or registered by another package.

To add an engine: a function from a table's schema and options to a `MergeSpec`, in `BUILT_IN` here or as an entry point
``morrow.merge_engines`` of another package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from morrow.engine.errors import Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.aggregation import aggregation
from morrow.engine.merge.deduplicate import deduplicate
from morrow.engine.merge.field_options import check_field_names
from morrow.engine.merge.first_row import first_row
from morrow.engine.merge.partial_update import partial_update
from morrow.engine.merge.plugins import plugin
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.options import MERGE_ENGINE_PLUGINS, TableOptions

Describe = Callable[[TableSchema, TableOptions, str], MergeSpec]

BUILT_IN: Mapping[str, Describe] = {
    "deduplicate": deduplicate,
    "first-row": first_row,
    "partial-update": partial_update,
    "aggregation": aggregation,
}


def merge_spec(schema: TableSchema, options: TableOptions, *, where: str) -> MergeSpec | None:
    """The merge of a primary-key table, None for append tables.

    Raises:
        Unsupported: a merge engine, aggregate function or sequence column that Morrow does not read; never read as
            another one.
        InvalidArgument: options that do not fit the columns or contradict each other.
    """
    describe = BUILT_IN.get(options.merge_engine) or plugin(MERGE_ENGINE_PLUGINS, options.merge_engine)
    if describe is None:
        raise Unsupported(
            f"the merge engine {options.merge_engine!r}",
            where=where,
            hint=f"Morrow reads {', '.join(BUILT_IN)}; it will not read this table as one of them",
        )
    if not schema.primary_keys:
        return None
    check_field_names(schema, options.raw, where)
    spec: MergeSpec = describe(schema, options, where)
    return replace(spec, looks_up=True) if spec.folds and options.looks_up else spec
