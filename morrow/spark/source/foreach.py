"""`morrow.spark.sink`: streams written batch by batch as by `morrow.spark.write`, shuffled, to tables of all kinds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from morrow.engine.errors import InvalidArgument
from morrow.engine.io.secrets import StorageOptions
from morrow.spark.source.plain import QUERY_PROPERTY
from morrow.spark.writing.evolving import Evolution
from morrow.spark.writing.write import Create, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MODES = ("append", "overwrite")


@dataclass(frozen=True)
class Sink:
    """The result of `sink`: a function of the rows of a batch and the batch's number."""

    path: str
    mode: Literal["append", "overwrite"]
    kinds: str | None
    commit_user: str | None
    create: Create | None
    branch: str | None
    storage_options: Mapping[str, str] | None = field(repr=False)
    merge_schema: bool | Evolution = False

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Writes the batch, unless it was written before. Raises as `morrow.spark.write`."""
        write(
            batch,
            self.path,
            self.mode,
            dynamic=False if self.mode == "overwrite" else None,
            kinds=self.kinds,
            commit_user=self.commit_user or _query_of(batch),
            commit_identifier=batch_id,
            create=self.create,
            merge_schema=self.merge_schema,
            branch=self.branch,
            storage_options=self.storage_options,
        )


def sink(
    path: str | os.PathLike[str],
    mode: Literal["append", "overwrite"] = "append",
    *,
    kinds: str | None = None,
    commit_user: str | None = None,
    create: Create | None = None,
    merge_schema: bool | Evolution = False,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Sink:
    """Returns the function for ``writeStream.foreachBatch`` that writes each batch to the table at `path` exactly once.

        orders.writeStream.foreachBatch(morrow.spark.sink("warehouse/db.db/copy"))
            .option("checkpointLocation", "...").start()

    Args:
        mode: ``append`` adds each batch (with a primary key: upserts it, which also suits the output mode ``update``);
            ``overwrite`` replaces all rows by it, as the output mode ``complete`` needs.
        commit_user: the commit user that numbers the batches; None: the id of the query, which belongs to its
            checkpoint. Use a name of your own with one checkpoint only: batches of another checkpoint with numbers that
            this user has committed would count as repeated.
        kinds, create, merge_schema, branch, storage_options: as for `morrow.spark.write`.

    Raises:
        InvalidArgument: an unknown mode; when a batch is written: no `commit_user` where Spark does not tell the query
            (Spark Connect). Others as `morrow.spark.write`.
    """
    if mode not in MODES:
        raise InvalidArgument(f"mode={mode!r}; it is {' or '.join(MODES)}")
    options = None if storage_options is None else StorageOptions(storage_options, os.fspath(path), lent=True)
    return Sink(os.fspath(path), mode, kinds, commit_user, create, branch, options, merge_schema)


def _query_of(batch: DataFrame) -> str:
    from pyspark.errors import PySparkException

    try:
        query = batch.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY)
    except PySparkException:  # Spark Connect has no context
        query = None
    if query is None:
        raise InvalidArgument("Spark does not tell which query this batch is of; name one: sink(..., commit_user=...)")
    return str(query)
