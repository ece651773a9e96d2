"""`Scan.verify` and `Scan.verification` compare every data file with its metadata."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import CorruptFile, FileMissing, MorrowError
from morrow.engine.format.types import DataField, VarCharType
from morrow.engine.plan.file_statistics import Bounds, FileFacts, read_file_facts
from morrow.engine.structs import replace
from morrow.readers.execution.verification import find_wrong_bounds, verify_file
from tests.support import golden
from tests.support.table_factory import TableFactory

COLUMNS = "id BIGINT, name STRING, score DOUBLE, at TIMESTAMP(3), price DECIMAL(10, 2), note STRING NOT NULL"
FORMATS = ("parquet", "orc", "avro")
FLIPS = 16
"""Number of flipped bits per file, spread evenly over it."""


def rows(first: int = 0, count: int = 200) -> pl.DataFrame:
    ids = pl.int_range(first, first + count, eager=True)
    return pl.select(
        id=ids,
        name=pl.when(ids % 7 > 0).then(pl.format("name of {}", ids)),
        score=ids / 3,
        at=pl.from_epoch(ids * 1_000_003, "ms").cast(pl.Datetime("ms")),
        price=(ids * 7).cast(pl.Decimal(10, 2)),
        note=ids.hash().cast(pl.String),
    )


def make(folder: Path, form: str = "parquet", keyed: bool = True, **options: str) -> morrow.Table:
    catalog = morrow.Catalog(folder)
    catalog.create_database("db")
    options = {"file.format": form, "bucket": "1" if keyed else "-1", **options}
    table = catalog.create_table("db.t", schema=COLUMNS, primary_keys=["id"] if keyed else [], options=options)
    table.append(rows())
    table.append(rows(150))
    if keyed:
        table.delete(pl.DataFrame({"id": [3, 5]}))
    return table


def data_files(table: morrow.Table) -> list[Path]:
    return sorted(path for path in Path(table.path).rglob("data-*") if path.is_file())


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("form", FORMATS)
def test_sound_tables(tmp_path: Path, form: str, keyed: bool) -> None:
    table = make(tmp_path, form, keyed)
    found = table.scan(["id"]).verification()
    assert found.unsound == ()
    assert len(found.files) == len(data_files(table)) == table.scan().verify()
    assert all(file.pages > 0 and not file.unchecked_pages for file in found.files if form == "parquet")
    assert str(found).startswith(f"{len(found.files)} files, 0 unsound; ")


@pytest.mark.parametrize("form", FORMATS)
def test_what_a_scan_refuses_or_tells_otherwise(tmp_path: Path, form: str) -> None:
    """`verify` refuses each file that a read refuses, and with page checksums also each that reads as wrong values."""
    table = make(tmp_path, form)
    truth = table.scan().to_polars().sort("id")
    file = max(data_files(table), key=lambda path: path.stat().st_size)
    sound = file.read_bytes()
    passed, told = [], []
    for number in range(FLIPS):
        at = (number * 2 + 1) * len(sound) // (FLIPS * 2)
        file.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << number % 8]) + sound[at + 1 :])
        morrow.clear_caches()
        try:
            table.scan().verify()
        except MorrowError:
            continue
        try:
            if not table.scan().to_polars().sort("id").equals(truth):
                told.append(at)
        except MorrowError:
            passed.append(at)
    assert passed == []
    assert told == [] or form != "parquet"


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("form", FORMATS)
def test_reads_leave_out_what_options_name(
    tmp_path: Path, form: str, keyed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Missing and damaged files are left out if the options say so; a warning and `explain` name them."""
    table = make(tmp_path, form, keyed, **{"write-only": "true"})
    table.append(rows(400, 7))
    lost, damaged = sorted(data_files(table), key=os.path.getmtime)[:2]
    lost.unlink()
    damaged.write_bytes(damaged.read_bytes()[:-40] + bytes(40))
    lasting = {"scan.ignore-lost-files": True}
    for options, error in ((lasting, CorruptFile), ({"scan.ignore-corrupt-files": True}, FileMissing)):
        with pytest.raises(error):
            table.with_options(options).scan().to_arrow()
    caplog.clear()
    read = table.with_options({**lasting, "scan.ignore-corrupt-files": True})
    assert read.scan().to_polars().height == read.scan().lazy().collect().height == read.scan().count() == 7
    assert read.changes(0, table.scan().snapshot_id).to_polars().height == 7 + 2 * keyed
    assert table.scan().explain() != read.scan().explain()
    for file in (lost, damaged):
        assert file.name in str(read.scan().explain())
        assert str(file) in caplog.text
    with pytest.raises((FileMissing, CorruptFile)):
        read.update({"note": "name"}, "id = 150")


def test_a_file_whose_pages_cannot_be_decoded_is_left_out(tmp_path: Path) -> None:
    table = make(tmp_path, "parquet", keyed=False, **{"write-only": "true"})
    table.append(rows(400, 7))
    damaged = min(data_files(table), key=os.path.getmtime)
    height, data = table.scan().count(), bytearray(damaged.read_bytes())
    data[4:60] = b"\xff" * 56
    damaged.write_bytes(data)
    morrow.clear_caches()
    read = table.with_options({"scan.ignore-corrupt-files": True}).scan()
    assert read.to_polars().height == read.count() < height


def test_all_damaged_files_are_named(tmp_path: Path) -> None:
    table = make(tmp_path, "parquet", keyed=False)
    first, second = data_files(table)
    for file in (first, second):
        data = bytearray(file.read_bytes())
        data[len(data) // 3] ^= 1
        file.write_bytes(data)
    with pytest.raises(CorruptFile, match=r"checksum of a page is wrong \(damaged as well: .*data-"):
        table.scan().verify()
    found = table.scan().verification()
    assert {file.path for file in found.unsound} == {str(first), str(second)}
    first.unlink()
    second.unlink()
    with pytest.raises(FileMissing):
        table.scan().verify()


def test_rows_that_a_filter_leaves_out_are_in_files_that_are_checked(tmp_path: Path) -> None:
    table = make(tmp_path, "parquet", keyed=False)
    assert table.scan(filter="id < 100").verify() == 1
    assert table.scan().verify() == 2


def described(table: morrow.Table) -> tuple[Callable[[FileFacts], tuple[str, ...]], FileFacts]:
    """Return a function that lists the problems of a file with given facts, and the facts of the first file."""
    scan = table.scan()
    plan, facts = read_file_facts(table._metadata, scan.plan)
    return lambda said: verify_file(table._metadata, plan, said).problems, facts[0]


LIES: dict[str, tuple[Callable[[FileFacts], FileFacts], str]] = {
    "rows": (lambda f: replace(f, file=msgspec.structs.replace(f.file, row_count=7)), "has 200 rows where .* says 7"),
    "size": (lambda f: replace(f, file=msgspec.structs.replace(f.file, size=7)), "bytes where metadata says 7"),
    "retractions": (lambda f: replace(f, file=msgspec.structs.replace(f.file, delete_rows=1)), "has 0 retractions"),
    "sequence": (
        lambda f: replace(f, file=msgspec.structs.replace(f.file, max_sequence=999)),
        "has the sequence numbers 0 to 199 where metadata says 0 to 999",
    ),
    "first key": (lambda f: replace(f, first_key=(pl.Series([1]),)), "its first key is not the one of metadata"),
    "last key": (lambda f: replace(f, last_key=(pl.Series([198]),)), "its last key is not the one of metadata"),
    "nulls": (lambda f: replace(f, values={"name": Bounds(null_count=1)}), "'name' has 29 nulls .* say 1"),
    "minimum": (lambda f: replace(f, values={"score": Bounds(pl.Series([0.1]))}), "least value of column 'score'"),
    "maximum": (lambda f: replace(f, keys={"id": Bounds(None, pl.Series([1]))}), "'id' is not the maximum .* of keys"),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_metadata_says_is_held_against_the_rows(tmp_path: Path, lie: str) -> None:
    problems_of, facts = described(make(tmp_path, **{"write-only": "true"}))
    change, expected = LIES[lie]
    assert problems_of(facts) == ()
    (problem, *_) = problems_of(change(facts))
    assert re.search(expected, problem), problem


@pytest.mark.parametrize(
    ("ids", "problem"), [([1, 3, 2], "not in the order of their keys"), ([1, 1, 2], "a key twice")]
)
def test_keys_are_in_order_and_there_once(tmp_path: Path, ids: list[int], problem: str) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT"), ("v", "INT")], ["id"])
    table.write_file(pa.table({"id": ids, "v": ids}), presorted=True)
    table.commit()
    with pytest.raises(CorruptFile, match=problem):
        morrow.open(table.path).scan().verify()


@pytest.mark.parametrize(
    ("low", "high", "said_low", "said_high", "problems"),
    [
        ("abcdef", "abcdef", "abc", "abd", 0),  # both are cut to three characters
        ("abcdef", "abcdef", "abcdef", "abcdef", 0),
        ("a\ud7ffx", "a\ud7ffx", "a\ud7ff", "a\ue000", 0),  # U+D7FF is followed by surrogates
        ("abcdef", "abcdef", "abd", "abc", 2),
        ("abcdef", "abcdef", "", "ac", 0),
        ("abcdef", "abcdef", "abcdefg", "abcdeg", 1),
        ("abc", "abc", "ab", "ae", 1),
    ],
)
def test_bounds_of_text_may_be_cut(low: str, high: str, said_low: str, said_high: str, problems: int) -> None:
    column = DataField(0, "c", VarCharType(100))
    totals = {"min c": pl.Series([low]), "max c": pl.Series([high]), "nulls c": pl.Series([0])}
    known = Bounds(pl.Series([said_low]), pl.Series([said_high]), 0)
    assert len(list(find_wrong_bounds(totals, column, known, "statistics", exact=True))) == problems


def test_file_indexes_find_what_is_there(tmp_path: Path) -> None:
    options = {"file-index.bitmap.columns": "name", "file-index.bloom-filter.columns": "id"}
    table = make(tmp_path, "parquet", keyed=False, **options)
    problems_of, facts = described(table)
    _, others = read_file_facts(table._metadata, table.scan().plan)
    assert problems_of(facts) == ()
    mixed_up = replace(facts, embedded_index=others[1].embedded_index, extra_files=others[1].extra_files)
    assert any("file index does not find" in problem for problem in problems_of(mixed_up))


def test_deletion_vectors_belong_to_their_files(tmp_path: Path) -> None:
    table = make(tmp_path, "parquet", keyed=False, **{"deletion-vectors.enabled": "true"})
    table.delete("id < 10")
    problems_of, facts = described(table)
    assert facts.file.deletion is not None
    assert problems_of(facts) == ()
    wrong = msgspec.structs.replace(facts.file.deletion, cardinality=3)
    assert problems_of(replace(facts, file=msgspec.structs.replace(facts.file, deletion=wrong))) != ()


LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SAMPLE = {
    *("append_partitioned_types", "orc_dictionary", "dv_pk_avro", "blob", "types_orc", "bucket_postpone", "key_double"),
    *("data_evolution", "file_index_bitmap_v1", "file_index_pk_file", "fmt_json", "thin_mode_orc", "pk_dedup_deletes"),
}
"""Tables of every version: odd types in odd formats, and older versions' different files."""


def sound_reads() -> list[golden.Read]:
    """Return reads of tables that Java wrote and can read: all in the long profile, else some newest snapshots."""
    every = [read for read in golden.reads() if read.error is None]
    return every if LONG else [read for read in every if read.id == "latest" and read.case.rpartition("/")[2] in SAMPLE]


@pytest.mark.parametrize("read", sound_reads(), ids=str)
def test_tables_of_java_are_sound(golden_root: Path, read: golden.Read) -> None:
    found = morrow.open(read.table(golden_root)).scan(**read.scan).verification()
    assert [(file.path, file.problems) for file in found.unsound] == []


def test_what_java_cannot_read_either(golden_root: Path) -> None:
    table = golden_root / "versions" / "1.0.1" / "pu_random_seqgroup" / "warehouse" / "db.db" / "t"
    with pytest.raises(CorruptFile, match="broke off"):
        morrow.open(table).scan().verify()
