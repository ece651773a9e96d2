"""Compactions of primary-key tables drop rows that are older than ``record-level.expire-time``."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import InvalidArgument

NOW = int(time.time())
TYPES: dict[str, Callable[[int], Any]] = {
    "INT": lambda seconds: seconds,
    "BIGINT": lambda seconds: seconds,
    "BIGINT NOT NULL": lambda seconds: seconds * 1000,
    "TIMESTAMP(3)": lambda seconds: dt.datetime.fromtimestamp(seconds, dt.UTC).replace(tzinfo=None),
    "TIMESTAMP(9)": lambda seconds: dt.datetime.fromtimestamp(seconds, dt.UTC).replace(tzinfo=None),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": lambda seconds: dt.datetime.fromtimestamp(seconds, dt.UTC),
}
"""Type of the time of a row -> its value for epoch seconds."""
EXPIRES = {"record-level.expire-time": "1 h", "record-level.time-field": "at"}


def make(folder: Path, kind: str = "INT", **options: object) -> morrow.Table:
    columns = f"id INT NOT NULL, at {kind}, v STRING"
    return morrow.Catalog(folder).create_table(
        "db.t", schema=columns, primary_keys=["id"], options={"bucket": 1, **EXPIRES, **options}
    )


def ids(table: morrow.Table) -> list[int]:
    return sorted(table.to_polars()["id"].to_list())


@pytest.mark.parametrize("kind", TYPES)
def test_times_are_seconds_milliseconds_or_timestamps(tmp_path: Path, kind: str) -> None:
    table, value = make(tmp_path, kind), TYPES[kind]
    no_time = [] if "NOT NULL" in kind else [None]
    times = [value(NOW - 7200), value(NOW), value(NOW + 10**6), *no_time]
    table.upsert({"id": [*range(len(times))], "at": times})
    assert len(ids(table)) == len(times)  # reads show all rows until a compaction
    table.upsert({"id": [1], "at": times[1:2]})  # a single file of nanoseconds stays: it has no statistics of them
    table.compact(full=True)
    assert ids(table) == [*range(1, len(times))]
    table.scan().verify()


@pytest.mark.parametrize(
    "options",
    [
        {"deletion-vectors.enabled": True},
        {"changelog-producer": "lookup"},
        {"changelog-producer": "full-compaction"},
        {"merge-engine": "partial-update"},
        {"merge-engine": "first-row"},
    ],
    ids=str,
)
def test_every_way_of_compaction_drops_rows(tmp_path: Path, options: dict[str, object]) -> None:
    table = make(tmp_path, **options)
    for first in (0, 2):
        table.upsert({"id": [first, first + 1], "at": [NOW - 7200, NOW]})
        table.compact(full=True)
    assert ids(table) == [1, 3]


def test_files_of_the_highest_level_are_rewritten_once_rows_expire(tmp_path: Path) -> None:
    table = make(tmp_path, **{"record-level.expire-time": "9999 d"})
    table.upsert({"id": [1, 2], "at": [NOW - 7200, NOW]})
    table.compact(full=True)
    files = table.system("files").to_polars()["file_path"].to_list()
    assert table.compact(full=True) is None
    table.alter.set_options({"record-level.expire-time": "1 h"})
    table.compact(full=True)
    assert ids(table) == [2]
    assert table.system("files").to_polars()["file_path"].to_list() != files


def test_versions_expire_by_their_own_time(tmp_path: Path) -> None:
    """As in Paimon, an older version with a later time comes back."""
    table = make(tmp_path)
    table.upsert({"id": [1], "at": [NOW], "v": ["young"]})
    table.upsert({"id": [1], "at": [NOW - 7200], "v": ["old"]})
    table.compact(full=True)
    assert table.to_polars()["v"].to_list() == ["young"]


def test_the_options_need_a_column(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="needs 'record-level"):
        morrow.Catalog(tmp_path).create_table(
            "db.t", schema="id INT NOT NULL", primary_keys=["id"], options={"record-level.expire-time": "1 h"}
        )
