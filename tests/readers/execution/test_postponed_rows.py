"""Reads that merge postponed rows with the rows in buckets (``postpone.merge-on-read``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import Unsupported
from morrow.engine.io.local import disable_fsync
from morrow.readers.execution import section_frames
from tests.oracle import FOLDS, Record, Row, Rules, by_age, merge_record
from tests.writers.keyed.test_lookup_histories import ENGINES, INSERTS, KINDS, histories, upsert

SCHEMA = {"k": "INT NOT NULL", "v": "INT", "w": "STRING", "day": "INT NOT NULL"}
OPTIONS = {"bucket": "-2", "postpone.merge-on-read": "true"}


def make_table(place: Path, **options: str) -> morrow.Table:
    return morrow.Catalog(place).create_table(
        "db.t", schema=SCHEMA, partition_keys=["day"], primary_keys=["day", "k"], options={**OPTIONS, **options}
    )


def test_postponed_rows_replace_the_rows_in_buckets(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append([{"k": k, "v": 1, "w": "old", "day": day} for day in (1, 2) for k in (1, 2, 3)])
    table.compact()
    table.append([{"k": 1, "v": 5, "w": "new", "day": 1}, {"k": 4, "v": 6, "w": "new", "day": 1}])
    table.delete("day = 1 AND k = 2")
    first = [(1, 5, "new", 1), (3, 1, "old", 1), (4, 6, "new", 1)]
    second = [(k, 1, "old", 2) for k in (1, 2, 3)]
    assert sorted(table.scan().to_polars().rows(), key=lambda row: (row[3], row[0])) == [*first, *second]
    assert table.count() == 6
    assert table.get((1, 4)) == {"k": 4, "v": 6, "w": "new", "day": 1}
    assert table.get((1, 2)) is None
    # The new value decides, not the value that it replaced.
    assert table.scan(filter="v = 1 AND day = 1").to_dicts() == [{"k": 3, "v": 1, "w": "old", "day": 1}]
    assert table.scan(["w"], filter="v > 4", limit=1).to_dicts() == [{"w": "new"}]
    assert "1 postponed" in str(table.scan().explain())
    assert table.count(snapshot=2) == 6
    assert table.with_options({"postpone.merge-on-read": False}).scan(filter="v = 5").to_dicts() == []
    table.compact()
    assert sorted(table.scan(filter="day = 1").to_polars().rows()) == first


def test_rows_are_merged_in_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section_frames, "MAX_PASS_ROWS", 10)
    table = make_table(tmp_path)
    for value in range(3):
        table.append([{"k": k, "v": value, "w": None, "day": 1} for k in range(value, 20 + value)])
    assert sorted(table.scan().to_polars().rows()) == [(k, min(k, 2), None, 1) for k in range(22)]


def test_columns_that_postponed_rows_lack_are_refused(tmp_path: Path) -> None:
    table = make_table(tmp_path, **{"table-read.sequence-number.enabled": "true"})
    table.append([{"k": 1, "v": 1, "w": "a", "day": 1}])
    with pytest.raises(Unsupported, match="_SEQUENCE_NUMBER"):
        table.system("audit_log").to_arrow()


@dataclass
class Model:
    """The written records by key: those in buckets, and those that are postponed."""

    table: morrow.Table
    stored: dict[Row, list[Record]] = field(default_factory=lambda: defaultdict(list))
    waiting: dict[Row, list[Record]] = field(default_factory=lambda: defaultdict(list))
    written: int = 0

    def write(self, rows: Sequence[tuple[str, Row]]) -> None:
        for kind, row in rows:
            self.waiting[row[0], row[3]].append(Record((row[0], row[3]), self.written, kind, row))
            self.written += 1

    def fold(self, records: Sequence[Record]) -> Record:
        rules = Rules.of(self.table.options, self.table.schemas()[-1].fields, self.table.primary_keys)
        names = [each.name for each in self.table.schemas()[-1].fields]
        ordered = by_age(records, names, rules)
        if rules.merge_engine in FOLDS:
            return merge_record(FOLDS[rules.merge_engine], ordered, names, rules)
        return ordered[0 if rules.merge_engine == "first-row" else -1]

    def compact(self) -> None:
        for key, records in self.waiting.items():
            self.stored[key].append(self.fold(records))
        self.waiting.clear()

    def rows(self) -> list[Row]:
        found = []
        for key in {*self.stored, *self.waiting}:
            parts = [self.fold(each[key]) for each in (self.stored, self.waiting) if key in each]
            found.append(self.fold(parts))
        return sorted((record.row for record in found if not record.retracts), key=repr)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=max(settings.default.max_examples // 50, 1))
@given(data=st.data())
def test_a_history_of_postponed_rows(
    tmp_path_factory: pytest.TempPathFactory, engine: str, data: st.DataObject
) -> None:
    options = {**ENGINES[engine], "postpone.default-bucket-num": str(data.draw(st.sampled_from([1, 3])))}
    if data.draw(st.booleans()) and engine != "first-row":
        options["deletion-vectors.enabled"] = "true"
    with disable_fsync():
        table = make_table(tmp_path_factory.mktemp("warehouse"), **options)
        model = Model(table)
        for commit in data.draw(histories(KINDS.get(engine, INSERTS))):
            rows = [(kind, (*row, row[0] % 2)) for kind, row in commit]
            model.write(rows)
            upsert(table, rows)
            # Compactions may drop retractions of missing keys, or not.
            if engine != "aggregation of retractions" and data.draw(st.integers(0, 2)) == 0:
                table.compact(full=data.draw(st.booleans()))
                model.compact()
            least = data.draw(st.none() | st.integers(0, 9))
            expected = [row for row in model.rows() if least is None or (row[1] is not None and row[1] >= least)]
            scan = table.scan(filter=None if least is None else pl.col("v") >= least)
            assert sorted(scan.to_polars().rows(), key=repr) == expected
            assert scan.count() == len(expected)
            lazy = table.scan().lazy() if least is None else table.scan().lazy().filter(pl.col("v") >= least)
            assert sorted(lazy.collect().rows(), key=repr) == expected
            assert sorted(scan.to_duckdb().fetchall(), key=repr) == expected
            splits = (split.to_polars().rows() for split in scan.splits(2))
            assert sorted((row for rows in splits for row in rows), key=repr) == expected
