"""Tables with files elsewhere: by the option ``data-file.external-paths``, by paths in metadata, by links."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import polars as pl
import pytest

import morrow
from morrow.engine.errors import InvalidArgument, MorrowError, UnsafePath, Unsupported
from tests.support.written import new_table, rows

ROWS = pl.DataFrame({"a": [1, 2]}, schema={"a": pl.Int32})


def moved_out(table: morrow.Table, name: str) -> Path:
    """Move a file or folder out of the table, and replace it with a link."""
    inside = Path(table.path, name)
    outside = Path(table.path).parents[1] / "outside" / inside.name
    outside.parent.mkdir(exist_ok=True)
    shutil.move(inside, outside)
    inside.symlink_to(outside)
    return outside


def data_file(table: morrow.Table) -> str:
    return str(next(Path(table.path).glob("bucket-*/data-*")).relative_to(table.path))


EXTERNAL = "data-file.external-paths"


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(
    ("options", "folders"),
    [
        ({"strategy": "round-robin"}, {"one", "two"}),
        ({"strategy": "entropy-inject"}, {"one", "two"}),
        ({"strategy": "weight-robin", "weights": "1,1000000000"}, {"two"}),
        ({"strategy": "specific-fs", "specific-fs": "FILE"}, {"one", "two"}),
    ],
)
def test_new_files_go_to_external_paths(
    tmp_path: Path, options: dict[str, str], folders: set[str], keyed: bool
) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    warehouse = morrow.Catalog(tmp_path / "warehouse", allowed_roots=roots)
    given = {EXTERNAL: ",".join(root.as_uri() for root in roots), "file-index.in-manifest-threshold": "1 b"}
    given |= {f"{EXTERNAL}.{name}": value for name, value in options.items()}
    given |= {"file-index.bloom-filter.columns": "a", "bucket": "1" if keyed else "-1"}
    table = warehouse.create_table("db.t", "a INT", primary_keys=["a"] if keyed else [], options=given)
    for a in range(3):
        table.append([{"a": a}])
    table.delete("a = 1")
    assert rows(table) == [(0,), (2,)]
    assert not [*Path(table.path).glob("bucket-*/data-*")]
    files = [path for root in roots for path in root.rglob("data-*") if path.is_file()]
    assert {path.relative_to(tmp_path).parts[0] for path in files} == folders
    depth = 7 if options["strategy"] == "entropy-inject" else 3
    assert {len(path.relative_to(tmp_path).parts) for path in files} == {depth}
    assert table.doctor().healthy
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    assert rows(table) == [(0,), (2,)]
    assert len([path for root in roots for path in root.rglob("data-*.parquet")]) == 1
    with pytest.raises(UnsafePath, match="name its folder in allowed_roots"):
        morrow.open(table.path).append([{"a": 5}])


@pytest.mark.parametrize(
    ("options", "error", "problem"),
    [
        ({"": "/folder", "strategy": "round-robin"}, InvalidArgument, "'/folder' has no scheme"),
        ({"": "s3://bucket/x", "strategy": "round-robin"}, Unsupported, "in another store than the table"),
        ({"": "file:/x", "strategy": "specific-fs", "specific-fs": "oss"}, InvalidArgument, "has the scheme 'oss'"),
        ({"": "file:/x,file:/y", "strategy": "weight-robin", "weights": "1,0"}, InvalidArgument, "2 positive numbers"),
    ],
)
def test_external_paths_that_cannot_be_written(
    tmp_path: Path, options: dict[str, str], error: type[MorrowError], problem: str
) -> None:
    given = {f"{EXTERNAL}.{name}".rstrip("."): value for name, value in options.items()}
    with pytest.raises(error, match=problem):
        new_table(tmp_path, "a INT", options=given).append(ROWS)


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("keyed", [False, True])
def test_data_files_behind_links_are_not_read(tmp_path: Path, format: str, keyed: bool) -> None:
    options = {"file.format": format, "bucket": 1 if keyed else -1}
    table = new_table(tmp_path, "a INT", keys=["a"] if keyed else [], options=options)
    for _ in range(2):
        table.append(ROWS)
    expected = rows(table)  # also caches the plan of this read
    outside = moved_out(table, data_file(table))

    for read in (lambda: rows(table), lambda: table.compact(full=True), lambda: table.scan(filter="a = 1").to_arrow()):
        with pytest.raises(UnsafePath, match="is a link"):
            read()
    trusted = morrow.open(table.path, allowed_roots=[outside.parent])
    assert rows(trusted) == expected
    with pytest.raises(UnsafePath):
        rows(table)


def test_folders_behind_links_are_not_read_and_not_written(tmp_path: Path) -> None:
    table = new_table(tmp_path, "a INT")
    table.append(ROWS)
    outside = moved_out(table, "bucket-0")
    there = sorted(outside.iterdir())

    with pytest.raises(UnsafePath):
        rows(table)
    with pytest.raises(UnsafePath):
        table.append(ROWS)
    assert sorted(outside.iterdir()) == there
    assert len(table.snapshots()) == 1


def test_links_within_the_table_and_above_it_are_followed(tmp_path: Path) -> None:
    table = new_table(tmp_path, "a INT")
    table.append(ROWS)
    shutil.move(Path(table.path, "bucket-0"), Path(table.path, "real"))
    Path(table.path, "bucket-0").symlink_to("real")
    (tmp_path / "link").symlink_to(table.path)
    linked = morrow.open(tmp_path / "link")
    linked.overwrite(ROWS.head(1))

    assert linked.expire_snapshots(retain_max=1, retain_min=1) == 1
    assert rows(linked) == [(1,)]
    assert len(list(Path(table.path, "real").iterdir())) == 1


MAINTENANCE: dict[str, Callable[[morrow.Table], object]] = {
    "overwrite and expire": lambda table: (table.overwrite(ROWS), expire(table)),
    "orphans": lambda table: table.remove_orphan_files(int(time.time() * 1000), dry_run=False),
    "purge": lambda table: table.purge(int(time.time() * 1000)),
    "rollback": lambda table: table.rollback(snapshot=1),
    "tag": lambda table: table.tags.delete("v1"),
    "branch": lambda table: table.branches.delete("b"),
    "repair": lambda table: table.repair(),
    "compact": lambda table: (table.compact(full=True), expire(table)),
}
LINKED = ("bucket-0", "manifest", "snapshot", "tag", "branch", "branch/branch-b", "index", "changelog", "schema")


def expire(table: morrow.Table) -> int:
    return table.expire_snapshots(retain_max=1, retain_min=1, older_than=int(time.time() * 1000) + 1000)


@pytest.fixture(scope="module")
def with_a_past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = new_table(tmp_path_factory.mktemp("past"), "a INT", keys=["a"], options={"bucket": 1})
    for number in (1, 2, 3):
        table.upsert(pl.DataFrame({"a": [number]}, schema={"a": pl.Int32}))
    table.tags.create("v1", 1)
    table.tags.create("v3", 3)
    table.branches.create("b", tag="v1")
    return Path(table.path)


@pytest.mark.parametrize("name", LINKED)
@pytest.mark.parametrize("maintain", MAINTENANCE)
def test_nothing_is_removed_behind_links(with_a_past: Path, tmp_path: Path, name: str, maintain: str) -> None:
    table = morrow.open(shutil.copytree(with_a_past, tmp_path / "db.db" / "t"))
    Path(table.path, name).mkdir(exist_ok=True)
    outside = moved_out(table, name)
    (outside / "mine.parquet").write_bytes(b"1")
    there = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    time.sleep(0.01)

    try:
        MAINTENANCE[maintain](morrow.open(table.path))
    except MorrowError as error:
        assert "outside" in str(error)
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == there


def test_external_files_are_removed_only_where_the_caller_names_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    victim = new_table(tmp_path / "mine", "a INT")
    victim.append(ROWS)
    hostile = new_table(tmp_path / "downloaded", "a INT")
    hostile.alter.set_options({"data-file.external-paths": victim.path})
    file = Path(victim.path, data_file(victim))
    with_external_file(hostile, file)
    assert rows(hostile) == [(1,), (2,)]  # its option allows the path

    hostile.overwrite(ROWS.head(1))
    with caplog.at_level(logging.WARNING):
        assert expire(hostile) == 1
    assert file.exists()
    assert "left where they are" in caplog.text

    with_external_file(hostile, file)
    trusting = morrow.open(hostile.path, allowed_roots=[victim.path])
    trusting.overwrite(ROWS.head(1))
    expire(trusting)
    assert not file.exists()


def with_external_file(table: morrow.Table, file: Path) -> None:
    """Commit a file elsewhere as a file of the table."""
    writer = table.writer()
    writer.write(ROWS)
    messages = writer.prepare()
    made = messages[0].new_files[0]
    Path(table.path, "bucket-0", made.file_name).unlink()
    named = msgspec.structs.replace(made, file_name=file.name, external_path=str(file), file_size=file.stat().st_size)
    table.committer("test").commit([msgspec.structs.replace(messages[0], new_files=(named,))])


def test_a_dropped_link_leaves_what_it_leads_to(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path / "wh")
    table = new_table(tmp_path / "wh", "a INT")
    outside = Path(shutil.move(table.path, tmp_path / "outside"))
    Path(table.path).symlink_to(outside)
    assert rows(catalog.table("db.t")) == []

    catalog.drop_table("db.t")
    assert catalog.tables("db") == []
    assert (outside / "schema/schema-0").exists()

    Path(table.path).symlink_to(outside)
    morrow.Catalog(tmp_path / "wh", allowed_roots=outside).drop_table("db.t")
    assert not (outside / "schema").exists()


def test_a_dropped_table_leaves_what_its_links_lead_to(tmp_path: Path) -> None:
    table = new_table(tmp_path, "a INT")
    table.append(ROWS)
    outside = [moved_out(table, name) for name in ("bucket-0", "snapshot", "schema")]
    morrow.Catalog(tmp_path).drop_table("db.t")
    assert not Path(table.path).exists()
    assert all(list(folder.iterdir()) for folder in outside)


def test_a_database_behind_a_link(tmp_path: Path) -> None:
    new_table(tmp_path / "wh", "a INT")
    outside = Path(shutil.move(tmp_path / "wh/db.db", tmp_path / "outside"))
    (tmp_path / "wh/db.db").symlink_to(outside)
    catalog = morrow.Catalog(tmp_path / "wh")
    for drop in (lambda: catalog.drop_table("db.t"), lambda: catalog.drop_database("db", cascade=True)):
        with pytest.raises(UnsafePath):
            drop()
    assert (outside / "t/schema/schema-0").exists()
