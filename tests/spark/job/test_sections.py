"""Sections divided at keys: the pieces return each row of the section once, for any keys."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import morrow
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.readers.execution import execute, section_pieces
from morrow.readers.execution.section_pieces import cut_section, pack_units
from morrow.scans.table_scan import Scan
from morrow.spark.job.sections import ScanJob, spread_units
from tests.support.table_factory import TableFactory

KEYS: dict[str, list[Any]] = {
    "BIGINT": [-(2**63), -1, 0, 1, 7, 2**63 - 1],
    "STRING": ["", "\0", "a", "a\0", "a\0b", "z" * 99, "ä", "😀", "😀a", "\U0010ffff"],
    "DECIMAL(20, 3)": [Decimal("-9.001"), Decimal("0.000"), Decimal("0.001"), Decimal("12345678901234.567")],
    "BYTES": [b"", b"\0", b"a", b"\xff", b"\xff\0"],
}


@pytest.fixture(autouse=True)
def worth_cutting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section_pieces, "MIN_CUT_ROWS", 1)


def pieces_of(scan: Scan, most: int = 4) -> tuple[list[Section], list[ScanPlan]]:
    """Cut the only section into pieces, and plan the pieces as tasks do."""
    (section,) = scan.plan.sections
    pieces = list(cut_section(scan.plan, section, scan.store, most))
    job = ScanJob.of(scan.plan, scan.store)
    return pieces, [plan for unit in job.units(pieces) for plan in job.plans_of([unit])]


def lines(plans: list[ScanPlan], scan: Scan) -> list[str]:
    return sorted(repr(row) for plan in plans for row in execute.to_polars(plan, scan.store).rows())


@pytest.mark.parametrize("kind", KEYS)
def test_pieces_share_no_key_and_lose_none(tmp_path: Path, kind: str) -> None:
    table = morrow.Catalog(tmp_path).create_table(
        "db.t",
        schema=f"k {kind} NOT NULL, v INT, w DOUBLE",
        primary_keys=["k"],
        options={"bucket": "1", "write-only": "true", "merge-engine": "partial-update"},
    )
    values = KEYS[kind]
    for number, keys in enumerate([values, values[::2], values[1:]]):
        rows = {"k": keys, "v": [number] * len(keys), "w": [(None, float("nan"), -0.0)[number]] * len(keys)}
        table.upsert(pa.table(rows, schema=table.schema))
    scan = table.scan(["v", "w"], "v > 0")
    expected = lines([scan.plan], scan)  # first, as masks of the whole section differ from those of pieces
    pieces, plans = pieces_of(scan)
    assert len(pieces) > 1
    assert lines(plans, scan) == expected


def test_a_first_column_that_hardly_varies_is_passed_over(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("tenant", "INT"), ("id", "BIGINT"), ("v", "INT")], ["tenant", "id"])
    ids = np.arange(300)
    for number in range(3):
        table.write_file(
            pa.table({"tenant": np.full(300, 5, np.int32), "id": ids, "v": np.full(300, number, np.int32)})
        )
    table.commit()
    scan = morrow.open(table.path).scan(["v"])
    pieces, plans = pieces_of(scan)
    assert {piece.cut and piece.cut.column for piece in pieces} == {"id"}
    assert all(50 <= execute.to_polars(plan, scan.store).height <= 100 for plan in plans)
    assert lines(plans, scan) == lines([scan.plan], scan)


def test_a_key_of_many_versions_stays_whole(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    table = TableFactory(tmp_path / "t", [("id", "INT"), ("v", "INT")], ["id"], options=options)
    for _ in range(60):
        table.write_file(pa.table({"id": pa.array([1, 2], pa.int32()), "v": pa.array([1, 1], pa.int32())}))
    table.commit()
    scan = morrow.open(table.path).scan()
    pieces, plans = pieces_of(scan)
    assert len(pieces) == 2
    assert lines(plans, scan) == ["(1, 60)", "(2, 60)"]


def test_files_outside_of_a_piece_are_not_in_it(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT")], ["id"])
    for first, last in ((0, 100), (100, 200), (50, 150)):
        table.write_file(pa.table({"id": pa.array(range(first, last), pa.int32())}))
    table.commit()
    scan = morrow.open(table.path).scan()
    pieces, plans = pieces_of(scan)
    assert len(pieces) == 3
    assert min(len(piece.files) for piece in pieces) == 1
    assert lines(plans, scan) == lines([scan.plan], scan)


def test_keys_of_other_types_are_not_cut(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "DOUBLE")], ["id"])
    for _ in range(2):
        table.write_file(pa.table({"id": [0.5, 1.5, 2.5]}))
    table.commit()
    (piece,), (plan,) = pieces_of(morrow.open(table.path).scan())
    assert piece.cut is None
    assert len(plan.files) == 2


# Distribution of work units among tasks.


@pytest.mark.parametrize(
    ("weights", "groups"),
    [
        ([], []),
        ([9], [[9]]),
        ([1, 2, 3, 4], [[1, 2], [3], [4]]),
        ([4, 1, 1, 1], [[4], [1, 1, 1]]),
        ([1, 9, 1], [[1], [9], [1]]),
    ],
)
def test_packed_in_their_order_up_to_a_limit(weights: list[int], groups: list[list[int]]) -> None:
    assert list(pack_units(weights, lambda weight: weight, 4)) == groups


@pytest.mark.parametrize(
    ("weights", "groups"),
    [
        ([], []),
        ([5], [[5]]),
        ([1, 2, 9], [[9], [2, 1]]),
        ([3, 3, 2, 2, 2], [[3, 2, 2], [3, 2]]),
        ([0, 0, 0, 0, 0], [[0, 0, 0], [0, 0]]),
    ],
)
def test_dealt_the_heaviest_first(weights: list[int], groups: list[list[int]]) -> None:
    assert spread_units(weights, lambda weight: weight, 2) == groups
