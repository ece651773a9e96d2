"""Data files out of frames: encoded by block, rolled at the target file size, durable, described.

The frames come from buffers and merges and are written as they come: in memory are the frame at hand and a block or
two for each thread.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import chain, count

import polars as pl

from morrow.engine.errors import StorageError
from morrow.engine.format.data_file_meta import DataFileMeta, FileSource
from morrow.engine.format.paths import INDEX_SUFFIX
from morrow.writers.files.blocks import in_threads, pieces
from morrow.writers.files.kind import Described, FileKind
from morrow.writers.files.placement import Placement, delete_files, file_path
from morrow.writers.target import WriteTarget


def write_files(
    target: WriteTarget,
    place: Placement,
    frames: Iterable[pl.DataFrame],
    *,
    level: int,
    source: FileSource,
    changelog: bool = False,
    first_sequence: int = 0,
    prefix: str | None = None,
) -> list[DataFileMeta]:
    """Write rows to data files of a bucket, rolled at the target file size; no rows, no files.

    Args:
        frames: keyed tables: version frames sorted by key over all frames, one row per key (changelogs may have more).
            Append tables: the table's columns.
        level: goes into the metadata; format, codec and statistics depend on it.
        changelog: use the prefix, format, codec and statistics of changelog files.
        first_sequence: append tables: the sequence number of the first row, others count on.
        prefix: of file names, instead of the one of the options.

    Returns:
        The files in the order of their rows, durable.

    Raises:
        Unsupported, InvalidArgument: options or values that the file format does not take.
        StorageError: the store failed. After any error nothing that was written here stays.
    """
    kind = FileKind.of(target, level, changelog=changelog, prefix=prefix)
    unique, numbers = uuid.uuid4(), count()
    files: list[DataFileMeta] = []
    try:
        with closing(in_threads(kind.describe, pieces(frames, kind.block_bytes))) as blocks:
            for first in blocks:
                name = f"{kind.prefix}{unique}-{next(numbers)}{kind.suffix}"
                file = _write_file(target, place, kind, name, chain([first], blocks), source, first_sequence)
                files.append(file)
                first_sequence += file.row_count
    except BaseException:
        with suppress(StorageError):
            delete_files(target, place, files)
        raise
    return files


def _write_file(
    target: WriteTarget,
    place: Placement,
    kind: FileKind,
    name: str,
    blocks: Iterator[Described],
    source: FileSource,
    first_sequence: int,
) -> DataFileMeta:
    """Write blocks to one file until it is large enough, and its index beside it if it is too large for metadata."""
    path, written, beside = file_path(target, place, name), list[Described](), False
    try:
        with target.store.output(path) as stream:
            stream.write(kind.encoder.head)
            size = len(kind.encoder.head)
            for block in blocks:
                stream.write(block.block.body)
                size += block.block.size
                written.append(block.without_body())
                if size >= target.write.target_file_size:
                    break
            foot = kind.encoder.foot([block.block for block in written])
            stream.write(foot)
            index = kind.index(written)
            beside = index is not None and len(index) > target.write.file_index_in_manifest
            if index is not None and beside:
                target.store.write(path + INDEX_SUFFIX, index)
            told = kind.metadata(written, first_sequence)
    except BaseException:
        for left in (path, path + INDEX_SUFFIX) if beside else (path,):
            with suppress(StorageError):
                target.store.delete(left)
        raise
    return DataFileMeta(
        file_name=name,
        file_size=size + len(foot),
        schema_id=target.schema.id,
        level=kind.level,
        creation_time=_local_millis(),
        file_source=source,
        extra_files=(name + INDEX_SUFFIX,) if beside else (),
        embedded_file_index=None if beside else index,
        **told,
    )


def _local_millis() -> int:
    """Now on the wall clock of this machine, counted as if that were UTC: so Java stores creation times."""
    return int(datetime.now().replace(tzinfo=UTC).timestamp() * 1000)
