"""A real Hive metastore: its catalog in Morrow and in Java Paimon."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.catalog import settings
from morrow.engine.catalog.hive.catalog import HiveCatalog
from morrow.engine.catalog.hive.client import load_thrift_types
from morrow.engine.catalog.protocol import Catalog
from morrow.engine.catalog.settings import Settings
from morrow.engine.errors import (
    AlreadyExists,
    DatabaseNotFound,
    InvalidArgument,
    MorrowError,
    StorageError,
    TableNotFound,
    Unsupported,
)
from morrow.testing import CatalogTests
from tests.interop.jvm import JavaError, JavaPaimon, hive_jars
from tests.support.canonical import assert_same_rows, normal_rows, rows_of
from tests.support.command_line import CliRunner
from tests.support.hive_metastore import MetastoreUnavailable, hive_metastore
from tests.support.s3_server import BUCKET, s3_server
from tests.test_catalog_guides import HIVE, LONG, OPERATIONS, PLACES, QUICK, run, table_of_what_was_run
from tests.test_docs import blocks

COLUMNS = [["id", "INT NOT NULL"], ["pt", "STRING"], ["v", "STRING"], ["at", "TIMESTAMP(3) WITH LOCAL TIME ZONE"]]
COLUMNS += [["long", "VARCHAR(70000)"], ["day", "TIME(3)"], ["bytes", "BYTES"], ["d", "DECIMAL(20, 3)"]]
SCHEMA = ", ".join(" ".join(column) for column in COLUMNS)
KEYS: dict[str, Any] = {"primary_keys": ["id", "pt"], "partition_keys": ["pt"]}
PARTITIONED = {"bucket": "1", "metastore.partitioned-table": "true"}


@pytest.fixture(scope="session")
def metastore() -> Iterator[str]:
    """Start a metastore and return its address, or skip and name what is missing."""
    try:
        with hive_metastore() as uri:
            yield uri
    except MetastoreUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def options(metastore: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Build the options of a catalog whose only database is ``default``."""
    given = {"metastore": "hive", "uri": metastore, "warehouse": f"{tmp_path}/ware house", "lock.enabled": "true"}
    given["lock-check-max-sleep"] = "50 ms"
    yield given
    catalog = settings.open_catalog(Settings.of(given))
    for name in set(catalog.databases()) - {"default"}:
        catalog.drop_database(name, cascade=True)


class WithoutDefault(HiveCatalog):
    """A catalog that hides the database ``default``, which each metastore has."""

    def databases(self) -> list[str]:
        return [name for name in super().databases() if name != "default"]


class TestHive(CatalogTests):
    __test__ = LONG  # the tests below always run

    @pytest.fixture
    def catalog(self, options: dict[str, str]) -> Catalog:
        return WithoutDefault(**vars(settings.open_catalog(Settings.of(options))))

    def test_databases(self, catalog: Catalog) -> None:
        for name in ("sales", "hr"):
            catalog.create_database(name)
        assert catalog.databases() == ["hr", "sales"]
        with pytest.raises(InvalidArgument, match="ü b is not a valid database name"):
            catalog.create_database("ü b")


def kept(catalog: morrow.Catalog, name: str) -> Any:
    """Return the metastore's entry for a table."""
    return catalog._catalog.metastore.call("get_table", *name.split("."))  # type: ignore[attr-defined]


def partitions(catalog: morrow.Catalog, name: str) -> list[tuple[str, str]]:
    found = catalog._catalog.metastore.call("get_partitions", *name.split("."), -1)  # type: ignore[attr-defined]
    return sorted((*each.values, each.sd.location.rpartition("/")[2]) for each in found)


def rows(table: morrow.Table) -> list[tuple[Any, ...]]:
    return sorted(table.scan(columns=["id", "pt", "v"]).to_polars().rows())


def test_java_and_morrow_share_a_metastore(java: JavaPaimon, options: dict[str, str]) -> None:
    if not hive_jars():
        pytest.skip("pyspark is not installed, whose jars hold Hive's client for Java")
    ours = morrow.open_catalog(options)
    java.ask("create", catalog=options, table="db.j", columns=COLUMNS, options=PARTITIONED, **KEYS)
    ours.create_table("db.m", schema=SCHEMA, options=PARTITIONED, **KEYS)
    assert sorted(java.ask("tables", catalog=options, database="db")) == ours.tables("db") == ["j", "m"]
    of_java, of_morrow = (vars(kept(ours, name)) for name in ("db.j", "db.m"))
    for each in (of_java, of_morrow):
        del each["createTime"], each["lastAccessTime"], each["parameters"]["transient_lastDdlTime"]
        each["sd"].location, each["tableName"] = each["sd"].location.rpartition("/")[0], "t"
    assert of_java == of_morrow

    nulls = [None] * 5
    for name in ("db.j", "db.m"):
        java.ask("write", catalog=options, table=name, rows=[["+I", 1, "a", "java", *nulls]])
        ours.table(name).upsert({"id": [2, 3], "pt": ["a", "b/c d"], "v": ["morrow", "m"]})
        java.ask("alter", catalog=options, table=name, changes=[["add_column", "n", "INT"]])
        ours.table(name).alter.add_column("o", "DOUBLE")
        assert rows(ours.table(name)) == [(1, "a", "java"), (2, "a", "morrow"), (3, "b/c d", "m")]
        assert [row[0] for row in sorted(java.ask("read", catalog=options, table=name))] == [1, 2, 3]
        assert partitions(ours, name) == [("a", "pt=a"), ("b/c d", "pt=b%2Fc d")]
        assert [each.name for each in kept(ours, name).sd.cols][-2:] == ["n", "o"]

    java.ask("rename", catalog=options, table="db.j", to="db.of_java")
    ours.rename_table("db.m", "db.of_morrow")
    assert len(java.ask("read", catalog=options, table="db.of_morrow")) == len(rows(ours.table("db.of_java"))) == 3
    locks = ours._catalog.locks  # type: ignore[attr-defined]  # of Hive catalogs
    late, once = {**options, "lock-acquire-timeout": "200 ms"}, {"commit.max-retries": "0"}
    with locks.hold("db", "of_java"), pytest.raises(JavaError, match="Acquire lock failed"):
        row = ["+I", 4, "a", "x", *nulls, None, None]
        java.ask("write", catalog=late, table="db.of_java", rows=[row], options=once)
    assert len(rows(ours.table("db.of_java"))) == 3
    java.ask("drop", catalog=options, table="db.of_morrow")
    ours.drop_table("db.of_java")
    assert java.ask("tables", catalog=options, database="db") == ours.tables("db") == []
    assert not any(Path(options["warehouse"], "db.db").iterdir())


def test_properties_of_databases(java: JavaPaimon, options: dict[str, str], tmp_path: Path) -> None:
    if not hive_jars():
        pytest.skip("pyspark is not installed, whose jars hold Hive's client for Java")
    ours = morrow.open_catalog(options)
    given = {"comment": "all", "owner": "ann", "a": "it's ü"}
    java.ask("create_database", catalog=options, database="j", properties=given)
    ours.create_database("m", properties=given)
    of_java, of_morrow = (
        {**java.ask("database", catalog=options, database=name), "location": name} for name in ("j", "m")
    )
    assert {**of_java, "location": ""} == {**of_morrow, "location": ""}
    ours.alter_database("j", {"b": "1"}, unset="a")
    found = ours.database("j")
    assert (found.comment, found.owner, dict(found.properties)) == ("all", "ann", {"b": "1"})
    assert java.ask("database", catalog=options, database="j")["b"] == "1"
    with pytest.raises(Unsupported, match="changing the property 'comment' of the database 'j'"):
        ours.alter_database("j", {"c": "2"}, comment="other")
    assert ours.database("j") == found
    ours.create_database("apart", properties={"location": f"{tmp_path}/a part"})
    ours.create_table("apart.t", schema="id INT").append({"id": [1]})
    assert (tmp_path / "a part/t/snapshot").is_dir()
    with pytest.raises(Unsupported, match="'location' of the database 'apart', which this metastore leaves as it is"):
        ours.alter_database("apart", {"location": f"{tmp_path}/b"})
    there = morrow.open_catalog({**options, "location-in-properties": "true"})
    there.alter_database("apart", {"location": f"{tmp_path}/b"})
    there.create_table("apart.u", schema="id INT").append({"id": [2]})
    assert (tmp_path / "b/u/snapshot").is_dir()
    assert [there.table(f"apart.{name}").to_arrow()["id"].to_pylist() for name in ("t", "u")] == [[1], [2]]
    there.drop_database("apart", cascade=True)
    for name in ("j", "m"):
        ours.drop_database(name)


def test_what_the_metastore_refuses_is_taken_back(options: dict[str, str]) -> None:
    ours = morrow.open_catalog({**options, "lock.enabled": "false", "table-default.bucket": "1"})
    table = ours.create_table("db.t", schema="id INT NOT NULL, b STRING, c INT", primary_keys="id", comment="it's ü")
    table.upsert({"id": [1], "b": ["x"], "c": [2]})
    with pytest.raises(InvalidArgument, match=r"refuses alter_table.* incompatible with the existing columns"):
        table.alter.drop_column("b")
    assert ([each.id for each in table.schemas()], ours.table("db.t").scan().to_polars().rows()) == ([0], [(1, "x", 2)])
    table.alter.set_options({"snapshot.num-retained.max": 20})
    table.alter.unset_options("snapshot.num-retained.max")
    found = kept(ours, "db.t").parameters
    assert "snapshot.num-retained.max" not in found
    assert (found["bucket"], found["table_type"], found["comment"]) == ("1", "PAIMON", "it's ü")
    for name in ("db.T", "Db.t", "db.ü", "db.a-b", "db.a`b"):
        with pytest.raises(MorrowError):
            ours.create_table(name, schema="id INT")
    assert (ours.tables("db"), ours.table("db.T").scan().count()) == (["t"], 1)  # names are found in any case
    for name in ("db.nope", "nope.t"):
        with pytest.raises((TableNotFound, DatabaseNotFound), match="there is no"):
            ours.table(name)
    with pytest.raises(Unsupported, match=r"metastore\.tag-to-partition"):
        ours.create_table("db.p", schema="id INT", options={"bucket": -1, "metastore.tag-to-partition": "dt"})
    assert ours.tables("db") == ["t"]


def test_tables_of_hives_own_and_views(options: dict[str, str], tmp_path: Path) -> None:
    ours = morrow.open_catalog(options)
    ours.create_table("db.t", schema="id INT NOT NULL, v STRING").append({"id": [1, 2], "v": ["a", "b"]})
    types, there = load_thrift_types(), kept(ours, "db.t")
    there.tableName, there.parameters = "hives", {}
    there.sd.inputFormat, there.sd.location = "org.apache.hadoop.mapred.TextInputFormat", f"file:{tmp_path}/hives"
    client = ours._catalog.metastore  # type: ignore[attr-defined]  # of Hive catalogs
    client.call("create_table", there)
    assert ours.tables("db") == ["hives", "t"]
    with pytest.raises(Unsupported, match=r"db\.hives, a table of Hive's own"):
        ours.table("db.hives")
    Path(f"{tmp_path}/hives/000000_0").write_text("1\x01a\n2\x01b\n")
    assert ours.format_table("db.hives").scan().to_polars().rows() == [(1, "a"), (2, "b")]
    types_of = "SELECT table_name, table_type FROM sys.tables WHERE database_name = 'db'"
    assert ours.sql(types_of).fetchall() == [("hives", "format-table"), ("t", "table")]
    without = morrow.open_catalog({**options, "format-table.enabled": "false"})
    assert without.tables("db") == ["t"]
    with pytest.raises(Unsupported, match=r"format-table\.enabled=false"):
        without.format_table("db.hives")
    with pytest.raises(AlreadyExists):
        ours.create_table("db.hives", schema="id INT")

    for columns, told in (
        ("A INT", "name the column 'a'"),
        ("a INT NOT NULL", "NOT NULL of the column 'a'"),
        ("a TIME", r"the type TIME\(0\) of 'a'.*Hive would make string"),
        ("a ROW<b TIMESTAMP(3)>", "Hive would make struct<b:timestamp>"),
    ):
        with pytest.raises((InvalidArgument, Unsupported), match=told):
            ours.create_format_table("db.made", columns)
        with pytest.raises(Unsupported, match=r"format-table\.enabled=false"):
            without.create_format_table("db.made", "a INT")
    ours.sql(
        "CREATE TABLE db.made (`k ü` STRING, r ROW<b ROW<c INT>>) PARTITIONED BY (`k ü`) "
        f"TBLPROPERTIES ('type' = 'format-table', 'file.format' = 'orc', 'path' = '{tmp_path}/out side')"
    )
    ours.format_table("db.made").append({"k ü": ["x=/%"], "r": [{"b": {"c": 1}}]})
    assert ours.sql('SELECT r, "k ü" FROM db.made').fetchall() == [({"b": {"c": 1}}, "x=/%")]
    with pytest.raises(AlreadyExists):
        ours.create_format_table("db.made", "a INT")
    ours.drop_table("db.made")
    assert [each.suffix for each in (tmp_path / "out side").rglob("data-*")] == [".orc"]

    query = "SELECT v FROM t WHERE id > 1"
    ours.create_view("db.mine", query, dialects={"spark": query}, comment="late ones")
    hives = types.StorageDescriptor(cols=[types.FieldSchema("v", "string")], serdeInfo=types.SerDeInfo(parameters={}))
    text = "SELECT `t`.`v` FROM `db`.`t` WHERE `t`.`id` <=> 2"
    view = types.Table("of_hive", "db", "me", 1, 1, 0, hives, [], {}, text, text, "VIRTUAL_VIEW")
    client.call("create_table", view)
    assert ours.views("db") == ["mine", "of_hive"]
    assert ours.sql("SELECT * FROM db.mine JOIN db.of_hive USING (v)").fetchall() == [("b",)]
    assert ours.view("db.mine").comment == "late ones"
    with pytest.raises(Unsupported, match="a metastore keeps one text"):
        ours.create_view("db.two", "SELECT 1 AS a", dialects={"spark": "SELECT 2 AS a"})
    with pytest.raises(InvalidArgument, match="holds 2 tables and 2 views"):
        ours.drop_database("db")
    ours.drop_table("db.hives")
    assert (ours.tables("db"), Path(f"{tmp_path}/hives").exists()) == (["t"], False)


def test_partitions_external_tables_and_locations_in_properties(options: dict[str, str], tmp_path: Path) -> None:
    given = {**options, "location-in-properties": "true", "table.type": "external", "sync-all-properties": "false"}
    ours = morrow.open_catalog(given)
    table = ours.create_table(
        "db.t", schema="id INT, pt DATE, s STRING", partition_keys="pt", options={"metastore.partitioned-table": "true"}
    )
    table.append({"id": [1, 2, 3], "pt": [date(2024, 1, 1), date(2024, 1, 2), None], "s": ["a", "b", "c"]})
    found = kept(ours, "db.t")
    assert (found.tableType, found.parameters["EXTERNAL"]) == ("EXTERNAL_TABLE", "TRUE")
    assert "bucket" not in found.parameters
    assert found.parameters["paimon_location"] == f"file:{tmp_path}/ware house/db.db/t"
    table.drop_partitions({"pt": date(2024, 1, 1)})
    client = ours._catalog.metastore  # type: ignore[attr-defined]  # of Hive catalogs
    there = {tuple(each.values): each.parameters for each in client.call("get_partitions", "db", "t", -1)}
    assert sorted(there) == [("19724",), ("__DEFAULT_PARTITION__",)]
    assert there["19724",]["paimon_location"].endswith("/db.db/t/pt=19724")
    table.alter.set_options({"partition.mark-done-action": "done-partition,mark-event"})
    assert table.mark_partition_done({"pt": date(2024, 1, 2)}) == []
    event = load_thrift_types().PartitionEventType.LOAD_DONE
    assert client.call("isPartitionMarkedForEvent", "db", "t", {"pt": "19724"}, event)
    assert ["19724.done"] in [each.values for each in client.call("get_partitions", "db", "t", -1)]
    again = pickle.loads(pickle.dumps(ours._catalog))
    assert again.tables("db") == ["t"]
    ours.drop_table("db.t")
    assert (ours.tables("db"), Path(f"{tmp_path}/ware house/db.db/t/schema/schema-0").exists()) == ([], True)


def test_who_holds_the_lock_and_who_loses_it(options: dict[str, str]) -> None:
    ours = morrow.open_catalog({**options, "lock-acquire-timeout": "300 ms"})
    table = ours.create_table("db.t", schema="id INT")
    locks = morrow.open_catalog(options)._catalog.locks  # type: ignore[attr-defined]  # of Hive catalogs
    with locks.hold("db", "t"), pytest.raises(StorageError, match=r"the lock of db\.t could not be acquired"):
        table.append({"id": [1]})
    table.append({"id": [2]})
    with locks.hold("db", "t"):
        locks.check("db", "t")
        client = ours._catalog.metastore  # type: ignore[attr-defined]  # of Hive catalogs
        client.call("unlock", load_thrift_types().UnlockRequest(locks._held()["db", "t"]))
        with pytest.raises(StorageError, match=r"the lock of db\.t was lost before the commit"):
            locks.check("db", "t")
    assert table.scan().to_polars()["id"].to_list() == [2]


def test_the_metastore_goes_and_comes(options: dict[str, str]) -> None:
    """Broken connections are replaced, and each thread has its own connection."""
    ours = morrow.open_catalog(options)
    ours.create_table("db.t", schema="id INT")
    client = ours._catalog.metastore  # type: ignore[attr-defined]  # of Hive catalogs
    for transport, _ in client._idle:
        transport._TBufferedTransport__trans.handle.shutdown(socket.SHUT_RDWR)
    assert ours.tables("db") == ["t"]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: ours.tables("db"), range(16))) == [["t"]] * 16


def test_all_faces(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    monkeypatch.delenv("MORROW_PROFILES", raising=False)
    ours = morrow.open_catalog(options)
    ours.sql("CREATE DATABASE db")
    ours.sql("CREATE TABLE db.t (id INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    ours.sql("INSERT INTO db.t VALUES (1, 'a'), (2, 'b')")
    ours.sql("UPDATE db.t SET v = 'B' WHERE id = 2")
    with duckdb.connect() as connection:
        morrow.duckdb.attach(connection, ours, "pm")
        assert connection.sql("SELECT v FROM pm.db.t ORDER BY id").fetchall() == [("a",), ("B",)]
        morrow.duckdb.detach(connection, "pm")
    named = [part for key, value in options.items() for part in ("--catalog", f"{key}={value}")]
    from morrow.cli.app import app

    told = CliRunner().invoke(app, [*named, "read", "db.t", "--format", "csv"])
    assert (told.exit_code, told.stdout.split()) == (0, ["id,v", "1,a", "2,B"])
    assert ours.sql("SELECT table_name FROM sys.tables WHERE database_name = 'db'").fetchall() == [("t",)]


def test_the_guide_to_hive_runs(options: dict[str, str], metastore: str) -> None:
    (block,) = (each for each in blocks(PLACES["catalogs"]) if "thrift://" in each.text)
    place = {"thrift://metastore.example.com:9083": metastore, "s3://lake/warehouse": options["warehouse"]}
    namespace: dict[str, Any] = {"morrow": morrow}
    run(block, namespace, place)
    hive = namespace["hive"]
    logs = kept(hive, "web.days")
    logs.tableName, logs.parameters, logs.sd.location = "logs", {}, f"{logs.sd.location}/../logs of hive"
    logs.sd.cols = [column for column in logs.sd.cols if column.name != "hits"]
    logs.sd.serdeInfo.serializationLib = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
    logs.sd.inputFormat = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
    hive._catalog.metastore.call("create_table", logs)
    (block,) = (each for each in blocks(PLACES["catalogs"]) if "format_table(" in each.text)
    run(block, namespace, {})
    types = load_thrift_types()
    logs.tableName, logs.sd.cols = "times", [*logs.sd.cols, types.FieldSchema("at", "timestamp")]
    hive._catalog.metastore.call("create_table", logs)
    with pytest.raises(Unsupported, match=r"'at' of type TIMESTAMP.* for Hive"):
        hive.format_table("web.times").append({"day": ["x"], "page": ["/"]})


def test_what_the_guide_says_was_run(options: dict[str, str], tmp_path: Path) -> None:
    places = {
        "local disk": f"{tmp_path}/lake",
        "S3": f"s3://{BUCKET}/lake",
        "S3 without conditional put": f"s3://{BUCKET}/blind",
    }
    with s3_server() as s3:
        for store, place in list(places.items())[: None if LONG else 1]:
            (told,) = (line for line in table_of_what_was_run() if line.startswith(f"| {HIVE}{store} |"))
            cells = [cell.strip() for cell in told.strip("| ").split("|")][1:]
            of_store = {**s3, "location-in-properties": "true"} if "S3" in store else {}
            if "without" in store:
                of_store["aws_conditional_put"] = "disabled"
            for number, ((name, operation), cell) in enumerate(zip(OPERATIONS.items(), cells, strict=True)):
                if LONG or operation in QUICK:
                    catalog = morrow.open_catalog({**options, **of_store, "warehouse": f"{place}{number}"})
                    catalog = morrow.Catalog.over(WithoutDefault(**vars(catalog._catalog)))
                    assert (name, cell) == (name, "yes")
                    operation(catalog)
                    catalog.drop_database("db", cascade=True, ignore_if_not_exists=True)


COLUMNS_OF_FILES = [["id", "INT"], ["s", "STRING"], ["dt", "DATE"], ["d", "DECIMAL(9, 2)"], ["f", "DOUBLE"]]
COLUMNS_OF_FILES += [
    ["b", "BOOLEAN"],
    ["by", "BYTES"],
    ["bi", "BIGINT"],
    ["fl", "FLOAT"],
    ["p", "STRING"],
    ["q", "INT"],
]
ROWS_OF_FILES: list[list[Any]] = [
    [1, 'a,"b"\\ \'ü', "2024-02-29", "1.50", 1.5, True, "00ff", 9007199254740993, 0.1, "x y/ü", 1],
    [2, "", "1969-12-31", "-0.01", "NaN", False, "01", -1, "-Infinity", "=%", 2],
    [3, *[None] * 10],
]


@pytest.mark.parametrize("format_", ["parquet", "orc", "csv", "json"])
def test_format_tables_of_java(java: JavaPaimon, options: dict[str, str], format_: str) -> None:
    if not hive_jars():
        pytest.skip("pyspark is not installed, whose jars hold Hive's client for Java")
    given = {"type": "format-table", "file.format": format_}
    java.ask(
        "create", catalog=options, table="db.f", columns=COLUMNS_OF_FILES, partition_keys=["p", "q"], options=given
    )
    java.ask("write_folder", catalog=options, table="db.f", rows=[["+I", *row] for row in ROWS_OF_FILES])
    ours = morrow.open_catalog(options)
    table = ours.format_table("db.f")
    assert (table.format, table.partition_keys) == (format_, ("p", "q"))
    expected = normal_rows(java.ask("read_folder", catalog=options, table="db.f"), table.fields)
    assert_same_rows(rows_of(table.scan().to_arrow(), table.fields), expected, table.fields)
    assert ours.sql("SELECT id FROM db.f WHERE q = 2 AND p = '=%'").fetchall() == [(2,)]
    assert table.append(table.scan().to_arrow()) == 3
    twice = normal_rows(java.ask("read_folder", catalog=options, table="db.f"), table.fields)
    assert_same_rows(twice, [*expected, *expected], table.fields)

    columns = ", ".join(" ".join(column) for column in COLUMNS_OF_FILES)
    made = ours.create_format_table("db.m", columns, format=format_, partition_keys=["p", "q"], comment="ü")
    assert (made.format, made.fields, made.comment) == (format_, table.fields, "ü")
    java.ask("write_folder", catalog=options, table="db.m", rows=[["+I", *row] for row in ROWS_OF_FILES])
    made.append(table.scan(filter="id = 1").to_arrow())
    both = normal_rows(java.ask("read_folder", catalog=options, table="db.m"), table.fields)
    assert_same_rows(rows_of(made.scan().to_arrow(), made.fields), both, made.fields)
    assert len(both) == 5
    properties = [
        (k.sd.serdeInfo, k.sd.inputFormat, k.sd.outputFormat) for k in (kept(ours, "db.f"), kept(ours, "db.m"))
    ]
    assert properties[0] == properties[1]
