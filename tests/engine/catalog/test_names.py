"""Names of tables, branches and system tables."""

from __future__ import annotations

import pytest

from morrow.engine.catalog.names import ObjectName, parse_object_name
from morrow.engine.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("db.t", ObjectName("db.t")),
        ("db.t$snapshots", ObjectName("db.t", system="snapshots")),
        ("db.t$branch_dev", ObjectName("db.t", branch="dev")),
        ("db.t$branch_dev$files", ObjectName("db.t", branch="dev", system="files")),
        ("/w$1/db.db/t$ro", ObjectName("/w$1/db.db/t", system="ro")),
        ("s3://b/db.db/t/", ObjectName("s3://b/db.db/t/")),
        ("s3://b/db.db/t$files/", ObjectName("s3://b/db.db/t", system="files")),
    ],
)
def test_parts_of_a_name(text: str, name: ObjectName) -> None:
    assert parse_object_name(text) == name


@pytest.mark.parametrize("text", ["t$", "$snapshots", "t$files$branch_dev", "t$branch_$files", "t$a$b", "/w/$ro"])
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a name"):
        parse_object_name(text)
