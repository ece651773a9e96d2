"""Sections that are read whole: they have the rows of masked scans, and their masks are cached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import CorruptFile, FileMissing
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.execution import section_reads, strategy
from morrow.readers.execution.strategy import Way
from morrow.readers.files import source
from morrow.readers.masks import compute_live_masks, live_rows, packed_keys
from morrow.readers.masks.section_cache import SECTIONS
from morrow.readers.masks.section_keys import SectionKeys
from morrow.readers.merges import sections
from tests.support.s3_server import BUCKET, S3Server, running
from tests.support.table_factory import TableFactory

COLUMNS = [("id", "INT"), ("name", "STRING"), ("n", "INT")]


def rows(ids: range, tag: str) -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"{tag} {i}" for i in ids], "n": list(ids)})


@pytest.fixture(params=["deduplicate", "partial-update"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[morrow.Table]:
    morrow.clear_caches()
    factory = TableFactory(tmp_path / "t", COLUMNS, primary_keys=["id"], options={"merge-engine": request.param})
    factory.write_file(rows(range(60), "old"), level=5)
    factory.write_file(rows(range(60, 100), "old"), level=5)
    factory.write_file(rows(range(30, 70, 2), "new"))
    factory.write_file(rows(range(90, 120), "new"))
    factory.commit()
    yield morrow.open(factory.path)
    morrow.clear_caches()


def expected() -> list[tuple[int, str, int]]:
    new = {*range(30, 70, 2), *range(90, 120)}
    return [(i, f"{'new' if i in new else 'old'} {i}", i) for i in range(120)]


def choose(plan: ScanPlan, *, held: float = float("inf"), pieces: bool = False) -> list[tuple[Way, str]]:
    """Return how each section is read from a local disk, and why."""
    choices = strategy.choose_ways(plan, plan.sections, LocalStore(), held, pieces=pieces)
    return [(choice.way, choice.reason) for choice in choices]


def test_a_section_is_read_by_what_is_wanted_and_cached(table: morrow.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = table.scan().plan
    assert choose(plan) == [(Way.READ_WHOLE, "nothing is cached")]
    assert choose(plan, held=100) == [(Way.SCAN, "rows are used as they arrive")]
    assert choose(table.scan(filter="id > 3").plan) == [(Way.SCAN, "rows are filtered")]
    assert choose(table.scan(limit=3).plan) == [(Way.SCAN, "3 rows at most are wanted")]
    monkeypatch.setattr(strategy, "MAX_SMALL_ROWS", 0)
    monkeypatch.setattr(strategy, "PIECE_ROWS", 1)
    assert choose(plan, pieces=True) == [(Way.SCAN_PIECES, "large files are decoded as their rows are used")]
    monkeypatch.setattr(strategy, "MAX_WHOLE_ROWS", 0)
    ((way, reason),) = choose(plan)
    assert way is Way.SCAN and reason.startswith("each has more than 0 rows")


def test_what_is_cached_changes_how_a_section_is_read(table: morrow.Table) -> None:
    table.scan().to_polars()
    folds = table.scan().plan.merge.folds  # type: ignore[union-attr]  # the table has keys
    assert choose(table.scan().plan) == [(Way.SCAN, "merged rows are cached" if folds else "masks are cached")]
    table.upsert({"id": pa.array([5], "int32"), "name": ["new 5"], "n": pa.array([5], "int32")})
    earlier = (Way.REFRESH, "merged rows of an earlier state are cached")
    assert choose(table.scan().plan) == [earlier if folds else (Way.SCAN, "masks are cached")]
    assert dict(table.scan(["id", "name"]).to_polars().rows())[5] == "new 5"
    assert choose(table.scan(["id"]).plan) == [(Way.REFRESH if folds else Way.SCAN, "masks are cached")]


def test_explain_says_how_each_section_is_read(table: morrow.Table) -> None:
    assert "to_polars() reads\n  1 merge section read whole: nothing is cached" in table.scan().explain()
    table.scan().to_polars()
    assert "merge section scanned: m" in table.scan().explain()


@pytest.mark.parametrize("cut", [False, True], ids=["in one part", "in parts"])
def test_the_rows_are_those_of_a_masked_scan(table: morrow.Table, monkeypatch: pytest.MonkeyPatch, cut: bool) -> None:
    if cut:
        monkeypatch.setattr(packed_keys, "MIN_CUT_ROWS", 0)
        monkeypatch.setattr(packed_keys, "CUT_SAMPLE_ROWS", 1)
        monkeypatch.setattr(sections, "PART_ROWS", 10)
        monkeypatch.setattr(live_rows, "MIN_SPLIT_ROWS", 0)
    assert sorted(table.scan().to_polars().rows()) == expected()  # in one pass
    assert sorted(table.scan().to_polars().rows()) == expected()  # with the cached masks
    monkeypatch.setattr(strategy, "MAX_WHOLE_ROWS", 0)
    morrow.clear_caches()
    assert sorted(table.scan().to_polars().rows()) == expected()  # with newly computed masks


def test_the_masks_that_are_kept_are_those_that_would_be_computed(tmp_path: Path) -> None:
    factory = TableFactory(tmp_path / "t", COLUMNS, primary_keys=["id"])
    factory.write_file(rows(range(5), "old"), level=5)
    factory.write_file(rows(range(3, 8), "new"), kinds=["+I", "-D", "+I", "-D", "+I"])
    factory.commit()
    SECTIONS.clear()
    plan, store = morrow.open(factory.path).scan().plan, LocalStore()
    computed = compute_live_masks(plan, plan.sections[0], store)
    SECTIONS.clear()
    assert section_reads.read_whole_sections(plan, plan.sections, store)
    kept = compute_live_masks(plan, plan.sections[0], store)
    assert [None if m is None else m.to_list() for m in kept] == [None if m is None else m.to_list() for m in computed]
    assert choose(plan) == [(Way.SCAN, "masks are cached")]


def test_parts_share_no_key_and_unsorted_files_are_not_cut(
    table: morrow.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_keys, "MIN_CUT_ROWS", 0)
    monkeypatch.setattr(packed_keys, "CUT_SAMPLE_ROWS", 1)
    plan = table.scan().plan
    (section,) = plan.sections
    keys = SectionKeys.of(plan, section, LocalStore())
    files = [pl.DataFrame({"id": ids}, schema={"id": pl.Int32}) for ids in ([1, 2, 3, 4], [2, 5])]
    assert [[frame["id"].to_list() for frame in part] for part in keys.parts(files)] == [[[1, 2], [2]], [[3, 4], [5]]]
    unsorted = [pl.DataFrame({"id": ids}, schema={"id": pl.Int32}) for ids in ([1, 9, 0, 3], [2, 5])]
    assert len(keys.parts(unsorted)) == 1


@pytest.mark.parametrize("lengths", [(8, 8), (8, 11)], ids=["packed", "not to be packed"])
def test_masks_are_worked_out_in_parts_also_for_text(
    lengths: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_keys, "MIN_CUT_ROWS", 0)
    monkeypatch.setattr(packed_keys, "CUT_SAMPLE_ROWS", 1)
    factory = TableFactory(tmp_path / "t", [("k", "STRING"), ("v", "STRING")], primary_keys=["k"])
    keys = sorted(str(i).zfill(lengths[i % 2]) for i in range(20))
    # The lowest and the highest key have the same length; only the keys between them show that others are longer.
    keys = ["00000000", *keys[1:-1], "99999999"]
    factory.write_file(pa.table({"k": keys, "v": ["old"] * 20}), level=5)
    factory.write_file(pa.table({"k": keys[::3], "v": ["new"] * len(keys[::3])}))
    factory.commit()
    SECTIONS.clear()
    found = dict(morrow.open(factory.path).scan().lazy().collect().rows())
    assert found == {key: "new" if key in keys[::3] else "old" for key in keys}


# Files of a remote store are fetched whole with one request each, if that gives the rows of the table.


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running() as server:
        yield server


KINDS: dict[str, tuple[list[str] | None, dict[str, str]]] = {
    "append": (None, {}),
    "merge on read": (["p", "id"], {"num-sorted-run.compaction-trigger": "100"}),
    "folds": (
        ["p", "id"],
        {
            "num-sorted-run.compaction-trigger": "100",
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "max",
        },
    ),
    "deletion vectors": (["p", "id"], {"deletion-vectors.enabled": "true"}),
    "ORC": (None, {"file.format": "orc"}),
}


def made(server: S3Server, kind: str, folder: str = "") -> morrow.Table:
    keys, options = KINDS[kind]
    catalog = morrow.Catalog(f"s3://{BUCKET}/{folder or kind} ü%/", storage_options=server.options)
    table = catalog.create_table(
        "db.t",
        schema="p INT NOT NULL, id INT NOT NULL, v STRING, n ARRAY<INT>",
        primary_keys=keys,
        partition_keys=["p"],
        options={"bucket": "1" if keys else "-1", **options},
    )
    for number in range(3):
        ids = list(range(number, number + 4))
        table.append({"p": [i % 2 for i in ids], "id": ids, "v": [f"{number}"] * 4, "n": [[i, None] for i in ids]})
    return table


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ahead", ["much", "nothing"])
def test_rows_are_those_of_a_scan(server: S3Server, monkeypatch: pytest.MonkeyPatch, kind: str, ahead: str) -> None:
    table = made(server, kind, f"{kind} {ahead}")
    if ahead == "nothing":  # each file is requested when its reader needs it, in many ranges
        monkeypatch.setattr(source, "MAX_AHEAD_BYTES", 0)
        monkeypatch.setattr(source, "REQUEST_BYTES", 100)
        monkeypatch.setattr(section_reads, "MAX_GROUP_BYTES", 1)
    for _ in ("first", "again"):
        server.asked.clear()
        found = table.to_polars().sort("p", "id", "v")
        asked = [name for name, *_ in server.asked if "/data-" in name]
        assert len(asked) == len(set(asked)) or ahead == "nothing"
    expected = table.scan(filter="id >= 0").to_polars().sort("p", "id", "v")
    assert found.equals(expected)
    assert found.height == (12 if KINDS[kind][0] is None else 6)
    server.asked.clear()
    assert table.to_arrow().num_rows == found.height
    files = {file.path for section in table.scan().plan.sections for file in section.files}
    assert ahead == "nothing" or sum("/data-" in name for name, *_ in server.asked) == len(files)


def test_narrow_reads_of_files_that_are_not_small_fetch_their_columns(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(server, "append", "narrow")
    monkeypatch.setattr(strategy, "MAX_SMALL_FILE_BYTES", 0)
    file = table.scan().plan.files[0]
    assert strategy.is_fetched(table.scan().plan, file)
    assert not strategy.is_fetched(table.scan(["id"]).plan, file)
    assert table.scan(["id"]).to_polars().sum().item() == sum(range(4)) + sum(range(1, 5)) + sum(range(2, 6))


def test_a_file_that_was_cut_or_is_gone_is_named(server: S3Server) -> None:
    table = made(server, "ORC", "damaged")
    first, second, *_ = (file.path for file in table.scan().plan.files)
    objects = server.objects._buckets[BUCKET]
    data = table._metadata.store.read(first)
    objects.put(first, data + b"more", {})
    with pytest.raises(CorruptFile, match="bytes long where"):
        table.to_polars()
    objects.put(first, data, {})
    table._metadata.store.delete(second)
    with pytest.raises(FileMissing, match=second.rpartition("/")[2]):
        table.to_polars()
    assert isinstance(table.scan(filter="p = 7").to_polars(), pl.DataFrame)
