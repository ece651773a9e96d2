"""Files beside data files as they are written: blob files with values of one column, and files of vectors.

Values of a frame are bytes, or descriptors of values that are copied from other files and streams in parts. A data
file and its blob files hold the same rows: the data file's rows are encoded while the values go to the blob files, and
all of them end together. A blob file that is large enough ends earlier, and another one follows.

Files of vectors belong to tables with data evolution and ``vector.file.format``.

A data file holds the other columns of its rows. The vectors of the same rows follow in one or more files named
``<name>.vector.<format>``. The metadata of both kinds names their columns.
"""

from __future__ import annotations

import datetime as dt
import tempfile
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, suppress
from decimal import Decimal
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import FileMissing, InvalidArgument, MorrowError, StorageError, Unsupported
from morrow.engine.format import blob_layout as layout
from morrow.engine.format import types as t
from morrow.engine.format.blob_values import REGISTERED, Blob, BlobPlaces, find_registered
from morrow.engine.format.blobs import PACK_SUFFIX, BlobDescriptor, decode_descriptor, is_descriptor_value, map_members
from morrow.engine.format.file_formats import VECTOR_INFIX, is_dedicated_file
from morrow.engine.format.manifest_entries import DataFileMeta, FileSource
from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.io.store import translate_system_errors
from morrow.engine.names import cols
from morrow.engine.options.declared.features import VECTOR_FILE_FORMAT, VECTOR_TARGET_FILE_SIZE
from morrow.engine.plan.data_files import list_allowed_roots
from morrow.engine.structs import replace
from morrow.writers.files.data_files import (
    FileKind,
    Placement,
    build_file_path,
    delete_files,
    read_local_clock,
    write_blocks,
    write_file,
)
from morrow.writers.files.encoders import MAX_BLOCK_ROWS, MIN_BLOCK_ROWS, cut_blocks, encode_in_threads
from morrow.writers.target import WriteTarget

Fields = tuple[t.DataField, ...]
BLOB_SUFFIX = ".blob"
MAX_PIECE_ROWS = 1 << 14
"""Maximum rows whose blobs are written before the other columns of these rows are encoded."""


class ValueCopier:
    """A source of the bytes of values: in a frame, in the files that descriptors name, or registered by the user."""

    def __init__(self, target: WriteTarget) -> None:
        metadata, write = target.metadata, target.write
        roots = (metadata.store.url(metadata.root), *list_allowed_roots(metadata, target.options))
        self._places = BlobPlaces(metadata.store, metadata.root, target.where, roots, target.options.raw)
        self._null_if_missing, self._null_if_failing = write.null_on_missing_blob, write.null_on_failing_blob

    def open(self, value: bytes) -> Iterator[bytes] | None:
        """Return the parts of a value; None for null.

        Raises `UnsafePath`: a descriptor names a file outside of the allowed roots. `FileMissing`, `StorageError`.
        """
        if not is_descriptor_value(value):
            return iter((value,))
        try:
            blob = self._find(value)
            parts = blob.chunks()
            return chain((next(parts, b""),), parts)
        except FileMissing:
            if self._null_if_missing:
                return None
            raise
        except StorageError:
            if self._null_if_failing:
                return None
            raise

    def _find(self, value: bytes) -> Blob:
        found = decode_descriptor(value, self._places.where)
        if found.uri.startswith(REGISTERED):
            return find_registered(found, self._places.where)
        return self._places.find(value)


class RecordStream:
    """The records of a blob file, written to a stream."""

    def __init__(self, stream: BinaryIO, copier: ValueCopier) -> None:
        self._stream, self._copier = stream, copier
        self.position = 0
        self._lengths: list[int] = []
        self._crc = 0

    @property
    def rows(self) -> int:
        return len(self._lengths)

    def skip(self, length: int, rows: int = 1) -> None:
        """Add nulls or placeholders."""
        self._lengths += [length] * rows

    def add(self, value: bytes) -> tuple[int, int] | None:
        """Write a BLOB. Return the offset and the length of its bytes; None for null."""
        parts = self._copier.open(value)
        if parts is None:
            self.skip(layout.NULL_LENGTH)
            return None
        start = self._begin()
        size = self._copy(parts)
        self._end(start)
        return start + len(layout.MAGIC), size

    def add_array(self, values: Iterable[bytes | None]) -> None:
        """Write an ARRAY<BLOB>."""
        values = list(values)
        start = self._begin()
        self._write(layout.ARRAY_MAGIC + bytes([layout.PAYLOAD_VERSION]) + len(values).to_bytes(4, "little"))
        index = layout.encode_zigzag_varints([self._add_member(value) for value in values])
        self._write(index + len(index).to_bytes(4, "little"))
        self._end(start)

    def add_map(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> None:
        """Write a MAP<K, BLOB>, whose keys are encoded."""
        start = self._begin()
        self._write(layout.MAP_MAGIC + bytes([layout.PAYLOAD_VERSION]) + len(keys).to_bytes(4, "little"))
        self._write(b"".join(key for key in keys if key is not None))
        key_index = layout.encode_zigzag_varints([layout.NULL_LENGTH if key is None else len(key) for key in keys])
        index = layout.encode_zigzag_varints([self._add_member(value) for value in values])
        self._write(key_index + index + len(key_index).to_bytes(4, "little") + len(index).to_bytes(4, "little"))
        self._end(start)

    def finish(self) -> int:
        """Write the index. Return the size of the file."""
        index = layout.encode_zigzag_varints(self._lengths)
        self._write(index + len(index).to_bytes(4, "little") + bytes([layout.FILE_VERSION]))
        return self.position

    def _add_member(self, value: bytes | None) -> int:
        parts = None if value is None else self._copier.open(value)
        return layout.NULL_LENGTH if parts is None else self._copy(parts)

    def _begin(self) -> int:
        self._crc = 0
        start = self.position
        self._write(layout.MAGIC)
        return start

    def _end(self, start: int) -> None:
        length = self.position - start + layout.LENGTH_BYTES + layout.CRC_BYTES
        self._write(length.to_bytes(layout.LENGTH_BYTES, "little"))
        self._write(self._crc.to_bytes(layout.CRC_BYTES, "little"))
        self._lengths.append(length)

    def _copy(self, parts: Iterable[bytes]) -> int:
        start = self.position
        for part in parts:
            self._write(part)
        return self.position - start

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._crc = zlib.crc32(data, self._crc)
        self.position += len(data)


class RollingRecords:
    """Record streams to files of one bucket, the next one when a file is large enough."""

    def __init__(self, target: WriteTarget, place: Placement, names: Callable[[], str]) -> None:
        self._target, self._place, self._names = target, place, names
        self._most = target.write.blob_target_file_size or target.write.target_file_size
        self._copier = ValueCopier(target)
        self._opened: AbstractContextManager[BinaryIO] | None = None
        self._stream: RecordStream | None = None
        self.name = ""
        self.files: list[tuple[str, int, int]] = []
        """Names, sizes and row counts of the files that have ended."""

    def current(self) -> RecordStream:
        """Return the stream of the next record."""
        if self._stream is None:
            self.name = self._names()
            self._opened = self._target.store.output(build_file_path(self._target, self._place, self.name))
            self._stream = RecordStream(self._opened.__enter__(), self._copier)
        return self._stream

    def end_record(self) -> None:
        """End the file if it is large enough."""
        if self._stream is not None and self._stream.position >= self._most:
            self.close()

    def close(self) -> None:
        """End the file, if one is open."""
        if self._stream is None or self._opened is None:
            return
        size, rows = self._stream.finish(), self._stream.rows
        opened, self._opened, self._stream = self._opened, None, None
        opened.__exit__(None, None, None)
        self.files.append((self.name, size, rows))

    def abort(self) -> None:
        """Remove all files."""
        if self._opened is not None:
            opened, self._opened, self._stream = self._opened, None, None
            error = InvalidArgument("the write was given up")
            with suppress(MorrowError):
                opened.__exit__(type(error), error, None)
        for name, _, _ in self.files:
            with suppress(StorageError):
                self._target.store.delete(build_file_path(self._target, self._place, name))
        self.files = []


class PackWriter:
    """Writer of the packs of one bucket of a table with a primary key: values become descriptors.

    Packs are written before rows are sorted and merged, so that later no value is copied.
    """

    def __init__(self, target: WriteTarget, place: Placement) -> None:
        self._target, self._place = target, place
        self._fields = target.managed_blobs
        self._open: dict[str, RollingRecords] = {}

    def externalize(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with descriptors instead of values; retractions have none.

        Raises: as `ValueCopier.open`.
        """
        added = (rows[VALUE_KIND] & RETRACT_BIT) == 0
        columns = []
        for field in self._fields:
            column = pl.select(pl.when(added).then(rows[field.name])).to_series()
            columns.append(map_members(column, field.type, partial(self._write, field)).alias(field.name))
        return rows.with_columns(columns)

    def _write(self, field: t.DataField, values: pl.Series) -> pl.Series:
        records = self._open.setdefault(field.name, self._roll())
        # One call for each value: a value is large, and may lie in another file.
        found = [None if value is None else self._describe(records, value) for value in values]
        return pl.Series(found, dtype=pl.Binary)

    def _describe(self, records: RollingRecords, value: bytes) -> bytes | None:
        written = records.current().add(value)
        path = build_file_path(self._target, self._place, records.name)
        records.end_record()
        return None if written is None else BlobDescriptor(self._target.store.url(path), *written).encode()

    def _roll(self) -> RollingRecords:
        unique, numbers = uuid.uuid4(), count()
        prefix = self._target.write.data_file_prefix
        names = lambda: f"{prefix}{unique}-{next(numbers)}{PACK_SUFFIX}"  # noqa: E731
        return RollingRecords(self._target, self._place, names)

    def finish(self) -> None:
        """End the packs, which a commit may name from now on."""
        opened, self._open = self._open, {}
        for records in opened.values():
            records.close()

    def abort(self) -> None:
        """Remove the packs since the last `finish`."""
        opened, self._open = self._open, {}
        for records in opened.values():
            records.abort()


class ColumnWriter:
    """Writer of the blob files of one column."""

    def __init__(self, target: WriteTarget, place: Placement, field: t.DataField, names: Callable[[], str]) -> None:
        self._target, self._field = target, field
        self._records = RollingRecords(target, place, names)

    def write(self, values: pl.Series) -> None:
        """Write the values of a column.

        Raises: as `ValueCopier.open`; InvalidArgument: a null in an array or map whose members are NOT NULL.
        """
        kind = self._field.type
        # One call for each value: a value is large, and may lie in another file.
        if isinstance(kind, t.MapType):
            encode = make_key_encoder(kind.key)
            for entries in values:
                pairs = None if entries is None else entries.to_list()
                self._add(pairs, lambda s, p: s.add_map([encode(e["key"]) for e in p], [e["value"] for e in p]))
        elif isinstance(kind, t.ArrayType):
            for members in values:
                self._add(members, lambda stream, given: stream.add_array(given.to_list()))
        else:
            for value in values:
                self._add(value, RecordStream.add)

    def skip(self, rows: int) -> None:
        """Write placeholders."""
        self._records.current().skip(layout.PLACEHOLDER_LENGTH, rows)

    def _add(self, value: Any, add: Callable[[RecordStream, Any], object]) -> None:
        stream = self._records.current()
        if value is None:
            stream.skip(layout.NULL_LENGTH)
        else:
            add(stream, value)
        self._records.end_record()

    def close(self, first_row_id: int | None = None) -> list[DataFileMeta]:
        """End the files and return them."""
        self._records.close()
        found = []
        for name, size, rows in self._records.files:
            found.append(
                DataFileMeta(
                    file_name=name,
                    file_size=size,
                    row_count=rows,
                    min_sequence_number=0,
                    max_sequence_number=0,
                    schema_id=self._target.schema.id,
                    level=0,
                    creation_time=read_local_clock(),
                    file_source=FileSource.APPEND,
                    value_stats_cols=(),
                    first_row_id=first_row_id,
                    write_cols=(self._field.name,),
                )
            )
            first_row_id = None if first_row_id is None else first_row_id + rows
        return found

    def abort(self) -> None:
        """Remove the files."""
        self._records.abort()


def write_with_blobs(
    target: WriteTarget, place: Placement, frames: Iterable[pl.DataFrame], columns: Fields
) -> list[DataFileMeta]:
    """Write rows of these columns to data files, each followed by its blob files, as `write_files`.

    Memory holds one frame and one block of the other columns, not the values that descriptors name.
    """
    blobs = target.filed_blobs
    others = tuple(field for field in columns if field not in blobs)
    kind = FileKind.of(target, 0, changelog=False, columns=others)
    unique, numbers = uuid.uuid4(), count()
    rows = _Pieces(frames, [field.name for field in others], kind.block_bytes)
    files: list[DataFileMeta] = []
    writers: list[ColumnWriter] = []
    try:
        while rows.is_left():
            name = f"{kind.prefix}{unique}-{next(numbers)}{kind.suffix}"

            def name_blobs() -> str:
                return f"{kind.prefix}{unique}-{next(numbers)}{BLOB_SUFFIX}"

            writers = [ColumnWriter(target, place, field, name_blobs) for field in blobs]
            blocks = _write_blobs(rows, writers, blobs, others, kind)
            files.append(write_file(target, place, kind, name, blocks, FileSource.APPEND, (0, 0)))
            for writer in writers:
                files += writer.close()
            writers = []
    except BaseException:
        for writer in writers:
            writer.abort()
        with suppress(StorageError):
            delete_files(target, place, files)
        raise
    return files


def write_blob_update(
    target: WriteTarget,
    place: Placement,
    field: t.DataField,
    parts: Sequence[tuple[npt.NDArray[np.int64], pl.Series]],
    first_row_id: int,
) -> list[DataFileMeta]:
    """Write new values of rows of a group to blob files, with placeholders for the rows between them.

    `parts`: positions in the group and their new values; later parts take precedence.
    """
    positions = np.concatenate([each for each, _ in parts])
    values = pl.concat([each for _, each in parts])
    # Of several values of a row, the last one counts.
    rows, last = np.unique(positions[::-1], return_index=True)
    unique, numbers = uuid.uuid4(), count()
    writer = ColumnWriter(
        target, place, field, lambda: f"{target.write.data_file_prefix}{unique}-{next(numbers)}{BLOB_SUFFIX}"
    )
    try:
        reached = 0
        for row, value in zip(rows.tolist(), (len(positions) - 1 - last).tolist()):
            if row > reached:
                writer.skip(row - reached)
            writer.write(values[value : value + 1])
            reached = row + 1
        return writer.close(first_row_id)
    except BaseException:
        writer.abort()
        raise


def write_blob_column(
    target: WriteTarget, place: Placement, field: t.DataField, values: Iterable[pl.Series], first_row_id: int
) -> list[DataFileMeta]:
    """Write the values of consecutive rows to blob files."""
    unique, numbers = uuid.uuid4(), count()
    writer = ColumnWriter(
        target, place, field, lambda: f"{target.write.data_file_prefix}{unique}-{next(numbers)}{BLOB_SUFFIX}"
    )
    try:
        for part in values:
            writer.write(part)
        return writer.close(first_row_id)
    except BaseException:
        writer.abort()
        raise


class _Pieces:
    """Frames in pieces of few rows, one of which can be looked at."""

    def __init__(self, frames: Iterable[pl.DataFrame], names: Sequence[str], block_bytes: int) -> None:
        def cut(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
            fitting = int(frame.height * block_bytes / max(frame.select(cols(names)).estimated_size(), 1))
            yield from frame.iter_slices(min(max(fitting, MIN_BLOCK_ROWS), MAX_PIECE_ROWS))

        self._pieces = (piece for frame in frames if frame.height for piece in cut(frame))
        self._next: pl.DataFrame | None = None

    def is_left(self) -> bool:
        self._next = self._next if self._next is not None else next(self._pieces, None)
        return self._next is not None

    def take(self) -> pl.DataFrame:
        assert self._next is not None
        taken, self._next = self._next, None
        return taken


def _write_blobs(
    rows: _Pieces,
    writers: Sequence[ColumnWriter],
    blobs: Sequence[t.DataField],
    others: Sequence[t.DataField],
    kind: FileKind,
) -> Iterator[Any]:
    """Write the blobs of rows, and yield blocks of their other columns. Rows are taken as blocks are."""
    names = [field.name for field in others]
    waiting: list[pl.DataFrame] = []
    held = height = 0
    while rows.is_left():
        piece = rows.take()
        for field, writer in zip(blobs, writers):
            writer.write(piece[field.name])
        waiting.append(piece.select(cols(names)))
        held, height = held + int(waiting[-1].estimated_size()), height + piece.height
        if held >= kind.block_bytes or height >= MAX_BLOCK_ROWS:
            yield kind.describe(pl.concat(waiting))
            waiting, held, height = [], 0, 0
    if waiting:
        yield kind.describe(pl.concat(waiting))


EPOCH = dt.date(1970, 1, 1)
_WIDTHS: dict[type[t.DataType], int] = {t.TinyIntType: 1, t.SmallIntType: 2, t.IntType: 4, t.BigIntType: 8}


def make_key_encoder(kind: t.DataType) -> Callable[[Any], bytes | None]:
    """Return the function that encodes keys of maps of this type. Raises `Unsupported` for other types."""
    if type(kind) in _WIDTHS:
        width = _WIDTHS[type(kind)]
        return _skip_null(lambda key: int(key).to_bytes(width, "little", signed=True))
    if isinstance(kind, t.DecimalType):
        scale, short = kind.scale, kind.precision <= layout.MAX_SHORT_DIGITS

        def encode_decimal(key: Decimal) -> bytes:
            sign, digits, exponent = key.as_tuple()
            unscaled: int = int("".join(map(str, digits))) * 10 ** (int(exponent) + scale) * (-1 if sign else 1)
            if short:
                return unscaled.to_bytes(8, "little", signed=True)
            magnitude = unscaled if unscaled >= 0 else -unscaled - 1
            return unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)

        return _skip_null(encode_decimal)
    for kinds, encode in _ENCODERS.items():
        if isinstance(kind, kinds):
            return _skip_null(encode)
    raise Unsupported(f"keys of the type {kind} in blob files")


def _skip_null(encode: Callable[[Any], bytes]) -> Callable[[Any], bytes | None]:
    return lambda key: None if key is None else encode(key)


def _encode_time(key: dt.time) -> bytes:
    millis = ((key.hour * 60 + key.minute) * 60 + key.second) * 1000 + key.microsecond // 1000
    return millis.to_bytes(4, "little")


_ENCODERS: dict[Any, Callable[[Any], bytes]] = {
    t.BooleanType: lambda key: b"\1" if key else b"\0",
    (t.CharType, t.VarCharType): lambda key: str(key).encode(),
    (t.BinaryType, t.VarBinaryType): bytes,
    t.DateType: lambda key: int((key - EPOCH).days).to_bytes(4, "little", signed=True),
    t.TimeType: _encode_time,
}

WriteFiles = Callable[[Iterator[pl.DataFrame], Fields], list[DataFileMeta]]
"""Writes rows of these columns to data files."""


def list_filed_vectors(target: WriteTarget, columns: Fields) -> Fields:
    """Return the VECTOR columns that have files of their own."""
    if not target.options.data_evolution or target.write.given.get(VECTOR_FILE_FORMAT) is None:
        return ()
    return tuple(field for field in columns if isinstance(field.type, t.VectorType))


def select_filed_vectors(target: WriteTarget, columns: Fields) -> Fields:
    """Return the VECTOR columns that have files of their own; none if there are no other columns beside them."""
    found = list_filed_vectors(target, columns)
    return found if len(found) < len(columns) else ()


def write_with_vectors(
    target: WriteTarget, place: Placement, frames: Iterable[pl.DataFrame], columns: Fields, write: WriteFiles
) -> list[DataFileMeta]:
    """Write rows of these columns: their vectors to files of vectors, the other columns by `write`.

    Vectors wait in a temporary file until the data files of their rows are complete.

    Returns: each data file, followed by the files of its vectors, durable.

    Raises: as `write_files`. After any error, no new file is left.
    """
    vectors = select_filed_vectors(target, columns)
    others = tuple(field for field in columns if field not in vectors)
    files: list[DataFileMeta] = []
    with tempfile.TemporaryDirectory(prefix="morrow-vectors-") as folder:
        paths: list[Path] = []

        def split() -> Iterator[pl.DataFrame]:
            for number, frame in enumerate(frames):
                path = Path(folder) / f"{number}.arrow"
                with translate_system_errors(folder, pl.exceptions.PolarsError):
                    frame.select(cols(field.name for field in vectors)).write_ipc(path)
                paths.append(path)
                yield frame.select(cols(field.name for field in others))

        written = write(split(), others)
        try:
            rows = _Rows(paths)
            for number, file in enumerate(written):
                files.append(file)
                ends = number + 1 == len(written) or not is_dedicated_file(written[number + 1].file_name)
                if ends:
                    owner = next(each for each in reversed(files) if not is_dedicated_file(each.file_name))
                    files += write_vectors(target, place, rows.take(owner.row_count), vectors)
        except BaseException:
            with suppress(StorageError):
                delete_files(target, place, [*files, *(file for file in written if file not in files)])
            raise
    return files


class _Rows:
    """Rows in temporary files, taken one after the other."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._frames = map(pl.read_ipc, paths)
        self._left: pl.DataFrame | None = None

    def take(self, count: int) -> Iterator[pl.DataFrame]:
        """Yield the next rows."""
        while count:
            frame = next(self._frames) if self._left is None else self._left
            yield frame[:count]
            self._left = frame[count:] if frame.height > count else None
            count -= min(frame.height, count)


def write_vectors(
    target: WriteTarget, place: Placement, frames: Iterator[pl.DataFrame], vectors: Fields, size: int | None = None
) -> list[DataFileMeta]:
    """Write rows of VECTOR columns to files of vectors, rolled at `size` (None: as the options say).

    Raises: as `write_files`.
    """
    given, write = target.write.given, target.write
    size = size or given.get(VECTOR_TARGET_FILE_SIZE) or write.target_file_size
    name = str(given.get(VECTOR_FILE_FORMAT)).lower()
    chosen = replace(target, write=replace(write, file_format=name, format_per_level={}, target_file_size=size))
    kind = FileKind.of(chosen, 0, changelog=False, columns=vectors)
    kind = replace(kind, suffix=f"{VECTOR_INFIX.rstrip('.')}{kind.suffix}")
    with closing(encode_in_threads(kind.describe, cut_blocks(frames, kind.block_bytes))) as blocks:
        return write_blocks(chosen, place, kind, blocks, FileSource.APPEND, 0)
