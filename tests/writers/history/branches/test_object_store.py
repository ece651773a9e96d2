"""Branches and rollback in an object store, which gives neither files nor folders another name."""

from __future__ import annotations

import morrow
from tests.support.s3_server import s3_server
from tests.support.written import rows


def test_a_life_of_branches() -> None:
    with s3_server() as options:
        catalog = morrow.Catalog("s3://lake/w", storage_options=options)
        table = catalog.create_table(
            "db.t", schema="k INT NOT NULL", primary_keys=["k"], options={"bucket": "1", "write-only": "true"}
        )
        for key in (1, 2, 3):
            table.upsert([{"k": key}])
        table.tags.create("two", 2)
        table.expire_snapshots(retain_max=1, retain_min=1)

        table.branches.create("dev", tag="two")
        table.branches.create("gone", tag="two")
        table.on_branch("gone").upsert([{"k": 9}])
        table.branches.rename("dev", "next")
        table.on_branch("next").upsert([{"k": 4}])
        table.branches.delete("gone")
        table.rollback(tag="two")
        assert (rows(table), rows(table.on_branch("next"))) == ([(1,), (2,)], [(1,), (2,), (4,)])

        table.branches.fast_forward("next")
        table.branches.delete("next")

        assert rows(table) == [(1,), (2,), (4,)]
        assert [snapshot.id for snapshot in table.snapshots()] == [2, 3]
        paths = [path for piece in table._metadata.store.walk("w/db.db/t") for path, _ in piece]
        assert [path for path in paths if "/branch/" in path or "retired-" in path] == []
        assert len([path for path in paths if "/bucket-0/" in path]) == 3
