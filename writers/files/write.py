"""Writes frames to data files: encoded by block, rolled at the target file size, durable, with metadata.

The frames come from buffers and merges and are written as they arrive: the current frame and a block or two for each
thread are in memory.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import chain, count
from typing import TypeAlias

import polars as pl

from morrow.engine.errors import StorageError
from morrow.engine.format.data_file_meta import DataFileMeta, FileSource
from morrow.engine.format.paths import INDEX_SUFFIX
from morrow.engine.progress import advance
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
    """Writes rows to data files of a bucket, rolled at the target file size; no rows, no files.

    Args:
        frames: keyed tables: version frames sorted by key over all frames, one row per key (changelogs may have more).
            Append tables: the table's columns.
        level: the level in the metadata; format, codec and statistics depend on it.
        changelog: use the prefix, format, codec and statistics of changelog files.
        first_sequence: append tables: the sequence number of the first row; the others follow.
        prefix: prefix of file names, instead of that of the options.

    Returns:
        The files in the order of their rows, durable.

    Raises:
        Unsupported, InvalidArgument: options or values that the file format does not accept.
        StorageError: the store failed. After any error nothing written here stays.
    """
    kind = FileKind.of(target, level, changelog=changelog, prefix=prefix)
    with closing(in_threads(kind.describe, pieces(frames, kind.block_bytes))) as blocks:
        return write_blocks(target, place, kind, blocks, source, first_sequence)


FEW_ROWS = 1000
"""Fewer rows than this are described together with those of other buckets."""

Prepared: TypeAlias = tuple[FileKind, Callable[[], Described]]
"""Rows of one file, described together with those of other files (`FileKind.describe_each`)."""


def write_prepared(
    target: WriteTarget, place: Placement, prepared: Prepared, source: FileSource, first_sequence: int = 0
) -> list[DataFileMeta]:
    """Writes prepared rows to a data file of a bucket, as `write_files`."""
    kind, describe = prepared
    return write_blocks(target, place, kind, (make() for make in (describe,)), source, first_sequence)


def write_blocks(
    target: WriteTarget,
    place: Placement,
    kind: FileKind,
    blocks: Iterator[Described],
    source: FileSource,
    first_sequence: int,
) -> list[DataFileMeta]:
    """Writes blocks that `kind` made of the rows, as `write_files`; errors from making them are raised here."""
    unique, numbers = uuid.uuid4(), count()
    files: list[DataFileMeta] = []
    try:
        for first in blocks:
            name = f"{kind.prefix}{unique}-{next(numbers)}{kind.suffix}"
            files.append(_write_file(target, place, kind, name, chain([first], blocks), source, first_sequence))
            first_sequence += files[-1].row_count
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
    """Writes blocks to one file until it is large enough, and its index beside it if too large for metadata."""
    path, written, beside = file_path(target, place, name), list[Described](), False
    try:
        with target.store.output(path) as stream:
            stream.write(kind.encoder.head)
            size = len(kind.encoder.head)
            for block in blocks:
                stream.write(block.block.body)
                size += block.block.size
                advance(rows=block.block.rows, bytes=block.block.size)
                written.append(block.without_body())
                if size >= target.write.target_file_size:
                    break
            foot = kind.encoder.foot([block.block for block in written])
            stream.write(foot)
            index = kind.index(written)
            beside = index is not None and len(index) > target.write.file_index_in_manifest
            if index is not None and beside:
                target.store.write(path + INDEX_SUFFIX, index)
            about_rows = kind.metadata(written, first_sequence)
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
        **about_rows,
    )


def _local_millis() -> int:
    """Returns the wall clock time of this machine in milliseconds, taken as UTC: so Java stores creation times."""
    return int(datetime.now().replace(tzinfo=UTC).timestamp() * 1000)
