"""Engines that choose one version of a key: deduplicate the newest, first-row the oldest."""

from __future__ import annotations

from morrow.engine.merge.spec import MergeSpec
from morrow.readers.merges.sql.statement import Item, Select, comment, statement
from morrow.readers.merges.sql.table import INSERTS, MergeQuery, Table
from morrow.readers.merges.sql.types import holds_reals


def deduplicate(spec: MergeSpec, table: Table) -> MergeQuery:
    """Selects the newest version, unless it is a retraction."""
    newest = _is_first(table, f"row_number() OVER (PARTITION BY {table.key} ORDER BY {table.age(newest_first=True)})")
    keep = [f"AND {INSERTS}"] if table.retractions and not spec.ignore_delete else []
    where = [f"WHERE {INSERTS}"] if table.retractions and spec.ignore_delete else []
    return _choice(table, [*where, "\n  ".join([f"QUALIFY {newest}", *keep])])


def first_row(spec: MergeSpec, table: Table) -> MergeQuery:
    """Selects the oldest version; tables whose retractions are not ignored have none."""
    oldest = _is_first(table, f"row_number() OVER (PARTITION BY {table.key} ORDER BY {table.age()})")
    where = [f"WHERE {INSERTS}" if spec.ignore_delete else f"WHERE {_REFUSE}"] if table.retractions else []
    return _choice(table, [*where, f"QUALIFY {oldest}"])


_REFUSE = f"CASE WHEN {INSERTS} THEN TRUE ELSE error('first-row takes no retractions') END"


def _is_first(table: Table, number: str) -> str:
    """Returns the condition; by `abs` where there are reals: else DuckDB makes it an arg_max, which loses -0.0."""
    return f"abs({number}) = 1" if any(holds_reals(field.type) for field in table.fields) else f"{number} = 1"


def _choice(table: Table, clauses: list[str]) -> MergeQuery:
    text = statement((), Select([Item(column) for column in table.columns], table.relation, clauses))
    return MergeQuery(f"{comment(table.heading)}\n{text}")
