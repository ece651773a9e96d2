"""Contents of a disk after a loss of power, at every moment before a sync.

A disk promises two things: the bytes of a synced file, and the names in a folder at the time the folder was synced.
All else may be there or not. Two disks represent the many possible ones:

* a lazy disk has synced bytes and names only;
* a hasty disk has all names at once, but no bytes of files that were not synced.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Names: TypeAlias = Mapping[str, int | None]
"""Names in a folder: the inode of a file, None for a folder."""


@dataclass(frozen=True)
class Disk:
    """Folders by their path below the root, and a copy of each synced inode."""

    folders: Mapping[str, Names]
    synced: Mapping[int, Path]

    def restore(self, target: Path, folder: str = ".") -> None:
        """Create the folders and files of the disk at `target`."""
        target.mkdir(parents=True)
        for name, inode in self.folders.get(folder, {}).items():
            if inode is None:
                self.restore(target / name, os.path.normpath(f"{folder}/{name}"))
            elif inode in self.synced:
                os.link(self.synced[inode], target / name)
            else:
                (target / name).touch()


class PowerLoss:
    """A recorder of syncs below `root`; `kept` is a folder for copies in the same file system."""

    def __init__(self, root: Path, kept: Path) -> None:
        self._root, self._kept = root, kept
        self._synced: dict[int, Path] = {}
        self._fsync = os.fsync
        for path in root.rglob("*"):
            if path.is_file():
                self._keep(path)
        self._folders = self._all_names()
        self.lazy: list[Disk] = []
        self.hasty: list[Disk] = []

    @contextmanager
    def watching(self) -> Iterator[PowerLoss]:
        """Append the disks of each sync within the block, and those at its end, to `lazy` and `hasty`."""
        os.fsync = self._on_sync
        try:
            yield self
            self._remember()
        finally:
            os.fsync = self._fsync

    def _on_sync(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        self._remember()
        self._fsync(descriptor)
        if path == self._root or self._root in path.parents:
            if path.is_dir():
                self._folders[str(path.relative_to(self._root))] = _names(path)
            else:
                self._keep(path)

    def _remember(self) -> None:
        synced = dict(self._synced)
        self.lazy.append(Disk(dict(self._folders), synced))
        self.hasty.append(Disk(self._all_names(), synced))

    def _keep(self, path: Path) -> None:
        """Link the file, which keeps its bytes and prevents a new file from getting its inode."""
        inode = path.stat().st_ino
        if inode not in self._synced:
            copy = self._kept / str(len(self._synced))
            os.link(path, copy)
            self._synced[inode] = copy

    def _all_names(self) -> dict[str, Names]:
        folders = [self._root, *(path for path in self._root.rglob("*") if path.is_dir())]
        return {str(folder.relative_to(self._root)): _names(folder) for folder in folders}


def _names(folder: Path) -> Names:
    return {path.name: None if path.is_dir() else path.stat().st_ino for path in folder.iterdir()}
