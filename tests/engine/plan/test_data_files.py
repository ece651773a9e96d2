"""Data files of manifest entries: folders, formats, external paths and deletion vectors."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import CorruptFile, UnsafePath, Unsupported
from morrow.engine.plan.scan_plan import DataFile, DeletionRef
from morrow.engine.structs import replace
from tests.support.s3_server import BUCKET, running
from tests.support.table_factory import DataFile as Written
from tests.support.table_factory import TableFactory
from tests.support.written import new_table

APPEND = {"bucket": "-1"}
VECTORS = {"bucket": "-1", "deletion-vectors.enabled": "true"}


def make(path: Path, options: Mapping[str, str] = APPEND, partition_keys: Sequence[str] = ()) -> TableFactory:
    return TableFactory(path / "t", [("dt", "STRING"), ("id", "INT")], (), partition_keys, options)


def add(table: TableFactory, *, day: str | None = "d", ids: Sequence[int] = (1, 2, 3), **members: Any) -> Written:
    """Add a file whose manifest entry has other members than the table factory gives it."""
    file = table.write_file(pa.table({"dt": [day] * len(ids), "id": ids}), partition={"dt": day})
    table._pending.pop()
    return table._add(replace(file, record={**file.record, **members}))


def files(table: TableFactory, allowed_roots: Sequence[str] = ()) -> tuple[DataFile, ...]:
    return morrow.open(table.path, allowed_roots=allowed_roots).scan().plan.files


def test_a_file_as_its_entry_describes_it(tmp_path: Path) -> None:
    table = make(tmp_path)
    written = table.write_file(pa.table({"dt": ["d"] * 3, "id": [1, 2, 3]}))
    table.commit()

    assert files(table) == (
        DataFile(
            path=f"{table.path}/bucket-0/{written.name}",
            format="parquet",
            size=written.record["_FILE_SIZE"],
            row_count=3,
            level=0,
            schema_id=0,
            min_sequence=written.record["_MIN_SEQUENCE_NUMBER"],
            max_sequence=written.record["_MAX_SEQUENCE_NUMBER"],
            delete_rows=0,
        ),
    )


@pytest.mark.parametrize(
    ("day", "options", "folder"),
    [
        ("d", {}, "dt=d/bucket-0"),
        ("a/b:c", {}, "dt=a%2Fb%3Ac/bucket-0"),
        (None, {}, "dt=__DEFAULT_PARTITION__/bucket-0"),
        (None, {"partition.default-name": "none"}, "dt=none/bucket-0"),
        ("d", {"data-file.path-directory": "data/x"}, "data/x/dt=d/bucket-0"),
    ],
)
def test_the_folder_of_a_partition(tmp_path: Path, day: str | None, options: dict[str, str], folder: str) -> None:
    table = make(tmp_path, APPEND | options, ["dt"])
    written = add(table, day=day)
    table.commit()

    assert [file.path for file in files(table)] == [f"{table.path}/{folder}/{written.name}"]


@pytest.mark.parametrize(
    ("name", "format"),
    [("a.parquet", "parquet"), ("a.ORC", "orc"), ("a.avro", "avro"), ("a.json.gz", "json"), ("a.b.csv.zst", "csv")],
)
def test_the_format_is_the_ending_of_the_name(tmp_path: Path, name: str, format: str) -> None:
    table = make(tmp_path)
    add(table, _FILE_NAME=name)
    table.commit()

    assert [file.format for file in files(table)] == [format]


@pytest.mark.parametrize("name", ["data-1.unheard", "data-1", "data-1.gz", "parquet"])
def test_a_format_that_is_not_known(tmp_path: Path, name: str) -> None:
    table = make(tmp_path)
    add(table)
    add(table, _FILE_NAME=name)
    table.commit()

    with pytest.raises(Unsupported, match=f"the file format of {name} is not supported; Morrow reads parquet, orc"):
        files(table)


# --- external paths ---


def external(tmp_path: Path, option: str | None = None) -> tuple[TableFactory, str]:
    """Make a table with a data file in the folder ``elsewhere`` beside it."""
    table = make(tmp_path, APPEND | ({} if option is None else {"data-file.external-paths": option}))
    path = str(tmp_path / "elsewhere" / "data-x.parquet")
    add(table, _EXTERNAL_PATH=f"file:{path}")
    add(table)
    table.commit()
    return table, path


def test_an_external_path_is_read_under_a_root_that_the_table_names(tmp_path: Path) -> None:
    table, path = external(tmp_path, f"file://{tmp_path}/elsewhere")

    found = files(table)
    assert found[0].path == path
    assert found[1].path.startswith(f"{table.path}/bucket-0/")


def test_an_external_path_is_read_under_a_root_that_the_caller_allows(tmp_path: Path) -> None:
    table, path = external(tmp_path)

    assert files(table, [str(tmp_path / "elsewhere")])[0].path == path


@pytest.mark.parametrize("root", [None, "/elsewhere", "file:/tmp/elsewhere2"])
def test_an_external_path_elsewhere_is_refused(tmp_path: Path, root: str | None) -> None:
    table, path = external(tmp_path, root)

    with pytest.raises(UnsafePath, match=f"metadata points to file:{path}, outside of the allowed roots"):
        files(table)


def test_an_external_path_in_another_store(tmp_path: Path) -> None:
    table = make(tmp_path, APPEND | {"data-file.external-paths": "s3://lake/x"})
    add(table, _EXTERNAL_PATH="s3://lake/x/data.parquet")
    table.commit()

    with pytest.raises(Unsupported, match=r"the file s3://lake/x/data.parquet in another store than the table's"):
        files(table)


# --- deletion vectors ---


def test_a_deletion_vector_is_found_by_the_name_of_its_file(tmp_path: Path) -> None:
    table = make(tmp_path, VECTORS)
    first, second = (table.write_file(pa.table({"dt": ["d"] * 3, "id": [1, 2, 3]})) for _ in range(2))
    table.deletion_vector(second, [0, 2])
    table.commit()
    (index,) = (table.path / "index").iterdir()

    found = {Path(file.path).name: file.deletion for file in files(table)}
    assert found[first.name] is None
    assert found[second.name] == DeletionRef(str(index), offset=1, length=24, cardinality=2)


def test_vectors_of_the_same_name_in_another_partition_are_others(tmp_path: Path) -> None:
    table = make(tmp_path, VECTORS, ["dt"])
    one = add(table, day="a", _FILE_NAME="same.parquet")
    add(table, day="b", _FILE_NAME="same.parquet")
    table.deletion_vector(one, [1])
    table.commit()

    plan = morrow.open(table.path).scan().plan
    assert {s.partition: s.files[0].deletion is not None for s in plan.sections} == {("a",): True, ("b",): False}


def test_vectors_of_a_table_that_no_longer_has_them_are_refused(tmp_path: Path) -> None:
    table = make(tmp_path, VECTORS)
    file = table.write_file(pa.table({"dt": ["d"], "id": [1]}))
    table.deletion_vector(file, [0])
    table.commit()
    table.alter(options=APPEND)

    with pytest.raises(Unsupported, match="rows that they mark as dead would come back"):
        files(table)


def test_a_vector_of_a_file_that_is_gone_counts_for_nothing(tmp_path: Path) -> None:
    """Java leaves the vector behind when a full compaction rewrites the only file of a bucket."""
    table = make(tmp_path, VECTORS, ["dt"])
    gone, _, _ = add(table, day="a"), add(table, day="a"), add(table, day="b")
    table.deletion_vector(gone, [1])
    table.commit()
    table.delete_file(gone)
    table.commit()

    assert [file.deletion for file in files(table)] == [None, None]


def test_so_does_one_of_a_file_that_the_writer_of_a_living_file_made_too(tmp_path: Path) -> None:
    """Names of files by one writer differ in their counters only."""
    table = make(tmp_path, VECTORS, ["dt"])
    there, elsewhere = add(table, day="a"), add(table, day="a")
    gone = re.sub(r"-\d+(\.\w+)$", r"-7\1", there.name)
    table.deletion_vector(replace(elsewhere, record={**elsewhere.record, "_FILE_NAME": gone}), [1])
    table.commit()

    assert [file.deletion for file in files(table)] == [None, None]


@pytest.mark.parametrize(
    "damaged",
    [lambda name: name.replace("data", "dat!"), lambda name: name],
    ids=["one byte of the name", "the bucket"],
)
def test_a_vector_of_a_misnamed_file_is_lost_deletes(damaged: Callable[[str], str], tmp_path: Path) -> None:
    table = make(tmp_path, VECTORS, ["dt"])
    there, elsewhere = add(table, day="a"), add(table, day="b")
    misnamed = replace(elsewhere, record={**elsewhere.record, "_FILE_NAME": damaged(there.name)})
    table.deletion_vector(misnamed, [1])
    table.commit()

    with pytest.raises(CorruptFile, match="which is not and never was a file of its bucket"):
        files(table)


def test_two_vectors_for_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, VECTORS)
    file = table.write_file(pa.table({"dt": ["d"] * 3, "id": [1, 2, 3]}))
    table.deletion_vector(file, [0])
    write = table._write
    monkeypatch.setattr(
        table,
        "_write",
        lambda prefix, schema, records: write(prefix, schema, list(records) * (2 if schema == "index_manifest" else 1)),
    )
    table.commit()

    with pytest.raises(Unsupported, match="two deletion vectors of one data file"):
        files(table)


# Partitions whose folder may have several names: the folder on disk counts.

OF_JAVA_17, OF_JAVA_19 = "p=1.9999999999999998E23", "p=2.0E23"
BY_SQL = {"partition.legacy-name": "false"}


def folders(table: morrow.Table) -> list[str]:
    return sorted(path.name for path in Path(table.path).iterdir() if "=" in path.name)


def rows(table: morrow.Table) -> list[tuple[object, ...]]:
    return sorted(morrow.open(table.path).scan().to_polars().rows(), key=str)


def test_doubles_have_the_digits_of_java_8_to_18(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, p DOUBLE", by=["p"], options=BY_SQL)
    table.append({"id": [1, 2, 3], "p": [2e23, 2.0**63, 0.1]})
    assert folders(table) == ["p=0.1", OF_JAVA_17, "p=9.223372036854776E18"]
    assert rows(table) == [(1, 2e23), (2, 2.0**63), (3, 0.1)]


@pytest.mark.parametrize("options", [{}, BY_SQL], ids=["legacy", "sql"])
def test_a_partition_that_java_19_has_named_is_read_and_written(tmp_path: Path, options: dict[str, str]) -> None:
    table = new_table(tmp_path, "id INT, p DOUBLE", by=["p"], options=options)
    table.append({"id": [1], "p": [2e23]})
    Path(table.path, OF_JAVA_17).rename(Path(table.path, OF_JAVA_19))
    table = morrow.open(table.path)
    table.append({"id": [2], "p": [2e23]})
    assert folders(table) == [OF_JAVA_19]
    assert rows(table) == [(1, 2e23), (2, 2e23)]
    table.compact(full=True)
    table.delete("id = 1")
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=dt.timedelta(0))
    assert rows(table) == [(2, 2e23)]


@pytest.mark.parametrize(
    ("options", "kind", "value", "newer", "older"),
    [
        ({}, "DOUBLE", 2e23, OF_JAVA_19, OF_JAVA_17),
        (BY_SQL, "DATE", dt.date(2024, 1, 31), "p=2024-01-31", "p=19753"),
    ],
    ids=["Java 17 and 19", "Paimon 0.9 and later"],
)
@pytest.mark.parametrize("vectors", [False, True], ids=["plain", "deletion vectors"])
def test_a_partition_in_two_folders(
    tmp_path: Path, options: dict[str, str], kind: str, value: object, newer: str, older: str, vectors: bool
) -> None:
    """If two versions wrote the partition to different folders, it is read, but writing to it is refused."""
    options = {**options, "deletion-vectors.enabled": "true"} if vectors else options
    table = new_table(tmp_path, f"id INT, p {kind}", by=["p"], options={**options, "bucket": -1})
    table.append({"id": [1, 2], "p": [value, value]})
    (first,) = folders(table)
    here, there = Path(table.path, first), Path(table.path, newer if first == older else older)
    shutil.move(here, tmp_path / "aside")
    table = morrow.open(table.path)
    table.append({"id": [3, 4], "p": [value, value]})
    table.delete("id = 4")
    here.rename(there)
    shutil.move(tmp_path / "aside", here)
    assert all(any(place.rglob("data-*")) for place in (here, there))

    morrow.clear_caches()
    table = morrow.open(table.path)
    assert rows(table) == [(n, value) for n in (1, 2, 3)]
    assert table.scan(filter="id = 3").count() == 1
    assert table.remove_orphan_files(older_than=dt.timedelta(0), dry_run=True).paths == ()
    table.delete("id = 9")
    for write in (
        lambda: table.append({"id": [5], "p": [value]}),
        lambda: table.update({"id": 6}, "id = 1"),
        lambda: table.compact(full=True),
        lambda: table.overwrite({"id": [5], "p": [value]}),
    ):
        with pytest.raises(Unsupported, match=r"writing a partition in the folders p=\S+ and p="):
            write()
    assert rows(table) == [(n, value) for n in (1, 2, 3)]
    if vectors:  # deletion vectors are stored elsewhere
        table.delete("id = 2 OR id = 3")
        assert rows(table) == [(1, value)]
        table.rollback(table.snapshots()[-2].id)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=dt.timedelta(0))
    assert rows(table) == [(n, value) for n in (1, 2, 3)]


def test_a_table_of_paimon_0_9_is_written_as_it_is(tmp_path: Path) -> None:
    """The table keeps its old folder names whatever the option says."""
    day, later = dt.date(2024, 1, 31), dt.date(2024, 2, 1)
    table = new_table(tmp_path, "id INT, p DATE", keys=["p", "id"], by=["p"], options={**BY_SQL, "bucket": 1})
    table.upsert({"id": [1, 2], "p": [day, day]})
    Path(table.path, "p=2024-01-31").rename(Path(table.path, "p=19753"))
    table = morrow.open(table.path)
    table.upsert({"id": [2, 3, 4], "p": [day, day, later]})
    table.compact(full=True)
    table.delete("id = 1")
    assert folders(table) == ["p=19753", "p=2024-02-01"]
    assert rows(table) == [(2, day), (3, day), (4, later)]


@pytest.mark.parametrize("keys", [[], ["p", "id"]], ids=["append", "keyed"])
def test_bytes_have_no_legacy_name(tmp_path: Path, keys: list[str]) -> None:
    table = new_table(
        tmp_path, "id INT, p BYTES", keys=keys, by=["p"], options={**BY_SQL, "bucket": 1, "bucket-key": "id"}
    )
    table.append({"id": [1, 2], "p": [b"a/b", "ü".encode()]})
    assert folders(table) == ["p=a%2Fb", "p=ü"]
    assert rows(table) == [(1, b"a/b"), (2, "ü".encode())]


def test_folders_far_away_are_looked_for_many_at_once() -> None:
    with running() as server:
        catalog = morrow.Catalog(f"s3://{BUCKET}/w", storage_options=server.options)
        table = catalog.create_table("db.t", schema="id INT, p DATE", partition_keys=["p"], options=BY_SQL)
        days = [dt.date(1969, 12, 1) + dt.timedelta(n) for n in range(40)]
        table.append({"id": list(range(40)), "p": days})
        morrow.clear_caches()
        server.asked.clear()
        server.latency = 0.1  # long, since a busy machine begins requests late
        plan = morrow.open(table.path, storage_options=server.options).scan().plan
        assert len(plan.files) == 40
        assert {file.path.split("/")[-3] for file in plan.files} == {f"p={day}" for day in days}
        assert server.rounds() < 12  # fewer than 40 requests one after another
