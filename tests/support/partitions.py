"""Partitions of `TableFactory`: folder names, rows and statistics in manifests."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from morrow.engine.format import types as t
from tests.support.binary_row import binary_rows
from tests.support.file_stats import stats_record

DEFAULT_PARTITION = "__DEFAULT_PARTITION__"
ESCAPED = {chr(c) for c in range(32)} | set("\"#%'*/:=?\\\x7f{}[]^")
"""Characters of a partition value that appear as %XX in its folder's name."""
EPOCH_DAY = dt.date(1970, 1, 1).toordinal()

Partition = tuple[Any, ...]


@dataclass(frozen=True)
class Partitions:
    """The partition columns of a table. A partition is the tuple of their Python values."""

    fields: tuple[t.DataField, ...]
    default_name: str = DEFAULT_PARTITION

    def of(self, values: Mapping[str, Any] | None) -> Partition:
        return tuple((values or {})[f.name] for f in self.fields)

    def folder(self, partition: Partition) -> str:
        """Return a folder such as ``dt=19723/region=eu``, or an empty text for a table without partitions."""
        return "/".join(f"{escaped(f.name)}={self._text(v)}" for f, v in zip(self.fields, partition, strict=True))

    def rows(self, partitions: Sequence[Partition]) -> list[bytes]:
        """Encode each partition as a BinaryRow."""
        kinds = [f.type for f in self.fields]
        columns = [pa.array([p[i] for p in partitions], kind.arrow()) for i, kind in enumerate(kinds)]
        return binary_rows(columns, kinds, len(partitions))

    def stats(self, partitions: Sequence[Partition]) -> dict[str, Any]:
        """Compute the ``_PARTITION_STATS`` of a manifest with entries of these partitions."""
        columns = [[p[i] for p in partitions] for i in range(len(self.fields))]
        bounds = [tuple(pick((v for v in c if v is not None), default=None) for c in columns) for pick in (min, max)]
        low, high = self.rows(bounds)
        return stats_record(low, high, [column.count(None) for column in columns])

    def _text(self, value: Any) -> str:
        if value is None or value == "":
            return self.default_name
        if isinstance(value, dt.date):
            value = value.toordinal() - EPOCH_DAY  # the legacy name, still the default: days since 1970
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return escaped(text)


def escaped(text: str) -> str:
    """Escape a name or a value for a folder's name."""
    return "".join(f"%{ord(c):02X}" if c in ESCAPED else c for c in text)
