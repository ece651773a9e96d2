"""The merge of a table as SQL for DuckDB: for reading, for running by hand, and for comparison with the fold in tests.

The input is a relation of versions, any number for each key: the table's columns, ``_SEQUENCE_NUMBER`` (BIGINT) and
``_VALUE_KIND`` (TINYINT: 0 +I, 1 -U, 2 +U, 3 -D). The result has the table's columns and one row for each key that
exists. Reads do not run this SQL: see `morrow.readers.merges`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.merge.spec import MergeSpec, Rule
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.merges.sql.choosing import deduplicate, first_row
from morrow.readers.merges.sql.folding import aggregation, partial_update
from morrow.readers.merges.sql.table import MergeQuery, Table
from morrow.readers.merges.version_masks import is_folded

__all__ = ["RULES", "MergeQuery", "merge_query", "merge_sql", "merge_text", "runnable"]

HEADING = """Merge of the keys that have several versions, as SQL for DuckDB over a table `versions` of their rows.
Morrow runs the same merge as Polars expressions, one round for each version of a key."""

RULES: Mapping[Rule, Callable[[MergeSpec, Table], MergeQuery]] = {
    Rule.NEWEST: deduplicate,
    Rule.FIRST: first_row,
    Rule.UPDATE: partial_update,
    Rule.AGGREGATE: aggregation,
}


def merge_query(
    spec: MergeSpec,
    fields: Sequence[DataField],
    *,
    relation: str = "versions",
    primary_key: Sequence[str] = (),
    retractions: bool = True,
) -> MergeQuery:
    """Returns the merge as SQL, and the parts of it that DuckDB cannot run.

    Args:
        fields: the key and value columns of the table, in schema order.
        relation: the name of the relation to read, one identifier; it is quoted.
        primary_key: columns that identify rows, where these are more than those of `spec`: deduplicate and first-row
            leave out partition columns, which are the same within a bucket.
        retractions: whether versions may retract; if none may, the SQL is much shorter.

    Raises:
        Unsupported: names that SQL cannot distinguish.
        ColumnNotFound: the merge needs a column that is not among `fields`.
        InvalidArgument: a name that cannot be spelled in SQL.
    """
    return RULES[spec.rule](spec, Table.of(spec, fields, relation, primary_key, retractions))


def merge_sql(
    spec: MergeSpec,
    fields: Sequence[DataField],
    *,
    relation: str = "versions",
    primary_key: Sequence[str] = (),
    retractions: bool = True,
) -> str:
    """Returns the text of `merge_query`. A leading comment says so if DuckDB cannot run it."""
    query = merge_query(spec, fields, relation=relation, primary_key=primary_key, retractions=retractions)
    return query.text


def runnable(spec: MergeSpec, fields: Sequence[DataField], *, retractions: bool = True) -> bool:
    """Returns whether DuckDB can run the SQL of this merge."""
    return merge_query(spec, fields, retractions=retractions).runnable


def merge_text(plan: ScanPlan) -> str:
    """Returns the SQL under a heading; nothing where versions are not combined."""
    merged = [section for section in plan.sections if is_folded(plan, section)]
    if not merged:
        return ""
    assert plan.merge is not None
    retractions = any(file.may_hold_retractions for section in merged for file in section.files)
    try:
        sql = merge_sql(plan.merge, plan.schema.fields, retractions=retractions)
    except Unsupported as error:  # an engine of another package, or names that SQL cannot distinguish
        sql = f"-- {error}"
    return f"{HEADING}\n\n{sql}"
