"""Tables for tests that interrupt operations."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from morrow.engine.io.local import disable_fsync
from tests.durability.operations import OPERATIONS


@pytest.fixture(autouse=True)
def syncing() -> None:
    """Sync files as usual, unless a test disables it."""


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a table for each operation."""
    folder = tmp_path_factory.mktemp("templates") / "db.db"
    with disable_fsync():
        for name, operation in OPERATIONS.items():
            operation.make(str(folder / name))
    return folder


@pytest.fixture
def copy(templates: Path, tmp_path: Path) -> Callable[[str], str]:
    """Copy the table of an operation to a path of its own, since metadata is cached by path."""
    numbers = iter(range(1_000_000))

    def make(operation: str) -> str:
        return str(shutil.copytree(templates / operation, tmp_path / str(next(numbers)) / operation))

    return make
