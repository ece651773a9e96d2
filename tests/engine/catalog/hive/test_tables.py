"""Hive metastore types, addresses and options, tested without a metastore."""

from __future__ import annotations

from pathlib import Path

import pytest

import morrow
from morrow.engine.catalog.hive.client import parse_addresses
from morrow.engine.catalog.hive.options import read_hive_options
from morrow.engine.catalog.hive.tables import to_hive_type, to_paimon_type
from morrow.engine.catalog.settings import Settings
from morrow.engine.errors import InvalidArgument, StorageError, Unsupported
from morrow.engine.format.types import DataType
from morrow.engine.schema import sql_columns


def parse_type(text: str) -> DataType:
    return sql_columns.parse_type(text, "c")


SAME = [
    ("INT", "int"),
    ("DECIMAL(9, 2)", "decimal(9,2)"),
    ("CHAR(255)", "char(255)"),
    ("VARCHAR(65535)", "varchar(65535)"),
    ("STRING", "string"),
    ("BYTES", "binary"),
    ("TIMESTAMP(6)", "timestamp"),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "timestamp with local time zone"),
    ("ARRAY<MAP<STRING, DECIMAL(5, 0)>>", "array<map<string,decimal(5,0)>>"),
    ("ROW<`a` INT, `b c` ARRAY<DATE>, `ü` ROW<`x` TINYINT>>", "struct<a:int,b c:array<date>,ü:struct<x:tinyint>>"),
]


@pytest.mark.parametrize(("ours", "hives"), SAME)
def test_types_there_and_back(ours: str, hives: str) -> None:
    assert to_hive_type(parse_type(ours)) == hives
    assert str(to_paimon_type(hives)) == str(parse_type(ours))


def test_types_that_hive_has_under_another_name() -> None:
    others = ("CHAR(256)", "VARCHAR(65536)", "TIME(3)", "BINARY(3)", "MULTISET<INT>", "VARIANT", "TIMESTAMP(9)")
    variant = "struct<value:binary,metadata:binary>"
    names = ["string", "string", "string", "binary", "map<int,int>", variant, "timestamp"]
    assert [to_hive_type(parse_type(each)) for each in others] == names
    assert to_hive_type(parse_type("ARRAY<TIMESTAMP_LTZ(3)>"), zoned=False) == "array<timestamp>"


@pytest.mark.parametrize("text", ["uniontype<int>", "int(3)", "array<int", "array<int,int>", "map<int>", "int>", ""])
def test_types_that_nobody_knows(text: str) -> None:
    with pytest.raises(Unsupported, match="of Hive's metastore"):
        to_paimon_type(text)


def test_addresses() -> None:
    assert parse_addresses("thrift://a:9, thrift://b/,thrift://[::1]:7") == (("a", 9), ("b", 9083), ("::1", 7))
    for text in ("", ",", "a:9083", "thrift://", "thrift://a:b", "thrift://a:0", "http://a:1", "thrift://u:p@a:1"):
        with pytest.raises(InvalidArgument, match="is not a metastore's address"):
            parse_addresses(text)


def test_what_is_not_given_comes_from_the_file_of_hive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = {"uris": "thrift://h:1", "warehouse.dir": "/w", "client.socket.timeout": "90s"}
    properties = "".join(
        f"<property><name>hive.metastore.{k}</name><value> {v} </value></property>" for k, v in site.items()
    )
    (tmp_path / "hive-site.xml").write_text(f"<configuration>{properties}</configuration>")
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    found = read_hive_options(Settings.of({"metastore": "hive", "warehouse": "s3://b/w/"}))
    assert (found.uris, found.location, found.timeout, found.locks) == ("thrift://h:1", "s3://b/w", 90.0, None)
    assert (
        read_hive_options(Settings.of({"metastore": "hive", "hive.metastore.uris": "thrift://i:1"})).uris
        == "thrift://i:1"
    )
    (tmp_path / "hive-site.xml").write_text("<configuration>")
    with pytest.raises(InvalidArgument, match=r"hive-site\.xml: .*the option 'hive-conf-dir' names its folder"):
        read_hive_options(Settings.of({"metastore": "hive"}))


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({}, InvalidArgument, "needs the option 'uri'"),
        ({"uri": "thrift://h:1"}, InvalidArgument, "needs the option 'warehouse'"),
        (
            {"hive.metastore.sasl.enabled": "true", "hadoop.rpc.protection": "privacy"},
            Unsupported,
            "hadoop.rpc.protection.*authentication",
        ),
        ({"hive.metastore.client.thrift.transport.mode": "http"}, Unsupported, "has no HTTP; name a port of thrift"),
        ({"lock.type": "zookeeper"}, Unsupported, "its lock is the metastore's"),
        ({"hive.metastore.client.socket.timeout": "soon"}, InvalidArgument, "is a time such as 600s"),
        ({"location-in-propertys": "true"}, InvalidArgument, "location-in-properties"),
    ],
)
def test_options_that_are_refused(
    given: dict[str, str], error: type[Exception], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
    needed = {} if told.startswith("needs") else {"uri": "thrift://h:1", "warehouse": "/w"}
    with pytest.raises(error, match=told):
        morrow.open_catalog({"metastore": "hive", **needed, **given})


def test_a_metastore_that_is_not_there() -> None:
    with pytest.raises(StorageError, match=r"thrift://127\.0\.0\.1:1: the metastore does not answer"):
        morrow.open_catalog({"metastore": "hive", "uri": "thrift://127.0.0.1:1", "warehouse": "/w"})
