"""Rows before they are in files: numbered, sorted, merged, in memory or spilled."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.writers.keyed import buffer as module
from morrow.writers.keyed.buffer import SortBuffer
from tests.writers.keyed.tables import FEWER, keyed_table, rows


@contextmanager
def tiny_runs() -> Iterator[None]:
    """Limits spilled runs and batches to a few rows, and the number of runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RUN_BYTES", 100)
        patch.setattr(module, "BATCH_BYTES", 60)
        patch.setattr(module, "AHEAD_BYTES", 100)
        patch.setattr(module, "MOST_RUNS", 5)
        patch.setattr(module, "MERGED_RUNS", 3)
        yield


def content(frames: Iterator[pl.DataFrame]) -> list[tuple[int, str, int, int]]:
    """Rows ``(k, v, number, kind)``."""
    return [row for frame in frames for row in frame.select("k", "v", SEQUENCE_NUMBER, VALUE_KIND).rows()]


def test_rows_are_numbered_as_they_arrive_and_the_newest_of_a_key_is_kept(tmp_path: Path) -> None:
    buffer = SortBuffer(keyed_table(tmp_path), next_number=7)
    buffer.add(rows(("+I", 2, "b"), ("+I", 1, "a")))
    buffer.add(rows(("-D", 2, "b"), ("+U", 1, "c")))
    assert content(buffer.versions()) == [(1, "a", 8, 0), (1, "c", 10, 2), (2, "b", 7, 0), (2, "b", 9, 3)]
    assert content(buffer.merged()) == [(1, "c", 10, 2), (2, "b", 9, 3)]
    assert buffer.next_number == 11


@pytest.mark.parametrize("kind", ["+I", "-D"])
def test_rows_of_one_kind_keep_it_and_their_numbers(kind: str, tmp_path: Path) -> None:
    buffer = SortBuffer(keyed_table(tmp_path), next_number=2**40)
    buffer.add(rows(("+I", 9, "dropped")))
    buffer.clear()
    for k in (3, 1, 2):
        buffer.add(rows((kind, k, "v"), (kind, k + 10, "w")))
    expected = [(1, 3), (2, 5), (3, 1), (11, 4), (12, 6), (13, 2)]
    code = rows((kind, 1, ""))[VALUE_KIND].item()
    for content_of in (buffer.merged, buffer.versions):
        found = content(content_of())
        assert [(k, number - 2**40, kind_) for k, _, number, kind_ in found] == [(*each, code) for each in expected]


def test_a_sequence_field_orders_before_arrival(tmp_path: Path) -> None:
    buffer = SortBuffer(keyed_table(tmp_path, {"sequence.field": "v"}), next_number=0)
    buffer.add(rows(("+I", 1, "z"), ("+I", 1, "a"), ("+I", 1, None), ("+I", 2, "a"), ("+I", 2, "a")))
    assert content(buffer.merged()) == [(1, "z", 0, 0), (2, "a", 4, 0)]
    assert [number for _, _, number, _ in content(buffer.versions())] == [2, 1, 0, 3, 4]


def test_first_row_keeps_what_came_first(tmp_path: Path) -> None:
    buffer = SortBuffer(keyed_table(tmp_path, {"merge-engine": "first-row"}), next_number=0)
    buffer.add(rows(("+I", 1, "a"), ("+I", 1, "b")))
    assert content(buffer.merged()) == [(1, "a", 0, 0)]


def test_spilling_gives_memory_back_and_clearing_removes_the_files(tmp_path: Path) -> None:
    with tiny_runs(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path))
        buffer = SortBuffer(keyed_table(tmp_path), next_number=0)
        buffer.add(rows(*(("+I", k, "v") for k in range(100))))
        assert buffer.bytes > 0
        buffer.spill()
        assert (buffer.bytes, buffer.is_empty) == (0, False)
        assert list(tmp_path.glob("morrow-spill-*/*"))
        buffer.clear()
        assert buffer.is_empty
        assert not list(tmp_path.glob("morrow-spill-*"))


GIVEN = st.tuples(st.sampled_from(("+I", "+U", "-D")), st.integers(0, 9), st.sampled_from(("a", "b", None)))


@FEWER
@given(
    st.lists(st.tuples(st.lists(GIVEN, max_size=20), st.booleans()), max_size=6),
    st.sampled_from(({}, {"sequence.field": "v"}, {"sequence.field": "v", "sequence.field.sort-order": "descending"})),
)
def test_spilled_rows_come_to_the_same_as_rows_in_memory(
    batches: list[tuple[list[tuple[str, int, str | None]], bool]], options: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as folder, tiny_runs():
        target = keyed_table(Path(folder), options)
        spilled, in_memory = SortBuffer(target, 0), SortBuffer(target, 0)
        for batch, spill in batches:
            for buffer in (spilled, in_memory):
                buffer.add(rows(*batch))
            if spill:
                spilled.spill()
        if not in_memory.is_empty:
            assert content(spilled.versions()) == content(in_memory.versions())
            assert content(spilled.merged()) == content(in_memory.merged())
        assert spilled.next_number == in_memory.next_number
        spilled.clear()
