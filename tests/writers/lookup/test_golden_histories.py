"""Histories of Java's tables with deletion vectors and changelogs, written again: the same rows, changes and files."""

from __future__ import annotations

import json
import shutil
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
from morrow.writers.table_writer import TableWriter
from morrow.writers.target import WriteTarget
from tests.support.canonical import assert_same_rows, normal_rows, rows_of
from tests.support.golden import jsonl
from tests.support.golden_inputs import files_of, input_rows

pytestmark = pytest.mark.golden

SAME_FILES = (
    *("dv_pk", "dv_pk_orc", "dv_pk_avro", "dv_pk_changelog_lookup", "dv_pk_index_in_data_dir", "dv_pk_partitioned"),
    *("dv_aggregation", "dv_enabled_later", "dv_pk_uncompacted_l0", "evolve_with_dv"),
    *("changelog_lookup", "changelog_lookup_partial_update", "changelog_input"),
    *("changelog_full_compaction", "changelog_full_compaction_row_deduplicate"),
    *("changelog_full_compaction_aggregation", "first_row", "first_row_ignore_delete_changelog"),
)
OTHER_COMPACTIONS = (
    *("dv_pk_bitmap64", "dv_pk_small_index_files", "dv_partial_update", "thin_mode_dv"),
    "changelog_lookup_row_deduplicate",
)
"""Here compactions hang on the sizes of files, which are not the same to the byte."""


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

    def run(self) -> None:
        """All operations; after each, the newest snapshot has the number that Java's had."""
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
            assert newest.id == operation["latest_snapshot_after"]

    def _write(self, operation: dict[str, Any], *, write_only: bool) -> None:
        target = WriteTarget.of(self.metadata)
        target = replace(target, write=replace(target.write, write_only=write_only))
        fields = [target.schema.by_name[name] for name in operation["fields"]]
        kinds, rows = input_rows(self.golden / operation["file"], fields)
        writer = TableWriter(target)
        writer.write(rows, kinds=kinds)
        TableCommit(target).commit(writer.prepare_commit())
        writer.close()


def replayed(name: str, golden_root: Path, folder: Path) -> Replay:
    replay = Replay(golden_root / "public" / name, folder / "t")
    with fsync_disabled():
        replay.run()
    return replay


@pytest.mark.parametrize("name", SAME_FILES)
def test_files_and_vectors_are_those_of_java(name: str, golden_root: Path, tmp_path: Path) -> None:
    replay = replayed(name, golden_root, tmp_path)
    for snapshot in replay.metadata.snapshots():
        theirs = replay.java.snapshot(snapshot.id)
        assert snapshot.commit_kind == theirs.commit_kind
        assert files_of(replay.metadata, snapshot) == files_of(replay.java, theirs)


@pytest.mark.parametrize("name", (*SAME_FILES, *OTHER_COMPACTIONS))
def test_rows_and_changes_are_those_of_java(name: str, golden_root: Path, tmp_path: Path) -> None:
    replay = replayed(name, golden_root, tmp_path)
    table = morrow.open(replay.metadata.root)
    for snapshot in replay.case["snapshots"]:
        fields = table.schemas()[snapshot["schema_id"]].fields
        rows = rows_of(table.scan(snapshot=snapshot["id"]).to_arrow(), fields)
        assert_same_rows(rows, normal_rows(jsonl(replay.golden / snapshot["file"]), fields), fields)
    fields = (ROWKIND_FIELD, *table.schemas()[-1].fields)
    changes = {each.snapshot_id: each for each in table.stream(1, wait=0)}
    for step in replay.case.get("stream", ()):
        rows = rows_of(changes[step["snapshot"]].to_arrow(), fields)
        assert_same_rows(rows, normal_rows(jsonl(replay.golden / step["file"]), fields), fields)
