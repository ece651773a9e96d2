"""DataFrames written to format tables: files by Morrow's tasks, as Java Paimon's own, shown by the driver at the end.

Tasks write below a hidden folder of the table, whatever attempt of them Spark takes in the end; the driver moves the
files of those that were taken to their partitions, and removes the folder.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from morrow.engine.plan.folder_table import FolderTable
from morrow.spark.format_tables.access import FolderAccess, WriteJob
from morrow.spark.format_tables.work import RESULT
from morrow.spark.job.registry import Work
from morrow.spark.job.run import mapped
from morrow.spark.job.wire import decoded
from morrow.spark.types.to_paimon import arrow_schema
from morrow.writers.operations.format_table import NewFile, Replaced, published, target_of
from morrow.writers.rows import incoming

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write(table: FolderTable, rows: DataFrame, replaced: Replaced | None = None) -> None:
    """Writes rows, and removes the files that they replace.

    Raises: as `morrow.writers.operations.format_table.write_rows`. Spark's own errors, when a task failed too often.
    """
    for _ in incoming(target_of(table), arrow_schema(rows.schema).empty_table()):
        pass
    with published(table, replaced) as (staging, written):
        job = WriteJob(FolderAccess.of(table), staging, tuple(rows.columns))
        results = mapped(_by_partition(table, rows), Work.WRITE_FOLDER, job, RESULT).collect()
        error = next((bytes(row.error) for row in results if row.error), None)
        if error is not None:
            raise pickle.loads(error)
        written += [file for row in results for file in decoded(bytes(row.files), list[NewFile])]


def _by_partition(table: FolderTable, rows: DataFrame) -> DataFrame:
    """Returns the rows with numbered columns, those of a partition together as far as its size allows."""
    from pyspark.sql.functions import col

    numbers = [f"c{number}" for number in range(len(rows.columns))]
    numbered = rows.toDF(*numbers)
    keys = [col(numbers[rows.columns.index(key)]) for key in table.schema.partition_keys if key in rows.columns]
    return numbered.hint("rebalance", *keys) if keys else numbered
