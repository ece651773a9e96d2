"""Golden tables with tags: tag files are equal, and deleting a tag leaves the same files as in Java."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.format.snapshot import format_tag, parse_tag

FILES_LEFT = {
    "tags_append_expired": 16,
    "tags_basic": 39,
    "tags_dv": 27,
    "tags_expired_snapshots": 22,
    "tags_names": 21,
    "tags_pip_deletion": 18,
    "tags_replace_rename": 27,
    "tags_schema_evolution": 23,
    "tags_time_retained": 21,
}
"""How many files Java leaves, by case, after all tags are deleted."""


def states(table: morrow.Table) -> dict[str, pl.DataFrame]:
    """Read every snapshot and tag, by name."""
    return {
        **{f"snapshot {s.id}": table.scan(snapshot=s.id).to_polars() for s in table.snapshots()},
        **{f"tag {name}": table.scan(tag=name).to_polars() for name in table.tags.names},
    }


@pytest.mark.parametrize("case", FILES_LEFT)
def test_tag_files_are_written_byte_for_byte(golden_root: Path, case: str) -> None:
    folder = golden_root / "public" / case / "warehouse" / "db.db" / "t" / "tag"
    stored = {path.name: path.read_bytes() for path in folder.iterdir()}

    assert stored
    assert {name: format_tag(parse_tag(data, name, name)) for name, data in stored.items()} == stored


@pytest.mark.parametrize("case", FILES_LEFT)
def test_deleting_a_tag_takes_nothing_from_anybody_else(golden_root: Path, tmp_path: Path, case: str) -> None:
    shutil.copytree(golden_root / "public" / case / "warehouse" / "db.db" / "t", tmp_path / "t")
    table = morrow.open(tmp_path / "t")
    before = states(table)

    for name in table.tags.names:
        table.tags.delete(name)
        after = states(table)
        assert before.keys() - after.keys() == {f"tag {name}"}
        for state, frame in after.items():
            assert frame.sort(pl.all()).equals(before[state].sort(pl.all())), state
        before = after

    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == FILES_LEFT[case]
