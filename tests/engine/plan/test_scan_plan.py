"""Plans are data: they can be compared, hashed and pickled."""

from __future__ import annotations

import datetime as dt
import pickle
import re
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.plan import planner, scan_plan
from morrow.engine.plan.scan_plan import DataFile, PackedFiles, ScanPlan, SectionKind
from tests.support.golden import Read, reads
from tests.support.table_factory import TableFactory

DAY = dt.date(2024, 5, 14)


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    table = TableFactory(
        tmp_path, [("dt", "DATE"), ("id", "INT"), ("v", "STRING")], ["dt", "id"], ["dt"], {"bucket": "1"}
    )
    for level, rows in ((5, [1, 2, 3]), (0, [2])):
        table.write_file(pa.table({"id": rows, "v": ["x"] * len(rows)}), partition={"dt": DAY}, level=level)
    table.commit()
    return morrow.open(tmp_path)


def plan(table: morrow.Table) -> ScanPlan:
    return table.scan(columns=["v"], filter="id >= 2 AND length(v) = 1", limit=5).plan


def test_two_plans_of_the_same_read_are_equal(table: morrow.Table) -> None:
    assert plan(table) == plan(table)
    assert hash(plan(table)) == hash(plan(table))
    assert plan(table) != table.scan().plan


def test_a_plan_travels_between_processes(table: morrow.Table) -> None:
    sent = pickle.dumps(plan(table))

    assert pickle.loads(sent) == plan(table)
    assert str(pickle.loads(sent).merge) == "deduplicate by (id) ordered by _SEQUENCE_NUMBER"


def test_what_a_plan_says(table: morrow.Table) -> None:
    found = plan(table)
    (section,) = found.sections

    assert section.kind is SectionKind.MERGE
    assert (section.partition, section.bucket, section.key_low, section.key_high) == ((DAY,), 0, (1,), (3,))
    assert (section.row_count, section.size) == (4, sum(file.size for file in found.files))
    assert [file.level for file in found.files] == [5, 0]
    assert found.read_columns == ("v", "id")
    assert [field.name for field in found.fields] == ["v"]
    assert [field.name for field in found.file_fields[0]] == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "dt", "id", "v"]
    assert found.parts == (found,)


# Packed plans of many files list the same files as plans with objects.

FILES = (
    DataFile("a/1.orc", "orc", 10, 100, 0, 0, 1, 2, None, None, None, None, ("d",)),
    DataFile("a/2.orc", "orc", 20, 200, 5, 0, 3, 4, 7, None, ("x", "y"), None, ()),
    DataFile("b/3.orc", "orc", 30, 300, 5, 1, 5, 6, None, None, None, None, ()),
)
MEMBERS = [name for name in DataFile.__struct_fields__ if name != "deletion"]


def packed() -> PackedFiles:
    rows = [[getattr(file, name) for name in MEMBERS] for file in FILES]
    rows = [[list(value) if isinstance(value, tuple) else value for value in row] for row in rows]
    kinds = {"write_columns": pl.List(pl.String), "modern_dates": pl.List(pl.String)}
    return PackedFiles.of(pl.DataFrame(rows, MEMBERS, orient="row", schema_overrides=kinds), {})


def test_they_are_a_tuple_of_files() -> None:
    files = packed()
    assert files == FILES
    assert files == FILES
    assert files != FILES[:2]
    assert hash(files) == hash(FILES)
    assert (files[0], files[-1], files[1:], files[5:], files[::-1]) == (
        *(FILES[0], FILES[-1], FILES[1:], ()),
        FILES[::-1],
    )
    assert (len(files[1:]), files[1:].row_count, files[:2].size) == (2, 500, 30)  # type: ignore[union-attr]  # slices
    assert pickle.loads(pickle.dumps(files)) == FILES
    with pytest.raises(IndexError):
        files[3]


def test_many_are_made_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_plan, "MAX_UNPACKED_FILES", 2)
    assert list(packed()) == list(FILES)


@pytest.mark.golden
@pytest.mark.parametrize(
    "read", [each for each in reads() if each.id == "latest" and each.error is None][::25], ids=str
)
def test_java_tables(golden_root: Path, monkeypatch: pytest.MonkeyPatch, read: Read) -> None:
    path = golden_root / read.case / "warehouse" / "db.db" / "t"
    morrow.clear_caches()
    here = morrow.open(path).scan().plan

    morrow.clear_caches()
    monkeypatch.setattr(planner, "MAX_OBJECT_FILES", 0)
    scan = morrow.open(path).scan()
    assert scan.plan == here
    assert all(isinstance(each.files, PackedFiles) for part in scan.plan.parts for each in part.sections)
    assert scan.to_arrow().num_rows == sum(1 for _ in read.rows(golden_root))


# The plan as text shows everything on one page, and equal plans have equal texts.

MERGED = """\
Scan of {path}
  snapshot   2 (APPEND, TIME), schema 0
  columns    id, v
  pushed     dt IN ('a', 'b')
  pushed     id <= 20
  after      length(v) > 1 (sql expression on the rows read)
  limit      7
  merge      deduplicate by (id) ordered by _SEQUENCE_NUMBER
  pruned     manifests by partition: kept 1 of 2
  pruned     files visible to batch reads: kept 4 of 4
  pruned     files by key range: kept 3 of 4
  pruned     raw files by statistics: kept 1 of 1
  files      3 files, SIZE, 6 rows stored
  masks      0 deletion vectors, 2 files masked by their keys
  sections   1 raw, 1 merge
    merge  dt=a, bucket 0: 2 parquet files at level 0,5, 4 rows, SIZE
    raw    dt=b, bucket 0: 1 parquet file at level 0, 2 rows, SIZE

to_polars() reads
  1 merge section scanned: 7 rows at most are wanted
  1 raw section scanned: 7 rows at most are wanted"""


def merged(path: Path) -> None:
    table = TableFactory(path, [("dt", "STRING"), ("id", "INT"), ("v", "STRING")], ["dt", "id"], ["dt"])
    for day, level, ids in (("a", 5, [1, 2, 3]), ("a", 0, [2]), ("a", 5, [50, 60]), ("b", 0, [7, 8])):
        table.write_file(pa.table({"id": ids, "v": ["xx"] * len(ids)}), partition={"dt": day}, level=level)
    table.commit()
    table.write_file(pa.table({"id": [1], "v": ["xx"]}), partition={"dt": "c"})
    table.commit()


def shown(scan: morrow.Scan) -> str:
    """Replace times and sizes, which differ between runs, in the text."""
    text = re.sub(r"\(APPEND, [^)]*\)", "(APPEND, TIME)", scan.explain())
    return re.sub(r"[\d.]+ (B|KiB)\b", "SIZE", text)


def test_a_merging_read(tmp_path: Path) -> None:
    merged(tmp_path)
    scan = morrow.open(tmp_path).scan(["id", "v"], "dt IN ('a', 'b') AND id <= 20 AND length(v) > 1", limit=7)

    assert shown(scan) == MERGED.format(path=tmp_path)


def test_deletion_vectors_and_what_they_hide(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, [("id", "INT")], options={"bucket": "-1", "deletion-vectors.enabled": "true"})
    files = [table.write_file(pa.table({"id": range(1000)})) for _ in range(2)]
    table.deletion_vector(files[0], range(600))
    table.deletion_vector(files[1], range(600))
    table.commit()

    lines = shown(morrow.open(tmp_path).scan()).splitlines()
    assert "  filter     none" in lines
    assert "  merge      none: an append table" in lines
    assert "  files      2 files, SIZE, 2,000 rows stored" in lines
    assert "  masks      2 deletion vectors (1,200 dead rows), 0 files masked by their keys" in lines


def test_many_sections_are_counted(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, [("p", "INT"), ("id", "INT")], partition_keys=["p"], options={"bucket": "-1"})
    for p in range(12):
        table.write_file(pa.table({"id": [1]}), partition={"p": p})
    table.commit()

    lines = shown(morrow.open(tmp_path).scan()).splitlines()
    assert "  sections   12 raw" in lines
    assert "    raw    p=0, bucket 0: 1 parquet file at level 0, 1 row, SIZE" in lines
    assert "    ... and 2 more" in lines
    assert lines[-1] == "  12 raw sections read together: each has 131,072 rows at most"


def test_a_table_without_a_commit(tmp_path: Path) -> None:
    TableFactory(tmp_path, [("id", "INT")])

    assert morrow.open(tmp_path).scan().explain() == (
        f"Scan of {tmp_path}\n  snapshot   none: the table has no committed data"
    )


def test_many_columns_are_counted(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", ", ".join(f"c{i} INT" for i in range(500)))
    table.append({"c0": [1]})
    (line,) = [line for line in str(table.scan().explain()).splitlines() if line.startswith("  columns")]
    assert line.endswith("c38, c39, ... and 460 more")
