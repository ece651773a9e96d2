"""Reassignment of uncommitted rows to buckets, after others have added keys to the buckets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from morrow.engine.format.schema import SEQUENCE_NUMBER
from morrow.writers.buckets import BucketMode, bucket_mode
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.renumbering import as_written
from morrow.writers.files import Placement
from morrow.writers.files.stored import StoredFiles
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.target import WriteTarget

ROWS = 1 << 18
"""Rows per batch read."""


def can_replay(target: WriteTarget, messages: Sequence[CommitMessage]) -> bool:
    """Returns whether the rows alone suffice: keys that move to other partitions leave traces in the old ones."""
    one_schema = len({file.schema_id for message in messages for file in message.new_files}) == 1
    return target.keyed and bucket_mode(target) is BucketMode.DYNAMIC and one_schema


def replayed(target: WriteTarget, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    """Returns messages of the same rows, written on top of the newest snapshot. The given messages keep their files.

    Raises: as `TableWriter`, and `FileMissing` when an uncommitted file was removed.
    """
    (schema_id,) = {file.schema_id for message in messages for file in message.new_files}
    writer = TableWriter(as_written(target, schema_id))
    try:
        for message in messages:
            writer.write_frames(_rows(writer.target, message))
        return writer.prepare_commit()
    finally:
        writer.close()


def _rows(target: WriteTarget, message: CommitMessage) -> Iterator[pl.DataFrame]:
    """Yields the rows of a message in their order: with a changelog of the input, as they were written."""
    place = Placement.of(message)
    files = message.changelog_files or message.new_files
    stored = StoredFiles(target, place, files)
    for rows in stored.batches(files, ROWS):
        yield rows.drop(SEQUENCE_NUMBER)
