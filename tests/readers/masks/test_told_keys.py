"""Keys that statistics of a file tell: those that decoding gives, or none."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import CorruptFile
from morrow.engine.io.local import LocalStore
from morrow.readers.masks import told_keys
from morrow.readers.masks.section_keys import SectionKeys
from tests.support.table_factory import TableFactory

COLUMNS = [("id", "INT"), ("n", "INT")]


@pytest.fixture(autouse=True)
def _of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_keys, "WORTH_ROWS", 0)
    morrow.clear_caches()


def written(path: Path, files: list[list[int]], engine: str = "deduplicate") -> TableFactory:
    """Writes one file in row groups of 3 for each list of ids; n counts all rows."""
    table = TableFactory(path, COLUMNS, primary_keys=["id"], options={"merge-engine": engine})
    rows = 0
    for number, ids in enumerate(files):
        n = range(rows, rows := rows + len(ids))
        kinds = ["-D" if number and id % 5 == 0 else "+I" for id in ids] if engine == "deduplicate" else None
        data = pa.table({"id": pa.array(ids, pa.int32()), "n": pa.array(n, pa.int32())})
        table.write_file(data, row_group_size=3, level=0 if number else 5, kinds=kinds)
    table.commit()
    return table


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        (range(-4, 6), True),
        ([1, 2, 3, 7, 8, 9], True),  # each row group is without gaps
        ([1, 2, 4, 5], False),
        ([7], True),
    ],
)
def test_keys_are_told_where_row_groups_have_no_gaps(tmp_path: Path, ids: list[int], told: bool) -> None:
    plan = morrow.open(written(tmp_path / "t", [list(ids), list(ids)]).path).scan().plan
    keys = SectionKeys.of(plan, plan.sections[0], LocalStore())
    found = told_keys.told_keys(keys.files[0], keys.key_fields[0], "id", LocalStore())
    assert (None if found is None else found.to_list()) == (list(ids) if told else None)


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(
        st.tuples(st.integers(-10, 10), st.integers(1, 12), st.sampled_from([1, 1, 2])), min_size=2, max_size=4
    )
)
def test_rows_are_those_of_decoded_keys(
    tmp_path_factory: pytest.TempPathFactory, engine: str, files: list[tuple[int, int, int]]
) -> None:
    ids = [list(range(first, first + count * step, step)) for first, count, step in files]
    table = morrow.open(written(tmp_path_factory.mktemp("t") / "t", ids, engine).path)
    newest: dict[int, tuple[int, int]] = {}
    n = 0
    for number, keys in enumerate(ids):
        for id in keys:
            if engine == "deduplicate" and number and id % 5 == 0:
                newest.pop(id, None)
            else:
                newest[id] = (id, n)
            n += 1
    for columns in (["id", "n"], ["n"]):
        expected = sorted(row[2 - len(columns) :] for row in newest.values())
        morrow.clear_caches()
        assert sorted(table.scan(columns=columns).to_polars().rows()) == expected  # in one pass
        morrow.clear_caches()
        assert sorted(table.scan(columns, filter="n >= 0").to_polars().rows()) == expected  # by masks
    morrow.clear_caches()
    assert table.scan().count() == len(newest)


def test_a_file_of_other_rows_than_metadata_says(tmp_path: Path) -> None:
    table = written(tmp_path / "t", [[1, 2, 3, 4], [2, 3]])
    plan = morrow.open(table.path).scan(columns=["n"]).plan
    (section,) = plan.sections
    wrong = tuple(msgspec.structs.replace(file, row_count=file.row_count + 1) for file in section.files)
    keys = SectionKeys(plan, section, LocalStore(), wrong)
    with pytest.raises(CorruptFile, match="rows"):
        keys.read_whole(["n"])
