"""A local file store that records its calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from morrow.engine.io.local import LocalStore


@dataclass
class RecordingStore(LocalStore):
    """A store that lists the files whose bytes are read in `reads`, and the files that Polars scans in `scans`."""

    reads: list[str] = field(default_factory=list)
    scans: list[str] = field(default_factory=list)

    def read(self, path: str) -> bytes:
        self.reads.append(Path(path).name)
        return super().read(path)

    def open(self, path: str) -> BinaryIO:
        self.reads.append(Path(path).name)
        return super().open(path)

    def url(self, path: str) -> str:
        # Paths of tables and deletion vectors are also requested, as cache keys.
        if Path(path).name.startswith("data-"):
            self.scans.append(Path(path).name)
        return super().url(path)
