"""Paths of a table's files, and names in metadata that would lead out of the table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import UnsafePath
from morrow.engine.format.paths import TablePaths, build_bucket_dir, check_external_path, check_segment, normalize_path


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
