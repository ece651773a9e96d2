"""Writing of a bucket's data files: encoded by block, rolled at the target file size, durable, with metadata.

The frames come from buffers and merges and are written as they arrive. Memory holds the current frame and one or two
blocks per thread. `Placement` is a partition and a bucket. `FileKind` is the format and layout of the files of one
call, and computes the metadata of their rows.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import chain, count
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import polars as pl

from morrow.engine.errors import InvalidArgument, StorageError, Unsupported
from morrow.engine.format.binary_row_encoder import hash_name
from morrow.engine.format.blobs import (
    REFERENCES_SUFFIX,
    decode_descriptors,
    encode_references,
    list_descriptors,
)
from morrow.engine.format.file_formats import FileFormat, get_format
from morrow.engine.format.file_index.builder import RequestedIndex, build_container, find_requested_indexes
from morrow.engine.format.manifest_entries import EMPTY_ROW, DataFileMeta, FileSource, SimpleStats
from morrow.engine.format.paths import INDEX_SUFFIX, check_segment, normalize_path, to_store_path
from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.format.types import DataField
from morrow.engine.names import cols
from morrow.engine.options import WriteOptions
from morrow.engine.plan.data_files import resolve_external_path
from morrow.engine.progress import advance
from morrow.engine.structs import replace
from morrow.writers.files import stats
from morrow.writers.files.encoders import (
    MAX_BLOCK_BYTES,
    Block,
    Encoder,
    EncoderOptions,
    FileLayout,
    FileWriter,
    cut_blocks,
    encode_in_threads,
    find_file_writer,
)
from morrow.writers.files.stats import StatsMode, choose_stats_modes
from morrow.writers.target import WriteTarget

CODEC_SUFFIXES = {"zstd": "zst", "gzip": "gz", "bzip2": "bz2"}
"""The names of codecs in names of files, if they differ from those in options."""
NO_COLUMNS = pl.DataFrame()


@dataclass(frozen=True)
class FileDescription:
    """A block and the metadata of its rows.

    `ends` are the keys of the first and the last row (BinaryRows), `indexed` the columns for file indexes.
    """

    block: Block
    collected: stats.CollectedStats
    ends: tuple[bytes, bytes]
    indexed: pl.DataFrame
    references: frozenset[str] = frozenset()
    """The files that the descriptors of managed blobs name."""
    sequences: tuple[int, int] = (0, 0)
    retractions: int = 0
    value_stats: tuple[SimpleStats, tuple[str, ...] | None] | None = None
    """The statistics of a file that has only this block; None if they still have to be computed."""
    key_stats: SimpleStats | None = None
    """As `value_stats`, for the key."""

    def without_body(self) -> FileDescription:
        """Return the metadata that is still needed after the rows are in the file."""
        return replace(self, block=replace(self.block, body=b""))


@dataclass(frozen=True)
class FileKind:
    """Layout, format and statistics of files, as the options set them for a level."""

    layout: FileLayout
    format: FileFormat
    level: int
    encoder: Encoder
    modes: tuple[StatsMode, ...]
    dense: bool
    indexes: tuple[RequestedIndex, ...]
    prefix: str
    suffix: str
    block_bytes: int
    managed: tuple[DataField, ...] = ()
    """The BLOB columns whose values lie in packs."""

    @classmethod
    def of(
        cls,
        target: WriteTarget,
        level: int,
        *,
        changelog: bool,
        prefix: str | None = None,
        columns: tuple[DataField, ...] | None = None,
    ) -> FileKind:
        """Return the kind of a level. Raises `Unsupported`, `InvalidArgument` for options that the format rejects."""
        write, where, layout = target.write, target.where, FileLayout.of(target, columns)
        name = (changelog and write.changelog_format) or write.format_of(level)
        writer, format_ = find_file_writer(name, where), get_format(name, where)
        codec = (changelog and write.changelog_compression) or write.compression_of(level)
        mode = (changelog and write.changelog_stats_mode) or write.stats_mode_per_level.get(level, write.stats_mode)
        held = {column.name for column in layout.columns}
        names_codec = write.suffix_includes_compression and codec != "none"
        named_codec = f".{CODEC_SUFFIXES.get(codec, codec)}" if names_codec else ""
        return cls(
            layout,
            format_,
            level,
            writer.encoder(layout, EncoderOptions(codec, write, where)),
            choose_stats_modes(layout, write, mode, cuts_system_columns=format_.cuts_system_columns, where=where),
            write.stats_dense_store,
            tuple(index for index in find_requested_indexes(write.raw, target.schema.fields) if index.column in held),
            prefix or (write.changelog_file_prefix if changelog else write.data_file_prefix),
            f"{named_codec}.{name}",
            min(_choose_block_size(write, writer) or MAX_BLOCK_BYTES, write.target_file_size, MAX_BLOCK_BYTES),
            () if changelog else target.managed_blobs,
        )

    def _find_references(self, frame: pl.DataFrame) -> frozenset[str]:
        """Return the files that descriptors of managed blobs name, in rows that are no retractions."""
        if not self.managed:
            return frozenset()
        live = frame.filter((pl.col(VALUE_KIND) & RETRACT_BIT) == 0)
        found = (list_descriptors(live[field.name], field.type) for field in self.managed)
        return frozenset(uri for each in found for uri in decode_descriptors(each, "rows")["uri"].drop_nulls().unique())

    def describe(self, frame: pl.DataFrame, *, encode: bool = True) -> FileDescription:
        """Encode rows and collect their metadata; without `encode`, only collect it, for rows that are in a file.

        Raises `InvalidArgument`: a null in a NOT NULL column, or a value that the format cannot hold.
        """
        columns, keys = self.layout.columns, self.layout.keys
        self._check_nulls({name: (count,) for name, count in stats.count_nulls(frame, columns).items()})
        block = self.encoder.block(self.layout.stored(frame)) if encode else Block(frame.height, 0, b"")
        found = FileDescription(
            block,
            stats.collect(frame, columns, self._bounded, self.format, block.text_ends),
            (stats.encode_key(frame[:1], keys), stats.encode_key(frame[-1:], keys)),
            frame.select(cols(dict.fromkeys(index.column for index in self.indexes))) if self.indexes else NO_COLUMNS,
        )
        if not keys:
            return replace(found, sequences=_find_stored_sequences(frame)) if self._stores_sequences else found
        numbers = frame[SEQUENCE_NUMBER]
        low, high = cast(int, numbers.min()), cast(int, numbers.max())
        retractions = int((frame[VALUE_KIND] & RETRACT_BIT).sum())
        references = self._find_references(frame)
        return replace(found, sequences=(low, high), retractions=retractions, references=references)

    def describe_each(self, frames: Sequence[pl.DataFrame]) -> list[Callable[[], FileDescription]]:
        """Return functions that `describe` each of these non-empty frames, with one file per frame.

        The metadata of all frames is computed by common queries, since a query of few rows is mostly overhead. The
        returned functions only encode, and several threads may call them.

        Raises: as `describe`, here or when the functions are called.
        """
        frame, heights, columns = pl.concat(frames), [each.height for each in frames], self.layout.columns
        groups = stats.collect_each(frame, heights, columns, self._bounded, self.format)
        self._check_nulls(groups.nulls)
        encoders = self.encoder.blocks(self.layout.stored(frame), heights)
        each, covered = stats.encode_each_stats(groups, columns, self._value_modes, self.format, dense=self.dense)
        keyed = self._keys_each(frame, heights, groups)
        indexed = list(dict.fromkeys(index.column for index in self.indexes))

        def described(number: int) -> FileDescription:
            rows = frames[number].select(cols(indexed)) if indexed else NO_COLUMNS
            value_stats = each[number], covered
            references = self._find_references(frames[number])
            return FileDescription(
                encoders[number](),
                groups[number],
                indexed=rows,
                references=references,
                value_stats=value_stats,
                **keyed[number],
            )

        return [partial(described, number) for number in range(len(frames))]

    def _keys_each(self, frame: pl.DataFrame, heights: Sequence[int], groups: stats.GroupStats) -> list[dict[str, Any]]:
        """Return the members of `FileDescription` about the keys of consecutive groups of rows."""
        keys = self.layout.keys
        if not keys:
            return [{"ends": (EMPTY_ROW, EMPTY_ROW)}] * len(heights)
        ends = np.cumsum(heights, dtype=np.int64)
        starts = ends - heights
        first, last = (stats.encode_keys(frame[rows], keys) for rows in (starts, ends - 1))
        numbers, kinds = frame[SEQUENCE_NUMBER].to_numpy(), frame[VALUE_KIND].to_numpy()
        low, high = (ufunc.reduceat(numbers, starts).tolist() for ufunc in (np.minimum, np.maximum))
        retractions = np.add.reduceat(kinds & RETRACT_BIT, starts, dtype=np.int64).tolist()
        key_stats, _ = stats.encode_each_stats(groups, keys, self._key_modes, self.format, dense=False)
        members = ("ends", "sequences", "retractions", "key_stats")
        columns = zip(zip(first, last), zip(low, high), retractions, key_stats, strict=True)
        return [dict(zip(members, each, strict=True)) for each in columns]

    def _check_nulls(self, nulls: Mapping[str, Sequence[int]]) -> None:
        for column in self.layout.columns:
            if not column.type.nullable and any(nulls[column.name]):
                raise InvalidArgument(f"the column {column.name!r} is {column.type} and would get a null")

    def index(self, blocks: Sequence[FileDescription]) -> bytes | None:
        """Return the container with the indexes of a file; None if the table does not define indexes."""
        return build_container(pl.concat([b.indexed for b in blocks]), self.indexes) if self.indexes else None

    @cached_property
    def _stores_sequences(self) -> bool:
        """Whether files of an append table hold the snapshots that wrote their rows."""
        return any(column.name == SEQUENCE_NUMBER for column in self.layout.columns)

    def metadata(self, blocks: Sequence[FileDescription], sequences: tuple[int, int | None]) -> dict[str, Any]:
        """Return the members of `DataFileMeta` for the rows of a file.

        `sequences`: the sequence numbers of an append table's file that does not store them. If the second is None, the
        rows are numbered from the first.
        """
        rows = sum(block.block.rows for block in blocks)
        value_stats, covered = (len(blocks) == 1 and blocks[0].value_stats) or self._value_stats(blocks)
        common = {
            "row_count": rows,
            "value_stats": value_stats,
            "value_stats_cols": covered,
            "delete_row_count": sum(block.retractions for block in blocks),
        }
        if not self.layout.keys:
            low, high = sequences
            if self._stores_sequences:
                low = min((block.sequences[0] for block in blocks if block.sequences[0]), default=0)
                high = max(block.sequences[1] for block in blocks) if all(b.sequences[1] for b in blocks) else 0
            elif high is None:
                high = low + rows - 1
            return common | {"min_sequence_number": low, "max_sequence_number": high}
        key_stats = (len(blocks) == 1 and blocks[0].key_stats) or self._key_stats(blocks)
        return common | {
            "min_key": blocks[0].ends[0],
            "max_key": blocks[-1].ends[1],
            "key_stats": key_stats,
            "min_sequence_number": min(block.sequences[0] for block in blocks),
            "max_sequence_number": max(block.sequences[1] for block in blocks),
        }

    def _value_stats(self, blocks: Sequence[FileDescription]) -> tuple[SimpleStats, tuple[str, ...] | None]:
        collected = stats.combine([block.collected for block in blocks], self.format)
        return stats.encode_stats(collected, self.layout.columns, self._value_modes, self.format, dense=self.dense)

    def _key_stats(self, blocks: Sequence[FileDescription]) -> SimpleStats:
        collected = stats.combine([block.collected for block in blocks], self.format)
        return stats.encode_stats(collected, self.layout.keys, self._key_modes, self.format, dense=False)[0]

    @cached_property
    def _value_modes(self) -> tuple[StatsMode, ...]:
        return self.modes[-len(self.layout.columns) :]

    @cached_property
    def _key_modes(self) -> tuple[StatsMode, ...]:
        """The statistics modes of the key. Without key columns in the file, these are the modes of the table's
        columns."""
        if not self.layout.thin:
            return self.modes[: len(self.layout.keys)]
        by_name = dict(zip((f.name for f in self.layout.columns), self._value_modes, strict=True))
        return tuple(by_name[key.name] for key in self.layout.keys)

    @cached_property
    def _bounded(self) -> frozenset[str]:
        """The columns whose bounds are kept, as columns or as part of the key."""
        pairs = [*zip(self.layout.columns, self._value_modes), *zip(self.layout.keys, self._key_modes)]
        return frozenset(field.name for field, mode in pairs if mode.bounds)


def _find_stored_sequences(frame: pl.DataFrame) -> tuple[int, int]:
    """Return the least and the greatest sequence number. If one is null, the greatest is 0 until the commit."""
    numbers = frame[SEQUENCE_NUMBER]
    low, high = cast("int | None", numbers.min()), cast("int | None", numbers.max())
    return low or 0, 0 if high is None or numbers.null_count() else high


def _choose_block_size(write: WriteOptions, writer: FileWriter) -> int | None:
    return write.block_size or (None if writer.block_size is None else write.given.get(writer.block_size))


def write_files(
    target: WriteTarget,
    place: Placement,
    frames: Iterable[pl.DataFrame],
    *,
    level: int,
    source: FileSource,
    changelog: bool = False,
    first_sequence: int = 0,
    sequences: tuple[int, int] | None = None,
    prefix: str | None = None,
    columns: tuple[DataField, ...] | None = None,
) -> list[DataFileMeta]:
    """Write rows to data files of a bucket, rolled at the target file size. Without rows, no file is written.

    Args:
        frames: keyed tables: version frames sorted by key over all frames, one row per key (changelogs may have more).
            Append tables: the table's columns.
        level: the level in the metadata; format, codec and statistics depend on it.
        changelog: use the prefix, format, codec and statistics of changelog files.
        first_sequence: append tables: the sequence number of the first row; the others follow.
        sequences: row tracking: the least and the greatest sequence number of each file. The commit replaces 0, the
            default, by the id of its snapshot.
        prefix: prefix of file names; None: as the options say.
        columns: the columns of the files, if they are not those of the table. The metadata names them.

    Returns:
        The files in the order of their rows, durable.

    Raises:
        Unsupported, InvalidArgument: options or values that the file format does not accept.
        StorageError: the store failed. After any error, no new file is left.
    """
    kind = FileKind.of(target, level, changelog=changelog, prefix=prefix, columns=columns)
    with closing(encode_in_threads(kind.describe, cut_blocks(frames, kind.block_bytes))) as blocks:
        return write_blocks(target, place, kind, blocks, source, first_sequence, sequences)


MIN_DESCRIBED_ROWS = 1000
"""Minimum rows of a bucket to describe them alone. Fewer rows are described together with other buckets."""

SPECIFIC, ENTROPY, WEIGHTED = "specific-fs", "entropy-inject", "weight-robin"
ENTROPY_BITS = 20
"""The bits of the hash of a name that become folders of an external path: three of 4 bits, and one of 8."""
_TURNS = count(random.randrange(1 << 20))

PreparedRows: TypeAlias = tuple[FileKind, Callable[[], FileDescription]]
"""Rows of one file, described together with other files (`FileKind.describe_each`)."""


def write_prepared(
    target: WriteTarget, place: Placement, prepared: PreparedRows, source: FileSource, first_sequence: int = 0
) -> list[DataFileMeta]:
    """Write prepared rows to a data file of a bucket, as `write_files`."""
    kind, describe = prepared
    return write_blocks(target, place, kind, (make() for make in (describe,)), source, first_sequence)


def write_blocks(
    target: WriteTarget,
    place: Placement,
    kind: FileKind,
    blocks: Iterator[FileDescription],
    source: FileSource,
    first_sequence: int,
    sequences: tuple[int, int] | None = None,
) -> list[DataFileMeta]:
    """Write blocks that `kind` makes, as `write_files`. Errors from the iterator are raised too."""
    unique, numbers = uuid.uuid4(), count()
    files: list[DataFileMeta] = []
    try:
        for first in blocks:
            name = f"{kind.prefix}{unique}-{next(numbers)}{kind.suffix}"
            numbers_of_file = sequences or number_rows(target, first_sequence)
            files.append(write_file(target, place, kind, name, chain([first], blocks), source, numbers_of_file))
            first_sequence += files[-1].row_count
    except BaseException:
        with suppress(StorageError):
            delete_files(target, place, files)
        raise
    return files


def number_rows(target: WriteTarget, first: int) -> tuple[int, int | None]:
    """Return the sequence numbers of a new file, for `FileKind.metadata`; `first` is that of its first row.

    With row tracking, the commit replaces 0 by the id of its snapshot.
    """
    return (0, 0) if target.options.row_tracking else (first, None)


def write_file(
    target: WriteTarget,
    place: Placement,
    kind: FileKind,
    name: str,
    blocks: Iterator[FileDescription],
    source: FileSource,
    sequences: tuple[int, int | None],
) -> DataFileMeta:
    """Write blocks to one file until it is large enough, and write its index to a file if it is too large for
    metadata."""
    (path, external), written, beside = choose_path(target, place, name), list[FileDescription](), False
    try:
        with target.store.output(path) as stream:
            stream.write(kind.encoder.head)
            size = stored = len(kind.encoder.head)
            for block in blocks:
                stream.write(block.block.body)
                size += block.block.size
                stored += memoryview(block.block.body).nbytes
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
            if kind.managed:
                uris = frozenset[str]().union(*(block.references for block in written))
                target.store.write(path + REFERENCES_SUFFIX, encode_references(uris))
            about_rows = kind.metadata(written, sequences)
    except BaseException:
        more = (*([INDEX_SUFFIX] if beside else []), *([REFERENCES_SUFFIX] if kind.managed else []))
        for left in (path, *(path + suffix for suffix in more)):
            with suppress(StorageError):
                target.store.delete(left)
        raise
    return DataFileMeta(
        file_name=name,
        file_size=stored + len(foot),
        schema_id=target.schema.id,
        level=kind.level,
        creation_time=read_local_clock(),
        file_source=source,
        extra_files=(
            *((name + INDEX_SUFFIX,) if beside else ()),
            *((name + REFERENCES_SUFFIX,) if kind.managed else ()),
        ),
        embedded_file_index=None if beside else index,
        external_path=external,
        write_cols=None if kind.layout.columns == target.schema.fields else tuple(f.name for f in kind.layout.columns),
        **about_rows,
    )


def read_local_clock() -> int:
    """Return the local time of this machine in milliseconds as if it were UTC, as Java stores creation times."""
    return int(datetime.now().replace(tzinfo=UTC).timestamp() * 1000)


class InBucket(Protocol):
    """Object that belongs to one bucket, such as a commit message."""

    @property
    def partition(self) -> bytes: ...

    @property
    def bucket(self) -> int: ...


@dataclass(frozen=True)
class Placement:
    """One bucket of one partition (a BinaryRow, arity first)."""

    partition: bytes
    bucket: int

    @classmethod
    def of(cls, held: InBucket) -> Placement:
        """Return the bucket that `held` belongs to."""
        return cls(held.partition, held.bucket)


def build_file_path(target: WriteTarget, place: Placement, name: str) -> str:
    """Return the path of a data file, or of a file that belongs to one, in its bucket's folder."""
    return f"{target.bucket_folder(place.partition, place.bucket)}/{name}"


def choose_path(target: WriteTarget, place: Placement, name: str) -> tuple[str, str | None]:
    """Return the path of a new data file in the store, and its external path, None in the table's folder.

    Raises:
        InvalidArgument: external paths, weights or a scheme that contradict each other.
        Unsupported: an external path in another store, or a table with BLOB files.
    """
    roots = _list_external_roots(target)
    if not roots:
        return build_file_path(target, place, name), None
    write = target.write
    folder = target.bucket_folder(place.partition, place.bucket).removeprefix(f"{target.metadata.root}/")
    if write.external_strategy == ENTROPY:
        bits = f"{hash_name(name.encode()):032b}"[-ENTROPY_BITS:]
        folder = "/".join((folder, *(bits[at : at + 4] for at in (0, 4, 8)), bits[12:]))
    if write.external_strategy == WEIGHTED and write.external_weights and len(roots) > 1:
        root = random.choices(roots, _parse_weights(target, len(roots)))[0]
    else:
        root = roots[next(_TURNS) % len(roots)]
    external = f"{root.rstrip('/')}/{folder}/{name}"
    path = to_store_path(target.store, external)
    if path is None:
        raise Unsupported(
            f"a write to {root}, in another store than the table,",
            where=target.where,
            hint="set 'data-file.external-paths.strategy' to none, or to specific-fs with the store of the table",
        )
    if target.filed_blobs or target.managed_blobs:
        raise Unsupported(
            "a write of BLOB files to external paths",
            where=target.where,
            hint="set 'data-file.external-paths.strategy' to none",
        )
    return path, external


def _list_external_roots(target: WriteTarget) -> list[str]:
    """Return the external paths that may take new files, as Java writes them."""
    given, strategy = [root for root in target.options.external_roots if root], target.write.external_strategy
    if strategy == "none" or not given:
        return []
    schemes = {root: root.partition(":")[0].lower() for root in given if ":" in root.partition("/")[0]}
    if len(schemes) < len(given):
        wrong = next(root for root in given if root not in schemes)
        raise InvalidArgument(f"{target.where}: the external path {wrong!r} has no scheme; write 'file:/folder'")
    if strategy == SPECIFIC:
        wanted = (target.write.external_scheme or "").lower()
        given = [root for root in given if schemes[root] == wanted]
        if not given:
            raise InvalidArgument(
                f"{target.where}: no path in 'data-file.external-paths' has the scheme {wanted!r} of "
                "'data-file.external-paths.specific-fs'; change one of them"
            )
    return [f"file:{normalize_path(root)}" if schemes[root] == "file" else root for root in given]


def _parse_weights(target: WriteTarget, count: int) -> list[int]:
    texts = target.write.external_weights
    if len(texts) != count or not all(text.isascii() and text.isdigit() and int(text) for text in texts):
        raise InvalidArgument(
            f"{target.where}: 'data-file.external-paths.weights' is {','.join(texts)!r}; give {count} positive "
            "numbers, one for each external path"
        )
    return [*map(int, texts)]


def find_paths(target: WriteTarget, place: Placement, file: DataFileMeta) -> list[str]:
    """Return the paths of a data file of this writer and of its extra files, which are beside it."""
    folder = target.bucket_folder(place.partition, place.bucket)
    if file.external_path is not None:
        folder = resolve_external_path(target.metadata, target.options, file.external_path).rpartition("/")[0]
    return [f"{folder}/{check_segment(name, folder)}" for name in (file.file_name, *file.extra_files)]


def delete_files(target: WriteTarget, place: Placement, files: Iterable[DataFileMeta]) -> None:
    """Remove data files that metadata no longer names, and their extra files. Missing files are not an error.

    Raises `StorageError`: the first error; all other files are removed.
    """
    errors: list[StorageError] = []
    for path in (path for file in files for path in find_paths(target, place, file)):
        try:
            target.store.delete(path)
        except StorageError as error:
            errors.append(error)
    if errors:
        raise errors[0]
