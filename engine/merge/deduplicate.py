"""deduplicate: the newest version of a key is its row; no row when that is a retraction."""

from __future__ import annotations

from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.ordering import check_sequence_fields
from morrow.engine.merge.spec import MergeSpec, Rule
from morrow.engine.options import TableOptions


def deduplicate(schema: TableSchema, options: TableOptions, where: str) -> MergeSpec:
    """Describes the merge of a deduplicate table. Raises `InvalidArgument` for a sequence field that orders nothing."""
    check_sequence_fields(schema, options, where)
    return MergeSpec(
        "deduplicate",
        Rule.NEWEST,
        schema.trimmed_primary_keys,
        options.sequence_fields,
        options.sequence_descending,
        options.ignore_delete,
    )
