"""Rewrites data files with other sequence numbers, because other rows became newer before they were committed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from morrow.engine.errors import FileMissing
from morrow.engine.format.data_file_meta import DataFileMeta, FileSource
from morrow.engine.format.schema import SEQUENCE_NUMBER
from morrow.engine.options import parse_write_options
from morrow.engine.values import replace
from morrow.readers.execution.execute import BATCH_ROWS
from morrow.readers.files.file_errors import reading_files
from morrow.writers.files import Placement, delete_files, write_files
from morrow.writers.files.stored import StoredFiles
from morrow.writers.target import WriteTarget


def renumbered(
    target: WriteTarget, place: Placement, files: Sequence[DataFileMeta], by: int, *, changelog: bool = False
) -> list[DataFileMeta]:
    """Writes the rows of these files to new ones, every sequence number greater by `by`. Rows are streamed.

    Args:
        files: files of the bucket that no snapshot names yet; they stay unchanged.
        changelog: whether they are changelog files.

    Returns: the new files in the order of the old ones, durable.

    Raises:
        FileMissing, CorruptFile: a file that cannot be read. StorageError: after any error nothing new stays.
    """
    made: list[DataFileMeta] = []
    try:
        for file in files:
            own = as_written(target, file.schema_id)
            made += write_files(
                own,
                place,
                _rows(own, place, file, by),
                level=file.level,
                source=FileSource.APPEND,
                changelog=changelog,
            )
    except BaseException:
        delete_files(target, place, made)
        raise
    return made


def as_written(target: WriteTarget, schema_id: int) -> WriteTarget:
    """Returns the table at the schema that files were written with, without columns added since."""
    if schema_id == target.schema.id:
        return target
    metadata = target.metadata
    schema = metadata.schema(schema_id)
    write = parse_write_options(schema.options, keyed=bool(schema.primary_keys), where=metadata.where)
    return replace(target, schema=schema, options=metadata.options(schema), write=write)


def _rows(target: WriteTarget, place: Placement, file: DataFileMeta, by: int) -> Iterator[pl.DataFrame]:
    stored = StoredFiles(target, place, (file,))
    try:
        frame = stored.lazy(file).with_columns(pl.col(SEQUENCE_NUMBER) + by)
        with reading_files(stored.plan, [stored.section], stored.fields, target.store):
            yield from frame.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True, lazy=True, engine="streaming")
    except FileMissing as error:
        raise FileMissing(
            error.path, hint="a file that waits to be committed was removed; write these rows once more"
        ) from error
