"""The protocol of bucket writers, the same for every kind of table."""

from __future__ import annotations

from typing import Protocol

import polars as pl

from morrow.writers.commit.messages import CommitMessage


class BucketWriter(Protocol):
    """Writes the rows of one bucket to files. Not safe for use by several threads at once."""

    @property
    def buffered_bytes(self) -> int:
        """Memory held by rows that are not in files yet."""
        ...

    def write(self, rows: pl.DataFrame) -> None:
        """Takes rows in their order: the table's columns, in keyed tables followed by ``_VALUE_KIND`` (Int8)."""
        ...

    def spill(self) -> None:
        """Frees the memory of the buffer: its rows go to temporary files or to data files."""
        ...

    def compact(self, full: bool) -> None:
        """Writes the buffered rows and compacts: with `full` into one sorted run, else as the options say."""
        ...

    def prepare_commit(self, *, wait_compaction: bool = True) -> CommitMessage:
        """Writes the buffered rows, compacts as the options say, and returns the changes since the last call."""
        ...

    def close(self) -> None:
        """Drops buffers and temporary files, and deletes data files that no prepared message names."""
        ...
