"""Random histories: after every commit, reads and replayed changes both equal the row-wise model.

An insertion in a changelog must be of a missing key, and a retraction must equal the present row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import morrow
from morrow.engine.io.local import disable_fsync
from morrow.readers.casts.dtypes import to_polars_dtype
from tests.oracle import MERGE_ENGINES, Record, Row, Rules, by_age, looked_up
from tests.support.hostile_names import in_avro, in_options, renamed_options, renamings
from tests.support.profile import IS_LONG

SCHEMA = {"k": "INT NOT NULL", "v": "INT", "w": "STRING"}
KEYS, VALUES, TEXTS = st.integers(0, 12), st.none() | st.integers(0, 9), st.none() | st.sampled_from("abc")

ENGINES: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "deduplicate by sequence": {"sequence.field": "v"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.w.aggregate-function": "last_non_null_value",
    },
    "aggregation of retractions": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.w.aggregate-function": "last_value",
    },
    "first-row": {"merge-engine": "first-row"},
}
INSERTS = ("+I", "+U")
KINDS: Mapping[str, Sequence[str]] = {
    "deduplicate": ("+I", "+I", "+U", "-D"),
    "aggregation of retractions": ("+I", "+U", "-U", "-D"),
}
"""The row kinds written to each engine, by default `INSERTS`. A deletion is dropped when nothing lies below it, so with
a sequence field an older row could return."""
WAYS: Mapping[str, Mapping[str, str]] = {
    "lookup": {"changelog-producer": "lookup"},
    "lookup, deduplicated": {"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"},
    "full-compaction": {"changelog-producer": "full-compaction"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "vectors, merged by reads": {
        "deletion-vectors.enabled": "true",
        "deletion-vectors.merge-on-read": "true",
        "write-only": "true",
    },
    "wide vectors and lookup": {
        "deletion-vectors.enabled": "true",
        "deletion-vectors.bitmap64": "true",
        "changelog-producer": "lookup",
    },
    "forced lookup": {"force-lookup": "true"},
}
LEFT_OUT = {
    # Paimon refuses them.
    *(("first-row", way) for way in ("full-compaction", *(way for way in WAYS if "vectors" in way))),
    ("aggregation of retractions", "full-compaction"),  # unmatched retractions depend on the files they are in
}
TABLES = [
    (engine, way)
    for row, engine in enumerate(ENGINES)
    for column, way in enumerate(WAYS)
    if (engine, way) not in LEFT_OUT and (IS_LONG or (row + column) % 2 == 0)
]
"""In `make test`, each engine is combined with every other way."""


@dataclass
class Model:
    """All written records, by key."""

    table: morrow.Table
    records: dict[Row, list[Record]] = field(default_factory=lambda: defaultdict(list))
    written: int = 0

    def write(self, rows: Sequence[tuple[str, Row]]) -> None:
        for kind, row in rows:
            self.records[row[:1]].append(Record(row[:1], self.written, kind, row))
            self.written += 1

    def rows(self) -> list[Row]:
        schema = self.table.schemas()[-1]
        rules = Rules.of(self.table.options, schema.fields, schema.primary_keys)
        names, merge = list(schema.by_name), looked_up if rules.looks_up else MERGE_ENGINES[rules.merge_engine]
        merged = (merge(by_age(records, names, rules), names, rules) for records in self.records.values())
        return sorted((row for row in merged if row is not None), key=repr)


def upsert(table: morrow.Table, rows: Sequence[tuple[str, Row]]) -> None:
    dtypes = {field.name: to_polars_dtype(field.type) for field in table.schemas()[-1].fields}
    frame = pl.DataFrame([row for _, row in rows], schema=dtypes, orient="row")
    table.upsert(frame, kinds=[kind for kind, _ in rows])


def replayed(table: morrow.Table) -> list[Row]:
    """Apply all changes since the first snapshot, check each against the rows before it, and return the rows."""
    state: dict[Any, Row] = {}
    for kind, *values in table.changes(mode="changelog").to_polars().rows():
        row = tuple(values)
        if kind in ("-U", "-D"):
            assert state.pop(row[0]) == row
        else:
            assert row[0] not in state
            state[row[0]] = row
    return sorted(state.values(), key=repr)


def rows_of(table: morrow.Table) -> list[Row]:
    return sorted(table.scan().to_polars().rows(), key=repr)


@st.composite
def histories(draw: st.DrawFn, kinds: Sequence[str]) -> list[list[tuple[str, Row]]]:
    row = st.tuples(st.sampled_from(kinds), st.tuples(KEYS, VALUES, TEXTS))
    return draw(st.lists(st.lists(row, min_size=1, max_size=12), min_size=1, max_size=6))


@pytest.mark.parametrize(("engine", "way"), TABLES, ids=str)
@settings(max_examples=max(settings.default.max_examples // 50, 1))
@given(data=st.data())
def test_a_history_of_upserts(
    tmp_path_factory: pytest.TempPathFactory, engine: str, way: str, data: st.DataObject
) -> None:
    format = data.draw(st.sampled_from(["parquet", "parquet", "avro"]))
    usable = in_avro if format == "avro" else in_options
    names = data.draw(renamings(SCHEMA, usable))
    options = {
        "bucket": "1",
        "num-sorted-run.compaction-trigger": str(data.draw(st.sampled_from([2, 4]))),
        "file.format": format,
        **renamed_options(ENGINES[engine], names.__getitem__),
        **WAYS[way],
    }
    with disable_fsync():
        catalog = morrow.Catalog(tmp_path_factory.mktemp("warehouse"))
        schema = {names[name]: kind for name, kind in SCHEMA.items()}
        table = catalog.create_table("db.t", schema=schema, primary_keys=[names["k"]], options=options)
        model = Model(table)
        for commit in data.draw(histories(KINDS.get(engine, INSERTS))):
            model.write(commit)
            upsert(table, commit)
            if way == "full-compaction" or data.draw(st.integers(0, 5)) == 0:
                table.compact(full=True)
            assert rows_of(table) == model.rows()
            if "changelog-producer" in WAYS[way]:
                assert replayed(table) == model.rows()
