"""A table begins or ceases to have deletion vectors when that changes none of its rows."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.errors import InvalidArgument


def upsert(table: morrow.Table, *rows: tuple[int, str | None], kind: str = "+I") -> None:
    frame = pl.DataFrame(list(rows), schema={"k": pl.Int32, "v": pl.String}, orient="row")
    table.upsert(frame, kinds=[kind] * len(rows))


def rows_of(table: morrow.Table) -> list[tuple[int, str]]:
    return sorted(table.scan().to_polars().rows())


def test_there_and_back_by_full_compactions(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    options = {"bucket": "1", "deletion-vectors.modifiable": "true"}
    t = catalog.create_table("db.t", schema="k INT NOT NULL, v STRING", primary_keys=["k"], options=options)
    upsert(t, (1, "a"), (2, "b"), (3, "c"))
    upsert(t, (1, "A"))
    with pytest.raises(InvalidArgument, match=r"several sorted runs.*compact\(full=True\)"):
        t.alter.set_options({"deletion-vectors.enabled": "true"})

    t.compact(full=True)
    t.alter.set_options({"deletion-vectors.enabled": "true"})
    assert rows_of(t) == [(1, "A"), (2, "b"), (3, "c")]
    upsert(t, (2, None), kind="-D")
    upsert(t, (3, "C"))
    assert rows_of(t) == [(1, "A"), (3, "C")]
    with pytest.raises(InvalidArgument, match="mark 2 rows as dead, which would come back"):
        t.alter.set_options({"deletion-vectors.enabled": "false"})

    t.compact(full=True)
    t.alter.set_options({"deletion-vectors.enabled": "false"})
    upsert(t, (1, "again"))
    assert rows_of(t) == [(1, "again"), (3, "C")]


def test_commits_wait_for_lookups(tmp_path: Path) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer.lookup-wait": "false"}
    with pytest.raises(InvalidArgument, match="a commit has to wait"):
        morrow.Catalog(tmp_path).create_table("db.t", schema="k INT NOT NULL", primary_keys=["k"], options=options)
