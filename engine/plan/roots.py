"""The roots of a table: files that reference others and so keep them alive.

A root is a snapshot, a tag or a changelog, of main or of a branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.snapshot import Snapshot, Tag
from morrow.engine.plan.changelogs import each_changelog, living_changelog_ids
from morrow.engine.plan.metadata import TableMetadata


class RootKind(StrEnum):
    """The kinds of roots: the folders they lie in, and the prefixes of their names."""

    SNAPSHOT = "snapshot"
    TAG = "tag"
    CHANGELOG = "changelog"


@dataclass(frozen=True)
class Root:
    """A snapshot, a tag (with its `name`) or a changelog of the branch of `metadata`.

    `with_data`: of a changelog, whether it has been left the files that its snapshot was made of.
    """

    metadata: TableMetadata
    kind: RootKind | str
    snapshot: Snapshot
    name: str = ""
    with_data: bool = True

    @property
    def id(self) -> int:
        return self.snapshot.id

    @property
    def keeps_data(self) -> bool:
        """Whether base and delta list are needed: not by a changelog that has files of its own."""
        return self.kind != RootKind.CHANGELOG or (self.with_data and self.snapshot.changelog_manifest_list is None)

    def is_same_state(self, other: Snapshot) -> bool:
        """Returns whether these are one state, and not two that merely share an id."""
        return (self.id, self.snapshot.delta_manifest_list) == (other.id, other.delta_manifest_list)


@dataclass(frozen=True)
class Line:
    """The roots of one branch by the id of their snapshot: of snapshots and changelogs only the ids are known."""

    metadata: TableMetadata
    snapshot_ids: tuple[int, ...]
    tags: tuple[Tag, ...]
    changelog_ids: tuple[int, ...]

    @classmethod
    def of(cls, metadata: TableMetadata) -> Line:
        """Lists the roots of a branch now. A listed snapshot that is removed before it is read may have got a tag."""
        ids = tuple(metadata.living_snapshot_ids())
        return cls(metadata, ids, tuple(metadata.tags()), tuple(living_changelog_ids(metadata)))

    def snapshots(self, ids: Iterable[int]) -> Iterator[Root]:
        """Yields the snapshots that still exist."""
        for found in self.metadata.each_snapshot([*ids]):
            if found is not None:
                yield Root(self.metadata, RootKind.SNAPSHOT, found)

    def tag_roots(self) -> Iterator[Root]:
        return (Root(self.metadata, RootKind.TAG, tag.snapshot, tag.name) for tag in self.tags)

    def changelogs(self, ids: Iterable[int]) -> Iterator[Root]:
        """Yields the changelogs that still exist."""
        for found in each_changelog(self.metadata, [*ids]):
            if found is not None:
                with_data = found.changelog_manifest_list is None and self._has_delta(found)
                yield Root(self.metadata, RootKind.CHANGELOG, found, with_data=with_data)

    def _has_delta(self, changelog: Snapshot) -> bool:
        """Returns False for the changes of a compaction, in a table that writes changelog files: nobody reads them."""
        return self.metadata.store.exists(self.metadata.paths.manifest(changelog.delta_manifest_list))

    def roots(self) -> Iterator[Root]:
        """Yields all roots."""
        yield from self.tag_roots()
        yield from self.snapshots(self.snapshot_ids)
        yield from self.changelogs(self.changelog_ids)


def lines(metadata: TableMetadata) -> list[Line]:
    """Returns the lines of main and all branches of a table, whatever the branch of `metadata`."""
    main = metadata.at_branch(MAIN_BRANCH)
    branches = (main.at_branch(name) for name in main.branch_names())
    return [Line.of(main), *map(Line.of, branches)]
