"""Streams that are written batch by batch, as `morrow.spark.write` writes: shuffled, and to tables of all kinds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from morrow.engine.errors import InvalidArgument
from morrow.spark.source.plain import QUERY_PROPERTY
from morrow.spark.writing import Create, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MODES = ("append", "overwrite")


@dataclass(frozen=True)
class Sink:
    """What `sink` makes: call it with the rows of a batch and the batch's number."""

    path: str
    mode: Literal["append", "overwrite"]
    kinds: str | None
    commit_user: str | None
    create: Create | None
    branch: str | None
    storage_options: Mapping[str, str] | None = field(repr=False)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch, unless it was before. Raises as `morrow.spark.write`."""
        write(
            batch,
            self.path,
            self.mode,
            dynamic=False if self.mode == "overwrite" else None,
            kinds=self.kinds,
            commit_user=self.commit_user or _query_of(batch),
            commit_identifier=batch_id,
            create=self.create,
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
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Sink:
    """What ``writeStream.foreachBatch`` takes to write a stream to the table at `path`, each batch exactly once.

        orders.writeStream.foreachBatch(morrow.spark.sink("warehouse/db.db/copy"))
            .option("checkpointLocation", "...").start()

    Args:
        mode: ``append`` adds each batch (upserts it, where there is a primary key, which also suits the output mode
            ``update``); ``overwrite`` puts it in place of all rows, as the output mode ``complete`` wants it.
        commit_user: under which batches are numbered; None: the id of the query, which belongs to its checkpoint. A
            name of your own must be used with one checkpoint only: of another one, batches whose numbers this user has
            committed would be taken for repeated ones.
        kinds, create, branch, storage_options: as for `morrow.spark.write`.

    Raises:
        InvalidArgument: a mode that is none; when a batch is written also no `commit_user` where Spark does not tell
            which query it is of (Spark Connect). Others as `morrow.spark.write`.
    """
    if mode not in MODES:
        raise InvalidArgument(f"mode={mode!r}; it is {' or '.join(MODES)}")
    return Sink(os.fspath(path), mode, kinds, commit_user, create, branch, storage_options)


def _query_of(batch: DataFrame) -> str:
    from pyspark.errors import PySparkException

    try:
        query = batch.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY)
    except PySparkException:  # Spark Connect has no context
        query = None
    if query is None:
        raise InvalidArgument("Spark does not tell which query this batch is of; name one: sink(..., commit_user=...)")
    return str(query)
