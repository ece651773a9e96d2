"""Planning from end to end: the files that a batch read sees, and the sections that they form."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import MorrowError, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.manifest_entries import STATISTICS
from morrow.engine.names import KEYS_MATCH, VALUES_MATCH
from morrow.engine.plan import entries
from morrow.engine.plan.entries import Decoded
from morrow.engine.plan.fallback_branch import plan_with_fallback
from morrow.engine.plan.manifests import list_manifests
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.planner import decode_outlined
from morrow.engine.plan.scan_plan import ScanPlan, ScanRequest, SectionKind
from morrow.scans.table_scan import Scan, plan_with_outlines
from tests.support.profile import every
from tests.support.table_factory import DataFile, TableFactory


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
    table.alter(fields=[("id", "BIGINT")])
    table.commit()

    with pytest.raises(Unsupported, match=r"a primary key column whose type was changed \('id'\)"):
        plan(table)


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
