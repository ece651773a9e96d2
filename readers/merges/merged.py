"""Merged rows of the keys of a section, and the cache of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from morrow.engine.io.cache import ByteCache
from morrow.readers.masks.file_keys import Fingerprints, is_among


@dataclass(frozen=True)
class Merged:
    """Merged rows and the fingerprints of their keys."""

    rows: pl.DataFrame
    fingerprints: Fingerprints

    @property
    def size(self) -> int:
        """Memory in bytes."""
        return int(self.rows.estimated_size()) + self.fingerprints.nbytes

    def changed(self, wanted: Fingerprints, new: Sequence[Merged]) -> Merged:
        """Returns these rows without those of the fingerprints `wanted`, and the new ones."""
        left = ~is_among(self.fingerprints, wanted)
        found = [Merged(self.rows.filter(pl.Series(left)), self.fingerprints[left]), *new]
        return Merged(pl.concat([each.rows for each in found]), np.concatenate([each.fingerprints for each in found]))


MERGED_CACHE: ByteCache[Merged] = ByteCache(256 << 20)
"""Merged rows by the file set of a section, of those read recently; `capacity` may be set, in bytes."""
