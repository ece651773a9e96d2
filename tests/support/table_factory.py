"""A writer of Paimon tables in plain, simple Python, for tests and benchmarks.

It follows the layout of Java Paimon 1.4 (golden files were the model) and shares nothing with the engine but the data
types, so that a mistake in the engine's decoders cannot hide. Nothing is merged, compacted or bucketed here: the caller
says which rows are in which file, and is responsible for keys being distinct within a file and for files of one level
above 0 not overlapping.

    table = TableFactory(path, [("id", "INT"), ("v", "STRING")], primary_keys=["id"])
    table.write_file(pa.table({"id": [1, 2], "v": ["a", "b"]}))
    table.commit()
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from morrow.engine.format import types as t
from morrow.engine.format.types import parse_atomic
from morrow.engine.structs import replace
from tests.support.binary_row import binary_rows
from tests.support.data_files import (
    BLOB_LENGTH_BYTES,
    FORMATS,
    KIND_CODES,
    blob_file,
    key_order,
    stored_table,
    write_parquet,
)
from tests.support.deletion_vectors import Vector, index_file, vector
from tests.support.file_stats import ColumnStats, column_stats, stats_record
from tests.support.partitions import DEFAULT_PARTITION, Partition, Partitions
from tests.support.schema_file import JAVA, Spelling, now_millis, schema_json

SCHEMAS = Path(__file__).with_name("avro_schemas.json")


def _without_columns(schema: Any) -> Any:
    """Return the schema of manifests without the names of a file's columns."""
    file = next(field for field in schema["fields"] if field["name"] == "_FILE")["type"]
    file["fields"] = [field for field in file["fields"] if field["name"] != "_WRITE_COLS"]
    return fastavro.parse_schema(schema)


AVRO = {name: fastavro.parse_schema(schema) for name, schema in json.loads(SCHEMAS.read_text()).items()}
AVRO["manifest_without_columns"] = _without_columns(json.loads(SCHEMAS.read_text())["manifest"])
ADD, DELETE = 0, 1
FILE_SOURCE_APPEND, FILE_SOURCE_COMPACT = 0, 1
BATCH_COMMIT_IDENTIFIER = 2**63 - 1
Field = t.DataField | tuple[str, str]


@dataclass(frozen=True)
class DataFile:
    """A data file in the form of its manifest entry; `record` is the entry's ``_FILE``."""

    partition: Partition
    bucket: int
    record: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.record["_FILE_NAME"])

    @property
    def rows(self) -> int:
        return int(self.record["_ROW_COUNT"])


@dataclass
class TableFactory:
    """A table that is written at `path`; `commit` turns the pending files into a snapshot.

    Args:
        path: the table's folder, created here.
        fields: columns; ``(name, type text)`` for plain types, ids count from 0.
        options: table options; a primary-key table gets ``bucket=1``, unless given.
        manifest_codec: block codec of the Avro metadata: null, deflate, or zstandard if that module is installed.
        spelling: how another writer spells schemas and manifests.
    """

    path: Path
    fields: Sequence[Field]
    primary_keys: Sequence[str] = ()
    partition_keys: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    manifest_codec: str = "null"
    spelling: Spelling = JAVA

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        defaults = {"bucket": "1"} if self.primary_keys else {}
        self.snapshot_id = 0
        self.total_rows = 0
        self.next_row_id = 0
        self.schema_id = -1
        self._names = itertools.count()
        self._sequences: dict[tuple[Partition, int], int] = defaultdict(int)
        self._pending: list[tuple[int, DataFile]] = []
        self._manifests: list[dict[str, Any]] = []
        self._vectors: dict[tuple[Partition, int], dict[str, Vector]] = {}
        self._index_manifest: str | None = None
        self._vectors_changed = False
        for folder in ("schema", "snapshot", "manifest"):
            (self.path / folder).mkdir(parents=True, exist_ok=True)
        self.alter(fields=self.fields, options=defaults | dict(self.options))

    # -- schema ---------------------------------------------------------------------------------------------------

    def alter(self, *, fields: Sequence[Field] | None = None, options: Mapping[str, str] | None = None) -> int:
        """Write the next schema, make it current and return its id."""
        not_null = {*self.primary_keys}
        if fields is not None:
            typed = [_data_field(i, f) for i, f in enumerate(fields)]
            self.columns = tuple(
                t.DataField(f.id, f.name, f.type.with_nullable(f.type.nullable and f.name not in not_null))
                for f in typed
            )
        if options is not None:
            self.options = dict(options)
        self.schema_id += 1
        schema = schema_json(
            self.schema_id, self.columns, self.partition_keys, self.primary_keys, self.options, self.spelling
        )
        (self.path / "schema" / f"schema-{self.schema_id}").write_text(json.dumps(schema, indent=2))
        return self.schema_id

    @property
    def partitions(self) -> Partitions:
        by_name = {f.name: f for f in self.columns}
        fields = tuple(by_name[name] for name in self.partition_keys)
        return Partitions(fields, self.options.get("partition.default-name", DEFAULT_PARTITION))

    @property
    def keys(self) -> tuple[t.DataField, ...]:
        """The primary key without partition columns, as in data files."""
        by_name = {f.name: f for f in self.columns}
        return tuple(by_name[name] for name in self.primary_keys if name not in self.partition_keys)

    # -- data files -----------------------------------------------------------------------------------------------

    def write_file(
        self,
        table: pa.Table,
        *,
        partition: Mapping[str, Any] | None = None,
        bucket: int = 0,
        level: int = 0,
        sequence_start: int | Sequence[int] | np.ndarray[Any, Any] | None = None,
        kinds: Sequence[str] | np.ndarray[Any, Any] | None = None,
        format: str = "parquet",
        row_group_size: int | None = None,
        value_stats: bool | Sequence[str] = True,
        presorted: bool = False,
    ) -> DataFile:
        """Write a data file and add it to the pending commit.

        Args:
            table: all columns of the current schema; partition columns may be left out.
            partition: values of the partition columns, as Python values.
            sequence_start: sequence number of the first row, or one number per row; by default they count on from
                the last file of this partition and bucket. Rows get theirs before they are sorted by key.
            kinds: per row ``+I``, ``-U``, ``+U``, ``-D`` or their codes 0-3; inserts by default.
            value_stats: True for all columns, False for none, or the columns that have them.
            presorted: the rows of a primary-key table are already in key order.
        """
        spec = self.partitions.of(partition)
        full = self._completed(table, spec)
        count = full.num_rows
        sequence = self._sequence(spec, bucket, sequence_start, count)
        codes = np.zeros(count, np.int8) if kinds is None else np.array([KIND_CODES.get(k, k) for k in kinds], np.int8)
        if self.primary_keys and not presorted:
            order = key_order(full, self.keys, sequence)
            full, sequence, codes = full.take(pa.array(order)), sequence[order], codes[order]
        thin = self.options.get("data-file.thin-mode") == "true"
        name = f"data-{self._new_id()}-0.{format}"
        target = self.folder(spec, bucket) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        stored = (
            stored_table(full, self.columns, () if thin else self.keys, sequence, codes) if self.primary_keys else full
        )
        FORMATS[format](stored, self.columns, target, row_group_size)
        ends = full.take([0, count - 1]) if count else full
        record = self._record(
            name,
            size=target.stat().st_size,
            rows=count,
            stats=column_stats(full, self.columns),
            first=ends.slice(0, 1),
            last=ends.slice(max(len(ends) - 1, 0), 1),
            sequences=(int(sequence.min()), int(sequence.max())) if count else (0, 0),
            deletes=int(np.isin(codes, (1, 3)).sum()),
            level=level,
            value_stats=value_stats,
        )
        return self._add(DataFile(spec, bucket, record))

    def write_columns(self, rows: pa.Table, first_row_id: int, *, sequence: int, format: str = "parquet") -> DataFile:
        """Write a file of some columns of a data-evolution table, or of one BLOB column (`format` is "blob")."""
        names = rows.column_names
        fields = [f for f in self.columns if f.name in names]
        name = f"data-{self._new_id()}-0.{format}"
        target = self.folder((), 0) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        stats = column_stats(rows, fields)
        if format == "blob":
            unchecked = BLOB_LENGTH_BYTES if self.spelling.unchecked_lengths else 0
            target.write_bytes(blob_file(rows.column(0).to_pylist(), unchecked=unchecked))
            stats = replace(stats, nulls=dict.fromkeys(names, 0)) if self.spelling.uncounted_blobs else stats
        elif format == "parquet":
            write_parquet(rows, fields, target, None, store_schema=self.spelling.fixed_lists)
        else:
            FORMATS[format](rows, fields, target, None)
        record = self._record(
            name,
            size=target.stat().st_size,
            rows=rows.num_rows,
            stats=stats,
            first=rows.slice(0, 0),
            last=rows.slice(0, 0),
            sequences=(sequence, sequence),
            deletes=0,
            level=0,
            value_stats=names,
        )
        self.next_row_id = max(self.next_row_id, first_row_id + rows.num_rows)
        return self._add(DataFile((), 0, record | {"_FIRST_ROW_ID": first_row_id, "_WRITE_COLS": names}))

    def fake_files(
        self,
        minimum: pa.Table,
        maximum: pa.Table,
        *,
        partitions: Sequence[Mapping[str, Any]] | None = None,
        buckets: Sequence[int] | np.ndarray[Any, Any] | None = None,
        levels: Sequence[int] | np.ndarray[Any, Any] | None = None,
        rows: int = 1_000,
        size: int = 100_000,
    ) -> list[DataFile]:
        """Add manifest entries for files that do not exist, one per row of the statistics `minimum` and `maximum`."""
        count = minimum.num_rows
        low = [minimum.column(f.name).cast(f.type.arrow()).combine_chunks() for f in self.columns]
        high = [maximum.column(f.name).cast(f.type.arrow()).combine_chunks() for f in self.columns]
        kinds = [f.type for f in self.columns]
        values = zip(binary_rows(low, kinds, count), binary_rows(high, kinds, count), strict=True)
        at = [self.columns.index(k) for k in self.keys]
        key_kinds = [k.type for k in self.keys]
        low_keys = binary_rows([low[i] for i in at], key_kinds, count)
        high_keys = binary_rows([high[i] for i in at], key_kinds, count)
        specs = [self.partitions.of(p) for p in partitions] if partitions is not None else [()] * count
        none, no_nulls = [0] * len(at), [0] * len(self.columns)
        files = []
        for i, (low_row, high_row) in enumerate(values):
            record = self._template | {
                "_FILE_NAME": f"data-{self._new_id()}-0.parquet",
                "_FILE_SIZE": size,
                "_ROW_COUNT": rows,
                "_MIN_KEY": low_keys[i],
                "_MAX_KEY": high_keys[i],
                "_KEY_STATS": stats_record(low_keys[i], high_keys[i], none),
                "_VALUE_STATS": stats_record(low_row, high_row, no_nulls),
                "_MIN_SEQUENCE_NUMBER": i * rows,
                "_MAX_SEQUENCE_NUMBER": i * rows + rows - 1,
                "_LEVEL": 0 if levels is None else int(levels[i]),
            }
            files.append(self._add(DataFile(specs[i], 0 if buckets is None else int(buckets[i]), record)))
        return files

    def delete_file(self, file: DataFile) -> None:
        """Remove a file of an earlier commit from the table; it stays on disk, as in Paimon."""
        self._pending.append((DELETE, file))

    def deletion_vector(self, file: DataFile, positions: Iterable[int]) -> None:
        """Set the deleted positions of a data file, replacing earlier ones; no positions remove its vector."""
        vectors = self._vectors.setdefault((file.partition, file.bucket), {})
        dead = sorted(set(positions))
        vectors.pop(file.name, None)
        if dead:
            vectors[file.name] = vector(dead, wide=self.options.get("deletion-vectors.bitmap64") == "true")
        self._vectors_changed = True

    def folder(self, partition: Partition, bucket: int) -> Path:
        """Return the folder with the data files of this partition and bucket."""
        return self.path / self.partitions.folder(partition) / f"bucket-{bucket}"

    # -- commit ---------------------------------------------------------------------------------------------------

    def commit(self, kind: str = "APPEND", *, entries_per_manifest: int = 10_000) -> int:
        """Turn the pending files into a snapshot and return its id."""
        self.snapshot_id += 1
        pending, self._pending = self._pending, []
        new = [
            self._write_manifest(pending[i : i + entries_per_manifest])
            for i in range(0, len(pending), entries_per_manifest)
        ]
        base, base_size = self._write("manifest-list", "manifest_list", self._manifests)
        delta, delta_size = self._write("manifest-list", "manifest_list", new)
        self._manifests += new
        if self._vectors_changed:
            self._index_manifest = self._write_vectors()
        change = sum(f.rows if entry == ADD else -f.rows for entry, f in pending)
        self.total_rows += change
        snapshot = {
            "version": 3,
            "id": self.snapshot_id,
            "schemaId": self.schema_id,
            "baseManifestList": base,
            "baseManifestListSize": base_size,
            "deltaManifestList": delta,
            "deltaManifestListSize": delta_size,
            **({"indexManifest": self._index_manifest} if self._index_manifest else {}),
            "commitUser": "00000000-0000-0000-0000-000000000000",
            "commitIdentifier": BATCH_COMMIT_IDENTIFIER,
            "commitKind": kind,
            "timeMillis": now_millis(),
            "totalRecordCount": self.total_rows,
            "deltaRecordCount": change,
            "nextRowId": self.next_row_id,
        }
        folder = self.path / "snapshot"
        (folder / f"snapshot-{self.snapshot_id}").write_text(json.dumps(snapshot, indent=2))
        (folder / "LATEST").write_text(str(self.snapshot_id))
        (folder / "EARLIEST").write_text("1")
        return self.snapshot_id

    def _write_manifest(self, pending: Sequence[tuple[int, DataFile]]) -> dict[str, Any]:
        partitions = list(dict.fromkeys(f.partition for _, f in pending))
        rows = dict(zip(partitions, self.partitions.rows(partitions), strict=True))
        total_buckets = int(self.options.get("bucket", -1))
        records = (
            {
                "_VERSION": 2,
                "_KIND": kind,
                "_PARTITION": rows[f.partition],
                "_BUCKET": f.bucket,
                "_TOTAL_BUCKETS": total_buckets,
                "_FILE": f.record,
            }
            for kind, f in pending
        )
        schema = "manifest_without_columns" if self.spelling.write_columns == "left out" else "manifest"
        name, size = self._write("manifest", schema, records)
        added = sum(kind == ADD for kind, _ in pending)
        buckets = [f.bucket for _, f in pending]
        levels = [f.record["_LEVEL"] for _, f in pending]
        return {
            "_VERSION": 2,
            "_FILE_NAME": name,
            "_FILE_SIZE": size,
            "_NUM_ADDED_FILES": added,
            "_NUM_DELETED_FILES": len(pending) - added,
            "_PARTITION_STATS": self.partitions.stats([f.partition for _, f in pending]),
            "_SCHEMA_ID": self.schema_id,
            "_MIN_BUCKET": min(buckets),
            "_MAX_BUCKET": max(buckets),
            "_MIN_LEVEL": min(levels),
            "_MAX_LEVEL": max(levels),
            "_MIN_ROW_ID": None,
            "_MAX_ROW_ID": None,
        }

    def _write(self, prefix: str, schema: str, records: Iterable[Mapping[str, Any]]) -> tuple[str, int]:
        name = f"{prefix}-{self._new_id()}-0"
        target = self.path / "manifest" / name
        with target.open("wb") as stream:
            fastavro.writer(stream, AVRO[schema], records, codec=self.manifest_codec)
        return name, target.stat().st_size

    # -- deletion vectors -----------------------------------------------------------------------------------------

    def _write_vectors(self) -> str:
        """Write one index file per bucket, and the index manifest that lists all of them."""
        self._vectors_changed = False
        folder = self.path / "index"
        folder.mkdir(exist_ok=True)
        entries = []
        for (partition, bucket), vectors in self._vectors.items():
            if not vectors:
                continue
            content, ranges = index_file(vectors)
            name = f"index-{self._new_id()}-0"
            (folder / name).write_bytes(content)
            entries.append(
                {
                    "_VERSION": 1,
                    "_KIND": ADD,
                    "_PARTITION": self.partitions.rows([partition])[0],
                    "_BUCKET": bucket,
                    "_INDEX_TYPE": "DELETION_VECTORS",
                    "_FILE_NAME": name,
                    "_FILE_SIZE": len(content),
                    "_ROW_COUNT": len(ranges),
                    "_DELETIONS_VECTORS_RANGES": ranges,
                    "_EXTERNAL_PATH": None,
                    "_GLOBAL_INDEX": None,
                }
            )
        return self._write("index-manifest", "index_manifest", entries)[0]

    # -- file records ---------------------------------------------------------------------------------------------

    @property
    def _template(self) -> dict[str, Any]:
        return {
            "_SCHEMA_ID": self.schema_id,
            "_EXTRA_FILES": [],
            "_CREATION_TIME": now_millis(),
            "_DELETE_ROW_COUNT": 0,
            "_EMBEDDED_FILE_INDEX": None,
            "_FILE_SOURCE": FILE_SOURCE_APPEND,
            "_VALUE_STATS_COLS": None,
            "_EXTERNAL_PATH": None,
            "_FIRST_ROW_ID": None,
            "_WRITE_COLS": [f.name for f in self.columns] if self.spelling.write_columns == "named" else None,
        }

    def _record(
        self,
        name: str,
        *,
        size: int,
        rows: int,
        stats: ColumnStats,
        first: pa.Table,
        last: pa.Table,
        sequences: tuple[int, int],
        deletes: int,
        level: int,
        value_stats: bool | Sequence[str],
    ) -> dict[str, Any]:
        keys = [f.name for f in self.keys]
        if value_stats is True:
            shown, listed = [f.name for f in self.columns], None
        else:
            shown = listed = list(value_stats) if value_stats else []
        return self._template | {
            "_FILE_NAME": name,
            "_FILE_SIZE": size,
            "_ROW_COUNT": rows,
            "_MIN_KEY": self._key_row(first),
            "_MAX_KEY": self._key_row(last),
            "_KEY_STATS": stats.record(keys),
            "_VALUE_STATS": stats.record(shown),
            "_MIN_SEQUENCE_NUMBER": sequences[0],
            "_MAX_SEQUENCE_NUMBER": sequences[1],
            "_LEVEL": level,
            "_DELETE_ROW_COUNT": deletes,
            "_FILE_SOURCE": FILE_SOURCE_COMPACT if level else FILE_SOURCE_APPEND,
            "_VALUE_STATS_COLS": listed,
        }

    def _key_row(self, row: pa.Table) -> bytes:
        columns = [row.column(f.name).combine_chunks() for f in self.keys]
        return binary_rows(columns, [f.type for f in self.keys], 1)[0]

    def _completed(self, table: pa.Table, partition: Partition) -> pa.Table:
        """Put columns into the schema's order and types, and fill in partition columns."""
        values = dict(zip(self.partition_keys, partition, strict=True))
        columns = [
            table.column(f.name).cast(f.type.arrow()).combine_chunks()
            if f.name in table.column_names
            else pa.array([values[f.name]] * table.num_rows, f.type.arrow())
            for f in self.columns
        ]
        return pa.table(columns, schema=t.to_arrow_schema(self.columns))

    def _sequence(self, partition: Partition, bucket: int, start: Any, count: int) -> np.ndarray[Any, Any]:
        if start is None:
            start = self._sequences[partition, bucket]
        numbers = np.arange(start, start + count) if isinstance(start, int) else np.asarray(start, np.int64)
        if count:
            self._sequences[partition, bucket] = max(self._sequences[partition, bucket], int(numbers.max()) + 1)
        return numbers.astype(np.int64)

    def _new_id(self) -> uuid.UUID:
        """Return an id as in Java's file names, but the same one in every run."""
        return uuid.uuid5(uuid.NAMESPACE_OID, str(next(self._names)))

    def _add(self, file: DataFile) -> DataFile:
        self._pending.append((ADD, file))
        return file


def _data_field(i: int, f: Field) -> t.DataField:
    return f if isinstance(f, t.DataField) else t.DataField(i, f[0], parse_atomic(f[1]))
