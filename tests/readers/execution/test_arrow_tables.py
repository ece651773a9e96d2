"""ORC tables become Arrow tables without Polars: the same rows and schema, and what does not fit goes the usual way."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pytest

import morrow
from morrow.engine.errors import CorruptFile, FileMissing
from morrow.engine.format import types as t
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution import execute
from morrow.readers.execution.arrow_tables import is_arrow_only
from morrow.readers.execution.counting import is_complete
from morrow.scans.table_scan import Scan
from tests.support.recording_store import RecordingStore
from tests.support.table_factory import DataFile, TableFactory

FIELDS = [("id", "INT"), ("v", "STRING")]
VECTORS = {"deletion-vectors.enabled": "true"}


def orc(table: TableFactory, rows: dict[str, Any], **options: Any) -> DataFile:
    return table.write_file(pa.table(rows), format="orc", **options)


def read(path: Path, **request: Any) -> list[dict[str, Any]]:
    """Reads the rows by id, which are those that Polars reads, in exactly the same types."""
    scan = morrow.open(path).scan(**request)
    assert is_arrow_only(scan.plan)
    table = scan.to_arrow()
    table.validate(full=True)
    by_polars = to_arrow_table(scan.to_polars(), scan.plan.fields)
    assert table.schema.equals(by_polars.schema, check_metadata=True)
    assert table.sort_by("id").equals(by_polars.sort_by("id"))
    return table.sort_by("id").to_pylist()


def test_newest_versions(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, FIELDS, ["id"])
    orc(table, {"id": [1, 2, 3, 4], "v": ["a", "b", "c", None]}, level=5)
    orc(table, {"id": [2, 3, 5], "v": ["B", "C", "E"]}, kinds=["+U", "-D", "+I"])
    table.commit()
    expected = [{"id": 1, "v": "a"}, {"id": 2, "v": "B"}, {"id": 4, "v": None}, {"id": 5, "v": "E"}]
    assert read(tmp_path) == expected
    assert read(tmp_path) == expected, "with masks that are cached"
    assert read(tmp_path, columns=["v", "id"])[0] == {"v": "a", "id": 1}


def test_deletion_vectors_and_retractions_of_files_that_nothing_merges(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, FIELDS, ["id"], options=VECTORS)
    dead = orc(table, {"id": [1, 2, 3], "v": ["a", "b", "c"]}, level=5)
    table.deletion_vector(dead, [1])
    orc(table, {"id": [4, 5, 6], "v": ["d", "e", "f"]}, level=5, kinds=["+I", "-D", "+U"])
    both = orc(table, {"id": [7, 8, 9], "v": ["g", "h", "i"]}, level=5, kinds=["-U", "+I", "+I"])
    table.deletion_vector(both, [2])
    table.commit("COMPACT")
    assert [row["id"] for row in read(tmp_path)] == [1, 3, 4, 6, 8]


def test_several_stripes_each_have_their_part_of_the_mask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = po.write_table
    monkeypatch.setattr(po, "write_table", lambda *each, **o: write(*each, **o, stripe_size=1, batch_size=1024))
    table = TableFactory(tmp_path, FIELDS, ["id"], options=VECTORS)
    ids = range(50_000)
    file = orc(table, {"id": ids, "v": [str(id * 7919) for id in ids]}, level=5)
    table.deletion_vector(file, ids[::3])
    table.commit("COMPACT")
    (path,) = tmp_path.rglob("*.orc")
    assert po.ORCFile(path).nstripes > 1
    assert [row["id"] for row in read(tmp_path)] == [id for id in ids if id % 3]


def test_partition_columns_are_constants_of_their_files(tmp_path: Path) -> None:
    keys = [("day", "DATE"), ("price", "DECIMAL(10, 2)"), ("label", "STRING")]
    table = TableFactory(tmp_path, [("id", "INT"), *keys], partition_keys=[name for name, _ in keys])
    first = {"day": dt.date(2024, 2, 29), "price": Decimal("1.50"), "label": "a b"}
    second = {"day": dt.date(1969, 7, 20), "price": None, "label": None}
    orc(table, {"id": [1, 2]}, partition=first)
    orc(table, {"id": [3]}, partition=second)
    table.commit()
    assert read(tmp_path) == [{"id": 1, **first}, {"id": 2, **first}, {"id": 3, **second}]
    assert morrow.open(tmp_path).scan(columns=["label"]).to_arrow()["label"].to_pylist().count("a b") == 2


def test_renamed_and_added_columns(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, FIELDS)
    orc(table, {"id": [1], "v": ["a"]})
    added = t.DataField(2, "list", t.ArrayType(element=t.IntType(nullable=False)), description="since May")
    table.alter(fields=[t.DataField(1, "w", t.VarCharType()), added, t.DataField(0, "id", t.IntType())])
    orc(table, {"w": ["b"], "list": [[1, 2]], "id": [2]})
    table.commit()
    assert read(tmp_path) == [{"w": "a", "list": None, "id": 1}, {"w": "b", "list": [1, 2], "id": 2}]


def test_types_are_exactly_those_of_the_schema(tmp_path: Path) -> None:
    point = t.RowType(fields=(t.DataField(20, "x", t.IntType(nullable=False)), t.DataField(21, "s", t.CharType(3))))
    kinds = {
        "c": t.CharType(length=3),
        "seconds": t.TimestampType(precision=0),
        "millis": t.TimestampType(precision=3),
        "instant": t.LocalZonedTimestampType(precision=6),
        "time": t.TimeType(),
        "point": point,
        "map": t.MapType(key=t.VarCharType(), value=t.IntType(nullable=False)),
        "required": t.BigIntType(nullable=False),
    }
    fields = [t.DataField(0, "id", t.IntType()), *(t.DataField(i, n, k) for i, (n, k) in enumerate(kinds.items(), 1))]
    value = {
        "c": "ab",
        "seconds": dt.datetime(1960, 1, 1, 1),
        "millis": dt.datetime(2024, 1, 1, 1, 1, 1, 5000),
        "instant": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        "time": dt.time(1, 2, 3, 4000),
        "point": {"x": 1, "s": "ab"},
        "map": [("k", 1)],
        "required": 7,
    }
    table = TableFactory(tmp_path, fields)
    rows = [{"id": 1, **value}, {"id": 2, **dict.fromkeys(kinds), "required": 8}]
    table.write_file(pa.Table.from_pylist(rows, t.arrow_schema(fields)), format="orc")
    table.commit()
    assert read(tmp_path) == rows


def test_a_table_without_files_has_a_schema(tmp_path: Path) -> None:
    TableFactory(tmp_path, FIELDS, ["id"])
    assert read(tmp_path) == []


# --- what goes through Polars ---


def goes_through_polars(scan: Scan) -> bool:
    return not (is_complete(scan.plan) and is_arrow_only(scan.plan))


def test_filters_limits_casts_and_folds_go_through_polars(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "cast", FIELDS)
    orc(table, {"id": [1, 2], "v": ["a", "b"]})
    table.commit()
    cast = morrow.open(table.path)
    assert goes_through_polars(cast.scan(filter="id > 1"))
    assert goes_through_polars(cast.scan(limit=1))
    table.alter(fields=[("id", "BIGINT"), ("v", "STRING")])
    assert goes_through_polars(morrow.open(table.path).scan())
    assert not goes_through_polars(morrow.open(table.path).scan(columns=["v"]))
    assert morrow.open(table.path).scan().to_arrow().to_pydict() == {"id": [1, 2], "v": ["a", "b"]}

    folded = TableFactory(tmp_path / "fold", FIELDS, ["id"], options={"merge-engine": "partial-update"})
    orc(folded, {"id": [1], "v": ["a"]})
    orc(folded, {"id": [1], "v": [None]})
    folded.commit()
    assert goes_through_polars(morrow.open(folded.path).scan())
    assert morrow.open(folded.path).scan().to_arrow().to_pylist() == [{"id": 1, "v": "a"}]


def test_one_file_of_another_format_sends_all_through_polars(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, FIELDS)
    orc(table, {"id": [1], "v": ["a"]})
    table.write_file(pa.table({"id": [2], "v": ["b"]}))
    table.commit()
    assert goes_through_polars(morrow.open(tmp_path).scan())
    assert morrow.open(tmp_path).scan().to_arrow().num_rows == 2


# --- damage ---


def append(path: Path) -> tuple[Scan, Path]:
    """Makes a table of one file of two rows."""
    table = TableFactory(path, FIELDS)
    file = orc(table, {"id": [1, 2], "v": ["a", "b"]})
    table.commit()
    return morrow.open(path).scan(), table.folder((), 0) / file.name


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    scan, file = append(tmp_path)
    content = file.read_bytes()
    file.write_bytes(content[:-20] + b"\xff" * 20)
    with pytest.raises(CorruptFile, match=file.name):
        scan.to_arrow()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    scan, file = append(tmp_path)
    file.unlink()
    with pytest.raises(FileMissing, match=file.name):
        scan.to_arrow()


def test_rows_are_held_against_the_manifest(tmp_path: Path) -> None:
    scan, file = append(tmp_path)
    other = TableFactory(tmp_path / "other", FIELDS)
    orc(other, {"id": [1, 2, 3], "v": ["a", "b", "c"]})
    (three,) = (tmp_path / "other").rglob("*.orc")
    file.write_bytes(three.read_bytes())

    class SameSize(RecordingStore):
        def size(self, path: str) -> int | None:
            (entry,) = scan.plan.files
            return entry.size if super().size(path) else None

    with pytest.raises(CorruptFile, match="has 3 rows where metadata says 2"):
        execute.to_arrow(scan.plan, SameSize())
