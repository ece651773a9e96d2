"""Small append tables for the tests in this folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

import morrow
from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.append.row_level import RowChanges
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.target import WriteTarget

SCHEMA = "id BIGINT, name STRING, region INT"


def append_table(
    warehouse: Path, options: dict[str, str] | None = None, *, schema: str = SCHEMA, partitioned: bool = False
) -> WriteTarget:
    """Create an empty table ``db.t`` in this warehouse."""
    keys = ["region"] if partitioned else []
    morrow.Catalog(warehouse).create_table("db.t", schema=schema, partition_keys=keys, options=options or {})
    return WriteTarget.of(TableMetadata(LocalStore(), str(warehouse / "db.db" / "t")))


def rows(*ids: int, region: int = 0) -> pl.DataFrame:
    """Build a frame of `SCHEMA` with these ids."""
    names = [f"name {number}" for number in ids]
    data = {"id": list(ids), "name": names, "region": [region] * len(ids)}
    return pl.DataFrame(data, schema={"id": pl.Int64, "name": pl.String, "region": pl.Int32})


def commit(target: WriteTarget, messages: Sequence[CommitMessage]) -> Snapshot | None:
    return TableCommit(target).commit(messages)


def append(target: WriteTarget, *frames: pl.DataFrame) -> None:
    """Commit each frame separately, without compaction."""
    for frame in frames:
        with RowChanges(target, target.metadata.latest_snapshot()) as changes:
            changes.append(frame)
            commit(target, changes.messages())


def read(target: WriteTarget) -> pl.DataFrame:
    """Read all rows, sorted by the first column."""
    frame = morrow.open(target.metadata.root).scan().to_polars()
    return frame.sort(frame.columns[0])


def ids(target: WriteTarget) -> list[int]:
    return read(target)["id"].to_list()


def data_files(target: WriteTarget) -> set[str]:
    """List the names of the data files in the table's folder."""
    return {path.name for path in Path(target.metadata.root).rglob("data-*")}


def file(name: str, size: int, first: int = 0, row_count: int = 1) -> DataFileMeta:
    """Describe a data file whose sequence numbers start at `first`."""
    return DataFileMeta(
        file_name=name,
        file_size=size,
        row_count=row_count,
        min_sequence_number=first,
        max_sequence_number=first + row_count - 1,
        schema_id=0,
        level=0,
        creation_time=0,
    )
