"""The oracle on examples small enough to check by eye."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle import FOLDS, File, Record, RetractionError, Row, read_bucket
from tests.support.canonical import assert_same_rows, normal_rows
from tests.support.golden import cases, jsonl
from tests.support.replay import Replay
from tests.support.unordered import set_columns

NAMES = ("id", "ts", "v")


def record(sequence: int, id: int, ts: int | None, v: str, kind: str = "+I") -> Record:
    return Record((id,), sequence, kind, (id, ts, v))


def read(*files: File, **options: str) -> list[Row]:
    return read_bucket(files, NAMES, {name.replace("_", "."): value for name, value in options.items()})


OLD = File(5, [record(0, 1, 7, "old"), record(1, 2, 7, "alone")])


def test_the_newest_record_of_a_key_is_the_row() -> None:
    assert read(OLD, File(0, [record(2, 1, 5, "new")])) == [(1, 5, "new"), (2, 7, "alone")]


def test_the_order_of_files_does_not_matter() -> None:
    assert read(File(0, [record(2, 1, 5, "new")]), OLD) == [(1, 5, "new"), (2, 7, "alone")]


@pytest.mark.parametrize("kind", ["-D", "-U"])
def test_a_key_whose_newest_record_retracts_is_gone(kind: str) -> None:
    assert read(OLD, File(0, [record(2, 1, 7, "old", kind)])) == [(2, 7, "alone")]


def test_ignored_deletes_are_as_good_as_not_there() -> None:
    files = (OLD, File(0, [record(2, 1, 7, "old", "-D")]))
    assert read_bucket(files, NAMES, {"ignore-delete": "true"}) == [(1, 7, "old"), (2, 7, "alone")]


@pytest.mark.parametrize(
    ("ts", "order", "winner"),
    [
        (8, "ascending", "new"),
        (6, "ascending", "old"),
        (8, "descending", "old"),
        (6, "descending", "new"),
        (7, "ascending", "new"),  # a tie: the sequence number decides
        (7, "descending", "new"),
        (None, "ascending", "old"),  # a null is older than any value, in either order
        (None, "descending", "old"),
    ],
)
def test_the_sequence_field_goes_before_the_sequence_number(ts: int | None, order: str, winner: str) -> None:
    options = {"sequence.field": "ts", "sequence.field.sort-order": order}
    ((_, _, v), _) = read_bucket((OLD, File(0, [record(2, 1, ts, "new")])), NAMES, options)
    assert v == winner


def test_first_row_keeps_the_oldest_of_what_is_compacted() -> None:
    files = (OLD, File(4, [record(2, 1, 9, "later")]), File(0, [record(3, 9, 9, "unseen")]))
    assert read_bucket(files, NAMES, {"merge-engine": "first-row"}) == [(1, 7, "old"), (2, 7, "alone")]


def test_first_row_refuses_retractions() -> None:
    with pytest.raises(RetractionError):
        read_bucket((File(5, [record(0, 1, 1, "x", "-D")]),), NAMES, {"merge-engine": "first-row"})


def test_dead_positions_and_level_0_are_not_seen_with_deletion_vectors() -> None:
    files = (File(5, OLD.records, frozenset({0})), File(4, [record(2, 1, 5, "new")]), File(0, [record(3, 2, 5, "l0")]))
    assert read_bucket(files, NAMES, {"deletion-vectors.enabled": "true"}) == [(2, 7, "alone"), (1, 5, "new")]


# --- partial-update and aggregation: the histories of tables written by Java ---

UNTOLD = "public/dv_partial_update"
"""Its lookup compactions put single records through the merge as well, and which ones hangs on file sizes."""

FOLDED = [c.name for c in cases() if c.name.startswith("public/") and c.engine in FOLDS and c.name != UNTOLD]


@pytest.mark.golden
@pytest.mark.parametrize("case", FOLDED)
def test_a_history_replayed_gives_the_rows_of_java_at_every_snapshot(case: str, golden_root: Path) -> None:
    replay = Replay(golden_root / case)
    compared = 0
    for snapshot, rows in replay.run():
        if "error" not in snapshot:
            expected = normal_rows(jsonl(replay.folder / snapshot["file"]), replay.fields)
            assert_same_rows(rows, expected, replay.fields, set_columns(replay.names, replay.rules.options))
            compared += 1
    assert compared
