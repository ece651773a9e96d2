"""The folds of the merge engines, by rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.format.types import DataField
from morrow.engine.merge.spec import MergeSpec, Rule
from morrow.readers.merges.aggregation import Aggregation
from morrow.readers.merges.fold import Fold
from morrow.readers.merges.partial_update import PartialUpdate
from morrow.readers.merges.versions import Versions

FOLDS: Mapping[Rule, type[Fold]] = {Rule.UPDATE: PartialUpdate, Rule.AGGREGATE: Aggregation}
"""The rules that combine versions."""


def fold(
    spec: MergeSpec, fields: Sequence[DataField], rows: pl.DataFrame, versions: Versions, *, where: str
) -> pl.DataFrame:
    """Merges the versions of every key into one complete row.

    Args:
        fields: the columns to merge; other columns are taken from the newest version that counts.
        rows: the stored rows that the numbers of `versions` refer to. Without a column ``_VALUE_KIND`` all are
        insertions.

    Returns: a row per key, in no particular order: the columns of `rows`, ``_VALUE_KIND`` +I or -D as the last.

    Raises:
        Unsupported: a retraction that the engine or a column's function does not support.
    """
    if spec.rule not in FOLDS:
        raise Unsupported(
            f"the merge engine {spec.engine!r}, which folds by the rule {spec.rule.value!r},",
            where=where,
            hint=f"rules that fold are {', '.join(map(repr, FOLDS))}",
        )
    kinds = rows[VALUE_KIND] if VALUE_KIND in rows.columns else None
    retracts = kinds is not None and bool(((kinds & RETRACT_BIT) != 0).any())
    return FOLDS[spec.rule](spec, fields, retracts=retracts, where=where).run(rows, versions)
