"""Changes of rows of append tables that Spark has derived from one state: rows deleted by their places, others added.

The rows are computed once, by executors, which write the new ones. The driver gets the places of deleted rows, eight
bytes each, and makes deletion vectors, or files with the other rows of the files they lie in; it commits all of it at
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import FILE_PATH, KIND, ROW_INDEX
from morrow.spark.reading.expressions import quoted
from morrow.spark.writing.job import written
from morrow.writers.append.row_level import RowChanges
from morrow.writers.append.stored import check_rewritable
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER
from morrow.writers.commit.premise import Premise
from morrow.writers.history.expiry.automatic import maintained
from morrow.writers.operations.committing import commit_once
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DELETING, ADDING = (1, 2), (2, 3)
"""Of Spark's row operations (deleted, updated, inserted): those of rows that go, and of rows that come."""


def change_places(
    rows: DataFrame, target: WriteTarget, premise: Premise, properties: Mapping[str, str]
) -> Snapshot | None:
    """Commits changed rows: the operation (INT), columns of the table, and `FILE_PATH` and `ROW_INDEX` of old rows.

    Raises:
        Unsupported: a table whose rows have ids. CommitConflict: others have changed rows of the premise.
        Others: as `morrow.spark.writing.job.written`.
    """
    from pyspark.sql import functions

    check_rewritable(target)
    held = rows.toDF(KIND, *rows.columns[1:]).localCheckpoint()  # what is deleted and what is added are of one run
    operation = functions.col(KIND)
    gone = cast("Any", held.where(operation.isin(*DELETING)).select(FILE_PATH, ROW_INDEX)).toArrow()
    names = [name for name in target.schema.by_name if name in held.columns]
    added = []
    if len(names) == len(target.schema.by_name):  # a DELETE has the places alone
        added = written(held.where(operation.isin(*ADDING)).select(*map(quoted, names)), target, None, adds=True)
    commits = maintained(target)
    try:
        with RowChanges(target, premise.read) as changes:
            changes.delete_at(_by_file(cast("pl.DataFrame", pl.from_arrow(gone))), premise.filter)
            messages = [*changes.messages(), *added]
    except BaseException:
        commits.abort(added)
        raise
    return commit_once(commits, messages, BATCH_COMMIT_IDENTIFIER, properties=properties, premise=premise)


def _by_file(places: pl.DataFrame) -> dict[str, np.ndarray]:
    parts = places.partition_by(FILE_PATH, as_dict=True)
    return {str(path): part[ROW_INDEX].to_numpy() for (path,), part in parts.items()}
