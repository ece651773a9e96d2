"""first-row: compaction keeps the first version; above level 0 each key has one row, so reads merge nothing."""

from __future__ import annotations

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.spec import MergeSpec, Rule
from morrow.engine.options import TableOptions
from morrow.engine.options.declared.merging import CHANGELOG_PRODUCER, DELETION_VECTORS_ENABLED, SEQUENCE_FIELD
from morrow.engine.options.words import ChangelogProducer

CHANGELOG_PRODUCERS = (ChangelogProducer.NONE, ChangelogProducer.LOOKUP)


def first_row(schema: TableSchema, options: TableOptions, where: str) -> MergeSpec:
    """Describes the merge of a first-row table. Raises `InvalidArgument` for options against it, as Paimon does."""
    check_first_row(schema, options, where)
    return MergeSpec(
        "first-row",
        Rule.FIRST,
        schema.trimmed_primary_keys,
        ignore_delete=options.ignore_delete,
        hides_level_zero=True,
        updatable=False,
        undeletable="drop whole partitions, or overwrite",
        refused_retractions="set ignore-delete to leave them out",
    )


def check_first_row(_schema: TableSchema, options: TableOptions, where: str) -> None:
    """Raises `InvalidArgument` for options that contradict the engine, also for append tables on creation."""
    if options.sequence_fields:
        raise InvalidArgument(f"{where}: merge-engine first-row does not go with the option {SEQUENCE_FIELD}")
    if options.deletion_vectors:
        raise InvalidArgument(
            f"{where}: merge-engine first-row does not go with {DELETION_VECTORS_ENABLED}: no row is ever replaced"
        )
    producer = options.changelog_producer
    if producer not in CHANGELOG_PRODUCERS:
        raise InvalidArgument(
            f"{where}: merge-engine first-row does not go with {CHANGELOG_PRODUCER} = {producer.value!r}; "
            f"it takes {' or '.join(CHANGELOG_PRODUCERS)}"
        )
