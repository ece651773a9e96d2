"""Consumers: files with the next snapshot that a reader of changes reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from morrow.engine.errors import CorruptFile, InvalidArgument
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.consumers import Consumers, Progress, ReadCommit
from morrow.engine.plan.metadata import TableMetadata


def consumers(folder: Path, branch: str = "main") -> Consumers:
    return Consumers(TableMetadata(LocalStore(), str(folder), branch))


def test_progress_is_recorded_in_the_form_of_paimon(tmp_path: Path) -> None:
    found = consumers(tmp_path)
    assert (found.next_snapshot("a"), found.all(), found.slowest()) == (None, {}, None)

    found.record("a", 7)
    found.record("b", 3)
    found.record("a", 9)

    assert (tmp_path / "consumer" / "consumer-a").read_bytes() == b'{\n  "nextSnapshot" : 9\n}'
    assert (found.all(), found.slowest()) == ({"a": 9, "b": 3}, ("b", 3))
    assert [found.delete("b"), found.delete("b"), found.slowest()] == [True, False, ("a", 9)]


def test_the_commit_that_was_read_is_recorded_beside_it(tmp_path: Path) -> None:
    found, read = consumers(tmp_path), ReadCommit("me", 7, 1_000)
    found.record("a", 5, read)
    assert (found.progress("a"), found.all()) == (Progress(5, read), {"a": 5})
    assert found.slowest() == ("a", 4)


def test_branches_have_consumers_of_their_own(tmp_path: Path) -> None:
    consumers(tmp_path, "dev").record("a", 1)
    assert (tmp_path / "branch" / "branch-dev" / "consumer" / "consumer-a").exists()
    assert consumers(tmp_path).all() == {}


@pytest.mark.parametrize("name", ["", " ", ".", "..", "a/b", "a\\b", "a\0"])
def test_names_stay_in_their_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument, match="not a consumer name"):
        consumers(tmp_path).record(name, 1)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"nextSnapshot": "x"}', '{"nextSnapshot": true}', '{"nextSnapshot": 1, "readCommit": 1}']
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    found = consumers(tmp_path)
    found.record("a", 1)
    (tmp_path / "consumer" / "consumer-a").write_text(text)
    with pytest.raises(CorruptFile, match="consumer-a"):
        found.next_snapshot("a")
