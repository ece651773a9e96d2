"""The plan as text: everything on one page, the same for the same plan."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

import morrow
from tests.support.table_factory import TableFactory

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
    raw    dt=b, bucket 0: 1 parquet file at level 0, 2 rows, SIZE"""


def merged(path: Path) -> None:
    table = TableFactory(path, [("dt", "STRING"), ("id", "INT"), ("v", "STRING")], ["dt", "id"], ["dt"])
    for day, level, ids in (("a", 5, [1, 2, 3]), ("a", 0, [2]), ("a", 5, [50, 60]), ("b", 0, [7, 8])):
        table.write_file(pa.table({"id": ids, "v": ["xx"] * len(ids)}), partition={"dt": day}, level=level)
    table.commit()
    table.write_file(pa.table({"id": [1], "v": ["xx"]}), partition={"dt": "c"})
    table.commit()


def shown(scan: morrow.Scan) -> str:
    """Replaces times and sizes, which differ from run to run, in the text."""
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
    assert lines[-1] == "    ... and 2 more"


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
