"""Golden append tables replayed by Morrow: the same rows produce the same files as Java.

Morrow repeats every snapshot of a golden table on a copy of its schema. It routes and writes the rows of new files,
runs compactions, and deletes the rows that Java has marked as deleted. The manifest entries of both tables must then be
equal: partitions and buckets, row counts, sequence numbers, levels, sources, statistics, deletion vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree
from typing import Any

import polars as pl
import pytest

from morrow.engine.format.manifest_entries import DataFileMeta, EntryKind, FileSource, ManifestEntry, to_entries
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.local import LocalStore
from morrow.engine.names import POSITION
from morrow.engine.plan.manifests import list_delta_manifests, read_manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.structs import replace
from morrow.writers.append.bucket_compaction import AppendFiles
from morrow.writers.append.compaction import compact_append
from morrow.writers.append.row_level import MatchingRows, RowChanges
from morrow.writers.append.writer import AppendWriter
from morrow.writers.buckets.modes import make_router
from morrow.writers.buckets.routers import restore_buckets, restore_partitions
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.files.data_files import Placement
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.target import WriteTarget

pytestmark = pytest.mark.golden

Dead = dict[str, list[int]]
"""The positions of deleted rows by data file name."""


def opened(folder: Path) -> WriteTarget:
    return WriteTarget.of(TableMetadata(LocalStore(), str(folder)))


def delta(target: WriteTarget, snapshot: Snapshot) -> list[ManifestEntry]:
    frames = read_manifest_entries(target.metadata, list_delta_manifests(target.metadata, snapshot))
    return [entry for frame in frames for entry in to_entries(frame)]


def dead(target: WriteTarget, snapshot: Snapshot) -> Dead:
    found: Dead = {}
    for place, state in restore_partitions(target, snapshot, None).items():
        vectors = DeletionMaintainer(target, place.partition, place.bucket, state.index_files)
        for name in vectors:
            vector = vectors.vector(name)
            assert vector is not None
            found[name] = vector.positions().tolist()
    return found


MOST_WRITERS = 10
"""With more buckets (``write-max-writers-to-spill``), Java writes and numbers the first rows twice."""


def described(entry: ManifestEntry, *, counted: bool) -> tuple[Any, ...]:
    """List the facts that must be equal, with the sequence numbers if they are `counted` from the first row on."""
    file = entry.file
    return (
        *(entry.partition, entry.bucket, entry.total_buckets, entry.kind),
        *((file.min_sequence_number, file.max_sequence_number) if counted else ()),
        *(file.row_count, file.file_source, file.level),
        *(file.delete_row_count, file.min_key, file.max_key, file.key_stats),
        *(file.value_stats, file.value_stats_cols, file.schema_id),
    )


@dataclass
class History:
    """A golden table and Morrow's replay of it; `names` maps Java's file names to Morrow's."""

    java: WriteTarget
    morrow: WriteTarget
    names: dict[str, str] = field(default_factory=dict)
    dead: Dead = field(default_factory=dict)

    def repeat(self, snapshot: Snapshot) -> None:
        """Repeat a snapshot of the golden table."""
        entries = delta(self.java, snapshot)
        if snapshot.commit_kind == "APPEND":
            messages = list(self._written([e for e in entries if e.file.file_source == FileSource.APPEND]))
        elif snapshot.commit_kind == "COMPACT":
            messages = self._compacted()
        else:
            messages = self._deleted(dead(self.java, snapshot))
        if messages:
            TableCommit(self.morrow).commit(messages)

    def compare(self, snapshot: Snapshot) -> None:
        """Compare this snapshot with Morrow's snapshot of the same id."""
        mine = self.morrow.metadata.snapshot(snapshot.id)
        of_java, of_morrow = delta(self.java, snapshot), delta(self.morrow, mine)

        assert mine.commit_kind == snapshot.commit_kind
        assert mine.total_record_count == snapshot.total_record_count
        assert mine.delta_record_count == snapshot.delta_record_count
        pairs = list(zip(sorted(of_java, key=_sorting), sorted(of_morrow, key=_sorting), strict=True))
        counted = len({(entry.partition, entry.bucket) for entry in of_java}) <= MOST_WRITERS
        for java, morrow in pairs:
            assert described(morrow, counted=counted) == described(java, counted=counted)
        self.names |= {java.file.file_name: morrow.file.file_name for java, morrow in pairs}
        self.dead = dead(self.java, snapshot)
        assert {self.names[name]: rows for name, rows in self.dead.items()} == dead(self.morrow, mine)

    def _written(self, entries: Sequence[ManifestEntry]) -> Iterator[CommitMessage]:
        """Route and write the rows of these files."""
        parts = [
            AppendFiles(self.java, Placement(entry.partition, entry.bucket), (entry.file,)).frames()
            for entry in entries
        ]
        rows = pl.concat([frame for part in parts for frame in part])
        latest = self.morrow.metadata.latest_snapshot()
        for place, part in make_router(self.morrow, latest).route(rows):
            writer = AppendWriter(self.morrow, place, restore_buckets(self.morrow, latest, [place])[place])
            writer.write(part)
            yield writer.prepare_commit()

    def _compacted(self) -> list[CommitMessage]:
        """Compact tables without buckets by the option that Java used; fixed buckets compact as they write."""
        target = replace(self.morrow, write=replace(self.morrow.write, append_min_files=2))
        unaware = target.options.bucket == -1
        return compact_append(target, target.metadata.latest_snapshot()) if unaware else []

    def _deleted(self, now: Dead) -> list[CommitMessage]:
        latest = self.morrow.metadata.latest_snapshot()
        states = restore_partitions(self.morrow, latest, None)
        files: dict[str, tuple[Placement, DataFileMeta]] = {
            file.file_name: (place, file) for place, state in states.items() for file in state.files
        }
        with RowChanges(self.morrow, latest) as changes:
            for name, positions in now.items():
                new = sorted(set(positions) - set(self.dead.get(name, ())))
                place, file = files[self.names[name]]
                changes.delete(MatchingRows(place, file, pl.DataFrame({POSITION: new}, schema={POSITION: pl.Int64})))
            return changes.messages()


def _sorting(entry: ManifestEntry) -> tuple[Any, ...]:
    file = entry.file
    added = entry.kind == EntryKind.ADD
    return entry.partition, entry.bucket, added, file.row_count, file.value_stats.min_values


@pytest.mark.parametrize(
    "case",
    [
        "append_fixed_bucket",
        "append_fixed_bucket_compacted",
        "append_partitioned",
        "append_partitioned_types",
        "append_stream",
        "append_unaware",
        "append_unaware_compacted",
        "bucket_hash_types",
        "dv_append",
        "dv_append_bitmap64",
        "dv_append_fixed_bucket",
        "dv_append_partitioned_compacted",
        "dv_append_rolling",
    ],
)
def test_the_same_files(golden_root: Path, tmp_path: Path, case: str) -> None:
    source = golden_root / "public" / case / "warehouse/db.db/t"
    copytree(source / "schema", tmp_path / "t/schema")
    history = History(opened(source), opened(tmp_path / "t"))
    latest = history.java.metadata.latest_snapshot()
    assert latest is not None

    for number in range(1, latest.id + 1):
        snapshot = history.java.metadata.snapshot(number)
        history.repeat(snapshot)
        history.compare(snapshot)
