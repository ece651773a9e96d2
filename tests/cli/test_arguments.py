"""Shell completion, requested as bash does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import morrow
from morrow.cli.app import app
from morrow.engine.io.local import disable_fsync
from tests.support.command_line import CliRunner

Complete = Callable[[str], list[str]]


@pytest.fixture
def complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Complete:
    catalog = morrow.Catalog(tmp_path / "lake")
    with disable_fsync():
        table = catalog.create_table("db.orders", schema="id INT, `item name` STRING")
        table.append([{"id": 1}])
        table.tags.create("first", 1)
        table.branches.create("dev", snapshot=1)
    catalog.create_table("db.old", schema="id INT")
    monkeypatch.setenv("MORROW_WAREHOUSE", str(tmp_path / "lake"))
    monkeypatch.chdir(tmp_path)

    def ask(line: str) -> list[str]:
        words = line.split(" ")
        asked = {"_MORROW_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        told = CliRunner(env=asked).invoke(app, [], prog_name="morrow").stdout
        return [word for word in told.split("\n") if word]

    return ask


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("morrow read db.or", ["db.orders"]),
        ("morrow read d", ["db.old", "db.orders"]),
        ("morrow read lake/d", ["lake/db.db"]),
        ("morrow read db.orders --columns i", ["id", "item name"]),
        ("morrow read db.orders --columns id,it", ["id,item name"]),
        ("morrow read db.orders --tag f", ["first"]),
        ("morrow read db.orders --branch d", ["dev"]),
        ("morrow read db.orders --as-of ", ["first", "dev", "1"]),
        ("morrow diff db.orders fi", ["first"]),
        ("morrow diff db.orders first d", ["dev"]),
        ("morrow tag db.orders fi", ["first"]),
        ("morrow system db.orders file", ["file_indexes", "file_key_ranges", "files"]),
        ("morrow read db.nothing --columns i", []),
        ("morrow read absent/ --tag f", []),
    ],
)
def test_completion(complete: Complete, line: str, words: list[str]) -> None:
    assert complete(line) == words
