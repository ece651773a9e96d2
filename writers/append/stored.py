"""Reads back the data files of one append bucket to rewrite them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import polars as pl

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.data_file_meta import DataFileMeta, FileSource
from morrow.engine.format.types import DataField
from morrow.writers.files import Placement, write_files
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.files.stored import StoredFiles
from morrow.writers.target import WriteTarget

BATCH_ROWS = 1 << 18
"""Rows read at once."""


class AppendFiles(StoredFiles):
    """Reads data files in the table's columns, without dead rows."""

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        return self.target.schema.fields

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yields the live rows of all files in their order, with one batch in memory at a time.

        Raises:
            CorruptFile: a file does not hold as many rows as its entry says: a rewrite would lose rows for good.
        """
        for file in self.files:
            step = self.step(file, BATCH_ROWS)
            for start in range(0, file.row_count, max(step, 1)):
                wanted = min(step, file.row_count - start)
                is_last = start + wanted == file.row_count
                rows = self.collect([self.lazy(file).slice(start, wanted + is_last)])[0]
                if rows.height != wanted:
                    more = "more" if rows.height > wanted else "fewer"
                    problem = f"has {more} rows than the {file.row_count} that its metadata says"
                    raise CorruptFile(self._by_name[file.file_name].path, problem)
                yield self._alive(file, rows, start)


def rewrite(
    target: WriteTarget,
    place: Placement,
    files: Sequence[DataFileMeta],
    vectors: DeletionMaintainer | None = None,
) -> list[DataFileMeta]:
    """Writes the live rows of these files to new files; their sequence numbers begin with those of the first file.

    Raises:
        CorruptFile, FileMissing: a file that cannot be read. StorageError: nothing new stays.
        Unsupported: a table that tracks rows.
    """
    check_rewritable(target)
    rows = AppendFiles(target, place, tuple(files), vectors).frames()
    first = files[0].min_sequence_number if files else 0
    return write_files(target, place, rows, level=0, source=FileSource.COMPACT, first_sequence=first)


def check_rewritable(target: WriteTarget) -> None:
    """Refuses tables whose rows have ids, which rewritten files would have to carry along.

    Raises:
        Unsupported: ``row-tracking.enabled`` or ``data-evolution.enabled``.
    """
    if target.options.row_tracking or target.options.data_evolution:
        raise Unsupported("rewriting files of a table with row tracking", where=target.where, hint="append only")
