"""Merged rows of the keys of a section, and the cache of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from morrow.engine.io.cache import ByteCache
from morrow.engine.names import FINGERPRINT
from morrow.readers.masks.file_keys import Fingerprints, is_among


@dataclass(frozen=True)
class Merged:
    """Merged rows and the fingerprints of their keys."""

    rows: pl.DataFrame
    fingerprints: Fingerprints
    since: int = 0
    """Keys that have changed since rows like these were put into the cache folder."""

    @property
    def size(self) -> int:
        """Memory in bytes."""
        return int(self.rows.estimated_size()) + self.fingerprints.nbytes

    def changed(self, wanted: Fingerprints, new: Sequence[Merged]) -> Merged:
        """Returns these rows without those of the fingerprints `wanted`, and the new ones."""
        left = ~is_among(self.fingerprints, wanted)
        found = [Merged(self.rows.filter(pl.Series(left)), self.fingerprints[left]), *new]
        return Merged(
            pl.concat([each.rows for each in found]),
            np.concatenate([each.fingerprints for each in found]),
            self.since + len(wanted),
        )

    @property
    def framed(self) -> pl.DataFrame:
        """The rows with their fingerprints beside."""
        return self.rows.with_columns(pl.Series(FINGERPRINT, self.fingerprints))

    @classmethod
    def of_frame(cls, frame: pl.DataFrame, schema: pl.Schema) -> Merged | None:
        """Returns what was `framed`; None where it has other columns than `schema`."""
        if FINGERPRINT not in frame.columns or frame.drop(FINGERPRINT).schema != schema:
            return None
        return cls(frame.drop(FINGERPRINT), frame[FINGERPRINT].to_numpy())


MERGED_CACHE: ByteCache[Merged] = ByteCache(256 << 20)
"""Merged rows by the file set of a section, of those read recently; `capacity` may be set, in bytes."""
