"""Golden tables of Java, replayed by Morrow: the same history leaves the same metadata.

These facts are compared for the snapshots: kind and counts. For every file that they add or delete: partition, bucket
and number of buckets, level, rows and deleted rows, keys, statistics of keys and values, sequence numbers, schema,
source and embedded index. For index files: kind, rows and cardinalities. Names, times and sizes in bytes differ.

Automatic compaction chooses sorted runs by their sizes in bytes, which depend on the encoder of the files. If Java and
Morrow choose different files, the rest of that history is not compared.

For tables with deletion vectors or a changelog, rows and changes are also compared with Java's after each operation, to
the end of the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.io.local import disable_fsync
from morrow.engine.plan.incremental import ROWKIND_FIELD
from tests.support import golden
from tests.support.canonical import assert_same_rows, normal_rows, rows_of
from tests.support.golden import jsonl
from tests.support.golden_replay import GoldenReplay, described
from tests.support.profile import every

NOT_REPLAYED: Mapping[str, str] = {
    "blob": "blobs are not written",
    "data_evolution": "columns of rows were written outside of the table's writer",
    "row_tracking_compacted": "Java wrote files of the compaction without row ids",
    **dict.fromkeys(("clustering_append", "record_level_expire", "fmt_json"), "refused options"),
    **dict.fromkeys(
        ("branch_fast_forward", "branches", "rollback_snapshot", "rollback_tag"), "not one line of commits"
    ),
    **dict.fromkeys(("pk_dedup_partial_levels", "pk_dedup_partitioned"), "compacts buckets that were drawn by lot"),
    **dict.fromkeys(
        ("dv_append", "dv_append_bitmap64", "dv_append_fixed_bucket", "dv_append_partitioned_compacted"),
        "the deleted positions are not written down",
    ),
    "dv_append_rolling": "the deleted positions are not written down",
    **dict.fromkeys(("types_multiset", "types_variant"), "values that have no Arrow literal"),
    **dict.fromkeys(
        ("types_orc", "types_append_orc", "orc_dictionary"), "Java writes times before 1970 wrongly to ORC"
    ),
    **dict.fromkeys(
        ("append_partitioned", "append_partitioned_default_name", "bucket_hash_types", "system_tables_append"),
        "with many writers at once Java starts files over, and the numbers of rows with them",
    ),
    **dict.fromkeys(
        ("bucket_cross_partition", "bucket_dynamic_partitioned"), "buckets were assigned outside of the table's writer"
    ),
    "pk_sequence_field_desc": "Java's write buffer sorts sequence fields upwards, whatever their sort order",
    "append_big": "where a file is full depends on how Java's encoder buffers",
    "append_overwrite": "an option of one write is not written down",
    "bucket_postpone": "postponed buckets of a given number",
    "empty_commits": "commits without rows",
    "empty_table": "no commits",
    "manifest_compacted": "a commit of manifests only",
    "statistics": "a commit of statistics only",
    "watermark_properties": "watermarks are not written down",
}
"""Cases that are not replayed, with the reason."""

ROWS_COMPARED = (
    *("dv_pk", "dv_pk_orc", "dv_pk_avro", "dv_pk_bitmap64", "dv_pk_changelog_lookup", "dv_pk_index_in_data_dir"),
    *("dv_pk_partitioned", "dv_pk_small_index_files", "dv_pk_uncompacted_l0", "dv_aggregation", "dv_partial_update"),
    *("evolve_with_dv", "thin_mode_dv", "first_row", "first_row_ignore_delete_changelog"),
    *("changelog_input", "changelog_lookup", "changelog_lookup_partial_update", "changelog_lookup_row_deduplicate"),
    *("changelog_full_compaction", "changelog_full_compaction_row_deduplicate"),
    "changelog_full_compaction_aggregation",
)
"""Cases whose rows and changes depend on lookups in the existing files."""

MOST_PARTED = 0.15
"""Maximum share of histories that may diverge because of file sizes."""


def cases() -> set[str]:
    return {case.name.removeprefix("public/") for case in golden.cases() if case.name.startswith("public/")}


def replayed() -> list[str]:
    """Return every other history of a sample with all traits of the histories. Other tests compare further differences
    (codecs, widths, tags) with Java: the rows by `tests/test_golden.py`, the files by
    `tests/writers/files/test_golden_metadata.py`, what each bucket writes by
    `tests/writers/keyed/test_golden_histories.py`. `make test-long` replays all.
    """
    sample = golden.sample_cases(f"public/{case}" for case in cases() - NOT_REPLAYED.keys())
    return every(2, sorted(case.removeprefix("public/") for case in sample))


def test_what_is_not_replayed_is_there() -> None:
    assert cases() >= NOT_REPLAYED.keys() | set(ROWS_COMPARED)
    assert not NOT_REPLAYED.keys() & set(ROWS_COMPARED)


@dataclass
class Histories:
    """The replays of this session by case, and whether each history was equal to its end."""

    whole: dict[str, bool] = field(default_factory=dict)


@pytest.fixture(scope="session")
def histories() -> Histories:
    return Histories()


@pytest.mark.parametrize("case", replayed())
def test_the_same_history(case: str, golden_root: Path, tmp_path: Path, histories: Histories) -> None:
    replay = GoldenReplay(golden_root / "public" / case, tmp_path)
    with disable_fsync():
        if case in ROWS_COMPARED:
            run_and_compare_rows(replay)
        else:
            replay.run()

    ours = {snapshot.id: snapshot for snapshot in replay.of_morrow.snapshots()}
    theirs = list(replay.of_java.snapshots())
    expected = [described(replay.of_java, snapshot) for snapshot in theirs]
    actual = [described(replay.of_morrow, ours[snapshot.id]) for snapshot in theirs if snapshot.id in ours]
    same = len(list(takewhile(_took_the_same, zip(expected, actual, strict=False))))
    assert actual[:same] == expected[:same]
    histories.whole[case] = same == len(expected) == len(actual)
    assert histories.whole[case] or replay.compacts_by_itself


def run_and_compare_rows(replay: GoldenReplay) -> None:
    """Compare rows and changes after each operation; snapshot ids may differ from Java's."""
    snapshots = {snapshot["id"]: snapshot for snapshot in replay.case["snapshots"]}
    steps = {step["snapshot"]: step["file"] for step in replay.case.get("stream", ())}
    table = morrow.open(replay.of_morrow.root)
    ours, theirs = 0, 0
    for operation in replay.case["inputs"]:
        replay.do(operation)
        if operation["op"] == "alter":
            continue
        before, theirs_before = ours, theirs
        newest = replay.of_morrow.latest_snapshot()
        assert newest is not None
        ours, theirs = newest.id, operation["latest_snapshot_after"]
        fields = table.schemas()[-1].fields
        expected = jsonl(replay.folder / snapshots[theirs]["file"])
        assert_same_rows(rows_of(table.scan().to_arrow(), fields), normal_rows(expected, fields), fields)
        if steps:
            told = [jsonl(replay.folder / steps[i]) for i in range(theirs_before + 1, theirs + 1) if i in steps]
            with_kind = (ROWKIND_FIELD, *fields)
            is_whole = {"changelog-producer", "merge-engine"} & table.options.keys() != {"merge-engine"}
            changes = rows_of(table.changes(before, ours, mode="auto" if is_whole else "raw").to_arrow(), with_kind)
            assert_same_rows(changes, normal_rows([row for step in told for row in step], with_kind), with_kind)


def _took_the_same(snapshots: tuple[dict[str, Any], dict[str, Any]]) -> bool:
    """Return whether two compactions replaced the same files, or two other snapshots have the same kind."""
    of_java, of_morrow = snapshots
    if of_java["commit_kind"] != "COMPACT" or of_morrow["commit_kind"] != "COMPACT":
        return of_java["commit_kind"] == of_morrow["commit_kind"]
    return _inputs(of_java) == _inputs(of_morrow)


def _inputs(snapshot: dict[str, Any]) -> list[tuple[object, ...]]:
    columns = ("_PARTITION", "_BUCKET", "_LEVEL", "_ROW_COUNT")
    return [tuple(entry[column] for column in columns) for entry in snapshot["files"] if entry["_KIND"] == 1]


def test_few_histories_part(histories: Histories) -> None:
    """Check the share of diverged histories in this session; runs after all replays."""
    parted = [case for case, whole in histories.whole.items() if not whole]

    assert len(parted) <= MOST_PARTED * max(len(histories.whole), 20), parted
