"""The merge of a plan as SQL, for explain."""

from __future__ import annotations

from morrow.engine.errors import Unsupported
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.merges.version_masks import is_folded

HEADING = """Merge of the keys that have several versions, as SQL for DuckDB over a table `versions` of their rows.
Morrow runs the same merge as Polars expressions, one round for each version of a key."""


def merge_text(plan: ScanPlan) -> str:
    """Returns the SQL under a heading; nothing where versions are not combined."""
    merged = [section for section in plan.sections if is_folded(plan, section)]
    if not merged:
        return ""
    from morrow.readers.merges.sql import merge_sql

    assert plan.merge is not None
    retractions = any(file.may_hold_retractions for section in merged for file in section.files)
    try:
        sql = merge_sql(plan.merge, plan.schema.fields, retractions=retractions)
    except Unsupported as error:  # an engine of another package, or names that SQL cannot distinguish
        sql = f"-- {error}"
    return f"{HEADING}\n\n{sql}"
