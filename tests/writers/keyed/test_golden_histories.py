"""Each commit of Java to the buckets of golden tables, repeated by Morrow on the same base snapshot.

Kinds, levels, counts, keys, numbers, sources, statistics and schemas of all files must equal Java's. Since sizes differ
and compaction picks files by size, a flushed file is given the size that Java recorded.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pytest

from morrow.engine.format import types as t
from morrow.engine.format.manifest_entries import DataFileMeta, to_entries
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.local import LocalStore, disable_fsync
from morrow.engine.options import parse_write_options
from morrow.engine.plan.manifests import list_changelog_manifests, list_delta_manifests, read_manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.files import file_frames
from morrow.writers.buckets.routers import BucketState, FixedRouter, restore_partitions
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.files.data_files import Placement
from morrow.writers.keyed import writer as module
from morrow.writers.keyed.writer import MergeTreeWriter
from morrow.writers.target import WriteTarget
from tests.support.golden import jsonl
from tests.support.profile import every
from tests.writers.keyed.tables import KIND_CODES

REPLAYED = ("write", "write (write-only)", "compact full")
CASES = (
    *("pk_dedup_b4", "pk_dedup_compacted_b4", "pk_dedup_deletes", "pk_dedup_partitioned", "pk_sequence_field_two"),
    *("pk_sequence_field", "pk_ignore_delete", "pk_rowkind_field", "first_row", "pu_random_seqgroup"),
    *("pu_random_remove_on_delete", "pu_random_agg", "agg_sum_product_retract", "changelog_input", "changelog_lookup"),
    *("changelog_full_compaction", "changelog_lookup_row_deduplicate", "dv_pk", "dv_pk_avro", "dv_partial_update"),
    *(
        "dv_enabled_later",
        "evolve_partial_update",
        "evolve_with_dv",
        "fmt_per_level",
        "thin_mode_dv",
        "stats_mixed",
        "key_timestamp6",
    ),
)

Described = tuple[Any, ...]


def described(snapshot: str, what: str, partition: bytes, bucket: int, file: DataFileMeta) -> Described:
    """Describe a file of a commit without its name, size and time, which differ each time."""
    plain = msgspec.structs.replace(file, file_name="", file_size=0, creation_time=0, embedded_file_index=None)
    return snapshot, what, partition, bucket, plain


def by_java(metadata: TableMetadata, snapshots: Sequence[Snapshot]) -> Iterator[tuple[Described, DataFileMeta]]:
    for snapshot in snapshots:
        kind = snapshot.commit_kind.rsplit(".")[-1]
        for frame in read_manifest_entries(metadata, list_delta_manifests(metadata, snapshot)):
            for entry in to_entries(frame):
                yield described(kind, entry.kind.name, entry.partition, entry.bucket, entry.file), entry.file
        changelog = list_changelog_manifests(metadata, snapshot)
        for frame in [] if changelog is None else read_manifest_entries(metadata, changelog):
            for entry in to_entries(frame):
                yield described(kind, "CHANGELOG", entry.partition, entry.bucket, entry.file), entry.file


def by_morrow(messages: Sequence[CommitMessage]) -> Iterator[Described]:
    for m in messages:
        for kind, what, files in (
            ("APPEND", "ADD", m.new_files),
            ("APPEND", "CHANGELOG", m.changelog_files),
            ("COMPACT", "DELETE", m.compact_before),
            ("COMPACT", "ADD", m.compact_after),
            ("COMPACT", "CHANGELOG", m.compact_changelog),
        ):
            yield from (described(kind, what, m.partition, m.bucket, file) for file in files)


def series(name: str, values: list[Any], type_: t.DataType) -> pl.Series:
    """Convert a column of golden values to Polars."""
    dtype = to_polars_dtype(type_)
    if isinstance(type_, (t.BinaryType, t.VarBinaryType)):
        return pl.Series(name, [None if v is None else bytes.fromhex(v) for v in values], dtype=dtype)
    if isinstance(type_, (t.FloatType, t.DoubleType)):
        return pl.Series(name, [None if v is None else float(v) for v in values], dtype=dtype)
    if isinstance(type_, (t.TimestampType, t.LocalZonedTimestampType)):
        texts = pa.array([None if v is None else v.rstrip("Z") for v in values], pa.string())
        read = pl.Series(name, pl.from_arrow(texts.cast(pa.timestamp("ns" if type_.precision > 6 else "us"))))
        zone = "UTC" if isinstance(type_, t.LocalZonedTimestampType) else None
        return read.dt.replace_time_zone(zone).cast(dtype)
    if isinstance(type_, (t.DecimalType, t.DateType, t.TimeType)):
        return pl.Series(name, pl.from_arrow(pa.array(values, pa.string()).cast(type_.arrow()))).cast(dtype)
    return pl.Series(name, values, dtype=dtype)


def given_rows(path: Path, names: Sequence[str], target: WriteTarget) -> pl.DataFrame:
    """Read the rows of one commit as a writer's input."""
    rows = jsonl(path)
    at = {name: 1 + i for i, name in enumerate(names)}
    columns = [
        series(f.name, [row[at[f.name]] if f.name in at else None for row in rows], f.type)
        for f in target.schema.fields
    ]
    frame = pl.DataFrame(columns)
    kinds = pl.Series([row[0] for row in rows]) if (k := target.write.rowkind_field) is None else frame[k]
    return frame.with_columns(kinds.replace_strict(KIND_CODES, return_dtype=pl.Int8).alias("_VALUE_KIND"))


def target_of(metadata: TableMetadata, schema: TableSchema, operation: str) -> WriteTarget:
    write = parse_write_options(schema.options, keyed=True, where="t")
    write = replace(write, write_only=operation == "write (write-only)")
    return WriteTarget(metadata, schema, metadata.options(schema), write)


@pytest.mark.golden
@pytest.mark.parametrize("case", every(2, CASES))
def test_commits_are_those_of_java(
    case: str, golden_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = golden_root / "public" / case
    info = json.loads((source / "case.json").read_text())
    shutil.copytree(source / info["table_path"], tmp_path / "t")
    metadata = TableMetadata(LocalStore(), str(tmp_path / "t"))
    sizes: dict[Described, int] = {}
    flush = module.write_files

    def sized(target: WriteTarget, place: Placement, *args: Any, **options: Any) -> list[DataFileMeta]:
        files = flush(target, place, *args, **options)
        known = [sizes.get(described("APPEND", "ADD", place.partition, place.bucket, f), f.file_size) for f in files]
        return [msgspec.structs.replace(file, file_size=size) for file, size in zip(files, known, strict=True)]

    monkeypatch.setattr(module, "write_files", sized)
    monkeypatch.setattr(file_frames, "verify", lambda _: None)  # the given sizes are not the real ones
    last, schema, replayed = 0, metadata.schema(0), 0
    for operation in info["inputs"]:
        if operation["op"] == "alter":
            schema = metadata.schema(operation["schema_id"])
            continue
        after = operation["latest_snapshot_after"]
        if operation["op"] in REPLAYED:
            base = metadata.snapshot(last) if last else None
            java = list(by_java(metadata, [metadata.snapshot(i) for i in range(last + 1, after + 1)]))
            sizes.clear()
            sizes.update((what, file.file_size) for what, file in java)
            messages = written(target_of(metadata, schema, operation["op"]), base, source, operation)
            assert Counter(by_morrow(messages)) == Counter(what for what, _ in java), operation
            replayed += 1
        last = after
    assert replayed


def written(target: WriteTarget, base: Snapshot | None, source: Path, operation: dict[str, Any]) -> list[CommitMessage]:
    """Repeat one operation of a case on top of a snapshot."""
    states = restore_partitions(target, base, None)
    writers: dict[Placement, MergeTreeWriter] = {}
    with disable_fsync():
        if "file" in operation:
            rows = given_rows(source / operation["file"], operation["fields"], target)
            for place, part in FixedRouter(target).route(rows):
                if place not in writers:
                    writers[place] = MergeTreeWriter(target, place, states.get(place, BucketState()))
                writers[place].write(part)
        else:
            for place, state in states.items():
                writers[place] = MergeTreeWriter(target, place, state)
                writers[place].compact(full=True)
        return [writer.prepare_commit() for writer in writers.values()]
