"""Decoders of manifest lists, manifests and index manifests to columns.

The metadata of a large table is itself columnar data: 100,000 file entries are one Polars frame, resolved and pruned
with expressions, never one Python object per entry. Files may be Avro, ORC or Parquet (``manifest.format``), which is
detected from the first bytes. Entries gained fields from Paimon 0.9 (16) to 2.0 (20): fields are read by name, and
missing fields get defaults.

Source: the format specification, sections Manifest List, Manifest and Global Index.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import polars as pl
import pyarrow as pa

from morrow.engine.errors import CorruptFile, MorrowError, Unsupported
from morrow.engine.format.avro import (
    AvroContainer,
    decode,
    decode_together,
    decompress_container,
    lower,
    read_container,
)
from morrow.engine.format.manifest_entries import (
    ADD,
    DELETE,
    DELETION_VECTORS_INDEX,
    ENTRY_COLUMNS,
    FILE_COLUMNS,
    HASH_INDEX,
    INDEX_COLUMNS,
    INDEX_MANIFEST_VERSION,
    MANIFEST_LIST_COLUMNS,
    MANIFEST_LIST_VERSION,
    MANIFEST_VERSION,
    NULLABLE_COLUMNS,
    OPTIONAL_COLUMNS,
    OUTLINE_COLUMNS,
    STATISTICS,
)
from morrow.engine.format.metadata_json import find_meant_name, refuse_slips
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.names import col
from morrow.engine.polars_threads import deduplicate_values

MAX_ROWS_PER_BYTE = 1 << 16
"""Maximum rows per byte of a file, which run-length encoding does not exceed."""

MAX_LEVELS = 1 << 10
"""Maximum number of levels of a table. A higher level counts as damage."""

MAX_EXPANSION, MIN_ROOM_BYTES = 1000, 1 << 24
"""Limits of a decompressed metadata file: 1,000 times its size (statistics of wide tables reach this), or 16 MiB."""

_FILE = "_FILE"

UNREADABLE = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    pa.ArrowException,
    OSError,
    UnicodeDecodeError,
)
"""The errors that Polars and Arrow raise for damaged Parquet and ORC files."""


def decode_manifest_list(data: bytes, path: str) -> pl.DataFrame:
    """Decode a manifest list: one row per manifest, in the order of the list, columns `MANIFEST_LIST_COLUMNS`.

    Raises:
        CorruptFile: undecodable bytes, missing columns, or nulls in a required column.
        Unsupported: a newer version of the format.
    """
    return _align_list(_decode(data, path), path)


def decode_manifest_lists(files: Sequence[tuple[bytes, str]]) -> list[pl.DataFrame]:
    """Return `decode_manifest_list` of each file (data, path); faster for small files."""
    return _decode_each(files, _align_list)


def _align_list(frame: pl.DataFrame, path: str) -> pl.DataFrame:
    return align_frame(frame, MANIFEST_LIST_COLUMNS, MANIFEST_LIST_VERSION, path)


def decode_manifest(data: bytes, path: str) -> pl.DataFrame:
    """Decode a manifest: one row per entry, in file order, columns `ENTRY_COLUMNS` and the members of ``_FILE``.

    Raises: as `decode_manifest_list`.
    """
    return _align_entries(_decode(data, path), path)


def decode_manifests(files: Sequence[tuple[bytes, str]]) -> list[pl.DataFrame]:
    """Return `decode_manifest` of each file (data, path); faster for small files."""
    return _decode_each(files, _align_entries)


def decode_outlines(files: Sequence[tuple[bytes, str]]) -> list[pl.DataFrame]:
    """Return `decode_manifest` of each file (data, path) without statistics, with the columns `OUTLINE_COLUMNS`.

    In Avro files, statistics are not decoded, so the entries of a wide table take a hundredth of the memory.
    """
    return _decode_each(files, _align_outlines, outlines=True)


def _align_outlines(frame: pl.DataFrame, path: str) -> pl.DataFrame:
    if _FILE in frame.columns:
        return _align_entries(frame, path).select(*OUTLINE_COLUMNS)
    entries = align_frame(frame, OUTLINE_COLUMNS, MANIFEST_VERSION, path)
    _check_numbers(entries, path)
    return entries


def _select_without_statistics(container: AvroContainer) -> list[str] | None:
    """Return the columns to decode of a container with a spread column _FILE; None if it is not spread."""
    names, path = container.lowered.names, container.where
    if _FILE in names or _FILE not in lower(container.schema, where=path).names:
        return None
    known = {**ENTRY_COLUMNS, **FILE_COLUMNS}
    refuse_missing(names, known, path)
    refuse_slips(dict.fromkeys(names), known, path)
    return [name for name in names if name not in STATISTICS]


def _align_entries(frame: pl.DataFrame, path: str) -> pl.DataFrame:
    if _FILE not in frame.columns or not isinstance(frame.schema[_FILE], pl.Struct):
        raise CorruptFile(path, "a manifest without the column _FILE")
    try:
        frame = frame.unnest(_FILE)
    except pl.exceptions.PolarsError as error:
        raise CorruptFile(path, f"a column of _FILE is also outside of it ({error})") from error
    entries = align_frame(frame, {**ENTRY_COLUMNS, **FILE_COLUMNS}, MANIFEST_VERSION, path)
    _check_numbers(entries, path)
    return entries


def _check_numbers(entries: pl.DataFrame, path: str) -> None:
    """Refuse impossible counts, before memory is allocated for them."""
    # Without expressions: setting one up takes longer than checking a small manifest.
    numbers = ("_KIND", "_ROW_COUNT", "_FILE_SIZE", "_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER")
    kind, rows, size, first, last = (entries[name].to_numpy() for name in numbers)
    bucket, buckets, level = (entries[name].to_numpy() for name in ("_BUCKET", "_TOTAL_BUCKETS", "_LEVEL"))
    deleted = entries["_DELETE_ROW_COUNT"].fill_null(0).to_numpy()  # null if not counted
    impossible = (
        (rows < 0)
        | (size < 0)
        | (rows > (size + 1) * MAX_ROWS_PER_BYTE)
        | (deleted < 0)
        | (deleted > rows)
        | ((kind != ADD) & (kind != DELETE))
        | (first > last)
        | ((bucket >= buckets) & (buckets > 0))
        | (bucket < POSTPONE_BUCKET)
        | (buckets < POSTPONE_BUCKET)
        | (level < 0)
        | (level > MAX_LEVELS)
    )
    if impossible.any():
        name = entries["_FILE_NAME"][int(impossible.argmax())]
        raise CorruptFile(path, f"the entry of {name} holds impossible numbers")


def decode_index_manifest(data: bytes, path: str) -> pl.DataFrame:
    """Decode an index manifest: one row per index file, columns `INDEX_COLUMNS`.

    Raises: as `decode_manifest_list`.
    """
    frame = align_frame(_decode(data, path), INDEX_COLUMNS, INDEX_MANIFEST_VERSION, path)
    _check_indexes(frame, path)
    return frame


def _check_indexes(indexes: pl.DataFrame, path: str) -> None:
    """Refuse impossible entries of index files: a damaged type name, vectors without counts."""
    for kind in deduplicate_values(indexes["_INDEX_TYPE"]):
        if (meant := find_meant_name(kind, (DELETION_VECTORS_INDEX, HASH_INDEX))) is not None:
            raise CorruptFile(path, f"the index type {kind!r} looks like a damaged {meant!r}")
    ranges, bucket = indexes["_DELETIONS_VECTORS_RANGES"].list.len(), indexes["_BUCKET"]
    vectors = indexes["_INDEX_TYPE"] == DELETION_VECTORS_INDEX
    impossible = (
        (vectors & (ranges != indexes["_ROW_COUNT"]))
        | (~vectors & (ranges > 0))
        | (indexes["_FILE_SIZE"] < 0)
        | (indexes["_ROW_COUNT"] < 0)
        | (bucket < POSTPONE_BUCKET)
        | ((indexes["_KIND"] != ADD) & (indexes["_KIND"] != DELETE))
    )
    if impossible.any():
        name = indexes["_FILE_NAME"].filter(impossible)[0]
        raise CorruptFile(path, f"the entry of {name} holds impossible numbers")


def compute_decoded_limits(size: int) -> tuple[int, int]:
    """Return the maximum number of entries, and of their bytes, in a metadata file of `size` bytes.

    Each entry has a unique, random file name, which takes at least a byte with any codec.
    """
    return size, max(MAX_EXPANSION * size, MIN_ROOM_BYTES)


Shape = Callable[[pl.DataFrame, str], pl.DataFrame]
"""A function that checks the decoded frame of a file, and returns the columns of its kind."""


def _decode_each(files: Sequence[tuple[bytes, str]], shape: Shape, *, outlines: bool = False) -> list[pl.DataFrame]:
    together = _decode_together(files, shape, outlines) if len(files) > 1 else None
    return [shape(_decode(data, path, outlines), path) for data, path in files] if together is None else together


def _decode_together(files: Sequence[tuple[bytes, str]], shape: Shape, outlines: bool) -> list[pl.DataFrame] | None:
    """Decode the files of each writer schema together and return slices; None unless all files are Avro.

    Also None if a file is damaged: if it is decoded alone, its error names the file.
    """
    found: dict[int, pl.DataFrame] = {}
    try:
        containers = [read_container(data, where=path, spread=_FILE if outlines else "") for data, path in files]
        for schema in dict.fromkeys(container.schema for container in containers):
            alike = [number for number, container in enumerate(containers) if container.schema == schema]
            columns = _select_without_statistics(containers[alike[0]]) if outlines else None
            together = decode_together([containers[number] for number in alike], compute_decoded_limits, columns)
            frame = shape(together, files[alike[0]][1])
            ends = itertools.accumulate(containers[number].rows for number in alike)
            for number, end in zip(alike, ends):
                found[number] = frame.slice(end - containers[number].rows, containers[number].rows)
    except MorrowError:
        return None
    return [found[number] for number in range(len(files))]


def _decode(data: bytes, path: str, outlines: bool = False) -> pl.DataFrame:
    if data[:4] == b"Obj\x01":
        container = read_container(data, where=path, spread=_FILE if outlines else "")
        columns = _select_without_statistics(container) if outlines else None
        return decode(container, decompress_container(container, most=compute_decoded_limits), container.rows, columns)
    most_rows, most_bytes = compute_decoded_limits(len(data))
    try:
        if data[:4] == b"PAR1":
            # Not with Polars: a damaged file may crash the process there, whereas Arrow is fuzzed against this.
            import pyarrow.parquet as pq  # imports all of Arrow's file systems

            from morrow.engine.format.parquet_metadata import check_page_sizes

            check_page_sizes(data, path, most_rows, most_bytes)

            return _from_arrow(pq.read_table(pa.BufferReader(data), page_checksum_verification=True))
        if data[:3] == b"ORC":
            from morrow.engine.format.orc_columns import read_orc

            return _from_arrow(read_orc(data, path, most_bytes))
    except pa.ArrowNotImplementedError as error:
        raise Unsupported(f"something in the manifest ({error})", where=path) from error
    except UNREADABLE as error:
        raise CorruptFile(path, f"not a readable manifest ({error})") from error
    if not data.strip(b"\0"):
        raise CorruptFile(path, f"it is empty: {len(data)} bytes of zeros")
    raise Unsupported(
        f"a manifest that begins with {data[:4].hex()} and is neither Avro, Parquet nor ORC",
        where=path,
        hint="read it by the program that wrote it, or set manifest.format to avro and rewrite the manifests there",
    )


def _from_arrow(table: pa.Table) -> pl.DataFrame:
    table.validate(full=True)  # Polars assumes that text is UTF-8
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def align_frame(
    frame: pl.DataFrame, columns: Mapping[str, pl.DataType | type[pl.DataType]], version: int, path: str
) -> pl.DataFrame:
    """Return the frame with exactly these columns.

    Raises:
        CorruptFile: a column is missing, misnamed, of another type or null. Unsupported: a version newer than
            `version`.
    """
    stored = {column.name: column for column in frame.get_columns()}
    schema = {name: column.dtype for name, column in stored.items()}
    refuse_missing(schema, columns, path)
    _refuse_misnamed(schema, columns, path)
    newest = stored["_VERSION"].max() if frame.height else None
    if isinstance(newest, int) and newest > version:
        raise Unsupported(f"manifest version {newest}", where=path, hint="upgrade Morrow")
    try:
        found = [_align_column(stored.get(name), name, dtype, frame.height) for name, dtype in columns.items()]
    except pl.exceptions.PolarsError as error:
        raise CorruptFile(path, f"a column has the wrong type ({error})") from error
    for column, dtype in zip(found, columns.values(), strict=True):
        if column.dtype != dtype:
            raise CorruptFile(path, f"the column {column.name} is of type {column.dtype}, not {dtype}")
        if column.name not in NULLABLE_COLUMNS and column.null_count():
            raise CorruptFile(path, f"the column {column.name} holds a null")
    return pl.DataFrame(found)


def refuse_missing(names: Collection[str], columns: Iterable[str], path: str) -> None:
    """Raise `CorruptFile` if a column is missing that all format versions have."""
    missing = [name for name in columns if name not in names and name not in OPTIONAL_COLUMNS]
    if missing:
        raise CorruptFile(path, f"the column {missing[0]} is missing")


def _refuse_misnamed(
    schema: Mapping[str, pl.DataType], columns: Mapping[str, pl.DataType | type[pl.DataType]], path: str
) -> None:
    """Refuse a column or member whose name is a misspelling of a known, missing name."""
    refuse_slips(schema, columns, path)
    for name, wanted in columns.items():
        found = _list_members(schema.get(name))
        if found:
            refuse_slips(found, _list_members(wanted), path)


def _list_members(dtype: object) -> dict[str, object]:
    if isinstance(dtype, pl.List):
        return _list_members(dtype.inner)
    return {field.name: field.dtype for field in dtype.fields} if isinstance(dtype, pl.Struct) else {}


def _align_column(
    column: pl.Series | None, name: str, dtype: pl.DataType | type[pl.DataType], height: int
) -> pl.Series:
    if column is None:
        return pl.Series(name, [None], dtype=dtype).new_from_index(0, height)
    actual = column.dtype
    if actual == dtype:
        return column
    if isinstance(actual, pl.Datetime) and actual.time_zone not in (None, "UTC"):
        column = column.dt.replace_time_zone(None)
    # For structs, only a cast in an expression adds members that old versions lack.
    return column.to_frame().select(col(name).cast(dtype)).to_series() if actual.is_nested() else column.cast(dtype)
