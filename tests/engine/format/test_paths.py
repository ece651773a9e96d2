"""Paths of a table's files, and names in metadata that would lead out of the table."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import UnsafePath, Unsupported
from morrow.engine.format.binary_row import Value
from morrow.engine.format.paths import (
    TablePaths,
    build_bucket_dir,
    check_external_path,
    check_segment,
    escape_path_name,
    normalize_path,
    partition_path,
    unescape_path_name,
)
from morrow.engine.format.types import parse_atomic


def test_the_folders_of_a_table() -> None:
    paths = TablePaths("/w/db.db/t")

    assert paths.schema(3) == "/w/db.db/t/schema/schema-3"
    assert paths.snapshot(12) == "/w/db.db/t/snapshot/snapshot-12"
    assert paths.tag("v1") == "/w/db.db/t/tag/tag-v1"
    assert paths.manifest("manifest-a-0") == "/w/db.db/t/manifest/manifest-a-0"
    assert paths.index("index-a-0") == "/w/db.db/t/index/index-a-0"
    assert paths.statistics("stat-a-0") == "/w/db.db/t/statistics/stat-a-0"


def test_a_branch_has_its_own_schemas_snapshots_and_tags() -> None:
    branch = TablePaths("/t", "b1")

    assert branch.schema(0) == "/t/branch/branch-b1/schema/schema-0"
    assert branch.snapshot(1) == "/t/branch/branch-b1/snapshot/snapshot-1"
    assert branch.tag("v") == "/t/branch/branch-b1/tag/tag-v"
    assert branch.manifest("m") == "/t/manifest/m"


@pytest.mark.parametrize(
    ("partition", "bucket", "data_directory", "folder"),
    [
        ("", 0, None, "/t/bucket-0"),
        ("dt=1/h=2", 3, None, "/t/dt=1/h=2/bucket-3"),
        ("dt=1", 3, "data", "/t/data/dt=1/bucket-3"),
        ("", -2, None, "/t/bucket-postpone"),
    ],
)
def test_the_folder_of_a_bucket(partition: str, bucket: int, data_directory: str | None, folder: str) -> None:
    assert build_bucket_dir("/t", partition, bucket, data_directory) == folder


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../etc/passwd", "a\\b", "a\0b", "/abs"])
def test_a_name_that_is_no_single_segment_is_refused(name: str) -> None:
    with pytest.raises(UnsafePath, match="not a single path segment; nothing was read"):
        check_segment(name, "/t")
    with pytest.raises(UnsafePath):
        TablePaths("/t").manifest(name)
    with pytest.raises(UnsafePath):
        TablePaths("/t", name).schema(0)


@pytest.mark.parametrize("name", ["data-1.parquet", "...", "a b", "ü", "%2F"])
def test_any_other_name_is_one(name: str) -> None:
    assert check_segment(name, "/t") == name


@pytest.mark.parametrize(
    ("path", "same"),
    [
        ("/a/b", "/a/b"),
        ("/a//./b/", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b#c?d", "/a/b#c?d"),
        ("s3://bucket/a", "s3://bucket/a"),
        ("s3://[bucket", "s3://[bucket"),
        ("/a/../b", "/a/../b"),
        ("file:///a/../b", "file:///a/../b"),
    ],
)
def test_one_spelling_for_a_place(path: str, same: str) -> None:
    assert normalize_path(path) == same


ROOTS = ["/table", "FILE:///ext/", "s3://other/data"]


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/table/bucket-0/f", "/table/bucket-0/f"),
        ("file:/ext/f", "/ext/f"),
        ("/ext/./x//f", "/ext/x/f"),
        ("s3://other/data/f", "s3://other/data/f"),
        ("FILE:///ext/f", "/ext/f"),
        ("File:/table/f", "/table/f"),
        ("S3://other/data/f", "s3://other/data/f"),
    ],
)
def test_external_paths_under_an_allowed_root(path: str, location: str) -> None:
    assert check_external_path(path, ROOTS, where="/table") == location


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "/table2/f", "/table/../etc/passwd", "file:///ext/../etc/passwd", "file://host/ext/f"),
        *("s3://other/database/f", "s3://other/data/../x", "table/f", "", "S3://Other/data/f"),
    ],
)
def test_external_paths_elsewhere(path: str) -> None:
    with pytest.raises(UnsafePath, match=r"outside of the allowed roots \(/table, /ext, s3://other/data\)"):
        check_external_path(path, ROOTS, where="/table")


@given(st.lists(st.sampled_from(["..", ".", "", "a", "table", "file:", "%2e%2e"]), max_size=6).map("/".join))
def test_no_path_leads_out(path: str) -> None:
    try:
        location = check_external_path(path, ["/table"], where="/table")
    except UnsafePath:
        return
    assert location == "/table" or location.startswith("/table/")
    assert ".." not in location.split("/")


# Folders of partitions

UTC = dt.UTC

# type, value, folder value with partition.legacy-name=false, and with true
JAVA_NAMES = [
    ("BOOLEAN", True, "true", "true"),
    ("TINYINT", -128, "-128", "-128"),
    ("BIGINT", 26402, "26402", "26402"),
    ("FLOAT", -158.296875, "-158.29688", "-158.29688"),
    ("DOUBLE", 3.93, "3.93", "3.93"),
    ("DOUBLE", 5e-324, "4.9E-324", "4.9E-324"),
    ("DECIMAL(5, 2)", Decimal("0.00"), "0.00", "0.00"),
    (
        "DECIMAL(30, 4)",
        Decimal("-15945562796414478210387269.2971"),
        "-15945562796414478210387269.2971",
        "-15945562796414478210387269.2971",
    ),
    ("CHAR(4)", " hcv", " hcv", " hcv"),
    ("VARCHAR(30)", "emoji😀x", "emoji😀x", "emoji😀x"),
    ("DATE", dt.date(2016, 7, 8), "2016-07-08", "16990"),
    ("DATE", dt.date(1969, 12, 31), "1969-12-31", "-1"),
    ("TIME(0)", dt.time(7, 25, 7), "07%3A25%3A07", "26707000"),
    ("TIME(3)", dt.time(15, 22, 56, 214000), "15%3A22%3A56.214", "55376214"),
    ("TIME(3)", dt.time(0), "00%3A00%3A00.0", "0"),
    ("TIMESTAMP(0)", dt.datetime(1, 1, 4), "0001-01-04 00%3A00%3A00", "0001-01-04T00%3A00"),
    ("TIMESTAMP(0)", dt.datetime(2019, 1, 5, 2, 16, 48), "2019-01-05 02%3A16%3A48", "2019-01-05T02%3A16%3A48"),
    (
        "TIMESTAMP(3)",
        dt.datetime(2018, 7, 17, 7, 55, 3, 482000),
        "2018-07-17 07%3A55%3A03.482",
        "2018-07-17T07%3A55%3A03.482",
    ),
    (
        "TIMESTAMP(6)",
        dt.datetime(1970, 1, 1, 0, 0, 0, 1032),
        "1970-01-01 00%3A00%3A00.001032",
        "1970-01-01T00%3A00%3A00.001032",
    ),
    (
        "TIMESTAMP(9)",
        np.datetime64("2017-01-01T12:00:00.000155067", "ns"),
        "2017-01-01 12%3A00%3A00.000155067",
        "2017-01-01T12%3A00%3A00.000155067",
    ),
    (
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        dt.datetime(2023, 4, 17, 1, 26, 3, 466800, UTC),
        "2023-04-17 01%3A26%3A03.466800",
        "2023-04-17T01%3A26%3A03.466800",
    ),
]


@pytest.mark.parametrize(("text", "value", "name", "legacy"), JAVA_NAMES)
def test_one_key(text: str, value: Value, name: str, legacy: str) -> None:
    kind = parse_atomic(text)
    assert partition_path([value], [kind], ["p"], legacy_name=False) == f"p={name}"
    assert partition_path([value], [kind], ["p"], legacy_name=True) == f"p={legacy}"


def test_several_keys() -> None:
    types = [parse_atomic("DATE"), parse_atomic("STRING")]
    assert partition_path([dt.date(2024, 1, 31), "eu"], types, ["dt", "re:gion"], legacy_name=False) == (
        "dt=2024-01-31/re%3Agion=eu"
    )


def test_no_keys() -> None:
    assert partition_path([], [], []) == ""


@pytest.mark.parametrize("value", [None, "", "   ", "\t\n", "\u3000"])
def test_null_and_blank_go_to_the_default_partition(value: str | None) -> None:
    string = [parse_atomic("STRING")]
    assert partition_path([value], string, ["p"]) == "p=__DEFAULT_PARTITION__"
    assert partition_path([value], string, ["p"], default_name="__NOTHING__") == "p=__NOTHING__"


def test_a_non_breaking_space_is_not_blank_to_java() -> None:
    assert partition_path(["\u00a0"], [parse_atomic("STRING")], ["p"]) == "p=\u00a0"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x\"y'z*?", "x%22y%27z%2A%3F"),
        ("a/b=c%d:e f", "a%2Fb%3Dc%25d%3Ae f"),
        ("{a}[b]^#", "%7Ba%7D%5Bb%5D%5E%23"),
        ("tab\tnl\n", "tab%09nl%0A"),
        ("back\\slash", "back%5Cslash"),
        ("\x00z\x7f", "%00z%7F"),
        ("comma,semi;é", "comma,semi;é"),
        ("..", ".."),
    ],
)
def test_escaping(text: str, name: str) -> None:
    assert escape_path_name(text) == name
    assert unescape_path_name(name) == text


@given(st.text())
def test_escaped_names_are_one_folder_and_come_back(text: str) -> None:
    assert "/" not in escape_path_name(text)
    assert unescape_path_name(escape_path_name(text)) == text


def test_a_lone_percent_sign_stays() -> None:
    assert unescape_path_name("100%") == "100%"
    assert unescape_path_name("%zz%4") == "%zz%4"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-3, "0.001"),
        (9.999e-4, "9.999E-4"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (12345678.0, "1.2345678E7"),
        (2e-323, "2.0E-323"),
        (1.5e300, "1.5E300"),
        (-7e10, "-7.0E10"),
        (100.0, "100.0"),
        (-0.0, "-0.0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_print_as_in_java(value: float, text: str) -> None:
    assert partition_path([value], [parse_atomic("DOUBLE")], ["p"]) == f"p={text}"


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.4e-45, "1.4E-45"), (3e-45, "2.8E-45"), (16777216.0, "1.6777216E7"), (3.4e38, "3.4E38"), (0.1, "0.1")],
)
def test_floats_print_as_in_java(value: float, text: str) -> None:
    assert partition_path([value], [parse_atomic("FLOAT")], ["p"]) == f"p={text}"


def test_instants_are_named_in_the_time_zone_of_the_writer() -> None:
    kind = parse_atomic("TIMESTAMP(3) WITH LOCAL TIME ZONE")
    instant = dt.datetime(2024, 1, 31, 23, 30, tzinfo=UTC)
    tokyo = ZoneInfo("Asia/Tokyo")
    assert partition_path([instant], [kind], ["p"], legacy_name=False, time_zone=tokyo) == (
        "p=2024-02-01 08%3A30%3A00.000"
    )
    assert partition_path([instant], [kind], ["p"], legacy_name=True, time_zone=tokyo) == "p=2024-01-31T23%3A30"


def test_bytes() -> None:
    binary = [parse_atomic("BYTES")]
    assert partition_path([b"abc"], binary, ["p"], legacy_name=False) == "p=abc"
    with pytest.raises(Unsupported, match=r"BYTES as a partition key with partition\.legacy-name=true"):
        partition_path([b"abc"], binary, ["p"], legacy_name=True)
    with pytest.raises(Unsupported, match="not UTF-8"):
        partition_path([b"\xff"], binary, ["p"], legacy_name=False)
