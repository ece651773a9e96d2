"""Small keyed tables for the tests in this folder, written bucket by bucket."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl
from hypothesis import settings

import morrow
from morrow.engine.format.manifest_entries import EMPTY_ROW, DataFileMeta
from morrow.engine.format.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from morrow.engine.io.local import LocalStore, disable_fsync
from morrow.engine.plan.metadata import TableMetadata
from morrow.readers.casts.dtypes import to_series
from morrow.writers.buckets.routers import BucketState, restore_buckets
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.files.data_files import Placement
from morrow.writers.keyed.writer import MergeTreeWriter
from morrow.writers.target import WriteTarget
from tests.oracle import Record
from tests.support.random_tables import RandomTable
from tests.support.table_factory import TableFactory

PLACE = Placement(EMPTY_ROW, 0)
"""Bucket 0 of a table without partitions."""
KIND_CODES = {"+I": INSERT, "-U": UPDATE_BEFORE, "+U": UPDATE_AFTER, "-D": DELETE}
Row = tuple[str, int, str | None]
FEWER = settings(max_examples=settings().max_examples // 3)
"""Settings for properties whose examples are whole tables."""


def keyed_table(
    folder: Path, options: Mapping[str, str] | None = None, names: Sequence[str] = ("k", "v")
) -> WriteTarget:
    """Create a table ``k BIGINT, v STRING`` with one bucket and the key k; `names` renames k and v."""
    fields = list(zip(names, ("BIGINT", "STRING"), strict=True))
    TableFactory(folder / "t", fields, primary_keys=names[:1], options={"bucket": "1", **(options or {})})
    return opened(folder / "t")


def opened(path: Path) -> WriteTarget:
    return WriteTarget.of(TableMetadata(LocalStore(), str(path)))


def rows(*given: Row) -> pl.DataFrame:
    """Build a writer's input frame from rows ``(kind, k, v)``."""
    return pl.DataFrame(
        {
            "k": [k for _, k, _ in given],
            "v": [v for _, _, v in given],
            "_VALUE_KIND": [KIND_CODES[kind] for kind, _, _ in given],
        },
        schema={"k": pl.Int64, "v": pl.String, "_VALUE_KIND": pl.Int8},
    )


def numbered(keys: Iterable[int], value: str = "v") -> pl.DataFrame:
    """Build insertions of these keys."""
    return rows(*(("+I", k, f"{value}{k}") for k in keys))


def frame_of(table: RandomTable, records: Sequence[Record]) -> pl.DataFrame:
    """Build a writer's input frame from records of a random table."""
    arrow = table.arrow([record.row for record in records])
    columns = [to_series(f.name, arrow[f.name], f.type) for f in table.fields]
    kinds = pl.Series("_VALUE_KIND", [KIND_CODES[record.kind] for record in records], dtype=pl.Int8)
    return pl.DataFrame([*columns, kinds])


def state(target: WriteTarget, place: Placement = PLACE) -> BucketState:
    """Return the current state of the bucket."""
    return restore_buckets(target, target.metadata.latest_snapshot(), [place])[place]


def writer(target: WriteTarget, place: Placement = PLACE) -> MergeTreeWriter:
    """Open a writer at the newest snapshot."""
    return MergeTreeWriter(target, place, state(target, place))


def commit(target: WriteTarget, *messages: CommitMessage) -> None:
    with disable_fsync():
        TableCommit(target).commit(messages)


def write(target: WriteTarget, *frames: pl.DataFrame) -> CommitMessage:
    """Write all frames in one commit."""
    bucket = writer(target)
    with disable_fsync():
        for frame in frames:
            bucket.write(frame)
        message = bucket.prepare_commit()
    commit(target, message)
    return message


def read(target: WriteTarget) -> dict[int, str]:
    """Read the table as a dict from keys to values."""
    found = morrow.open(target.metadata.root).scan().to_polars().rows()
    assert len({k for k, _ in found}) == len(found)
    return dict(found)


def levels(target: WriteTarget) -> list[tuple[int, int]]:
    """List the level and row count of every live file, newest run first."""
    files = sorted(state(target).files, key=lambda file: (file.level, -file.max_sequence_number))
    return [(file.level, file.row_count) for file in files]


def names(files: Iterable[DataFileMeta]) -> set[str]:
    return {file.file_name for file in files}


def on_disk(target: WriteTarget) -> set[str]:
    """List the names of the data and changelog files in the table's folder."""
    root = Path(target.metadata.root)
    return {path.name for path in root.rglob("bucket-*/*") if path.is_file()}
