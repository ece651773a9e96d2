"""The check for needed files, tested on tables of Java Paimon, and by adding and removing files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lifecycle.needed import Balance, balance
from tests.lifecycle.tables import KINDS, OLD, frame

LIVES = ("tags*", "snapshots*", "branch*", "changelog*", "consumer*", "dv*", "system*", "hints*", "file_index*")
LEAVES_ORPHANS = ("branch_fast_forward",)
"""Cases in which Java leaves unneeded files."""


def tables(golden_root: Path) -> list[Path]:
    cases = {folder for pattern in LIVES for folder in (golden_root / "public").glob(pattern)}
    return [folder / json.loads((folder / "case.json").read_text())["table_path"] for folder in sorted(cases)]


def test_java_keeps_what_is_needed_and_nothing_else(golden_root: Path) -> None:
    paths = tables(golden_root)
    assert len(paths) > 20
    for path in paths:
        files = balance(path)
        assert not files.missing, path
        assert not files.unneeded or any(name in str(path) for name in LEAVES_ORPHANS), path


def test_java_leaves_what_it_rolls_back(golden_root: Path) -> None:
    folder = golden_root / "public" / "rollback_snapshot"
    assert balance(folder / json.loads((folder / "case.json").read_text())["table_path"]).unneeded


@pytest.mark.parametrize(
    "pattern", ["snapshot-2", "manifest-list-*-1", "manifest-*-0", "data-*", "index-*", "changelog-*"]
)
def test_each_file_is_missed(pattern: str, tmp_path: Path) -> None:
    table = KINDS["vectors"].create(tmp_path / "db.db" / "t")
    for number in range(3):
        table.append(frame(table, [(i, OLD, number) for i in range(3)]))
    root = Path(table.path)
    assert balance(root) == Balance(frozenset(), frozenset())

    for path in sorted(root.rglob(pattern)):
        content = path.read_bytes()
        path.unlink()
        files = balance(root)
        assert files.missing or files.unneeded
        assert path.name in files.missing or path.parent.name == "snapshot"
        path.write_bytes(content)


@pytest.mark.parametrize("path", ["bucket-0/data-1-0.parquet", "manifest/manifest-1-0", "snapshot/.tmp", "more/file"])
def test_files_too_many_are_seen(path: str, tmp_path: Path) -> None:
    table = KINDS["vectors"].create(tmp_path / "db.db" / "t")
    table.append(frame(table, [(1, OLD, 1)]))
    added = Path(table.path) / path
    added.parent.mkdir(exist_ok=True)
    added.touch()

    assert [Path(name).name for name in balance(table.path).unneeded] == [added.name]
