"""What a new tag may be called."""

from __future__ import annotations

import pytest

from morrow.engine.errors import InvalidArgument
from morrow.writers.history.tags.names import check_new_name


@pytest.mark.parametrize(
    "name", ["v1", "a b", "tag-tag", "x.y_z-1", "ünï", "日本", "2024-05-14", "dt=2024-05-14", "1.0", "..."]
)
def test_names_are_free(name: str) -> None:
    check_new_name(name, "/t")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "give it a name"),
        (" \t", "give it a name"),
        (None, "give it a name"),
        ("123", "a number means a snapshot"),
        (" 123 ", "a number means a snapshot"),
        ("-1", "a number means a snapshot"),
        ("\uff11\uff12", "a number means a snapshot"),
        ("a/b", "it would be a path"),
        ("a\\b", "it would be a path"),
        ("a\0", "it would be a path"),
        ("..", "it would be a path"),
        ("success-file", "where success files are kept"),
    ],
)
def test_some_are_refused(name: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^/t: a tag cannot be called .*{why}"):
        check_new_name(name, "/t")
