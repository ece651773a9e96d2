"""Tags in an object store, which cannot rename files."""

from __future__ import annotations

import pytest

import morrow
from morrow.engine.errors import SnapshotExpired
from tests.support.s3_server import s3_server
from tests.support.tags import tags
from tests.support.written import rows


def test_a_life_of_tags() -> None:
    with s3_server() as options:
        table = morrow.Catalog("s3://lake/w", storage_options=options).create_table(
            "db.t", schema="a INT", options={"tag.create-success-file": "true"}
        )
        for number in (1, 2, 3):
            table.overwrite([{"a": number}])

        for name, snapshot in (("v1", 1), ("v2", 2), ("v3", 1)):
            table.tags.create(name, snapshot)
        table.tags.rename("v1", "one")
        table.tags.replace("v3", 2, time_retained="1 d")
        table.expire_snapshots(retain_max=1, retain_min=1)

        assert tags(table._metadata) == {"one": 1, "v2": 2, "v3": 2}
        assert rows(table, tag="one") == [(1,)]
        table.tags.delete("one")
        table.tags.expire(older_than="2222-01-01")
        with pytest.raises(SnapshotExpired):
            table.tags.create("one", 1)
        assert rows(table) == [(3,)]
        paths = [path for piece in table._metadata.store.walk("w/db.db/t") for path, _ in piece]
        assert [path for path in paths if "/tag/" in path] == []
        assert len([path for path in paths if "/bucket-0/" in path]) == 1
