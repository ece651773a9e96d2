"""The attributes that all snapshots of one commit share, and the requests made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from morrow.engine.format.snapshot import COMPACT, Snapshot
from morrow.writers.commit.premise import Premise
from morrow.writers.commit.preparing import AnyChanges, SnapshotRequest


@dataclass(frozen=True)
class CommonAttributes:
    """The attributes that all snapshots of one commit share."""

    identifier: int
    watermark: int | None
    properties: Mapping[str, str]
    recognised: bool = False
    known: Snapshot | None = None
    premise: Premise | None = None

    def request(self, kind: str, changes: AnyChanges, *, check: bool) -> SnapshotRequest:
        """Returns the request for one of them. Only the first has the premise: the one after it is a compaction."""
        return SnapshotRequest(
            kind,
            self.identifier,
            changes,
            check,
            self.watermark,
            self.properties,
            self.recognised,
            self.known,
            None if kind == COMPACT else self.premise,
        )
