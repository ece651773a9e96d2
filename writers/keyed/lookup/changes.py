"""The updates that a changelog leaves out because they change nothing."""

from __future__ import annotations

from morrow.readers.execution.changelog import Comparison
from morrow.writers.target import WriteTarget


def comparison_of(target: WriteTarget) -> Comparison | None:
    """Returns ``changelog-producer.row-deduplicate`` and its ignored fields; None where all updates are reported."""
    if not target.write.changelog_row_deduplicate:
        return None
    ignored = target.write.changelog_ignored_fields
    return Comparison(tuple(field for field in target.schema.fields if field.name not in ignored))
