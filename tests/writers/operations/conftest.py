"""Tables of every kind with the same four rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import morrow
from tests.support.written import made_once, new_table

ROWS = pl.DataFrame(
    {"id": [1, 2, 3, 4], "p": ["x", "x", "y", "y"], "n": [10, 20, 30, None], "v": ["a", "b", "c", "d"]},
    schema_overrides={"n": pl.Int32},
)
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "append-partitioned": {"by": ["p"]},
    "append-buckets": {"options": {"bucket": 2, "bucket-key": "id"}},
    "append-vectors": {"options": {"deletion-vectors.enabled": True}},
    "keyed": {"keys": ["id"], "options": {"bucket": 2}},
    "keyed-partitioned": {"keys": ["id", "p"], "by": ["p"], "options": {"bucket": 1}},
    "keyed-vectors": {"keys": ["id"], "options": {"bucket": 1, "deletion-vectors.enabled": True}},
    "dynamic": {"keys": ["id"], "options": {"bucket": -1}},
    "cross-partition": {"keys": ["id"], "by": ["p"], "options": {"bucket": -1}},
    "partial-update": {
        "keys": ["id"],
        "options": {"bucket": 1, "merge-engine": "partial-update", "partial-update.remove-record-on-delete": True},
    },
}


def made(kind: str, folder: Path) -> morrow.Table:
    def make(template: Path) -> morrow.Table:
        table = new_table(template, "id BIGINT, p STRING, n INT, v STRING", **KINDS[kind])
        table.append(ROWS)
        return table

    return made_once(f"four rows, {kind}", folder, make)


@pytest.fixture(params=KINDS)
def any_table(request: pytest.FixtureRequest, tmp_path: Path) -> morrow.Table:
    """Make a table of each kind with `ROWS`."""
    return made(request.param, tmp_path)


@pytest.fixture
def keyed(tmp_path: Path) -> morrow.Table:
    """Make a table with a primary key and `ROWS`."""
    return made("keyed", tmp_path)
