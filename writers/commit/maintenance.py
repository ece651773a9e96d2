"""What is done for a table around its commits."""

from __future__ import annotations

from typing import Protocol

from morrow.engine.format.snapshot import Snapshot


class Maintenance(Protocol):
    """Maintenance of a table around its commits, by its options; see `writers.history.expiry.automatic`."""

    def wants_snapshot(self) -> bool:
        """Returns whether a stream without changes should commit an empty snapshot all the same."""

    def before_commit(self, newest: Snapshot | None) -> None:
        """Takes a snapshot that was the newest a moment ago, if one is known."""

    def after_commit(self, snapshot: Snapshot) -> None:
        """Takes the last snapshot of a commit. It is durable by then: an error raised here does not undo it."""


class NoMaintenance:
    """Does nothing around commits: others maintain the table."""

    def wants_snapshot(self) -> bool:
        return False

    def before_commit(self, newest: Snapshot | None) -> None:
        pass

    def after_commit(self, snapshot: Snapshot) -> None:
        pass
