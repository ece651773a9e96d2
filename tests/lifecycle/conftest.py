"""Tables to interrupt, and what they hold before and after."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from morrow.engine.io.durability import fsync_disabled
from tests.lifecycle.observed import State, observe
from tests.lifecycle.operations import OPERATIONS, table_at


class Templates:
    """One table for each operation, made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, tuple[Path, State, State]] = {}
        self._copies = 0

    def states(self, name: str) -> tuple[State, State]:
        """What is read before and after the operation."""
        return self._of(name)[1:]

    def copy(self, name: str) -> str:
        """A table as it is before the operation; each has a place of its own, as metadata is cached by path."""
        self._copies += 1
        return str(shutil.copytree(self._of(name)[0], self._folder / str(self._copies) / "db.db" / "t"))

    def _of(self, name: str) -> tuple[Path, State, State]:
        if name not in self._made:
            operation, path = OPERATIONS[name], self._folder / name / "db.db" / "t"
            done = self._folder / name / "done.db" / "t"
            with fsync_disabled():
                operation.make(str(path))
                before = observe(str(path))
                shutil.copytree(path, done)
                operation.run(table_at(str(done)))
                after = observe(str(done))
            assert (before == after) == operation.changes_nothing
            self._made[name] = (path, before, after)
        return self._made[name]


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return Templates(tmp_path_factory.mktemp("templates"))


