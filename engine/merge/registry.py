"""The registry of merge engines, built in or registered by other packages.

To add an engine: put a `MergeEngine` in `BUILT_IN` here, or in an entry point ``morrow.merge_engines`` of another
package; there the function `MergeEngine.describe` alone suffices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from morrow.engine.errors import Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.aggregation import aggregation
from morrow.engine.merge.deduplicate import deduplicate
from morrow.engine.merge.field_options import check_field_names
from morrow.engine.merge.first_row import check_first_row, first_row
from morrow.engine.merge.partial_update import check_partial_update, partial_update
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.options import TableOptions
from morrow.engine.options.kinds import MERGE_ENGINE_PLUGINS
from morrow.engine.plugins import plugin
from morrow.engine.values import replace

Describe = Callable[[TableSchema, TableOptions, str], MergeSpec]
Check = Callable[[TableSchema, TableOptions, str], None]


def _takes_all(schema: TableSchema, options: TableOptions, where: str) -> None:
    """Accepts every table."""


class MergeEngine(msgspec.Struct, frozen=True):
    """A merge engine: the description of a table's merge, and its rules for tables that are created or changed.

    Both take the schema, its options and the table's place for messages, and raise `MorrowError`. `describe` is called
    for tables with a primary key; `check` for all whose options name the engine, before creation or change.
    """

    describe: Describe
    check: Check = _takes_all


BUILT_IN: Mapping[str, MergeEngine] = {
    "deduplicate": MergeEngine(deduplicate),
    "first-row": MergeEngine(first_row, check_first_row),
    "partial-update": MergeEngine(partial_update, check_partial_update),
    "aggregation": MergeEngine(aggregation),
}


def merge_spec(schema: TableSchema, options: TableOptions, *, where: str) -> MergeSpec | None:
    """Returns the merge of a primary-key table, None for append tables.

    Raises:
        Unsupported: a merge engine, aggregate function or sequence column that Morrow does not read; never read as
            another one.
        InvalidArgument: options that do not fit the columns or contradict each other.
    """
    engine = _engine(options, where)
    if not schema.primary_keys:
        return None
    check_field_names(schema, options.raw, where)
    spec = engine.describe(schema, options, where)
    return replace(
        spec,
        looks_up=spec.looks_up or (spec.folds and options.looks_up),
        hides_level_zero=spec.hides_level_zero or options.deletion_vectors,
    )


def check_merge(schema: TableSchema, options: TableOptions, *, where: str) -> None:
    """Checks the merge of a table that is about to be created or changed.

    Raises:
        Unsupported, InvalidArgument: as `merge_spec`, and the engine's further rules for new tables.
    """
    _engine(options, where).check(schema, options, where)
    merge_spec(schema, options, where=where)


def _engine(options: TableOptions, where: str) -> MergeEngine:
    built_in = BUILT_IN.get(options.merge_engine)
    if built_in is not None:
        return built_in
    found = plugin(MERGE_ENGINE_PLUGINS, options.merge_engine)
    if found is None:
        raise Unsupported(
            f"the merge engine {options.merge_engine!r}",
            where=where,
            hint=f"Morrow reads {', '.join(BUILT_IN)}; it will not read this table as one of them",
        )
    return found if isinstance(found, MergeEngine) else MergeEngine(found)
