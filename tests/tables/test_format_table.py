"""Format tables and object tables of a catalog: all kinds of reads, with partitions, hostile names and damaged folders.

Tables by Java are read in `tests/interop/test_hive.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.orc
import pyarrow.parquet
import pytest

import morrow
from morrow.engine.errors import (
    AlreadyExists,
    ColumnNotFound,
    CorruptFile,
    InvalidArgument,
    MorrowError,
    TableNotFound,
    Unsupported,
)
from morrow.engine.format.types import DataField, VarCharType
from morrow.engine.options import Options
from morrow.writers.operations.format_table import make_csv_encoder
from tests.support.hostile_names import PATTERNS
from tests.support.rest_server import RestServer, rest_server

COLUMNS = "id BIGINT, v STRING, day DATE, `k v` STRING"
KEYS = ["day", "k v"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path / "rest") as served:
        yield served


@pytest.fixture
def catalog(server: RestServer) -> morrow.Catalog:
    return morrow.open_catalog({"metastore": "rest", "uri": server.url, "token.provider": "bear", "token": "x"})


Make = Callable[..., Path]


@pytest.fixture
def make(catalog: morrow.Catalog, server: RestServer, tmp_path: Path) -> Make:
    """Make ``db.t`` of a kind with an empty folder, and return the folder."""

    def made(kind: str = "format-table", format_: str = "parquet", columns: str = COLUMNS, keys: Any = KEYS) -> Path:
        catalog.create_table("db.t", schema=columns, partition_keys=keys)
        folder = tmp_path / "files of t"
        folder.mkdir()
        stored = server.databases["db"]["t"]
        stored.files, stored.options = str(folder), {"type": kind, "file.format": format_}
        return folder

    return made


def put(folder: Path, frame: pl.DataFrame, day: str, kind: str, name: str = "part-0") -> Path:
    place = folder / f"day={day}" / f"k v={kind}"
    place.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(place / name)
    return place / name


def test_rows_of_partitions_in_all_ways(make: Make, catalog: morrow.Catalog) -> None:
    folder = make()
    put(folder, pl.DataFrame({"id": [1, 2], "v": ["a", None]}), "2024-02-29", "a%2Fb %25")
    put(folder, pl.DataFrame({"v": ["c"], "more": [1.5], "id": [3]}), "__DEFAULT_PARTITION__", "ü")
    put(folder, pl.DataFrame({"id": [4]}), "1969-12-31", "__DEFAULT_PARTITION__")
    put(folder, pl.DataFrame({"id": [9]}), "2024-02-29", "a%2Fb %25", "_temporary")
    (folder / "_temporary" / "0").mkdir(parents=True)
    pl.DataFrame({"id": [9]}).write_parquet(folder / "_temporary" / "0" / "part-0")
    put(folder, pl.DataFrame({"id": [5]}), "2024-02-29", "_shown")
    table = catalog.format_table("db.t")
    leap, old = date(2024, 2, 29), date(1969, 12, 31)
    rows = [
        (1, "a", leap, "a/b %"),
        (2, None, leap, "a/b %"),
        (3, "c", None, "ü"),
        (4, None, old, None),
        (5, None, leap, "_shown"),
    ]
    assert (table.format, table.partition_keys) == ("parquet", ("day", "k v"))
    assert sorted(table.scan().to_polars().rows()) == sorted(rows)
    assert sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist()) == sorted(rows)
    assert sorted(tuple(each.values()) for b in table.scan().to_batches(1) for each in b.to_pylist()) == sorted(rows)
    assert table.scan().schema == table.scan().to_arrow().schema
    assert table.scan().count() == 5
    assert table.scan(columns=["k v"], filter="day = DATE '2024-02-29' AND id < 3", limit=1).to_polars().rows() == [
        ("a/b %",)
    ]
    assert table.scan(columns=["v", "id"], filter='"k v" IS NULL OR id = 3').to_polars().rows() == [(None, 4), ("c", 3)]
    assert table.scan(columns=["day"]).count() == table.scan(columns=["v"]).count() == 5
    assert table.scan(limit=0).to_arrow().num_rows == 0

    query = 'SELECT id, "k v" FROM db.t WHERE day IS NOT NULL AND id > 1 ORDER BY id'
    assert catalog.sql(query).fetchall() == [(2, "a/b %"), (4, None), (5, "_shown")]
    with duckdb.connect() as connection:
        morrow.duckdb.attach(connection, catalog, "pm")
        assert connection.sql("SELECT count(*), max(day) FROM pm.db.t").fetchall() == [(5, leap)]
        morrow.duckdb.detach(connection, "pm")


def test_files_of_other_partitions_are_not_opened(make: Make, catalog: morrow.Catalog) -> None:
    folder = make()
    put(folder, pl.DataFrame({"id": [1], "v": ["a"]}), "2024-02-29", "x")
    put(folder, pl.DataFrame({"id": [2], "v": ["b"]}), "2024-03-01", "x").write_bytes(b"no Parquet")
    table = catalog.format_table("db.t")
    assert table.scan(columns=["id"], filter="day < DATE '2024-03-01'").to_polars().rows() == [(1,)]
    with pytest.raises(CorruptFile, match="part-0"):
        table.scan().to_polars()


def test_other_formats_without_partitions(make: Make, catalog: morrow.Catalog, server: RestServer) -> None:
    folder = make(format_="csv", columns="id INT, v STRING, d DECIMAL(9, 2)", keys=())
    assert catalog.format_table("db.t").scan().to_polars().shape == (0, 3)
    assert catalog.format_table("db.t").scan().count() == 0
    (folder / "a.csv").write_text('1,"x, y",1.5\n2,,\n')
    expected = [(1, "x, y", "1.50"), (2, None, None)]

    def rows() -> list[Any]:
        return catalog.format_table("db.t").scan().to_polars().cast({"d": pl.String}).rows()

    assert rows() == expected
    (folder / "a.csv").unlink()
    options = server.databases["db"]["t"].options
    options["file.format"] = "json"
    (folder / "a").write_text('{"id":"1","v":"x, y","d":"1.50"}\n{"id":"2"}\n')
    assert rows() == expected
    (folder / "a").unlink()
    options["file.format"] = "orc"
    frame = pl.DataFrame({"id": [1, 2], "v": ["x, y", None]}, schema={"id": pl.Int32, "v": pl.String})
    pyarrow.orc.write_table(frame.to_arrow(compat_level=pl.CompatLevel.oldest()), str(folder / "a"))
    assert rows() == [(1, "x, y", None), (2, None, None)]
    for format_ in ("avro", "lance"):
        options["file.format"] = format_
        with pytest.raises(Unsupported, match=f"a format table of the format '{format_}'"):
            catalog.format_table("db.t").scan()


def test_timestamps_in_nanoseconds_as_hive_writes_them(make: Make, catalog: morrow.Catalog) -> None:
    folder = make(columns="id INT, t TIMESTAMP(6)", keys=())
    times = ["2024-01-02T03:04:05.000006", None, "1969-12-31T23:59:59.999999"]
    column = pl.Series("t", times).str.to_datetime(time_unit="us")
    frame = pl.DataFrame({"id": pl.Series([1, 2, 3], dtype=pl.Int32), "t": column})
    pyarrow.parquet.write_table(frame.to_arrow(), folder / "a", use_deprecated_int96_timestamps=True)
    table = catalog.format_table("db.t")
    assert table.scan().to_polars().equals(frame)
    frame.write_parquet(folder / "b")
    assert table.scan().count() == 6
    assert table.scan(filter="t < TIMESTAMP '1970-01-01'").to_polars()["id"].to_list() == [3, 3]


def test_folders_that_are_no_partitions(make: Make, catalog: morrow.Catalog) -> None:
    folder = make()
    frame = pl.DataFrame({"id": [1], "v": ["a"]})
    for place, told in (
        ("a", "beside the folders"),
        ("day=2024-01-01/b", "beside the folders"),
        ("2024-01-01/x/c", "not a folder of the partition key 'day'"),
        ("day=2024-01-01/v=x/d", "not a folder of the partition key 'k v'"),
        ("day=soon/k v=x/e", "conversion|soon"),
    ):
        file = folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(file)
        with pytest.raises(Unsupported, match=told):
            catalog.format_table("db.t").scan().to_polars()
        file.unlink()
    put(folder, pl.DataFrame({"other": [1]}), "2024-01-01", "x")
    with pytest.raises(Unsupported, match="with none of the table's columns id, v"):
        catalog.format_table("db.t").scan().to_polars()


def test_what_a_format_table_does_not_have(make: Make, catalog: morrow.Catalog) -> None:
    make()
    table: Any = catalog.format_table("db.t")
    for name in ("upsert", "delete", "compact", "snapshots", "tags", "alter", "rollback", "changes"):
        with pytest.raises(Unsupported, match=rf"{name} of a format-table.*it is a folder of files"):
            getattr(table, name)
    with pytest.raises(AttributeError):
        _ = table.nothing
    with pytest.raises(ColumnNotFound, match="did you mean 'day'"):
        table.scan(columns=["dya"])
    with pytest.raises(Unsupported, match=r"Catalog\.format_table and object_table open some"):
        catalog.table("db.t")
    with pytest.raises(InvalidArgument, match="of the type format-table, not object-table"):
        catalog.object_table("db.t")
    for name in ('"t$snapshots"', "t VERSION AS OF 1", '"t$branch_b"'):
        with pytest.raises(MorrowError, match=r"without snapshots|branch"):
            catalog.sql(f"SELECT * FROM db.{name}")
    for statement in ("DELETE FROM db.t WHERE id = 1", "UPDATE db.t SET id = 1", "TRUNCATE TABLE db.t"):
        with pytest.raises(Unsupported, match=r"Catalog\.format_table and object_table open some"):
            catalog.sql(statement)
    with pytest.raises(TableNotFound):
        catalog.format_table("db.nope")
    catalog.create_table("db.own", schema="id INT")
    with pytest.raises(InvalidArgument, match=r"'db\.own' is a table of Paimon's own"):
        catalog.format_table("db.own")


def test_a_hint_with_an_option_of_reads_is_refused(make: Make, catalog: morrow.Catalog) -> None:
    make()
    with pytest.raises(Unsupported, match=r"Catalog\.format_table and object_table open some"):
        catalog.sql("SELECT * FROM db.t /*+ OPTIONS('scan.ignore-lost-files' = 'true') */")


def test_catalogs_that_have_none(tmp_path: Path) -> None:
    folders = morrow.Catalog(tmp_path / "lake")
    folders.create_table("db.t", schema="id INT")
    with pytest.raises(Unsupported, match="catalogs with metastore=hive or rest have them"):
        folders.format_table("db.t")


def test_an_object_table_is_its_files(make: Make, catalog: morrow.Catalog) -> None:
    folder = make("object-table", columns="x INT", keys=())
    (folder / "a ü").mkdir()
    (folder / "a ü" / "b%20.bin").write_bytes(b"12345")
    (folder / "_c").write_bytes(b"")
    table = catalog.object_table("db.t")
    found = table.scan(columns=["path", "name", "length", "atime", "owner"]).to_polars().rows()
    assert found == [("_c", "_c", 0, 0, None), ("a ü/b%20.bin", "b%20.bin", 5, 0, None)]
    assert table.scan(filter="length > 0").to_arrow()["mtime"][0].as_py() > 1_700_000_000_000
    assert catalog.sql("SELECT sum(length) FROM db.t").fetchall() == [(5,)]
    with pytest.raises(Unsupported, match="append of an object-table"):
        _ = table.append  # type: ignore[attr-defined]


ROWS = pl.DataFrame(
    {
        "id": [1, 2, 3],
        "v": ['a, "b"\\ü', None, "c"],
        "day": [date(2024, 2, 29), None, date(1969, 12, 31)],
        "k v": ["x/y %", "x/y %", None],
    }
)


@pytest.mark.parametrize("name", PATTERNS)
def test_columns_with_names_of_patterns(make: Make, catalog: morrow.Catalog, name: str) -> None:
    make(columns=f"`{name}` BIGINT, i BIGINT, day DATE, x BIGINT", keys=["day", "x"])
    table = catalog.format_table("db.t")
    table.append({name: [1, 2], "i": [3, 4], "day": [None, date(2024, 2, 29)], "x": [5, 6]})
    assert sorted(table.scan().to_polars().rows()) == [(1, 3, None, 5), (2, 4, date(2024, 2, 29), 6)]


@pytest.mark.parametrize("name", PATTERNS)
def test_partition_keys_with_names_of_patterns(make: Make, catalog: morrow.Catalog, name: str) -> None:
    make(columns=f"i BIGINT, v STRING, day DATE, `{name}` BIGINT", keys=["day", name])
    table = catalog.format_table("db.t")
    table.append({"i": [1, 2], "v": ["a", "b"], "day": [None, date(2024, 2, 29)], name: [5, 6]})
    assert sorted(table.scan().to_polars().rows()) == [(1, "a", None, 5), (2, "b", date(2024, 2, 29), 6)]


@pytest.mark.parametrize("format_", ["parquet", "orc", "csv", "json"])
def test_rows_written_are_read(make: Make, catalog: morrow.Catalog, format_: str) -> None:
    folder = make(format_=format_)
    table = catalog.format_table("db.t")
    assert table.append(ROWS) == 3
    assert table.append({"id": [4], "day": [None], "k v": ["x/y %"]}) == 1
    assert table.append(ROWS.clear()) == 0
    expected = [*ROWS.rows(), (4, None, None, "x/y %")]
    assert sorted(table.scan().to_polars().rows()) == expected
    assert {str(each.parent.relative_to(folder)) for each in folder.rglob("data-*")} == {
        "day=2024-02-29/k v=x%2Fy %25",
        "day=__DEFAULT_PARTITION__/k v=x%2Fy %25",
        "day=1969-12-31/k v=__DEFAULT_PARTITION__",
    }
    assert table.overwrite({"id": [5], "v": ["new"], "day": [None], "k v": ["x/y %"]}) == 1
    assert sorted(table.scan().to_polars().rows()) == [ROWS.rows()[0], ROWS.rows()[2], (5, "new", None, "x/y %")]
    assert not [each for each in folder.rglob("*") if each.name.startswith(".")]
    with pytest.raises(ColumnNotFound):
        table.append({"id": [1], "nope": [2]})
    with pytest.raises(InvalidArgument, match="column 'id'"):
        table.append({"id": ["x"], "day": [None], "k v": ["x"]})
    assert table.scan().count() == 3


def test_what_a_format_cannot_hold(make: Make, catalog: morrow.Catalog, server: RestServer) -> None:
    folder = make(format_="csv", columns="v STRING, f DOUBLE, b BYTES, t TIMESTAMP(6)", keys=())
    table, options = catalog.format_table("db.t"), server.databases["db"]["t"].options
    for bad in ({"v": [""]}, {"v": ["a\nb"]}):
        with pytest.raises(InvalidArgument, match=r"column 'v': (the text '' would be read as null|CSV holds no line)"):
            table.append(bad)
    assert list(folder.iterdir()) == []
    blank = make_csv_encoder([DataField(0, "v", VarCharType())], Options({}), "here")(pl.DataFrame({"v": [" ", "a"]}))
    assert blank == b'" "\na\n'  # Java reads a line of blanks as null
    frame = pl.DataFrame({"v": ["a", "b\\"], "f": [float("nan"), -0.0], "b": [b"\x00\xff", None]})
    at = frame.with_columns(t=pl.Series(["2024-01-02T03:04:05.000006", None]).str.to_datetime(time_unit="us"))
    table.append(at)
    found = table.scan().to_polars()
    assert found.equals(at, null_equal=True)
    options["csv.null-literal"] = "\\N"
    with pytest.raises(Unsupported, match="the null literal"):
        catalog.format_table("db.t").append(at)
    options["csv.null-literal"] = "NULL"
    again = catalog.format_table("db.t")
    again.overwrite({"v": ["", None]})
    assert again.scan(columns=["v"]).to_polars()["v"].to_list() == ["", None]
    options["file.format"] = "text"
    with pytest.raises(Unsupported, match="one STRING"):
        catalog.format_table("db.t").append({"v": ["a"]})
    options |= {"file.format": "json", "format-table.file.compression": "lz4"}
    with pytest.raises(Unsupported, match="the codec 'lz4'"):
        catalog.format_table("db.t").append({"v": ["a"]})


def test_insert(make: Make, catalog: morrow.Catalog) -> None:
    make("format-table", "json")
    done = catalog.sql("INSERT INTO db.t VALUES (1, 'a', DATE '2024-01-01', 'x'), (2, NULL, NULL, 'y')")
    assert done.fetchall() == [(2, 0, 0, None)]
    catalog.sql("INSERT INTO db.t PARTITION (day = '2024-01-02') (id, `k v`) SELECT 3, 'x'")
    catalog.sql("INSERT INTO db.t BY NAME SELECT DATE '2024-01-02' AS day, id + 10 AS id, 'z' AS \"k v\" FROM db.t")
    catalog.sql("INSERT OVERWRITE db.t SELECT 4, 'd', day, \"k v\" FROM db.t WHERE id = 1")
    found = catalog.sql('SELECT id, v, day::TEXT, "k v" FROM db.t ORDER BY id').fetchall()
    rest = [(number, None, "2024-01-02", "z") for number in (11, 12, 13)]
    assert found == [(2, None, None, "y"), (3, None, "2024-01-02", "x"), (4, "d", "2024-01-01", "x"), *rest]

    catalog.sql("INSERT OVERWRITE db.t PARTITION (day = '2024-01-02', `k v` = 'z') SELECT 5, 'e'")
    catalog.sql("INSERT INTO db.t REPLACE WHERE day IS NULL OR `k v` = 'x' SELECT 6, 'f', NULL, 'n'")
    catalog.sql("INSERT OVERWRITE db.t PARTITION (day = '2024-01-01') SELECT 7, 'g', 'nothing' WHERE false")
    left = [(5, "e", "2024-01-02", "z"), (6, "f", None, "n")]
    assert catalog.sql('SELECT id, v, day::TEXT, "k v" FROM db.t ORDER BY id').fetchall() == left
    table = catalog.format_table("db.t")
    assert table.overwrite({"id": [8], "day": [None], "k v": ["z"]}, partition={"k v": "z"}, dynamic=False) == 1
    assert [row[0] for row in sorted(table.scan().to_polars().rows())] == [6, 8]
    assert table.overwrite(table.scan(limit=0).to_arrow(), dynamic=False) == table.scan().count() == 0


@pytest.mark.parametrize(
    ("statement", "error", "said"),
    [
        ("INSERT OVERWRITE db.t PARTITION (v = '2') SELECT 1, 'a', 'x'", InvalidArgument, "not a partition column"),
        (
            "INSERT INTO db.t REPLACE WHERE id = 1 SELECT 1, '', NULL, ''",
            InvalidArgument,
            "'id' is not a partition column",
        ),
        (
            "INSERT INTO db.t REPLACE WHERE day IS NULL SELECT 1, '', DATE '2024-01-02', ''",
            InvalidArgument,
            "not among",
        ),
        ("INSERT WITH SCHEMA EVOLUTION INTO db.t BY NAME SELECT 1 AS more", Unsupported, "WITH SCHEMA EVOLUTION"),
        ("INSERT INTO db.t SELECT 1", InvalidArgument, "1 columns where 4 are expected"),
        ("INSERT INTO db.t BY NAME SELECT 1 AS ids", ColumnNotFound, "did you mean 'id'"),
        (
            "INSERT INTO db.t PARTITION (v = 'a') SELECT 1, DATE '2024-01-02', 'x'",
            InvalidArgument,
            "not a partition column",
        ),
    ],
)
def test_what_insert_refuses(
    make: Make, catalog: morrow.Catalog, statement: str, error: type[MorrowError], said: str
) -> None:
    folder = make()
    with pytest.raises(error, match=said):
        catalog.sql(statement)
    assert list(folder.rglob("*")) == []


def test_create(catalog: morrow.Catalog) -> None:
    catalog.create_database("db")
    table = catalog.create_format_table(
        "db.f",
        "id INT, day DATE",
        format="csv",
        partition_keys="day",
        options={"csv.field-delimiter": ";"},
        comment="c",
    )
    assert (table.format, table.partition_keys, table.comment) == ("csv", ("day",), "c")
    assert table.append([{"id": 1, "day": date(2024, 2, 29)}]) == 1
    assert [each.name for each in Path(table.path.removeprefix("file:")).iterdir()] == ["day=2024-02-29"]
    catalog.sql("CREATE TABLE db.g (id INT, v STRING) TBLPROPERTIES ('type' = 'format-table', 'file.format' = 'json')")
    catalog.sql("INSERT INTO db.g SELECT id, 'x' FROM db.f")
    assert catalog.sql("SELECT * FROM db.g").fetchall() == [(1, "x")]
    assert catalog.tables("db") == ["f", "g"]
    with pytest.raises(AlreadyExists):
        catalog.create_format_table("db.f", "id INT")


@pytest.mark.parametrize(
    ("statement", "error", "said"),
    [
        ("(id INT) TBLPROPERTIES ('type' = 'format-table', 'file.format' = 'avro')", Unsupported, "format 'avro'"),
        ("(id INT PRIMARY KEY) TBLPROPERTIES ('type' = 'format-table')", InvalidArgument, "no primary key"),
        ("(id INT) PARTITIONED BY (x) TBLPROPERTIES ('type' = 'format-table')", ColumnNotFound, "'x'"),
        ("TBLPROPERTIES ('type' = 'format-table') AS SELECT 1 AS id", Unsupported, "type"),
        ("(id INT) TBLPROPERTIES ('type' = 'object-table')", Unsupported, "type"),
    ],
)
def test_what_create_refuses(catalog: morrow.Catalog, statement: str, error: type[MorrowError], said: str) -> None:
    catalog.create_database("db")
    with pytest.raises(error, match=said):
        catalog.sql(f"CREATE TABLE db.f {statement}")
    assert catalog.tables("db") == []


def test_a_folder_as_catalog_makes_none(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"making a format table.*metastore=hive or rest"):
        morrow.Catalog(tmp_path).create_format_table("db.f", "id INT")
