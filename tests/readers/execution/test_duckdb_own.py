"""Scans by DuckDB itself give the rows and types of scans by Morrow, and are used only if they are possible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import morrow
import morrow.duckdb
from morrow.engine.errors import CorruptFile, FileMissing
from morrow.readers.execution import duckdb_relation, strategy
from morrow.readers.execution.duckdb_relation import make_relation, own_scan, to_scannable
from tests.readers.execution.test_duckdb_relation import every_type  # noqa: F401 - a fixture
from tests.support.data_files import FORMATS
from tests.support.table_factory import TableFactory


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'America/New_York'")
        yield morrow.duckdb.install(connection)


@pytest.fixture
def evolved(tmp_path: Path) -> morrow.Table:
    """Make two partitions with hostile names, files of three schemas, and a column name that DuckDB uses itself."""
    catalog = morrow.Catalog(tmp_path / "it's [w]*")
    schema = {"p": "STRING", 'a "b"': "INT", "file_row_number": "BIGINT"}
    table = catalog.create_table("db.t", schema=schema, partition_keys=["p"])
    table.append({"p": ["x=1/%", "ü'"], 'a "b"': pa.array([1, 2], pa.int32()), "file_row_number": [7, 8]})
    table.alter.set_type('a "b"', "BIGINT")
    table.alter.rename_column('a "b"', "n")
    table.append({"p": ["x=1/%"], "n": [2**40], "file_row_number": [None]})
    table.alter.add_column("later", "DOUBLE")
    table.append({"p": [None], "n": [None], "file_row_number": [9], "later": [float("nan")]})
    return catalog.table("db.t")


def test_errors_of_damaged_files_name_them_without_traces(tmp_path: Path, con: duckdb.DuckDBPyConnection) -> None:
    catalog = morrow.Catalog(tmp_path)
    table = catalog.create_table("db.t", schema="id BIGINT")
    table.append({"id": [1]})
    file = Path(table.system("files").to_polars()["file_path"][0])
    file.write_bytes(b"PAR1" + bytes(len(file.read_bytes()) - 8) + b"PAR1")
    for query in (f"FROM paimon_scan('{table.path}')", f"SELECT sum(id) FROM paimon_scan('{table.path}')"):
        with pytest.raises(duckdb.Error, match=rf"{file.name}: .*restore the file") as caught:
            con.sql(query).fetchall()
        assert "file_errors.py" not in str(caught.value)  # without the tracebacks of its causes
    catalog.create_table("db.copy", schema="id BIGINT")
    with pytest.raises(CorruptFile, match=rf"{file.name}: .*restore the file") as told:
        catalog.sql("INSERT INTO db.copy SELECT * FROM db.t")
    assert "\n" not in str(told.value) and "Traceback" not in str(told.value)


def both(table: morrow.Table, con: duckdb.DuckDBPyConnection) -> list[duckdb.DuckDBPyRelation]:
    source = table.scan().dataset()
    text = own_scan(source, con)
    assert text is not None
    return [con.sql(text), con.from_arrow(to_scannable(source))]


def rows(found: duckdb.DuckDBPyRelation) -> list[str]:
    return sorted(map(repr, found.to_arrow_table().to_pylist()))


def test_rows_and_types_are_those_that_are_handed_over(
    every_type: morrow.Table,  # noqa: F811
    evolved: morrow.Table,
    con: duckdb.DuckDBPyConnection,
) -> None:
    for table in (every_type, evolved):
        own, given = both(table, con)
        assert (own.columns, own.types) == (given.columns, given.types)
        assert rows(own) == rows(given) != []


def test_filters_aggregates_and_the_newest_rows(evolved: morrow.Table, con: duckdb.DuckDBPyConnection) -> None:
    path = evolved.path.replace("'", "''")
    assert con.sql(f"SELECT n FROM paimon_scan('{path}') WHERE p LIKE 'x%' ORDER BY n").fetchall() == [(1,), (2**40,)]
    plan = con.sql(f"EXPLAIN SELECT n FROM paimon_scan('{path}') WHERE n > 3").fetchall()[0][1]
    assert "READ_PARQUET" in plan and "ARROW" not in plan
    top = f"SELECT file_row_number FROM paimon_scan('{path}') ORDER BY file_row_number DESC NULLS LAST LIMIT 1"
    assert con.sql(top).fetchall() == [(9,)]
    evolved.append({"p": ["z"], "n": [5], "file_row_number": [10], "later": [1.0]})
    assert con.sql(top).fetchall() == [(10,)]
    assert morrow.open(evolved.path).scan(columns=["n"]).to_duckdb(con).sum("n").fetchall() == [(2**40 + 8,)]


def primary(path: Path, **options: Any) -> TableFactory:
    """Make a primary-key table with one file in the highest level."""
    table = TableFactory(path, [("id", "INT"), ("v", "INT")], ["id"], options=options)
    table.write_file(pa.table({"id": [1, 2, 3], "v": [1, 2, 3]}), level=5)
    return table


def test_rows_that_metadata_or_masks_change_are_handed_over(tmp_path: Path, con: duckdb.DuckDBPyConnection) -> None:
    plain = primary(tmp_path / "plain")
    plain.commit()
    assert own_scan(morrow.open(plain.path).dataset(), con) is not None
    plain.write_file(pa.table({"id": [2], "v": [9]}))
    plain.commit()
    assert own_scan(morrow.open(plain.path).dataset(), con) is None  # a key has several versions
    vectors = primary(tmp_path / "vectors", **{"deletion-vectors.enabled": "true"})
    vectors.commit()
    file = vectors.write_file(pa.table({"id": [7, 8], "v": [1, 2]}), level=5)
    vectors.deletion_vector(file, [0])
    vectors.commit()
    assert own_scan(morrow.open(vectors.path).dataset(), con) is None
    assert con.sql(f"SELECT id FROM paimon_scan('{vectors.path}') ORDER BY id").fetchall() == [(1,), (2,), (3,), (8,)]
    checked = morrow.open(primary(tmp_path / "checked").path, verify="pages").dataset()
    assert own_scan(checked, con) is None


def test_a_scan_with_a_filter_or_a_limit_is_handed_over(tmp_path: Path, con: duckdb.DuckDBPyConnection) -> None:
    table = primary(tmp_path / "t")
    table.commit()
    opened = morrow.open(table.path)
    for scan in (opened.scan(filter="id > 1"), opened.scan(limit=1)):
        assert own_scan(scan.dataset(), con) is None
        assert len(scan.to_duckdb(con).fetchall()) == scan.count()


def test_a_connection_without_files_is_handed_the_rows(tmp_path: Path, con: duckdb.DuckDBPyConnection) -> None:
    table = primary(tmp_path / "t")
    table.commit()
    query = f"SELECT sum(v) FROM paimon_scan('{table.path}')"
    assert con.sql(query).fetchall() == [(6,)]
    con.execute("SET enable_external_access = false")
    assert con.sql(query).fetchall() == [(6,)]
    assert make_relation(morrow.open(table.path).dataset(), con).fetchall() == [(1, 1), (2, 2), (3, 3)]


def test_files_that_are_gone_or_others_are_named(tmp_path: Path, con: duckdb.DuckDBPyConnection) -> None:
    table = primary(tmp_path / "t")
    table.commit()
    (file,) = Path(table.path).rglob("data-*.parquet")
    content = file.read_bytes()
    file.write_bytes(content + b"more")
    with pytest.raises(CorruptFile, match=file.name):
        morrow.open(table.path).scan().to_duckdb(con)
    file.unlink()
    with pytest.raises(FileMissing, match=file.name):
        morrow.open(table.path).scan().to_duckdb(con)
    with pytest.raises(duckdb.Error, match=file.name):
        con.sql(f"SELECT * FROM paimon_scan('{table.path}')")


def test_bytes_are_never_text(tmp_path: Path, con: duckdb.DuckDBPyConnection) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="b BYTES")
    table.append({"b": [rb"\x41"]})
    con.execute("SET binary_as_string = true")
    assert own_scan(table.scan().dataset(), con) is not None
    for query in (f"FROM paimon_scan('{table.path}')", table.scan().to_sql()):
        assert con.sql(query).fetchall() == [(rb"\x41",)]


def test_text_that_a_file_calls_bytes_is_not_spelt_with_escapes(
    tmp_path: Path, con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_text(rows: pa.Table, _: object, path: Path, __: object) -> None:
        pq.write_table(pa.table({"s": rows["s"].cast(pa.binary())}), path)

    monkeypatch.setitem(FORMATS, "parquet", without_text)
    table = TableFactory(tmp_path / "t", [("s", "STRING")])
    table.write_file(pa.table({"s": ["é"]}))
    table.commit()
    assert own_scan(morrow.open(table.path).dataset(), con) is None
    with pytest.raises(duckdb.Error, match="a file whose types are not"):
        con.sql(f"FROM paimon_scan('{table.path}')").fetchall()


def test_of_many_files_rows_are_handed_over(
    evolved: morrow.Table, con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for home, bound in ((strategy, "MAX_DUCKDB_FILES"), (duckdb_relation, "MAX_PARTITIONS")):
        with monkeypatch.context() as patch:
            patch.setattr(home, bound, 2)
            assert own_scan(evolved.dataset(), con) is None
    assert own_scan(evolved.dataset(), con) is not None


@pytest.mark.parametrize("name", ["n", "file_index", "FILE_INDEX"])
def test_nan_is_found_whatever_the_statistics_of_files(
    tmp_path: Path, con: duckdb.DuckDBPyConnection, name: str
) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema=f"{name} INT, v DOUBLE, s STRING")
    table.append({name: pa.array([None, 1, 2], pa.int32()), "v": [float("nan"), 1.0, None], "s": ["a", None, "c"]})
    assert own_scan(table.scan().dataset(), con) is not None
    found = con.sql(f"SELECT s FROM paimon_scan('{table.path}') WHERE v > 1000").fetchall()
    assert found == [("a",)] == con.sql(f"SELECT s FROM paimon_scan('{table.path}') WHERE {name} IS NULL").fetchall()
    assert str(con.sql(f"SELECT max(v), count(s) FROM paimon_scan('{table.path}')").fetchall()) == "[(nan, 2)]"
