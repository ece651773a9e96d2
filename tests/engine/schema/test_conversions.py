"""A table begins or ceases to have deletion vectors when that changes none of its rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import morrow
from morrow.engine.errors import InvalidArgument, Unsupported


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


def converted(folder: Path, *, keyed: bool = True) -> morrow.Table:
    """Makes a table that has deletion vectors from its snapshot 3 on; the tag ``old`` is its snapshot 2."""
    catalog = morrow.Catalog(folder)
    keys = ["k"] if keyed else []
    options = {"bucket": "1", "bucket-key": "k", "deletion-vectors.modifiable": "true"}
    t = catalog.create_table("db.t", schema="k INT NOT NULL, v STRING", primary_keys=keys, options=options)
    for rows in ([(1, "a"), (2, "b")], [(3, "c")]):
        t.append(pl.DataFrame(rows, schema={"k": pl.Int32, "v": pl.String}, orient="row"))
    t.tags.create("old")
    t.compact(full=True)
    t.alter.set_options({"deletion-vectors.enabled": "true"})
    return t


READS: dict[str, Callable[[morrow.Table], Any]] = {
    "rows": lambda t: t.scan(snapshot=2).to_polars(),
    "batches": lambda t: list(t.scan(as_of=2).to_batches()),
    "a count": lambda t: t.scan(snapshot=2).count(),
    "a filter": lambda t: t.scan(["v"], "k = 1", version="2").to_arrow(),
    "a tag": lambda t: t.scan(tag="old").to_duckdb(),
    "a dataset": lambda t: t.scan(as_of="old").dataset().to_table(),
    "a difference": lambda t: t.changes("old", 3, mode="diff").to_arrow(),
    "kinds": lambda t: t.system("audit_log", tag="old").to_arrow(),
    "SQL": lambda t: morrow.Catalog(Path(t.path).parents[1]).sql("SELECT count(*) FROM db.t VERSION AS OF 'old'"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_was_not_compacted_before_is_not_read_afterwards(
    tmp_path: Path, read: Callable[[morrow.Table], Any]
) -> None:
    """Reads with deletion vectors leave out what waits for a compaction, and would return no rows."""
    t = converted(tmp_path)
    with pytest.raises(Unsupported, match=r"/t: a read of snapshot 2, of before deletion vectors were enabled, .*tag"):
        read(t)


def test_what_was_compacted_before_is_read_as_ever_and_so_are_changes_and_branches(tmp_path: Path) -> None:
    t = converted(tmp_path)
    upsert(t, (2, "B"))
    assert t.scan(snapshot=3).count() == 3
    assert sorted(t.changes(3, mode="diff").to_polars().rows()) == [("+U", 2, "B"), ("-U", 2, "b")]
    assert t.changes(0, 2).to_polars().rows() == [("+I", 1, "a"), ("+I", 2, "b"), ("+I", 3, "c")]
    t.branches.create("then", tag="old")  # with the options of then
    assert rows_of(t.on_branch("then")) == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize("keyed", [True, False])
def test_dead_rows_do_not_come_back_when_vectors_are_disabled(tmp_path: Path, keyed: bool) -> None:
    t = converted(tmp_path, keyed=keyed)
    t.delete("k = 2")
    dead = t.snapshots()[-1].id
    t.compact(full=True)
    t.alter.set_options({"deletion-vectors.enabled": "false"})
    assert rows_of(t) == [(1, "a"), (3, "c")]
    with pytest.raises(Unsupported, match=f"a read of snapshot {dead}, of before deletion vectors were disabled"):
        t.scan(snapshot=dead).to_polars()
    assert t.scan(snapshot=1).count() == 2  # no vectors yet


def test_the_newest_state_of_another_writer_is_held_to_the_same(tmp_path: Path) -> None:
    """Java lets the option be changed whatever waits."""
    t = converted(tmp_path)
    t.alter.set_options({"deletion-vectors.enabled": "false"})
    upsert(t, (4, "d"))
    newest = sorted((Path(t.path) / "schema").iterdir())[-1]
    schema = json.loads(newest.read_text())
    schema["id"] += 1
    schema["options"]["deletion-vectors.enabled"] = "true"
    newest.with_name(f"schema-{schema['id']}").write_text(json.dumps(schema))
    with pytest.raises(Unsupported, match=r"if it is the newest one, .* compact the table fully"):
        morrow.open(t.path).scan().to_polars()
