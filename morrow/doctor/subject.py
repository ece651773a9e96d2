"""The table while it is examined: what several checks look at is read once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from morrow.doctor.report import Finding
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.roots import Line, Root, RootKind
from morrow.writers.buckets.restored import BucketState
from morrow.writers.files import Placement
from morrow.writers.operations.planned import bucket_states
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class Subject:
    """The table that is examined; with `data` its rows are read, too."""

    metadata: TableMetadata
    data: bool = False

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot when the examination began."""
        return self.metadata.latest_snapshot()

    @cached_property
    def target(self) -> WriteTarget:
        return WriteTarget.of(self.metadata)

    @cached_property
    def states(self) -> Mapping[Placement, BucketState]:
        """The files of all buckets in the newest snapshot."""
        return bucket_states(self.target, self.snapshot)

    @cached_property
    def branches(self) -> tuple[TableMetadata, ...]:
        """The branch of the table; all branches when it is main."""
        if self.metadata.branch != MAIN_BRANCH:
            return (self.metadata,)
        return (self.metadata, *map(self.metadata.at_branch, self.metadata.branch_names()))

    def place(self, place: Placement) -> str:
        """Returns ``dt=2024-05-14, bucket 3``."""
        target = self.target
        values = zip(target.schema.partition_keys, target.partition_values(place.partition))
        return ", ".join([*(f"{name}={value!s}" for name, value in values), f"bucket {place.bucket}"])

    def relative(self, path: str) -> str:
        """Returns the path within the table's folder; others whole."""
        root = f"{self.metadata.root}/"
        return path.removeprefix(root) if path.startswith(root) else self.metadata.store.url(path)


Check: TypeAlias = Callable[[Subject], Generator[Finding, None, str]]
"""Yields findings; returns what it has looked at, in a few words."""


def state_of(root: Root) -> str:
    """Returns ``snapshot 3``, ``tag v1``, ``changelog 2 of branch dev``."""
    branch = "" if root.metadata.branch == MAIN_BRANCH else f" of branch {root.metadata.branch}"
    return f"tag {root.name}{branch}" if root.kind == RootKind.TAG else f"{root.kind} {root.id}{branch}"


def is_there(root: Root) -> bool:
    """Returns whether a state still exists: the files of one that has gone meanwhile may be gone, too."""
    if root.kind == RootKind.SNAPSHOT:
        return root.id in root.metadata.living_snapshot_ids()
    if root.kind == RootKind.TAG:
        return root.name in root.metadata.tag_names()
    return root.id in Line.of(root.metadata).changelog_ids
