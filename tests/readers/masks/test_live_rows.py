"""Deletion vectors as masks of their files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import CorruptFile, FileMissing
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.scan_plan import ScanPlan, Section, SectionKind
from morrow.engine.structs import replace
from morrow.readers.masks import compute_live_masks, live_rows, section_keys
from morrow.readers.masks.live_rows import compute_superseded_masks, split_rows
from morrow.readers.masks.section_cache import SECTIONS
from morrow.readers.masks.section_keys import SectionKeys
from tests.oracle import File, Record, read_bucket
from tests.support.table_factory import TableFactory


def with_vectors(path: Path, *, wide: bool = False) -> TableFactory:
    """Make an append table with a file of four rows, two of them deleted, and a file of three rows."""
    options = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": str(wide).lower()}
    table = TableFactory(path / "t", [("x", "INT")], options=options)
    table.deletion_vector(table.write_file(pa.table({"x": [0, 1, 2, 3]})), [1, 3])
    table.write_file(pa.table({"x": [10, 11, 12]}))
    table.commit()
    return table


def planned(table: TableFactory) -> tuple[ScanPlan, Section]:
    """Plan the section of the file that has a deletion vector."""
    SECTIONS.clear()
    plan = morrow.open(table.path).scan().plan
    return plan, next(section for section in plan.sections if any(f.deletion for f in section.files))


@pytest.mark.parametrize("wide", [False, True], ids=["32 bits", "64 bits"])
def test_true_is_live_and_none_is_all_live(tmp_path: Path, wide: bool) -> None:
    table = with_vectors(tmp_path, wide=wide)
    plan, section = planned(table)
    masks = compute_live_masks(plan, section, LocalStore())
    by_rows = {file.row_count: mask for file, mask in zip(section.files, masks, strict=True)}
    assert by_rows[4] is not None
    assert by_rows[4].to_list() == [True, False, True, False]
    assert by_rows.get(3) is None
    assert sorted(morrow.open(table.path).scan().to_arrow()["x"].to_pylist()) == [0, 2, 10, 11, 12]


def changed(section: Section, **deletion: object) -> Section:
    files = [
        file if file.deletion is None else msgspec.structs.replace(
            file, deletion=msgspec.structs.replace(file.deletion, **deletion)
        )
        for file in section.files
    ]  # fmt: skip
    return msgspec.structs.replace(section, files=tuple(files))


def test_a_vector_with_another_number_of_positions_than_the_index_says(tmp_path: Path) -> None:
    plan, section = planned(with_vectors(tmp_path))
    with pytest.raises(CorruptFile, match=r"index-.*2.*3|index-.*3.*2"):
        compute_live_masks(plan, changed(section, cardinality=3), LocalStore())


def test_a_vector_at_another_place_than_the_index_says(tmp_path: Path) -> None:
    plan, section = planned(with_vectors(tmp_path))
    with pytest.raises(CorruptFile, match="index-"):
        compute_live_masks(plan, changed(section, offset=3), LocalStore())


def test_a_position_behind_the_end_of_the_file(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("x", "INT")], options={"deletion-vectors.enabled": "true"})
    table.deletion_vector(table.write_file(pa.table({"x": [0, 1]})), [7])
    table.commit()
    plan, section = planned(table)
    with pytest.raises(CorruptFile, match="7"):
        compute_live_masks(plan, section, LocalStore())


def test_an_index_file_that_is_gone(tmp_path: Path) -> None:
    table = with_vectors(tmp_path)
    plan, section = planned(table)
    for index in (table.path / "index").iterdir():
        index.unlink()
    with pytest.raises(FileMissing, match="index-"):
        compute_live_masks(plan, section, LocalStore())


def test_primary_key_tables_with_vectors_hide_level_0(tmp_path: Path) -> None:
    table = TableFactory(
        tmp_path / "t", [("id", "INT"), ("v", "STRING")], ["id"], options={"deletion-vectors.enabled": "true"}
    )
    compacted = table.write_file(pa.table({"id": [1, 2], "v": ["a", "b"]}), level=5)
    table.deletion_vector(compacted, [0])
    table.write_file(pa.table({"id": [2], "v": ["not yet"]}), level=0)
    table.commit()
    assert morrow.open(table.path).scan().to_arrow().to_pylist() == [{"id": 2, "v": "b"}]


def test_merge_on_read_shows_level_0_and_merges_no_dead_row(tmp_path: Path) -> None:
    table = TableFactory(
        tmp_path / "t", [("id", "INT"), ("v", "STRING")], ["id"], options={"deletion-vectors.enabled": "true"}
    )
    compacted = table.write_file(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}), level=5)
    table.deletion_vector(compacted, [0])
    table.write_file(pa.table({"id": [2, 4], "v": ["B", "D"]}), level=0)
    table.commit()
    merged = morrow.open(table.path).with_options({"deletion-vectors.merge-on-read": True})
    assert sorted(merged.scan().to_polars().rows()) == [(2, "B"), (3, "c"), (4, "D")]
    assert merged.scan(filter="id IN (1, 2)").to_polars().rows() == [(2, "B")]
    assert merged.scan().count() == 3
    assert sorted(duckdb.sql(merged.scan().to_sql()).fetchall()) == [(2, "B"), (3, "c"), (4, "D")]


# The newest version of every key is a row of the table, whatever rule decides which one is newest.

FIELDS = [("id", "INT"), ("v", "STRING"), ("a", "INT"), ("b", "INT")]


def factory(path: Path, **options: str) -> TableFactory:
    """Make a primary-key table; ``sequence_field`` stands for the option ``sequence.field``."""
    named = {name.replace("sequence_field", "sequence.field").replace("_", "-"): v for name, v in options.items()}
    return TableFactory(path / "t", FIELDS, primary_keys=["id"], options=named)


def rows(*values: tuple[Any, ...]) -> pa.Table:
    """Build rows of id, v, a and b; a and b may be left out."""
    full = [(*row, *[None] * (len(FIELDS) - len(row))) for row in values]
    return pa.table([pa.array(column) for column in zip(*full, strict=True)], names=[name for name, _ in FIELDS])


def read(table: TableFactory) -> dict[int, str]:
    SECTIONS.clear()
    found = morrow.open(table.path).scan(["id", "v"]).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["v"] for row in found}


def test_the_file_written_last_counts(tmp_path: Path) -> None:
    table = factory(tmp_path)
    table.write_file(rows((1, "old"), (2, "old"), (3, "old")), level=5)
    table.write_file(rows((2, "newer"), (3, "newer")))
    table.write_file(rows((3, "newest"), (4, "newest")))
    table.commit()
    assert read(table) == {1: "old", 2: "newer", 3: "newest", 4: "newest"}


def test_one_mask_for_each_file_and_none_where_all_rows_live(tmp_path: Path) -> None:
    table = factory(tmp_path)
    table.write_file(rows((1, "old"), (2, "old"), (3, "old")))
    table.write_file(rows((2, "new"), (4, "new")))
    table.commit()
    plan = morrow.open(table.path).scan().plan
    (section,) = plan.sections
    masks = dict(
        zip((f.row_count for f in section.files), compute_superseded_masks(plan, section, LocalStore()), strict=True)
    )
    assert masks[3].to_list() == [True, False, True]
    assert masks[2] is None


def test_sequence_numbers_decide_between_files_that_interleave(tmp_path: Path) -> None:
    table = factory(tmp_path)
    table.write_file(rows((1, "a10"), (2, "a1"), (3, "a5")), sequence_start=[10, 1, 5])
    table.write_file(rows((1, "b2"), (2, "b7"), (3, "b6")), sequence_start=[2, 7, 6])
    table.commit()
    assert read(table) == {1: "a10", 2: "b7", 3: "b6"}


def test_a_sequence_field_decides_before_the_sequence_number(tmp_path: Path) -> None:
    table = factory(tmp_path, sequence_field="a")
    table.write_file(rows((1, "late", 9), (2, "tie", 5), (3, "null", None), (4, "value", 0)))
    table.write_file(rows((1, "early", 3), (2, "later tie", 5), (3, "value", -1), (4, "null", None)))
    table.commit()
    assert read(table) == {1: "late", 2: "later tie", 3: "value", 4: "value"}


def test_several_sequence_fields_decide_in_turn(tmp_path: Path) -> None:
    table = factory(tmp_path, sequence_field="b,a")
    table.write_file(rows((1, "b wins", 1, 2), (2, "a wins", 7, 1)))
    table.write_file(rows((1, "x", 9, 1), (2, "x", 3, 1)))
    table.commit()
    assert read(table) == {1: "b wins", 2: "a wins"}


def test_descending_sequence_fields_keep_the_least(tmp_path: Path) -> None:
    table = TableFactory(
        tmp_path / "t",
        FIELDS,
        primary_keys=["id"],
        options={"sequence.field": "a", "sequence.field.sort-order": "descending"},
    )
    table.write_file(rows((1, "least", 1), (2, "x", 8), (3, "value", 4), (4, "tie", 0)))
    table.write_file(rows((1, "x", 5), (2, "least", 2), (3, "null", None), (4, "later tie", 0)))
    table.commit()
    assert read(table) == {1: "least", 2: "least", 3: "value", 4: "later tie"}


@pytest.mark.parametrize("kind", ["-D", "-U"])
def test_a_newest_version_that_retracts_leaves_no_row(tmp_path: Path, kind: str) -> None:
    table = factory(tmp_path)
    table.write_file(rows((1, "kept"), (2, "gone")))
    table.write_file(rows((2, "gone"), (3, "never there")), kinds=[kind, kind])
    table.write_file(rows((3, "back")))
    table.commit()
    assert read(table) == {1: "kept", 3: "back"}


def test_ignored_deletes_are_as_good_as_not_there(tmp_path: Path) -> None:
    table = factory(tmp_path, ignore_delete="true")
    table.write_file(rows((1, "kept"), (2, "kept")))
    table.write_file(rows((2, "x"), (3, "x")), kinds=["-D", "-D"])
    table.commit()
    assert read(table) == {1: "kept", 2: "kept"}


def test_a_section_of_ignored_deletes_alone_has_no_rows(tmp_path: Path) -> None:
    table = factory(tmp_path, ignore_delete="true")
    table.write_file(rows((1, "x"), (2, "x")), kinds=["-D", "-U"])
    table.write_file(rows((1, "x")), kinds=["-D"])
    table.commit()
    assert read(table) == {}


@pytest.mark.parametrize("kind", ["TINYINT", "SMALLINT"])
def test_narrow_keys_over_their_whole_range(tmp_path: Path, kind: str) -> None:
    table = TableFactory(tmp_path / "t", [("id", kind), ("v", "INT")], primary_keys=["id"])
    table.write_file(pa.table({"id": range(-100, 101), "v": [0] * 201}))
    table.write_file(pa.table({"id": [-100, 45, 100], "v": [1] * 3}))
    table.commit()
    found = morrow.open(table.path).scan(filter="v = 0").to_arrow()["id"].to_pylist()
    assert sorted(found) == [k for k in range(-100, 101) if k not in (-100, 45, 100)]


@pytest.mark.parametrize("few_rows", [0, 1_000], ids=["by ranges", "whole"])
def test_a_manifest_that_counts_rows_wrongly_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_rows: int
) -> None:
    monkeypatch.setattr(section_keys, "MAX_FEW_ROWS", few_rows)
    table = factory(tmp_path)
    table.write_file(rows((1, "a"), (2, "a")))
    table.write_file(rows((1, "b"), (2, "b")))
    table.commit()
    plan = morrow.open(table.path).scan().plan
    section = plan.sections[0]
    wrong = _with_rows(section, 3)
    with pytest.raises(CorruptFile, match=r"2 rows where .* says 3"):
        compute_superseded_masks(replace(plan, sections=(wrong,)), wrong, LocalStore())


def _with_rows(section: Any, count: int) -> Any:
    import msgspec

    return msgspec.structs.replace(
        section, files=tuple(msgspec.structs.replace(file, row_count=count) for file in section.files)
    )


# --- whole and by key ranges, compared with the row-wise oracle ---

COLUMNS = ["k", "t", "s"]
KEYS: dict[str, tuple[list[tuple[str, str]], st.SearchStrategy[Any]]] = {
    "dense": ([("k", "INT")], st.tuples(st.integers(0, 30))),
    "sparse": ([("k", "BIGINT")], st.tuples(st.sampled_from([-(2**63), -1, 0, 2**40, 2**63 - 1]) | st.integers(0, 9))),
    "text": ([("k", "STRING")], st.tuples(st.text("abé", max_size=3))),
    "packed text": ([("k", "STRING")], st.tuples(st.integers(0, 40).map("user-{:08d}".format))),
    "composite": ([("k", "INT"), ("t", "DATE")], st.tuples(st.integers(0, 5), st.dates().filter(lambda d: d.day < 3))),
}
OPTIONS = [
    {},
    {"ignore-delete": "true"},
    {"sequence.field": "s"},
    {"sequence.field": "s", "sequence.field.sort-order": "descending"},
]


@st.composite
def buckets(draw: st.DrawFn) -> tuple[list[tuple[str, str]], dict[str, str], list[File]]:
    """Draw columns, options and files of one bucket: runs of distinct keys, in order or with interleaved numbers."""
    columns, key = KEYS[draw(st.sampled_from(sorted(KEYS)))]
    with_kinds, in_order = draw(st.booleans()), draw(st.booleans())
    runs = draw(st.lists(st.lists(key, min_size=1, max_size=15, unique=True), min_size=2, max_size=4))
    count = sum(map(len, runs))
    numbers = iter(range(count) if in_order else draw(st.permutations(range(count))))
    files = []
    for run in runs:
        records = []
        for k in sorted(run, key=lambda k: tuple(v.encode() if isinstance(v, str) else v for v in k)):
            kind = draw(st.sampled_from(["+I", "+U", "-D", "-U"])) if with_kinds else "+I"
            s = draw(st.sampled_from([None, 1, 2]))
            records.append(Record(k, next(numbers), kind, (*k, s)))
        files.append(File(0, records))
    return columns, draw(st.sampled_from(OPTIONS)), files


def written(path: Path, columns: Sequence[tuple[str, str]], options: dict[str, str], files: Sequence[File]) -> str:
    table = TableFactory(path, [*columns, ("s", "INT")], [name for name, _ in columns], options=options)
    for file in files:
        arrays = [pa.array(list(c), f.type.arrow()) for c, f in zip(zip(*[r.row for r in file.records]), table.columns)]
        table.write_file(
            pa.table(arrays, names=[f.name for f in table.columns]),
            sequence_start=[r.sequence for r in file.records],
            kinds=[r.kind for r in file.records],
            row_group_size=2,
        )
    table.commit()
    return str(table.path)


@given(bucket=buckets(), range_rows=st.integers(1, 12))
def test_whole_and_by_ranges_as_the_oracle_has_it(
    bucket: tuple[list[tuple[str, str]], dict[str, str], list[File]], range_rows: int
) -> None:
    columns, options, files = bucket
    names = [*(name for name, _ in columns), "s"]
    expected = sorted(read_bucket(files, names, options), key=repr)
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "t", columns, options, files)
        plan = morrow.open(path).scan().plan
        event(f"merges: {any(s.kind is SectionKind.MERGE for s in plan.sections)}")
        for few_rows in (1_000, 0):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(section_keys, "MAX_FEW_ROWS", few_rows)
                patch.setattr(section_keys, "MAX_WHOLE_ROWS", few_rows)
                patch.setattr(section_keys, "RANGE_ROWS", range_rows)
                morrow.clear_caches()
                found = morrow.open(path).scan().to_arrow()
            assert sorted(zip(*(found[n].to_pylist() for n in names), strict=True), key=repr) == expected


def test_texts_that_end_alike_are_different_keys(tmp_path: Path) -> None:
    """The last eight bytes of the texts are close numbers, but they are not the whole key."""
    table = TableFactory(tmp_path / "t", [("k", "STRING"), ("v", "STRING")], primary_keys=["k"])
    keys = [f"{prefix}-{number:08}" for prefix in "ab" for number in range(30)]
    table.write_file(pa.table({"k": keys, "v": ["old"] * len(keys)}), level=5)
    table.write_file(pa.table({"k": keys[:30:2], "v": ["new"] * 15}))
    table.commit()
    SECTIONS.clear()
    found = dict(morrow.open(table.path).scan().lazy().collect().rows())
    assert found == {key: "new" if key in keys[:30:2] else "old" for key in keys}


# Masks choose rows while files are read, next to columns that are already in memory.

COLUMNS_APART = [("a", "STRING"), ("id", "INT"), ("*", "INT"), ("p", "STRING")]


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(live_rows, "MIN_SPLIT_ROWS", 0)  # the way in which sections with many rows are read
    morrow.clear_caches()
    yield
    morrow.clear_caches()


def rows_apart(ids: list[int], tag: str) -> pa.Table:
    return pa.table({"a": [f"{tag} {i}" for i in ids], "id": ids, "*": [-i for i in ids]})


@pytest.fixture
def factory_apart(tmp_path: Path) -> TableFactory:
    made = TableFactory(tmp_path / "t", COLUMNS_APART, primary_keys=["p", "id"], partition_keys=["p"])
    made.write_file(rows_apart([1, 2, 3], "old"), partition={"p": "x"}, level=5)
    made.write_file(rows_apart([2, 4], "new"), partition={"p": "x"})
    made.commit()
    return made


def test_several_choices_are_made_in_one_read(factory_apart: TableFactory) -> None:
    plan = morrow.open(factory_apart.path).scan().plan
    keys = SectionKeys.of(plan, plan.sections[0], LocalStore())
    held = [pl.DataFrame({"id": [1, 2, 3]}), pl.DataFrame({"id": [2, 4]})]
    alone, first, all_rows = split_rows(
        keys,
        [
            (["*", "id", "a", "p"], [pl.Series([True, False, True]), pl.Series([False, True])]),
            (["a"], [pl.Series([True, False, False]), pl.Series([False, False])]),
            (["a", "id"], [None, None]),
        ],
        held,
    )
    assert alone.rows() == [(-1, 1, "old 1", "x"), (-3, 3, "old 3", "x"), (-4, 4, "new 4", "x")]
    assert first.rows() == [("old 1",)]
    assert all_rows.rows() == [("old 1", 1), ("old 2", 2), ("old 3", 3), ("new 2", 2), ("new 4", 4)]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (None, {("old 1", 1, -1, "x"), ("new 2", 2, -2, "x"), ("old 3", 3, -3, "x"), ("new 4", 4, -4, "x")}),
        (["id"], {(1,), (2,), (3,), (4,)}),
        (["*", "id"], {(-1, 1), (-2, 2), (-3, 3), (-4, 4)}),
        (["a"], {("old 1",), ("new 2",), ("old 3",), ("new 4",)}),
        (["p"], {("x",)}),
    ],
)
def test_keys_are_where_they_were_asked_for(
    factory_apart: TableFactory, columns: list[str] | None, expected: set[tuple[object, ...]]
) -> None:
    found = morrow.open(factory_apart.path).scan(columns=columns).to_polars()
    assert (found.height, set(found.rows())) == (4, expected)


def test_files_of_two_schemas_are_scanned_one_by_one(factory_apart: TableFactory) -> None:
    factory_apart.alter(fields=[*COLUMNS_APART, ("b", "DOUBLE")])
    later = rows_apart([3, 5], "newest").append_column("b", pa.array([0.5, 1.5]))
    factory_apart.write_file(later, partition={"p": "x"})
    factory_apart.commit()
    found = morrow.open(factory_apart.path).scan().to_polars()
    assert sorted(found.select("id", "a", "b").rows()) == [
        (1, "old 1", None),
        (2, "new 2", None),
        (3, "newest 3", 0.5),
        (4, "new 4", None),
        (5, "newest 5", 1.5),
    ]


def test_retractions_and_the_greatest_sequence_decide(tmp_path: Path) -> None:
    factory = TableFactory(tmp_path / "t", COLUMNS_APART[:3], primary_keys=["id"], options={"sequence.field": "*"})
    factory.write_file(rows_apart([1, 2, 3], "old"), level=5)
    factory.write_file(
        pa.table({"a": ["late", "gone", "early"], "id": [1, 2, 3], "*": [0, 0, -9]}), kinds=["+U", "-D", "+U"]
    )
    factory.commit()
    found = morrow.open(factory.path).scan(columns=["id", "a"]).to_polars()
    assert sorted(found.rows()) == [(1, "late"), (3, "old 3")]


def test_a_column_of_fewer_rows_than_the_keys_is_an_error(factory_apart: TableFactory) -> None:
    """A file loses a row between the two reads of it."""
    plan = morrow.open(factory_apart.path).scan(columns=["a"]).plan
    keys = SectionKeys.of(plan, plan.sections[0], _Unchecked())
    held = [pl.DataFrame({"id": [1, 2, 3]}), pl.DataFrame({"id": [2, 4]})]
    path = Path(keys.files[0].path)
    pq.write_table(pq.read_table(path).slice(0, 2), path)
    with pytest.raises(CorruptFile):
        split_rows(keys, [(["a", "id"], [pl.Series([True, False, True]), None])], held)


class _Unchecked(LocalStore):
    """A store that does not check file sizes."""

    is_local = False
