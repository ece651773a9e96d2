"""Deletion vectors of a bucket: marking and removing rows, and index files that readers find."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import CorruptFile
from morrow.engine.format.manifest_entries import EMPTY_ROW, IndexFileMeta
from morrow.engine.io.local import LocalStore, disable_fsync
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.target import WriteTarget


def target(folder: Path, **options: str) -> WriteTarget:
    """Make a keyed table with deletion vectors."""
    morrow.Catalog(folder).create_table(
        "db.t",
        schema="k BIGINT NOT NULL, v STRING",
        primary_keys=["k"],
        options={"bucket": "1", "deletion-vectors.enabled": "true", **options},
    )
    return WriteTarget.of(TableMetadata(LocalStore(), str(folder / "db.db" / "t")))


def maintainer(target: WriteTarget, *files: IndexFileMeta, rolling: bool = False) -> DeletionMaintainer:
    return DeletionMaintainer(target, EMPTY_ROW, 0, files, rolling=rolling)


def test_marks_are_written_and_restored(tmp_path: Path) -> None:
    table = target(tmp_path)
    vectors = maintainer(table)
    vectors.mark("a.parquet", np.array([3, 1, 3]))
    vectors.mark("b.parquet", np.array([70_000]))

    new, replaced = vectors.write()

    assert replaced == ()
    (file,) = new
    assert (file.index_type, file.row_count, file.file_name[:6]) == ("DELETION_VECTORS", 2, "index-")
    assert [(r.data_file, r.offset, r.cardinality) for r in file.deletion_ranges or ()] == [
        ("a.parquet", 1, 2),
        ("b.parquet", 33, 1),
    ]
    path = Path(table.metadata.root) / "index" / file.file_name
    assert path.stat().st_size == file.file_size
    assert path.read_bytes()[0] == 1  # the version byte

    restored = maintainer(table, file)
    assert sorted(restored) == ["a.parquet", "b.parquet"]
    assert restored.dead_rows("a.parquet") == 2
    vector = restored.vector("a.parquet")
    assert vector is not None
    assert vector.positions().tolist() == [1, 3]
    assert restored.vector("c.parquet") is None


def test_what_changed_replaces_the_index_file_and_what_did_not_is_not_written(tmp_path: Path) -> None:
    table = target(tmp_path)
    vectors = maintainer(table)
    vectors.mark("a.parquet", np.array([0]))
    first = vectors.write()
    vectors.mark("a.parquet", np.array([0]))  # is deleted already
    assert vectors.write() == ((), ())

    vectors.mark("b.parquet", np.array([5]))
    new, replaced = vectors.write()

    assert replaced == first.new
    assert [r.data_file for r in new[0].deletion_ranges or ()] == ["a.parquet", "b.parquet"]


def test_the_last_vector_leaves_an_index_file_without_any(tmp_path: Path) -> None:
    """Paimon writes such a file with the version byte alone."""
    table = target(tmp_path)
    vectors = maintainer(table)
    vectors.mark("a.parquet", np.array([0]))
    first = vectors.write()

    vectors.remove("a.parquet")
    vectors.remove("never-marked.parquet")
    new, replaced = vectors.write()

    assert (new[0].file_size, new[0].row_count, new[0].deletion_ranges) == (1, 0, ())
    assert replaced == first.new


@pytest.mark.parametrize(("option", "magic"), [("false", "5e43f2d0"), ("true", "d1d33964")])
def test_the_width_of_positions_is_an_option(tmp_path: Path, option: str, magic: str) -> None:
    table = target(tmp_path, **{"deletion-vectors.bitmap64": option})
    vectors = maintainer(table)
    vectors.mark("a.parquet", np.array([1]))
    (file,) = vectors.write().new
    data = (Path(table.metadata.root) / "index" / file.file_name).read_bytes()
    assert data[5:9].hex() == magic
    assert maintainer(table, file).dead_rows("a.parquet") == 1


def test_rolling_files_end_with_the_vector_that_fills_them(tmp_path: Path) -> None:
    table = target(tmp_path, **{"deletion-vector.index-file.target-size": "40 b"})
    vectors = maintainer(table, rolling=True)
    for name in ("a", "b", "c", "d"):
        vectors.mark(name, np.array([1]))  # 32 bytes per vector, and one for the version

    new = vectors.write().new

    assert [[r.data_file for r in file.deletion_ranges or ()] for file in new] == [["a", "b"], ["c", "d"]]


def test_rolling_rewrites_only_the_files_that_a_change_touches(tmp_path: Path) -> None:
    table = target(tmp_path, **{"deletion-vector.index-file.target-size": "40 b"})
    first = maintainer(table, rolling=True)
    for name in ("a", "b", "c", "d"):
        first.mark(name, np.array([1]))
    ab, cd = first.write().new

    vectors = maintainer(table, ab, cd, rolling=True)
    vectors.mark("a", np.array([2]))
    vectors.mark("e", np.array([0]))
    new, replaced = vectors.write()

    assert replaced == (ab,)
    held = [[(r.data_file, r.cardinality) for r in file.deletion_ranges or ()] for file in new]
    assert held == [[("b", 1)], [("a", 2), ("e", 1)]]
    assert sorted(vectors) == ["a", "b", "c", "d", "e"]


def test_index_files_may_lie_beside_the_data(tmp_path: Path) -> None:
    table = target(tmp_path, **{"index-file-in-data-file-dir": "true"})
    vectors = maintainer(table)
    vectors.mark("a", np.array([1]))
    (file,) = vectors.write().new
    assert (Path(table.metadata.root) / "bucket-0" / file.file_name).exists()
    assert maintainer(table, file).dead_rows("a") == 1


def test_discarded_files_are_gone(tmp_path: Path) -> None:
    table = target(tmp_path)
    vectors = maintainer(table)
    vectors.mark("a", np.array([1]))
    changes = vectors.write()
    vectors.discard(changes)
    assert list((Path(table.metadata.root) / "index").iterdir()) == []


def test_a_damaged_index_file_is_named(tmp_path: Path) -> None:
    table = target(tmp_path)
    vectors = maintainer(table)
    vectors.mark("a", np.array([1]))
    (file,) = vectors.write().new
    path = Path(table.metadata.root) / "index" / file.file_name
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptFile, match=file.file_name):
        maintainer(table, file).vector("a")


Step = tuple[str, str, frozenset[int]]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["mark", "mark", "remove", "write", "restore"]),
        st.sampled_from(["a", "b", "c"]),
        st.frozensets(st.integers(0, 200_000), max_size=5),
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> WriteTarget:
    return target(tmp_path_factory.mktemp("t"), **{"deletion-vector.index-file.target-size": "40 b"})


@given(steps=STEPS, rolling=st.booleans())
def test_any_order_of_steps_keeps_exactly_the_marked_rows(table: WriteTarget, steps: list[Step], rolling: bool) -> None:
    vectors = maintainer(table, rolling=rolling)
    stored: dict[str, IndexFileMeta] = {}
    expected: dict[str, set[int]] = {}

    def write() -> None:
        new, replaced = vectors.write()
        for file in replaced:
            del stored[file.file_name]
        stored.update({file.file_name: file for file in new})

    for step, name, positions in steps:
        if step == "mark":
            vectors.mark(name, np.array(sorted(positions), np.int64))
            expected[name] = expected.get(name, set()) | positions
        elif step == "remove":
            vectors.remove(name)
            expected.pop(name, None)
        else:
            with disable_fsync():
                write()
            if step == "restore":
                vectors = maintainer(table, *stored.values(), rolling=rolling)
    write()

    last = maintainer(table, *stored.values(), rolling=rolling)
    for name in ("a", "b", "c"):
        found = last.vector(name)
        assert (set() if found is None else set(found.positions().tolist())) == expected.get(name, set())
        assert last.dead_rows(name) == len(expected.get(name, set()))
