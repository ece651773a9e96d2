"""Deletion vectors as a merge tree needs them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from morrow.engine.format.data_file_meta import IndexFileMeta


class Vectors(Protocol):
    """The deletion vectors of a bucket while it is written: `morrow.writers.deletion_vectors.DeletionMaintainer`."""

    def dead_rows(self, file_name: str) -> npt.NDArray[np.integer] | None:
        """The dead positions of a data file, marks of this write included; None when all rows live."""
        ...

    def remove(self, file_name: str) -> None:
        """Forget the vector of a file that is compacted away."""
        ...

    def write(self) -> tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]:
        """Write what changed since the last call: new index files, and those they replace."""
        ...
