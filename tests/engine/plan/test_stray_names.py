"""Stray files by editors, copies and killed writers do not make a table unreadable."""

from __future__ import annotations

from pathlib import Path

import pytest

import morrow
from morrow.engine.format.paths import parse_file_id, parse_numbered
from tests.support.written import new_table, rows

STRAYS = (
    *("{0}-01", "{0}-x", "{0}-1.tmp", "{0}-1 (copy)", "{0}-1~", ".{0}-1.swp", "#{0}-1#", "{0}-", "{0}-+3", "{0}--1"),
    *("{0}-3.json", "{0}-0x3", "{0}-3e2", "{0}-1_0", "{0}-\u0663", "{0}-\u00b2", "{0}-99999999999999999999", "{0}-000"),
    *("{0}-9223372036854775808", "Thumbs.db", ".DS_Store", "{0}"),
)


@pytest.mark.parametrize("as_folder", [False, True])
def test_strays_are_no_metadata(tmp_path: Path, as_folder: bool) -> None:
    table = new_table(tmp_path, "a INT", options={"changelog.num-retained.max": "99"})
    for number in (1, 2, 3):
        table.append([{"a": number}])
    table.tags.create("v1", 1)
    table.branches.create("b", tag="v1")
    for folder in ("", "branch/branch-b/"):
        for kind in ("schema", "snapshot", "changelog"):
            place = Path(table.path, folder, kind)
            place.mkdir(exist_ok=True)
            for stray in [*STRAYS, *(["{0}-7", "{0}-99"] if as_folder else [])]:
                path = place / stray.format(kind)
                path.mkdir() if as_folder else path.write_bytes(b"not metadata")
    again = morrow.open(table.path)

    assert rows(again) == [(1,), (2,), (3,)]
    assert rows(again.on_branch("b")) == [(1,)]
    assert [snapshot.id for snapshot in again.snapshots()] == [1, 2, 3]
    again.append([{"a": 4}])
    again.alter.set_options({"snapshot.num-retained.min": "1"})
    assert again.expire_snapshots(retain_max=1, retain_min=1) == 3
    again.remove_orphan_files()
    again.repair()
    again.tags.delete("v1")
    again.branches.delete("b")
    assert rows(again) == [(1,), (2,), (3,), (4,)]
    assert again.system("snapshots").to_arrow().num_rows == 1


@pytest.mark.parametrize("text", [b"", b"x", b"9" * 5000, b"\xb2", b"-1", b"1 2", b"\xff\xfe1\x00"])
@pytest.mark.parametrize("hint", ["LATEST", "EARLIEST"])
def test_hints_of_any_bytes(tmp_path: Path, hint: str, text: bytes) -> None:
    table = new_table(tmp_path, "a INT", options={"changelog.num-retained.max": "99"})
    table.append([{"a": 1}])
    for kind in ("snapshot", "changelog"):
        Path(table.path, kind).mkdir(exist_ok=True)
        Path(table.path, kind, hint).write_bytes(text)
    assert rows(table) == [(1,)]
    table.append([{"a": 2}])
    assert table.expire_snapshots(retain_max=1, retain_min=1) == 1


def test_a_hint_that_is_a_folder(tmp_path: Path) -> None:
    table = new_table(tmp_path, "a INT")
    table.append([{"a": 1}])
    for hint in ("LATEST", "EARLIEST"):
        path = Path(table.path, "snapshot", hint)
        path.unlink(missing_ok=True)
        path.mkdir()
    assert rows(table) == [(1,)]


def test_ids() -> None:
    assert [parse_file_id(text) for text in ("0", "12", "9223372036854775807")] == [0, 12, 2**63 - 1]
    assert [parse_file_id(text) for text in ("", "01", "9223372036854775808", "1" * 5000, "\u0661")] == [None] * 5
    assert parse_numbered("schema-3", "schema-") == 3
    assert parse_numbered("xschema-3", "schema-") is None
