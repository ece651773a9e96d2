"""The branches of a table: ``t.branches.create("dev", tag="v1")``, ``t.on_branch("dev").append(...)``."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata


class Branches:
    """Lines of snapshots beside main, which share its files. A branch is read and written through `Table.on_branch`.

    It is also a collection of names: ``"dev" in t.branches``, ``for name in t.branches``.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata

    def list(self) -> builtins.list[str]:
        """Names of all branches except main, sorted."""
        return self._metadata.branch_names()

    def create(
        self,
        name: str,
        *,
        tag: str | None = None,
        snapshot: int | Snapshot | None = None,
        ignore_if_exists: bool = False,
    ) -> None:
        """Make a branch of the one that this table is on. It copies no data.

        Args:
            tag: the branch begins with the state of this tag, and has the tag too.
            snapshot: the branch begins with this snapshot: an id, or one of `Table.snapshots`. Neither: it has the
                newest schema and no rows.
            ignore_if_exists: do nothing when there is a branch of this name.

        Raises:
            InvalidArgument: no name for a branch (``main``, blank, only digits), or both a tag and a snapshot.
            AlreadyExists: there is a branch of this name.
            TagNotFound, SnapshotNotFound, SnapshotExpired: there is nothing to begin with; no branch was made.
        """
        from morrow.writers.branches.creation import create_branch

        create_branch(self._metadata, name, tag=tag, snapshot=snapshot, ignore_if_exists=ignore_if_exists)

    def delete(self, name: str) -> None:
        """Remove a branch, with the files that neither main nor another branch or tag needs.

        Raises:
            BranchNotFound: there is none of this name.
            InvalidArgument: the main branch, or one that an option of the table names (``scan.fallback-branch``).
        """
        from morrow.writers.branches.changing import delete_branch

        delete_branch(self._metadata, name)

    def rename(self, name: str, new_name: str) -> None:
        """Give a branch another name.

        Raises:
            BranchNotFound: there is none of this name. AlreadyExists: there is one of the new name.
            InvalidArgument: the main branch, one that an option of the table names, or no name for a branch.
        """
        from morrow.writers.branches.changing import rename_branch

        rename_branch(self._metadata, name, new_name)

    def fast_forward(self, name: str) -> None:
        """Make the branch that this table is on (main, as a rule) what the branch `name` is; that stays as well.

        What was committed since the branch was made is replaced: from the first snapshot of the branch on, its
        snapshots, tags and schemas take the place of one's own. Files that nothing needs any more are removed.

        Raises:
            BranchNotFound: there is none of this name.
            InvalidArgument: the branch has no snapshot, is the main branch, or the one that this table is on.
        """
        from morrow.writers.branches.fast_forward import fast_forward

        fast_forward(self._metadata, name)

    def __call__(self) -> builtins.list[str]:
        return self.list()

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    def __contains__(self, name: object) -> bool:
        return name in self.list()

    def __len__(self) -> int:
        return len(self.list())

    def __repr__(self) -> str:
        return "\n".join(self.list()) or "no branches"
