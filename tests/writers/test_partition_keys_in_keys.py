"""Primary keys with all, some or none of the partition keys: writing one key never removes a row of another.

With dynamic buckets, a primary key identifies a row of the whole table. With fixed and postponed buckets, it identifies
a row of one partition. The row-wise oracle merges the records of each row.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import InvalidArgument, Unsupported
from tests.oracle import MERGE_ENGINES, Record, Row, Rules
from tests.support.profile import every
from tests.support.written import new_table, rows

SCHEMA = "k INT NOT NULL, p STRING NOT NULL, q INT NOT NULL, v INT"
NAMES = ["k", "p", "q", "v"]
LAYOUTS = {
    "superset": (["k", "p"], ["p"]),
    "superset, other order": (["q", "k", "p"], ["p", "q"]),
    "overlap": (["k", "p"], ["p", "q"]),
    "overlap, other order": (["q", "k"], ["q", "p"]),
    "disjoint": (["k"], ["p", "q"]),
}
BUCKETS: dict[str, dict[str, Any]] = {
    "fixed": {"bucket": 2},
    "dynamic": {"bucket": -1, "dynamic-bucket.target-row-num": 2},
    "postpone": {"bucket": -2},
}
ENGINES: dict[str, dict[str, Any]] = {
    "deduplicate": {},
    "partial-update": {"partial-update.remove-record-on-delete": True},
    "aggregation": {"fields.v.aggregate-function": "sum", "aggregation.remove-record-on-delete": True},
    "first-row": {},
}
RETRACTING = ("deduplicate", "partial-update", "aggregation")
VECTORS = {"deletion-vectors.enabled": True}
MODES = [
    {},
    VECTORS,
    {"changelog-producer": "input"},
    {"changelog-producer": "lookup"},
    {"changelog-producer": "full-compaction"},
    VECTORS | {"changelog-producer": "lookup"},
]

row = st.tuples(st.integers(0, 1), st.sampled_from("xy"), st.integers(0, 1), st.integers(1, 9) | st.none())
some_rows = st.lists(row, min_size=1, max_size=5)
steps = st.lists(
    st.tuples(st.just("write"), some_rows) | st.tuples(st.sampled_from(["delete", "compact"]), some_rows),
    min_size=1,
    max_size=4,
)
ALL_KEYS = [(k, p, q, k + q) for k in (0, 1) for p in "xy" for q in (0, 1)]
TWICE: dict[str, dict[str, Any]] = {
    "deduplicate": VECTORS,
    "partial-update": {"changelog-producer": "lookup"},
    "aggregation": {},
    "first-row": {},
}
"""The mode of each engine in which all keys are written twice."""


class Model:
    """The records of each row, oldest first."""

    def __init__(self, keys: list[str], by: list[str], table: morrow.Table, *, one_partition: bool) -> None:
        self._keys, self._by, self._one_partition = keys, by, one_partition
        options = {name: str(value) for name, value in table.options.items()}
        self._rules = Rules.of(options, table.scan().fields, keys)
        self._records: dict[Row, list[Record]] = defaultdict(list)

    def write(self, row: Row) -> None:
        names = self._keys if self._one_partition else [*self._by, *self._keys]
        records = self._records[_values(row, names)]
        moves = records and _values(records[0].row, self._by) != _values(row, self._by)
        if moves and self._rules.merge_engine in ("partial-update", "aggregation"):
            row = tuple(records[0].row[i] if name in self._by else row[i] for i, name in enumerate(NAMES))
        records.append(Record(_values(row, self._keys), len(records), "+I", row))

    def delete(self, keys: set[Row]) -> None:
        for records in self._records.values():
            if records and records[0].key in keys:
                records.clear()

    def rows(self) -> list[Row]:
        merge = MERGE_ENGINES[self._rules.merge_engine]
        merged = (merge(records, NAMES, self._rules) for records in self._records.values() if records)
        return sorted((row for row in merged if row is not None), key=_sortable)


def _values(row: Row, names: list[str]) -> Row:
    return tuple(row[NAMES.index(name)] for name in names)


def _sortable(row: Row) -> list[tuple[bool, Any]]:
    return [(value is None, value) for value in row]


@pytest.mark.parametrize("buckets", BUCKETS)
@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=max(settings().max_examples // 30, 1))
@given(steps=steps, engine=st.sampled_from(sorted(ENGINES)), mode=st.sampled_from(MODES))
def test_rows_of_other_keys_stay(
    tmp_path_factory: pytest.TempPathFactory,
    layout: str,
    buckets: str,
    engine: str,
    mode: dict[str, Any],
    steps: list[tuple[str, list[Row]]],
) -> None:
    check_rows_of_other_keys(tmp_path_factory.mktemp("w"), layout, buckets, engine, mode, steps)


@pytest.mark.parametrize(
    ("layout", "buckets", "engine"), every(4, ((*at, engine) for engine in TWICE for at in product(LAYOUTS, BUCKETS)))
)
def test_all_keys_twice(tmp_path: Path, layout: str, buckets: str, engine: str) -> None:
    steps = [("write", ALL_KEYS), ("write", ALL_KEYS[::-1]), ("delete", ALL_KEYS[:3])]
    check_rows_of_other_keys(tmp_path, layout, buckets, engine, TWICE[engine], steps)


def check_rows_of_other_keys(
    path: Path, layout: str, buckets: str, engine: str, mode: dict[str, Any], steps: list[tuple[str, list[Row]]]
) -> None:
    keys, by = LAYOUTS[layout]
    options = {**BUCKETS[buckets], "merge-engine": engine, **ENGINES[engine], **mode}
    try:
        table = new_table(path, SCHEMA, keys=keys, by=by, options=options)
    except (InvalidArgument, Unsupported):  # first-row with vectors or retractions
        assume(False)
    model = Model(keys, by, table, one_partition=buckets == "dynamic")
    for step, some in steps:
        if step == "write":
            table.append(pl.DataFrame(some, NAMES, orient="row"))
            for one in some:
                model.write(one)
        elif step == "delete" and engine in RETRACTING:
            wanted = {_values(one, keys) for one in some}
            table.delete(pl.DataFrame(sorted(wanted), keys, orient="row"))
            model.delete(wanted)
        if step == "compact" or buckets == "postpone":
            table.compact(full=len(some) > 2)
        assert rows(table) == model.rows()
