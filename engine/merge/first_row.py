"""first-row: compaction keeps the first version; above level 0 each key has one row, so reads merge nothing."""

from __future__ import annotations

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.ordering import SEQUENCE_FIELD
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.options import TableOptions

CHANGELOG_PRODUCERS = ("none", "lookup")


def first_row(schema: TableSchema, options: TableOptions, where: str) -> MergeSpec:
    """Raises `InvalidArgument` for options that contradict the engine, as Paimon does."""
    if options.sequence_fields:
        raise InvalidArgument(f"{where}: merge-engine first-row does not go with the option {SEQUENCE_FIELD!r}")
    if options.deletion_vectors:
        raise InvalidArgument(
            f"{where}: merge-engine first-row does not go with 'deletion-vectors.enabled': no row is ever replaced"
        )
    producer = options.raw.get("changelog-producer", "none").lower()
    if producer not in CHANGELOG_PRODUCERS:
        raise InvalidArgument(
            f"{where}: merge-engine first-row does not go with 'changelog-producer' = {producer!r}; "
            f"it takes {' or '.join(CHANGELOG_PRODUCERS)}"
        )
    return MergeSpec("first-row", schema.trimmed_primary_keys, ignore_delete=options.ignore_delete)
