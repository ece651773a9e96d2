"""Histories of Java's tables with deletion vectors and changelogs, written again: the same rows, changes and files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.io.durability import fsync_disabled
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.changes import ROWKIND_FIELD
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.commit import TableCommit
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.target import WriteTarget
from tests.support.canonical import assert_same_rows, normal_rows, rows_of
from tests.support.golden import jsonl
from tests.support.golden_inputs import changelog_of, files_of, input_rows

pytestmark = pytest.mark.golden

CASES = (
    *("dv_pk", "dv_pk_orc", "dv_pk_avro", "dv_pk_bitmap64", "dv_pk_changelog_lookup", "dv_pk_index_in_data_dir"),
    *("dv_pk_partitioned", "dv_pk_small_index_files", "dv_pk_uncompacted_l0", "dv_aggregation", "dv_partial_update"),
    *("evolve_with_dv", "thin_mode_dv", "first_row", "first_row_ignore_delete_changelog"),
    *("changelog_input", "changelog_lookup", "changelog_lookup_partial_update", "changelog_lookup_row_deduplicate"),
    *("changelog_full_compaction", "changelog_full_compaction_row_deduplicate"),
    "changelog_full_compaction_aggregation",
)


class Replay:
    """A golden table written over again."""

    def __init__(self, golden: Path, folder: Path) -> None:
        self.golden = golden
        self.case: dict[str, Any] = json.loads((golden / "case.json").read_text())
        self.java = TableMetadata(LocalStore(), str(golden / "warehouse/db.db/t"))
        self.metadata = TableMetadata(LocalStore(), str(folder))
        self._take_schema(0)

    def _take_schema(self, schema_id: int) -> None:
        target = Path(self.metadata.paths.schema(schema_id))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.java.paths.schema(schema_id), target)

    def run(self) -> Iterator[tuple[int, int]]:
        """After each operation, the newest snapshot here and at Java's.

        They may be numbered otherwise: what compactions pick hangs on the sizes of files, which are not the same to
        the byte.
        """
        for operation in self.case["inputs"]:
            if operation["op"] == "alter":
                self._take_schema(operation["schema_id"])
                continue
            if "file" in operation:
                self._write(operation, write_only="write-only" in operation["op"])
            else:
                morrow.open(self.metadata.root).compact(full="full" in operation["op"])
            newest = self.metadata.latest_snapshot()
            assert newest is not None
            yield newest.id, operation["latest_snapshot_after"]

    def _write(self, operation: dict[str, Any], *, write_only: bool) -> None:
        target = WriteTarget.of(self.metadata)
        target = replace(target, write=replace(target.write, write_only=write_only))
        fields = [target.schema.by_name[name] for name in operation["fields"]]
        kinds, rows = input_rows(self.golden / operation["file"], fields)
        writer = TableWriter(target)
        writer.write(rows, kinds=kinds)
        TableCommit(target).commit(writer.prepare_commit())
        writer.close()


@pytest.mark.parametrize("name", CASES)
def test_rows_changes_and_files_are_those_of_java(name: str, golden_root: Path, tmp_path: Path) -> None:
    replay = Replay(golden_root / "public" / name, tmp_path / "t")
    snapshots = {snapshot["id"]: snapshot for snapshot in replay.case["snapshots"]}
    told = {step["snapshot"]: step["file"] for step in replay.case.get("stream", ())}
    table = morrow.open(replay.metadata.root)
    alike, seen, theirs = True, 0, 0
    with fsync_disabled():
        for here, there in replay.run():
            fields = table.schemas()[-1].fields
            expected = jsonl(replay.golden / snapshots[there]["file"])
            assert_same_rows(rows_of(table.scan().to_arrow(), fields), normal_rows(expected, fields), fields)
            if told:
                steps = [jsonl(replay.golden / told[i]) for i in range(theirs + 1, there + 1) if i in told]
                with_kind = (ROWKIND_FIELD, *fields)
                changes = rows_of(table.changes(seen, here).to_arrow(), with_kind)
                assert_same_rows(changes, normal_rows([row for step in steps for row in step], with_kind), with_kind)
            # As long as compactions pick alike, all that metadata says is the same.
            alike = alike and _shape(replay.metadata, here) == _shape(replay.java, there)
            if alike:
                assert _files(replay.metadata, here) == _files(replay.java, there)
                mine, javas = replay.metadata.snapshot(here), replay.java.snapshot(there)
                assert changelog_of(replay.metadata, mine) == changelog_of(replay.java, javas)
            seen, theirs = here, there


def _files(metadata: TableMetadata, snapshot: int) -> list[tuple[Any, ...]]:
    return files_of(metadata, metadata.snapshot(snapshot))


def _shape(metadata: TableMetadata, snapshot: int) -> list[tuple[Any, ...]]:
    """Partition, bucket and level of every file."""
    return [file[:3] for file in _files(metadata, snapshot)]
