"""What every bucket writer does, whatever its kind of table."""

from __future__ import annotations

from typing import Protocol

import polars as pl

from morrow.writers.messages import CommitMessage


class BucketWriter(Protocol):
    """Takes the rows of one bucket and makes files of them. Not safe for use by several threads at once."""

    @property
    def buffered_bytes(self) -> int:
        """Memory held by rows that are not in files yet."""
        ...

    def write(self, rows: pl.DataFrame) -> None:
        """Take rows in their order: the table's columns, in keyed tables followed by ``_VALUE_KIND`` (Int8)."""
        ...

    def spill(self) -> None:
        """Give back the memory of the buffer: its rows go to temporary files or to data files."""
        ...

    def compact(self, full: bool) -> None:
        """Write what is buffered and compact: `full` makes one sorted run of everything, else as the options say."""
        ...

    def prepare_commit(self, *, wait_compaction: bool = True) -> CommitMessage:
        """Write what is buffered, compact as the options say, and hand over what was done since the last call."""
        ...

    def close(self) -> None:
        """Drop buffers and temporary files, and delete data files that no prepared message names."""
        ...
