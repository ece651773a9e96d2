"""Files that are read for changes, by mode, kind of commit and filter."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.errors import InvalidArgument, SnapshotExpired
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.changelogs import find_id_at, find_snapshot_or_changelog, list_snapshots_between
from morrow.engine.plan.filter import NO_FILTER, parse_filter
from morrow.engine.plan.incremental import (
    ChangesMode,
    ChangesRequest,
    FileChanges,
    plan_changes,
    plan_difference,
    plan_full_rows,
    plan_stream_changes,
    resolve_mode,
)
from morrow.engine.plan.metadata import TableMetadata


def table(folder: Path, **options: str) -> morrow.Table:
    """Make a table partitioned by `p` with one bucket; ``_`` in an option's name stands for a dash."""
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return morrow.Catalog(folder).create_table(
        "db.t",
        schema="p INT NOT NULL, k INT NOT NULL, v INT",
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": "1", **named},
    )


def write(table: morrow.Table, *rows: tuple[int, int, int]) -> None:
    table.upsert(pl.DataFrame(list(rows), schema={"p": pl.Int32, "k": pl.Int32, "v": pl.Int32}, orient="row"))


def of(table: morrow.Table, filter: str | None = None) -> tuple[TableMetadata, ChangesRequest]:
    metadata = TableMetadata(LocalStore(), table.path)
    schema = metadata.latest_schema()
    parsed = NO_FILTER if filter is None else parse_filter(filter, schema.fields)
    return metadata, ChangesRequest(schema, metadata.options(schema), tuple(schema.by_name), parsed)


def places(changes: object) -> list[tuple[object, int]]:
    """Return partition and level of each file."""
    assert isinstance(changes, FileChanges)
    return [(section.partition[0], file.level) for section in changes.plan.sections for file in section.files]


def test_delta_is_what_appends_added(tmp_path: Path) -> None:
    t = table(tmp_path)
    write(t, (1, 1, 1), (2, 1, 1))
    t.compact(full=True)
    metadata, request = of(t)
    first, compacted = metadata.snapshots()
    assert places(plan_changes(metadata, request, first, ChangesMode.DELTA)) == [(1, 0), (2, 0)]
    assert plan_changes(metadata, request, compacted, ChangesMode.DELTA) is None
    assert plan_changes(metadata, request, first, ChangesMode.CHANGELOG) is None


def test_changelogs_are_those_of_the_producer(tmp_path: Path) -> None:
    t = table(tmp_path, changelog_producer="lookup")
    write(t, (1, 1, 1))
    metadata, request = of(t)
    appended, compacted = metadata.snapshots()
    assert plan_stream_changes(metadata, request, appended) is None
    found = plan_stream_changes(metadata, request, compacted)
    assert isinstance(found, FileChanges)
    assert [Path(file.path).name[:10] for file in found.plan.files] == ["changelog-"]


def test_filters_leave_out_partitions_and_files(tmp_path: Path) -> None:
    t = table(tmp_path)
    write(t, (1, 1, 10), (2, 1, 20), (3, 1, 30))
    for filter, partitions in (("p > 1", [2, 3]), ("v < 15", [1]), ("v > 30", [])):
        metadata, request = of(t, filter)
        (snapshot,) = metadata.snapshots()
        found = plan_changes(metadata, request, snapshot, ChangesMode.DELTA)
        assert ([] if found is None else [place for place, _ in places(found)]) == partitions


@pytest.mark.parametrize(
    ("producer", "tags", "expected"),
    [("none", False, "delta"), ("lookup", False, "changelog"), ("none", True, "diff"), ("input", True, "diff")],
)
def test_auto_stands_for_what_the_table_has(tmp_path: Path, producer: str, tags: bool, expected: str) -> None:
    _, request = of(table(tmp_path, changelog_producer=producer))
    assert resolve_mode(request, ChangesMode.AUTO, tags=tags) == expected
    assert resolve_mode(request, ChangesMode.DELTA, tags=tags) == "delta"


def test_a_difference_reads_only_buckets_that_differ(tmp_path: Path) -> None:
    t = table(tmp_path)
    write(t, (1, 1, 1), (2, 1, 1))
    write(t, (2, 1, 2))
    metadata, request = of(t)
    before, after = metadata.snapshots()
    found = plan_difference(metadata, request, before, after)
    assert [section.partition for section in found.before.sections] == [(2,)]
    assert [section.partition for section in found.after.sections] == [(2,)]
    with pytest.raises(InvalidArgument, match="from an older snapshot to a newer one"):
        plan_difference(metadata, request, after, before)


def test_a_difference_leaves_out_files_and_sections_that_both_states_have(tmp_path: Path) -> None:
    t = table(tmp_path, write_only="true")
    write(t, (1, 1, 1), (1, 5, 1))
    write(t, (1, 3, 2))  # between the keys of the others: this section merges
    write(t, (1, 10, 3), (1, 20, 3))  # read without a merge
    write(t, (1, 30, 4), (1, 40, 4))
    write(t, (1, 35, 5))
    metadata, request = of(t)
    states = list(metadata.snapshots())
    found = plan_difference(metadata, request, states[3], states[4])

    kinds = [[(section.kind.value, len(section.files)) for section in p.sections] for p in (found.before, found.after)]
    assert kinds == [[("raw", 1)], [("merge", 2)]]
    assert t.changes(4, 5, mode="diff").to_polars().rows() == [("+I", 1, 35, 5)]


def test_all_rows_are_those_that_the_changelog_knows(tmp_path: Path) -> None:
    t = table(tmp_path, changelog_producer="full-compaction")
    write(t, (1, 1, 1))
    t.compact(full=True)
    write(t, (1, 2, 2))
    metadata, request = of(t)
    newest = metadata.latest_snapshot()
    assert newest is not None
    assert [file.level for file in plan_full_rows(metadata, request, newest).plan.files] == [5]


def test_snapshots_are_found_by_time(tmp_path: Path) -> None:
    t = table(tmp_path)
    for value in (1, 2):
        write(t, (1, 1, value))
    metadata, _ = of(t)
    first, second = metadata.snapshots()
    times = first.time_millis - 1, first.time_millis, second.time_millis, second.time_millis + 1
    assert [find_id_at(metadata, time) for time in times] == [None, 1, 2, 2]
    assert [snapshot.id for snapshot in list_snapshots_between(metadata, 0, 2)] == [1, 2]


def test_a_changelog_stands_in_for_its_snapshot(tmp_path: Path) -> None:
    """With ``changelog.num-retained``, changelogs outlive snapshots and take their role in reads."""
    t = table(tmp_path)
    for value in (1, 2):
        write(t, (1, 1, value))
    metadata, _ = of(t)
    snapshot = Path(metadata.paths.snapshot(1))
    kept = Path(t.path) / "changelog" / "changelog-1"
    kept.parent.mkdir()
    snapshot.rename(kept)
    (snapshot.parent / "EARLIEST").write_text("2")
    assert find_snapshot_or_changelog(metadata, 1).id == 1
    kept.unlink()
    with pytest.raises(SnapshotExpired):
        find_snapshot_or_changelog(metadata, 1)
