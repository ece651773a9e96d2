"""Tables to interrupt."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from morrow.engine.io.local import disable_fsync
from tests.durability.operations import OPERATIONS


@pytest.fixture(autouse=True)
def syncing() -> None:
    """Files are synced, unless a test says otherwise."""


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one table for each operation, made as its past says."""
    folder = tmp_path_factory.mktemp("templates") / "db.db"
    with disable_fsync():
        for name, operation in OPERATIONS.items():
            operation.make(str(folder / name))
    return folder


@pytest.fixture
def copy(templates: Path, tmp_path: Path) -> Callable[[str], str]:
    """Make a fresh copy of the table of an operation; each has a place of its own, as metadata is cached by path."""
    numbers = iter(range(1_000_000))

    def make(operation: str) -> str:
        return str(shutil.copytree(templates / operation, tmp_path / str(next(numbers)) / operation))

    return make
