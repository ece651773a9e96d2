"""Creation and renaming of folders in stores that have folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from morrow.engine.errors import StorageError
from morrow.engine.io.local import LocalStore


def test_a_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    LocalStore().make_folder(str(folder))
    LocalStore().make_folder(str(folder))
    assert folder.is_dir()


def test_a_folder_moves_with_all_that_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("x")
    LocalStore().move_folder(str(tmp_path / "a" / "b"), str(tmp_path / "new" / "c"))

    assert (tmp_path / "new" / "c" / "file").read_text() == "x"
    assert not (tmp_path / "a" / "b").exists()


def test_it_never_replaces_what_is_there(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    with pytest.raises(StorageError):
        LocalStore().move_folder(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "b" / "file").read_text() == "b"
