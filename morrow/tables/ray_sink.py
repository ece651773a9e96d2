"""Writes of Ray datasets: tasks write files, and the driver commits all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from morrow.engine.plugins import require_extra
from morrow.tables.writer import CommitMessage, Committer, Writer

if TYPE_CHECKING:
    from morrow.engine.format.snapshot import Snapshot
    from morrow.engine.plan.metadata import TableMetadata


def iterate_tables(dataset: Any) -> Iterator[pa.Table]:
    """Yield the rows of a Ray dataset as Arrow tables, a block at a time."""
    return iter(dataset.iter_batches(batch_format="pyarrow", batch_size=None))


def write_by_tasks(metadata: TableMetadata, dataset: Any) -> Snapshot | None:
    """Write the rows of a Ray dataset to an append table by Ray tasks, in one commit."""
    with require_extra("write_ray", "ray", "ray"):
        from ray.data import Datasink
        from ray.data.block import BlockAccessor

    commit_user = Writer(metadata).commit_user
    committed: list[Snapshot | None] = []

    class MorrowSink(Datasink):  # type: ignore[misc]  # Ray is not there when types are checked
        """Files of a table, which become visible when all of them are written."""

        def write(self, blocks: Iterable[Any], ctx: Any) -> list[CommitMessage]:  # noqa: ARG002  # a method of Ray
            writer = Writer(metadata, commit_user)
            for block in blocks:
                writer.write(BlockAccessor.for_block(block).to_arrow())
            return writer.prepare()

        def get_name(self) -> str:
            return "Morrow"

    class Committing(MorrowSink):
        """The sink on the driver."""

        def on_write_complete(self, write_result: Any) -> None:
            messages = [message for found in write_result.write_returns for message in found or ()]
            committed.append(Committer(metadata, commit_user).commit(messages) if messages else None)

        def __reduce__(self) -> tuple[Any, ...]:
            return MorrowSink, ()

    dataset.write_datasink(Committing())
    return committed[0] if committed else None
