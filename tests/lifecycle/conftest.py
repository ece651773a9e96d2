"""Tables to interrupt, and their rows before and after."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from morrow.engine.io.local import disable_fsync
from tests.lifecycle.observed import State, observe
from tests.lifecycle.operations import OPERATIONS, table_at


class Templates:
    """A table for each past, created on first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pasts: dict[str, tuple[Path, State]] = {}
        self._afterwards: dict[str, State] = {}
        self._copies = 0

    def states(self, name: str) -> tuple[State, State]:
        """Read the table before and after the operation."""
        before = self._past(name)[1]
        if name not in self._afterwards:
            done = self.copy(name)
            with disable_fsync():
                OPERATIONS[name].run(table_at(done))
                self._afterwards[name] = observe(done)
            assert (before == self._afterwards[name]) == OPERATIONS[name].changes_nothing
        return before, self._afterwards[name]

    def copy(self, name: str) -> str:
        """Copy the table before the operation to a path of its own, since metadata is cached by path."""
        self._copies += 1
        return str(shutil.copytree(self._past(name)[0], self._folder / str(self._copies) / "db.db" / "t"))

    def _past(self, name: str) -> tuple[Path, State]:
        """Create the table, and read everything in it."""
        make = OPERATIONS[name].make
        if make.__name__ not in self._pasts:
            path = self._folder / make.__name__ / "db.db" / "t"
            with disable_fsync():
                make(str(path))
                self._pasts[make.__name__] = (path, observe(str(path)))
        return self._pasts[make.__name__]


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return Templates(tmp_path_factory.mktemp("templates"))
