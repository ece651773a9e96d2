"""A local file store that writes down what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from morrow.engine.io.local import LocalStore


@dataclass
class RecordingStore(LocalStore):
    """`reads` are the names of the files whose bytes were read; `scans` those that Polars was sent to, each in turn."""

    reads: list[str] = field(default_factory=list)
    scans: list[str] = field(default_factory=list)

    def read(self, path: str) -> bytes:
        self.reads.append(Path(path).name)
        return super().read(path)

    def open(self, path: str) -> BinaryIO:
        self.reads.append(Path(path).name)
        return super().open(path)

    def url(self, path: str) -> str:
        # The paths of tables and deletion vectors are asked for as well, as names of what is cached.
        if Path(path).name.startswith("data-"):
            self.scans.append(Path(path).name)
        return super().url(path)
