"""Entries of manifests and index manifests as values: a writer's description of one file.

Readers keep manifests as frames (`engine.format.manifest`); a commit, which adds a handful of files, handles them one
by one. Names are those of the specification without the leading underscore.

Source: the format specification, sections Manifest and Index.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec


class EntryKind(IntEnum):
    """The kind of a manifest entry: the file is added or deleted."""

    ADD = 0
    DELETE = 1


class FileSource(IntEnum):
    """The origin of a data file."""

    APPEND = 0
    COMPACT = 1


class SimpleStats(msgspec.Struct, frozen=True):
    """Bounds and null counts of some columns: two BinaryRows (arity first) and a count per column (None: unknown)."""

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]


EMPTY_ROW = bytes(12)
"""A BinaryRow of no fields: arity 0, then 8 bytes of header."""

EMPTY_STATS = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())


class DataFileMeta(msgspec.Struct, frozen=True, kw_only=True):
    """A data file as its manifest entry describes it (the record ``_FILE``).

    Keys are BinaryRows (arity first) of the trimmed primary key, `EMPTY_ROW` in append tables. Sizes are bytes, times
    epoch milliseconds of the local wall clock (as Java stores them). `delete_row_count` counts -U and -D rows.
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    key_stats: SimpleStats = EMPTY_STATS
    value_stats: SimpleStats = EMPTY_STATS
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time: int
    delete_row_count: int | None = 0
    embedded_file_index: bytes | None = None
    file_source: int | None = FileSource.APPEND
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None

    def upgraded(self, level: int) -> DataFileMeta:
        """Returns the same file at another level: compaction without rewriting."""
        return msgspec.structs.replace(self, level=level)


class ManifestEntry(msgspec.Struct, frozen=True):
    """One file added to, or deleted from, one bucket; `partition` is a BinaryRow (arity first)."""

    kind: EntryKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta


class DeletionRange(msgspec.Struct, frozen=True):
    """The location of the deletion vector of `data_file` in its index file (record of ``_DELETIONS_VECTORS_RANGES``).

    `offset` points at the length field, `length` counts magic and bitmap.
    """

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


class IndexFileMeta(msgspec.Struct, frozen=True, kw_only=True):
    """An index file as its index manifest entry describes it; `row_count` counts vectors (DV) or hashes (HASH)."""

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_ranges: tuple[DeletionRange, ...] | None = None
    external_path: str | None = None


class IndexEntry(msgspec.Struct, frozen=True):
    """One index file added to, or deleted from, one bucket."""

    kind: EntryKind
    partition: bytes
    bucket: int
    file: IndexFileMeta
