"""The oracle on examples that are small enough to check by eye."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings

from morrow.engine.format import types as t
from morrow.engine.format.types import parse_atomic
from tests.oracle import FOLDS, File, Record, RetractionError, Row, read_bucket
from tests.support.canonical import assert_same_rows, normal_rows, rows_of
from tests.support.golden import cases, jsonl
from tests.support.random_merging_tables import random_merging_tables
from tests.support.random_tables import RandomTable
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
        (7, "ascending", "new"),  # for equal values, the sequence number decides
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


# --- partial-update and aggregation ---

FIELDS = [t.DataField(i, name, parse_atomic("INT")) for i, name in enumerate(("id", "a", "b", "g", "h"))]


def merged(options: dict[str, str], *versions: tuple[str, tuple[int | None, ...]]) -> Row | None:
    """Merge versions of key 1, oldest first, each with its kind and the values of a, b, g and h."""
    records = [
        Record((1,), i, kind, (1, *values, *[None] * (4 - len(values)))) for i, (kind, values) in enumerate(versions)
    ]
    files = [File(0, [record]) for record in records]
    rows = read_bucket(files, [f.name for f in FIELDS], options, FIELDS, ["id"])
    return rows[0][1:] if rows else None


PARTIAL = {"merge-engine": "partial-update"}
GROUP = PARTIAL | {"fields.g.sequence-group": "a"}
SUM = GROUP | {"fields.a.aggregate-function": "sum"}
REMOVING = GROUP | {"partial-update.remove-record-on-sequence-group": "g"}


@pytest.mark.parametrize(
    ("options", "versions", "row"),
    [
        (PARTIAL, [("+I", (1, 2)), ("+U", (None, 3))], (1, 3, None, None)),
        # A single record is returned as stored, whatever its sequence fields are.
        (GROUP, [("+I", (1, 2, None))], (1, 2, None, None)),
        (GROUP, [("+I", (1, 2, None)), ("+I", (None, 3, None))], (None, 3, None, None)),
        (GROUP, [("+I", (1, 2, 5)), ("+I", (None, 3, 5))], (None, 3, 5, None)),
        (GROUP, [("+I", (1, 2, 5)), ("+I", (9, None, 4))], (1, 2, 5, None)),
        (SUM, [("+I", (1, 2, 5)), ("+I", (9, None, 4))], (10, 2, 5, None)),
        # Several fields may order a group: null is lowest, and all nulls mean no order at all.
        (PARTIAL | {"fields.g,h.sequence-group": "a"}, [("+I", (1, 2, 5, None)), ("+I", (3, 4, 5, 0))], (3, 4, 5, 0)),
        (PARTIAL | {"fields.g,h.sequence-group": "a"}, [("+I", (1, 2, 5, 1)), ("+I", (3, 4, None, 9))], (1, 4, 5, 1)),
        # Retractions.
        (PARTIAL | {"ignore-delete": "true"}, [("+I", (1, 2)), ("-D", (1, 2))], (1, 2, None, None)),
        (PARTIAL | {"ignore-delete": "true"}, [("-D", (1, 2)), ("+I", (3, None))], (3, 2, None, None)),
        (GROUP, [("+I", (1, 2, 5)), ("-D", (7, 8, 6))], (None, 2, 6, None)),
        (SUM, [("+I", (1, 2, 5)), ("-U", (7, 8, 4))], (-6, 2, 5, None)),
        (GROUP, [("-D", (1, 2, 5)), ("-D", (1, 2, 5))], None),
        (REMOVING, [("+I", (1, 2, 5)), ("-D", (7, 8, 6))], None),
        (REMOVING, [("+I", (1, 2, 5)), ("-D", (7, 8, 6)), ("+I", (None, 9, None))], (7, 9, 6, None)),
        (REMOVING, [("+I", (1, 2, 5)), ("-D", (7, 8, 4))], (1, 2, 5, None)),
        (REMOVING, [("+I", (1, 2, 5)), ("-U", (7, 8, 6))], (None, 2, 6, None)),
    ],
    ids=str,
)
def test_partial_update(options: dict[str, str], versions: list[Any], row: Row | None) -> None:
    assert merged(options, *versions) == row


def test_a_removed_record_starts_anew_with_the_values_of_its_delete() -> None:
    options = PARTIAL | {"partial-update.remove-record-on-delete": "true"}
    versions = [("+I", (1, 2, 3)), ("-D", (4, 5)), ("+I", (None, 6))]
    assert merged(options, *versions[:2]) is None
    assert merged(options, *versions) == (4, 6, None, None)


AGGREGATION = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}


@pytest.mark.parametrize(
    ("options", "versions", "row"),
    [
        (AGGREGATION, [("+I", (1, 2)), ("+I", (3, None))], (4, 2, None, None)),
        (AGGREGATION | {"sequence.field": "b"}, [("+I", (1, 2)), ("+I", (3, None))], (4, 2, None, None)),
        (AGGREGATION | {"sequence.field": "g"}, [("+I", (1, 2, 9)), ("+I", (3, 4, 8))], (4, 2, 9, None)),
        (
            AGGREGATION | {"fields.default-aggregate-function": "min"},
            [("+I", (1, 2)), ("+I", (3, 4))],
            (4, 2, None, None),
        ),
        (AGGREGATION, [("-D", (1, 2))], None),
        (AGGREGATION, [("-D", (1, 2)), ("-D", (1, 2))], (-2, None, None, None)),
        # Writers ignore deletes; a delete that has reached a file is merged.
        (AGGREGATION | {"ignore-delete": "true"}, [("+I", (5, 2)), ("-D", (1, 2))], (4, None, None, None)),
        (AGGREGATION | {"aggregation.remove-record-on-delete": "true"}, [("+I", (5, 2)), ("-D", (1, 2))], None),
        (
            AGGREGATION | {"aggregation.remove-record-on-delete": "true"},
            [("+I", (5, 2)), ("-D", (1, 2)), ("+I", (3, None))],
            (4, 2, None, None),
        ),
    ],
    ids=str,
)
def test_aggregation(options: dict[str, str], versions: list[Any], row: Row | None) -> None:
    assert merged(options, *versions) == row


@pytest.mark.parametrize("options", [PARTIAL, AGGREGATION | {"fields.b.aggregate-function": "max"}], ids=str)
def test_a_retraction_that_nothing_is_said_about_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(RetractionError):
        merged(options, ("+I", (1, 2)), ("-D", (1, 2)))


@settings(max_examples=settings().max_examples // 5)  # `test_merge_properties` reads more tables
@given(table=random_merging_tables())
def test_random_tables_are_written_and_the_oracle_answers(table: RandomTable) -> None:
    with tempfile.TemporaryDirectory() as folder:
        counts = table.write(Path(folder) / "t")
    keys = {(f.partition, record.key) for f in table.files for record in f.records}
    rows = table.rows(counts[-1])
    event(f"merge engine: {table.options['merge-engine']}")
    assert len(rows) <= len(keys)
    assert len(rows_of(table.arrow(rows), table.fields)) == len(rows)


# --- histories of tables by Java ---

UNTOLD = "public/dv_partial_update"
"""A table whose lookup compactions also merge single records, depending on file sizes."""

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
