"""Planning from end to end: the files that a batch read sees, and the sections that they form."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import BranchNotFound, InvalidArgument, MorrowError, SnapshotNotFound, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.buckets import compute_buckets
from morrow.engine.format.manifest_entries import STATISTICS
from morrow.engine.names import KEYS_MATCH, VALUES_MATCH
from morrow.engine.plan import entries
from morrow.engine.plan.branch_plans import plan_with_fallback
from morrow.engine.plan.entries import Decoded
from morrow.engine.plan.manifests import list_manifests
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.planner import decode_outlined
from morrow.engine.plan.scan_plan import ScanPlan, ScanRequest, SectionKind
from morrow.engine.schema.schema_changes import SetType
from morrow.scans.table_scan import Scan, plan_with_outlines
from tests.support.profile import every
from tests.support.table_factory import DataFile, TableFactory
from tests.support.written import new_table
from tests.support.written import rows as rows_of


def make(path: Path, **options: str) -> TableFactory:
    raw = {"bucket": "2"} | {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return TableFactory(path, [("dt", "STRING"), ("id", "INT")], ["dt", "id"], ["dt"], raw)


def write(table: TableFactory, ids: Sequence[int], *, day: str = "a", **arguments: Any) -> DataFile:
    return table.write_file(pa.table({"id": ids}), partition={"dt": day}, **arguments)


def plan(table: TableFactory, **arguments: Any) -> ScanPlan:
    return morrow.open(table.path).scan(**arguments).plan


def shape(plan: ScanPlan) -> list[tuple[str, str, int, set[str]]]:
    """Return kind, partition, bucket and file names of each section."""
    return sorted(
        (s.kind.value, str(s.partition[0]), s.bucket, {Path(f.path).name for f in s.files}) for s in plan.sections
    )


def test_files_that_overlap_are_merged_and_the_others_of_a_bucket_read_together(tmp_path: Path) -> None:
    table = make(tmp_path)
    base, more = write(table, [1, 5], level=5), write(table, [8, 9], level=5)
    new = write(table, [5, 6])
    late = write(table, [20])
    other = write(table, [5], bucket=1)
    elsewhere = write(table, [5], day="b")
    table.commit()

    assert shape(plan(table)) == [
        ("merge", "a", 0, {base.name, new.name}),
        ("raw", "a", 0, {more.name, late.name}),
        ("raw", "a", 1, {other.name}),
        ("raw", "b", 0, {elsewhere.name}),
    ]
    (merge,) = (section for section in plan(table).sections if section.kind is SectionKind.MERGE)
    assert (merge.key_low, merge.key_high) == ((1,), (6,))


@pytest.mark.parametrize("option", [{"deletion_vectors__enabled": "true"}, {"merge_engine": "first-row"}])
def test_tables_that_hide_level_zero_merge_nothing(tmp_path: Path, option: dict[str, str]) -> None:
    table = make(tmp_path, **option)
    base = write(table, [1, 5], level=5)
    upper = write(table, [2, 3], level=4)
    write(table, [5, 6], level=0)
    table.commit()

    assert shape(plan(table)) == [("raw", "a", 0, {base.name, upper.name})]


def test_postponed_rows_wait_for_compaction(tmp_path: Path) -> None:
    table = make(tmp_path, bucket="-2")
    write(table, [1], bucket=-2)
    seen = write(table, [2], bucket=0)
    table.commit()

    assert shape(plan(table)) == [("raw", "a", 0, {seen.name})]


def test_a_partition_filter_reads_its_partitions_only(tmp_path: Path) -> None:
    table = make(tmp_path)
    files = {day: write(table, [1], day=day) for day in "abc"}
    table.commit()

    found = plan(table, filter="dt > 'a' AND id > 0")
    assert shape(found) == [("raw", day, 0, {files[day].name}) for day in "bc"]
    assert [str(step.name) for step in found.steps][:2] == ["manifests by partition", "files visible to batch reads"]


def test_an_empty_table_has_an_empty_plan(tmp_path: Path) -> None:
    table = make(tmp_path)
    assert (plan(table).snapshot, plan(table).sections) == (None, ())

    table.commit()
    assert (plan(table).sections, plan(table, filter="id = 1").sections) == ((), ())


def test_columns_are_those_of_the_schema_a_file_was_written_with(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, [("id", "INT")], options={"bucket": "-1"})
    table.write_file(pa.table({"id": [1]}))
    table.alter(fields=[t.DataField(0, "id", t.BigIntType()), t.DataField(1, "v", t.VarCharType())])
    table.write_file(pa.table({"id": [2], "v": ["x"]}))
    table.commit()

    assert {i: [f"{f.name} {f.type}" for f in fields] for i, fields in plan(table).file_fields.items()} == {
        0: ["id INT"],
        1: ["id BIGINT", "v STRING"],
    }


def test_a_key_whose_type_was_changed_is_refused(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, [("id", "INT")], ["id"])
    table.write_file(pa.table({"id": [1]}))
    table.alter(fields=[("id", "STRING")])
    table.commit()

    with pytest.raises(Unsupported, match=r"a primary key column whose type was changed \('id'\)"):
        plan(table)


def test_a_key_that_was_widened(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, [("id", "INT")], ["id"])
    table.write_file(pa.table({"id": [1, 5]}))
    table.alter(fields=[("id", "BIGINT")])
    table.write_file(pa.table({"id": [2**40]}))
    table.write_file(pa.table({"id": [3, 7]}))
    table.commit()

    assert sorted(len(section.files) for section in plan(table).sections) == [1, 2]


@pytest.mark.parametrize(("condition", "files"), [("id = -5", 1), ("id < 0", 2), ("id IN (-5, -8)", 2), ("id > 9", 1)])
def test_negative_keys_of_files_from_before_the_key_was_widened(tmp_path: Path, condition: str, files: int) -> None:
    table = TableFactory(tmp_path, [("id", "INT")], ["id"])
    table.write_file(pa.table({"id": [-7, -5]}))
    table.alter(fields=[("id", "BIGINT")])
    table.write_file(pa.table({"id": [-9, -8]}))
    table.commit()

    assert len(plan(table, filter=condition).files) == files


@pytest.mark.parametrize("key", [-5, 5])
def test_buckets_of_keys_from_before_the_key_was_widened(tmp_path: Path, key: int) -> None:
    """The hash of -5 as INT is another than as BIGINT: its row lies in another bucket."""
    table = TableFactory(tmp_path, [("id", "INT")], ["id"], options={"bucket": "8"})
    bucket = compute_buckets([pl.Series([key], dtype=pl.Int32)], [t.IntType()], 8)[0]
    table.write_file(pa.table({"id": [key]}), bucket=int(bucket))
    table.alter(fields=[("id", "BIGINT")])
    table.commit()

    assert len(plan(table, filter=f"id = {key}").files) == 1
    written = morrow.open(table.path)
    assert written.get(key) == {"id": key}
    for write in (lambda: written.upsert([{"id": key}]), lambda: written.compact(full=True)):
        with pytest.raises(Unsupported, match=r"widened.*`table\.rescale\(8\)`") if key < 0 else nullcontext():
            write()
    written.rescale(8)
    written.upsert([{"id": key}])
    assert (written.count(), written.get(key)) == (1, {"id": key})


def test_a_bucket_key_of_an_append_table_that_was_widened(tmp_path: Path) -> None:
    options = {"bucket": "8", "bucket-key": "id"}
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT", options=options)
    table.append([{"id": -5}, {"id": 5}])
    table.alter(SetType(("id",), t.BigIntType(), widens_keys=True))
    table.append([{"id": -5}, {"id": 2**40}])
    assert [table.count(f"id = {key}") for key in (-5, 5, 2**40)] == [2, 1, 1]
    with pytest.raises(InvalidArgument, match=r"update bucket key: \[id\]"):
        table.alter.set_type("id", "STRING")


def test_a_merge_engine_that_is_not_known_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    table = make(tmp_path, merge_engine="last-wins")
    table.commit()

    with pytest.raises(Unsupported, match="'merge-engine' = 'last-wins'"):
        plan(table)


def test_a_plan_of_many_files_and_partitions(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, [("p", "INT"), ("id", "INT")], ["p", "id"], ["p"], {"bucket": "4"})
    count, parts = 4_000, 100
    number = np.arange(count)
    low = pa.table({"p": number % parts, "id": number // parts * 10})
    high = pa.table({"p": number % parts, "id": number // parts * 10 + 9})
    table.fake_files(low, high, partitions=[{"p": int(i % parts)} for i in number], buckets=number // parts % 4)
    table.commit(entries_per_manifest=500)

    assert (len(plan(table).files), len(plan(table).sections)) == (count, parts * 4)
    one = plan(table, filter="p = 42")
    assert {section.partition for section in one.sections} == {(42,)}
    assert len(one.files) == count // parts
    assert len(plan(table, filter="p = 42 AND id BETWEEN 15 AND 21").files) == 2


# DATE columns of ORC files that hold no date before 1583 according to statistics.

FIELDS = [("d", "DATE"), ("id", "INT"), ("e", "DATE")]
NEW, OLD = date(1583, 1, 1), date(1582, 12, 31)


@pytest.mark.parametrize("worth_outlines", [0, 1 << 20])
@pytest.mark.parametrize("filter", [None, "id > 0"])
@pytest.mark.parametrize(
    ("format", "d", "e", "modern"),
    [
        ("orc", [NEW, None, date(2024, 2, 29)], [NEW] * 3, ("d", "e")),
        ("orc", [NEW, OLD, NEW], [date(9999, 12, 31)] * 3, ("e",)),
        ("orc", [None] * 3, [date(1, 1, 1)] * 3, ("d",)),
        ("orc", [OLD] * 3, [OLD] * 3, ()),
        ("parquet", [NEW] * 3, [NEW] * 3, ()),
    ],
)
def test_columns_of_each_file(
    tmp_path: Path,
    format: str,
    d: list[date | None],
    e: list[date],
    modern: tuple[str, ...],
    filter: str | None,
    worth_outlines: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entries, "MIN_OUTLINE_BYTES", worth_outlines)
    table = TableFactory(tmp_path / "t", FIELDS, (), options={"bucket": "-1"})
    days = {"d": pa.array(d, pa.date32()), "e": pa.array(e, pa.date32())}
    table.write_file(pa.table({"id": [1, 2, 3], **days}), format=format)
    table.write_file(pa.table({"id": [4], "d": [NEW], "e": [NEW]}), format="parquet")
    table.commit()
    files = morrow.open(table.path).scan(filter=filter).plan.files
    assert [file.modern_dates for file in files] == [modern, ()]


def test_without_statistics_nothing_is_known(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table(
        "db.t", schema="d DATE, e DATE", options={"file.format": "orc", "fields.e.stats-mode": "none"}
    )
    table.append({"d": [NEW], "e": [NEW]})
    assert [file.modern_dates for file in table.scan().plan.files] == [("d",)]


# A plan from entries that other tasks decoded, without statistics, equals the plan of this process.

SAMPLE = (
    *("dv_pk", "branches", "bucket_rescale_partition", "evolve_with_dv", "dv_pk_orc", "file_index_file", "types_orc"),
    *("stats_truncate3_dense", "manifest_delete_drop_stats", "append_overwrite", "data_evolution", "key_decimal"),
)
VALUES = {"INT": "2", "BIGINT": "2", "STRING": "'b'", "DATE": "DATE '2024-01-02'"}


def by_manifest(metadata: TableMetadata, request: ScanRequest, manifests: pl.DataFrame) -> Decoded:
    """Decode each manifest by itself, like tasks that do not share anything."""
    parts = [decode_outlined(metadata, request, manifests[number]) for number in range(manifests.height)]
    return Decoded(pl.concat([part.frame for part in parts]), sum(part.rows for part in parts))


def both(scan: Scan) -> tuple[object, object]:
    """Return a comparable form of the plan made here and of the plan from other tasks' entries, or of their errors."""
    return tuple(_told(scan, outlines) for outlines in (None, by_manifest))  # type: ignore[return-value]  # two


def _told(scan: Scan, outlines: object) -> object:
    morrow.clear_caches()
    try:
        plan = plan_with_fallback(TableMetadata(scan.store, scan.title), scan.request, outlines)  # type: ignore[arg-type]
    except MorrowError as error:
        return type(error), str(error)
    return [(part, part.steps, part.file_fields, _bounds(part)) for part in plan.parts]


def _bounds(plan: ScanPlan) -> list[tuple[object, ...]]:
    return [(each.partition, each.key_low, each.key_high) for each in plan.sections]


@pytest.mark.parametrize("case", every(2, SAMPLE))
def test_java_tables(golden_root: Path, case: str) -> None:
    table = morrow.open(golden_root / "public" / case / "warehouse" / "db.db" / "t")
    fields = table.scan().fields
    texts = [f'"{f.name}" > {VALUES[kind]}' for f in fields if (kind := f.type.text().split()[0]) in VALUES]
    for text in (None, *texts[:3]):
        here, elsewhere = both(table.scan(filter=text))
        assert elsewhere == here


def keyed(path: Path, seed: int) -> TableFactory:
    """Make a table of random files, which may overlap, in partitions and buckets, and delete some of them."""
    table = TableFactory(
        path, [("p", "INT"), ("id", "INT"), ("v", "BIGINT")], ["p", "id"], ["p"], {"bucket": "2", "file.format": "orc"}
    )
    random = np.random.default_rng(seed)
    held = []
    for _ in range(4):
        count = int(random.integers(5, 40))
        parts, low = random.integers(0, 3, count), random.integers(0, 100, count)
        high, values = low + random.integers(0, 20, count), random.integers(0, 50, count)
        held += table.fake_files(
            pa.table({"p": parts, "id": low, "v": values}),
            pa.table({"p": parts, "id": high, "v": values + 5}),
            partitions=[{"p": int(part)} for part in parts],
            buckets=random.integers(0, 2, count),
            levels=random.integers(0, 3, count),
        )
        for _ in range(3):
            table.delete_file(held.pop(int(random.integers(len(held)))))
        table.commit(entries_per_manifest=7)
    return table


@pytest.mark.parametrize("seed", every(2, range(4)))
def test_random_tables(tmp_path: Path, seed: int) -> None:
    table = morrow.open(keyed(tmp_path / "t", seed).path)
    of_keys = "p = 1", "id = 17", "p IN (0, 2) AND id BETWEEN 30 AND 40", "p > 7"
    for text in (None, *of_keys, "v > 45", "v < 10 OR p = 1"):
        here, elsewhere = both(table.scan(filter=text))
        assert elsewhere == here


def test_what_statistics_tell_takes_their_place(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT"), ("v", "INT")], ["id"])
    bounds = [(1, 5, 10, 20), (3, 8, 30, 40), (9, 9, 10, 20)]
    for low, high, least, most in bounds:
        table.fake_files(pa.table({"id": [low], "v": [least]}), pa.table({"id": [high], "v": [most]}))
    table.commit()
    scan = morrow.open(table.path).scan(filter="id < 9 AND v < 25")
    seen: list[pl.DataFrame] = []

    def kept(metadata: TableMetadata, request: ScanRequest, manifests: pl.DataFrame) -> Decoded:
        decoded = decode_outlined(metadata, request, manifests)
        seen.append(decoded.frame)
        return decoded

    scan = plan_with_outlines(scan, kept)
    (frame,) = seen
    assert not {*STATISTICS} & {*frame.columns}
    assert frame[KEYS_MATCH].to_list() == [True, True, False]
    assert frame[VALUES_MATCH].to_list() == [True, False, False]
    # The second file may hold newer rows for keys of the first, so its own values cannot exclude it.
    assert len(scan.plan.files) == 2


def test_of_damaged_tables_the_error_is_the_same(tmp_path: Path) -> None:
    table = morrow.open(keyed(tmp_path / "t", 1).path)
    scan = table.scan(filter="id = 17")
    assert scan.request.snapshot is not None
    metadata = TableMetadata(scan.store, scan.title)
    manifest = Path(metadata.paths.manifest(list_manifests(metadata, scan.request.snapshot)["_FILE_NAME"][1]))
    manifest.write_bytes(manifest.read_bytes()[:-9])
    here, elsewhere = both(scan)
    assert elsewhere == here
    assert "CorruptFile" in str(here)

    manifest.unlink()
    here, elsewhere = both(scan)
    assert elsewhere == here
    assert "FileMissing" in str(here)


def test_a_lost_entry_is_found_by_the_rows_that_the_snapshot_counts(tmp_path: Path) -> None:
    scan = morrow.open(keyed(tmp_path / "t", 2).path).scan()

    def lossy(metadata: TableMetadata, request: ScanRequest, manifests: pl.DataFrame) -> Decoded:
        return decode_outlined(metadata, request, manifests[1:])

    with pytest.raises(Unsupported, match="name files with"):
        plan_with_outlines(scan, lossy)


# scan.fallback-branch: partitions that main lacks are read from another branch.

FIELDS_FALLBACK_BRANCH = [("dt", "STRING"), ("id", "INT"), ("v", "STRING")]
MAIN, BRANCH = "main", "stream"


class Branched:
    """A table with a branch; data files and manifests of both are in the same folders."""

    def __init__(self, path: Path, fields: list[tuple[str, str]] = FIELDS_FALLBACK_BRANCH) -> None:
        options = {"bucket": "-1", "scan.fallback-branch": BRANCH}
        self.path = path / "t"
        self._tables = {
            MAIN: TableFactory(self.path, FIELDS_FALLBACK_BRANCH, (), ["dt"], options),
            BRANCH: TableFactory(path / "b", fields, ["dt", "id"], ["dt"], {"bucket": "1"}),
        }
        self._names = iter(range(10**6))
        for name, table in self._tables.items():
            table._new_id = lambda name=name: f"{name}-{next(self._names)}"  # type: ignore[method-assign,assignment,misc]  # names differ between branches
        self._publish()

    def commit(self, branch: str, day: str, ids: list[int], at: int = 0) -> None:
        """Commit a file to a branch at the time `at`; its rows name the branch."""
        table = self._tables[branch]
        table.write_file(pa.table({"id": ids, "v": [f"{branch}{i}" for i in ids]}), partition={"dt": day})
        snapshot = table.path / f"snapshot/snapshot-{table.commit()}"
        snapshot.write_text(json.dumps(json.loads(snapshot.read_text()) | {"timeMillis": at}))
        self._publish()

    def _publish(self) -> None:
        """Copy the branch's own table to the folder of the branch."""
        source, home = self._tables[BRANCH].path, self.path / "branch" / f"branch-{BRANCH}"
        for name in ("schema", "snapshot"):
            shutil.copytree(source / name, home / name, dirs_exist_ok=True)
        for folder in source.iterdir():
            if folder.name not in ("schema", "snapshot"):
                shutil.copytree(folder, self.path / folder.name, dirs_exist_ok=True)

    def rows(self, filter: str | None = None, **arguments: int | str) -> list[tuple[str, str]]:
        found = morrow.open(self.path).scan(["dt", "v"], filter, **arguments).to_polars()  # type: ignore[arg-type]  # passed through
        return sorted(found.rows())


def test_a_partition_is_read_from_main_or_else_from_the_branch(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(BRANCH, "a", [1, 2])
    table.commit(BRANCH, "b", [1, 2])
    table.commit(BRANCH, "b", [2, 3])
    table.commit(MAIN, "a", [7])

    assert table.rows() == [("a", "main7"), ("b", "stream1"), ("b", "stream2"), ("b", "stream3")]
    assert table.rows("v != 'stream1'") == [("a", "main7"), ("b", "stream2"), ("b", "stream3")]


def test_a_filter_that_main_does_not_match_uncovers_nothing(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(BRANCH, "a", [1])
    table.commit(MAIN, "a", [7])

    assert table.rows("id = 1") == []
    assert table.rows("dt = 'a'") == [("a", "main7")]


def test_main_may_be_empty(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(BRANCH, "a", [1])

    assert table.rows() == [("a", "stream1")]


def test_the_branch_may_be_empty(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(MAIN, "a", [1])

    assert table.rows() == [("a", "main1")]


def test_time_travel_reads_the_branch_as_it_was(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(BRANCH, "b", [1], at=1_000)
    table.commit(MAIN, "a", [7], at=2_000)
    table.commit(BRANCH, "c", [2], at=3_000)
    table.commit(MAIN, "b", [8], at=4_000)

    assert table.rows(snapshot=1) == [("a", "main7"), ("b", "stream1")]
    assert table.rows(snapshot=2) == [("a", "main7"), ("b", "main8"), ("c", "stream2")]


def test_a_branch_that_is_younger_had_no_rows(tmp_path: Path) -> None:
    """Before the branch's first snapshot a read sees no rows of it; Java reads the branch from its beginning."""
    table = Branched(tmp_path)
    table.commit(MAIN, "a", [7], at=1_000)
    table.commit(BRANCH, "b", [1], at=2_000)
    table.commit(BRANCH, "c", [2], at=3_000)

    assert table.rows(snapshot=1) == table.rows(timestamp=1_999) == [("a", "main7")]
    assert table.rows(timestamp=2_000) == [("a", "main7"), ("b", "stream1")]


def test_a_branch_whose_snapshots_of_then_have_expired(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    for day, at in (("b", 1_000), ("c", 3_000)):
        table.commit(BRANCH, day, [1], at=at)
    table.commit(MAIN, "a", [7], at=2_000)
    (table.path / f"branch/branch-{BRANCH}/snapshot/snapshot-1").unlink()

    with pytest.raises(SnapshotNotFound, match=r"branch stream\): no snapshot or tag is at or before"):
        table.rows(snapshot=1)


@pytest.mark.parametrize("option", ["scan.fallback-branch", "scan.primary-branch"])
def test_a_state_of_main_is_what_the_table_showed_then(tmp_path: Path, option: str) -> None:
    """Snapshot ids of main say nothing about the branch, so the branch is read as of main's time."""
    table = new_table(tmp_path, "day STRING NOT NULL, n INT", by=["day"])
    table.branches.create("live")
    live = table.on_branch("live")
    table.alter.set_options({option: "live"})

    def commit(branch: morrow.Table, day: str) -> None:
        branch.append([{"day": day, "n": 1}])
        time.sleep(0.002)  # so that the commits have different times

    for day in ("mon", "tue"):
        commit(live, day)
    commit(table, "sun")
    table.tags.create("sunday")
    for branch, day in ((live, "wed"), (live, "thu"), (table, "fri"), (live, "sat")):
        commit(branch, day)
    live.tags.create("sunday")  # a tag of the same name on other rows

    def days(**at: Any) -> set[str]:
        return set(table.scan(["day"], **at).to_polars()["day"])

    then, moment = {"mon", "tue", "sun"}, table.snapshots()[0].time
    for at in ({"snapshot": 1}, {"as_of": 1}, {"version": "1"}, {"version": "snapshot.1"}, {"tag": "sunday"},
               {"as_of": "sunday"}, {"timestamp": moment}, {"version": str(moment)}):  # fmt: skip
        assert days(**at) == then, at
    assert days(snapshot=2) == {*then, "wed", "thu", "fri"}
    assert days() == {*then, "wed", "thu", "fri", "sat"}
    between = live.snapshots()[2].time  # after main's first snapshot
    assert days(timestamp=between) == days(version=str(between)) == {*then, "wed"}


def test_the_branch_itself_falls_back_to_nothing(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(BRANCH, "a", [1])
    table.commit(MAIN, "b", [7])

    assert table.rows(branch=BRANCH) == [("a", "stream1")]


def test_both_parts_are_explained(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(BRANCH, "a", [1])
    table.commit(MAIN, "b", [7])
    lines = morrow.open(table.path).scan().explain().splitlines()

    assert [line for line in lines if line.startswith("Scan of")] == [
        f"Scan of {table.path}",
        f"Scan of {table.path} (branch {BRANCH})",
    ]


def test_branches_with_other_columns(tmp_path: Path) -> None:
    table = Branched(tmp_path, [*FIELDS_FALLBACK_BRANCH[:2], ("w", "STRING")])

    with pytest.raises(
        InvalidArgument, match=r"'scan.fallback-branch' names 'stream', whose columns differ from those"
    ):
        table.rows()


def test_a_branch_that_does_not_exist(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    shutil.rmtree(table.path / "branch")

    with pytest.raises(BranchNotFound, match="no branch 'stream'; the branches are main"):
        table.rows()


def branched(path: Path, format: str = "parquet") -> tuple[morrow.Table, morrow.Table]:
    """Make a table with a fallback branch; both begin with the same snapshot 1."""
    schema = "dt STRING, v STRING NOT NULL, r ROW<a INT NOT NULL>"
    table = new_table(path, schema, by=["dt"], options={"file.format": format})
    table.append({"dt": ["a"], "v": ["main1"], "r": [{"a": 1}]})
    table.tags.create("t1", snapshot=1)
    table.branches.create("b", tag="t1")
    table.alter.set_options({"scan.fallback-branch": "b"})
    return table, morrow.open(table.path, branch="b")


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_columns_are_nullable_where_either_branch_has_them_so(tmp_path: Path, format: str) -> None:
    table, branch = branched(tmp_path, format)
    branch.alter.set_nullable("v", True).set_nullable(("r", "a"), True)
    branch.append({"dt": ["b"], "v": [None], "r": [{"a": None}]})
    scan = table.scan()
    expected = [{"dt": "a", "v": "main1", "r": {"a": 1}}, {"dt": "b", "v": None, "r": {"a": None}}]
    assert scan.schema.field("v").nullable
    assert scan.schema.field("r").type.field("a").nullable
    batches = pa.Table.from_batches(scan.to_batches(), scan.schema)
    for rows in (scan.to_arrow(), batches, scan.dataset().to_table(), scan.to_duckdb().to_arrow_table()):
        assert sorted(rows.to_pylist(), key=lambda row: row["dt"]) == expected
    assert table.scan(["dt"], "v IS NULL").to_polars().rows() == [("b",)]


def test_a_past_state_has_the_columns_of_then(tmp_path: Path) -> None:
    table, branch = branched(tmp_path)
    branch.append({"dt": ["c"], "v": ["branch2"], "r": [{"a": 2}]})
    time.sleep(0.002)
    table.append({"dt": ["b"], "v": ["main2"], "r": [{"a": 2}]})
    for one in (table, branch):
        one.alter.add_column("w", "INT")
    branch.append({"dt": ["d"], "v": ["branch3"], "r": [{"a": 2}], "w": [3]})
    assert table.scan(["v"], snapshot=1).to_polars().rows() == [("main1",)]
    assert "w" not in table.scan(snapshot=1).schema.names
    assert sorted(table.scan(["v"], snapshot=2).to_polars().rows()) == [("branch2",), ("main1",), ("main2",)]
    assert sorted(table.scan(["v"], as_of="2").to_polars().rows()) == [("branch2",), ("main1",), ("main2",)]
    assert table.scan().count() == 4


def test_a_time_is_asked_of_both(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(MAIN, "a", [7], at=1_000)
    table.commit(BRANCH, "b", [1], at=2_000)
    assert table.rows(timestamp=1_500) == [("a", "main7")]
    assert table.rows(timestamp=2_500) == [("a", "main7"), ("b", "stream1")]


@pytest.mark.parametrize("keyed", [True, False])
def test_rows_of_the_branch_are_not_changed_with_those_of_main(tmp_path: Path, keyed: bool) -> None:
    """A row in main, even a retraction, would hide all rows of its partition in the branch."""
    table = morrow.Catalog(tmp_path).create_table(
        "db.t",
        schema="id INT NOT NULL, day STRING NOT NULL, v INT",
        primary_keys=["day", "id"] if keyed else [],
        partition_keys=["day"],
        options={"bucket": "1"} if keyed else {},
    )
    table.branches.create("b")
    table.on_branch("b").append({"id": [5, 6], "day": ["y", "y"], "v": [0, 0]})
    table.append({"id": [1, 2], "day": ["x", "x"], "v": [0, 0]})
    table.alter.set_options({"scan.fallback-branch": "b"})
    changes = [
        lambda: table.delete("id = 5"),
        lambda: table.delete("day = 'y'"),
        lambda: table.update({"v": "1"}, "id >= 2"),
        lambda: table.merge([{"id": 5, "day": "y", "v": 9}], on=["id", "day"]).when_matched_delete().execute(),
        *([lambda: table.delete([{"id": 5, "day": "y"}])] if keyed else []),
    ]
    for change in changes:
        with pytest.raises(Unsupported, match=r"read from the branch 'b'.*morrow\.open\(path, branch='b'\)"):
            change()
    assert sorted(table.scan(["id"]).to_polars()["id"]) == [1, 2, 5, 6]
    table.update({"v": "1"}, "day = 'x' AND id = 2")
    table.delete("day = 'x' AND id = 1")
    assert sorted(table.scan(["id", "v"]).to_polars().rows()) == [(2, 1), (5, 0), (6, 0)]


def test_a_primary_branch_is_read_before_main(tmp_path: Path) -> None:
    """Main's rows of partitions that the branch has are never read, whatever the filter."""
    table = new_table(tmp_path, "id INT NOT NULL, day STRING NOT NULL", keys=["day", "id"], by=["day"])
    table.append({"id": [1, 2], "day": ["x", "y"]})
    table.branches.create("b")
    branch = table.on_branch("b")
    branch.append({"id": [11, 12], "day": ["x", "x"]})
    table.alter.set_options({"scan.primary-branch": "b"})
    assert rows_of(table) == [(2, "y"), (11, "x"), (12, "x")]
    assert rows_of(table, filter="id < 10") == [(2, "y")]
    assert table.scan().count() == 3
    assert rows_of(table, snapshot=1) == [(1, "x"), (2, "y")]  # the branch had no rows at that time
    assert rows_of(table.on_branch("b")) == [(11, "x"), (12, "x")]
    table.append({"id": [3, 4], "day": ["x", "z"]})  # writes go to main
    assert rows_of(table) == [(2, "y"), (4, "z"), (11, "x"), (12, "x")]
    with pytest.raises(Unsupported, match=r"'scan\.primary-branch' names"):
        table.delete("id = 11")
    with pytest.raises(MorrowError, match=r"scan\.primary-branch"):
        table.branches.delete("b")
    table.alter.set_options({"scan.primary-branch": " "})
    assert rows_of(table) == [(1, "x"), (2, "y"), (3, "x"), (4, "z")]
