"""The branches of a table: ``t.branches.create("dev", tag="v1")``, ``t.on_branch("dev").append(...)``."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.telling import one_line


class Branches:
    """The branches of a table: lines of snapshots beside main that share its files.

    A branch is read and written through `Table.on_branch`. This object is also a collection of names:
    ``"dev" in t.branches``, ``for name in t.branches``.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata

    def list(self) -> builtins.list[str]:
        """Returns the names of all branches except main, sorted."""
        return self._metadata.branch_names()

    def create(
        self,
        name: str,
        *,
        tag: str | None = None,
        snapshot: int | Snapshot | None = None,
        ignore_if_exists: bool = False,
    ) -> None:
        """Creates a branch of this table's branch. Copies no data.

        Args:
            tag: the branch begins with the state of this tag, and has the tag too.
            snapshot: the branch begins with this snapshot: an id, or one of `Table.snapshots`. Without tag and
                snapshot it has the newest schema and no rows.
            ignore_if_exists: do nothing when the branch exists.

        Raises:
            InvalidArgument: an invalid branch name (``main``, blank, only digits), or both a tag and a snapshot.
            AlreadyExists: the branch exists.
            TagNotFound, SnapshotNotFound, SnapshotExpired: the starting point does not exist; no branch was made.
        """
        from morrow.writers.history.branches.creation import create_branch

        create_branch(self._metadata, name, tag=tag, snapshot=snapshot, ignore_if_exists=ignore_if_exists)

    def delete(self, name: str) -> None:
        """Deletes a branch, and the files that neither main nor another branch or tag needs.

        Raises:
            BranchNotFound: no such branch.
            InvalidArgument: the main branch, or one that an option of the table names (``scan.fallback-branch``).
        """
        from morrow.writers.history.branches.changing import delete_branch

        delete_branch(self._metadata, name)

    def rename(self, name: str, new_name: str) -> None:
        """Renames a branch.

        Raises:
            BranchNotFound: no such branch. AlreadyExists: a branch has the new name.
            InvalidArgument: the main branch, one that an option of the table names, or an invalid branch name.
        """
        from morrow.writers.history.branches.changing import rename_branch

        rename_branch(self._metadata, name, new_name)

    def fast_forward(self, name: str) -> None:
        """Fast-forwards this table's branch (usually main) to the branch `name`, which stays as well.

        From the first snapshot of `name` on, its snapshots, tags and schemas replace those of this branch, and so what
        was committed here since `name` was created. Files that nothing needs any more are removed.

        Raises:
            BranchNotFound: no such branch.
            InvalidArgument: the branch has no snapshot, is the main branch, or is this table's branch.
        """
        from morrow.writers.history.branches.fast_forward import fast_forward

        fast_forward(self._metadata, name)

    def merge(self, name: str) -> Snapshot | None:
        """Merges the branch `name` into this table's branch: its rows are appended here, in one commit; it stays.

        For tables without a primary key, if rows were only ever appended to both branches, none of whose snapshots
        has expired. Data files are shared, not copied; those that are here already are not appended again.

        Returns: the snapshot, None when this branch has all the files.

        Raises:
            BranchNotFound: no such branch. SnapshotNotFound: one of the branches has no snapshot.
            InvalidArgument: this very branch, other columns, or more than appended rows.
            Unsupported: a table with a primary key, or with data evolution.
            CommitConflict: others were faster each time.
        """
        from morrow.writers.operations.branch_merging import merge_branch

        return merge_branch(self._metadata, name)

    def __call__(self) -> builtins.list[str]:
        return self.list()

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    def __contains__(self, name: object) -> bool:
        return name in self.list()

    def __len__(self) -> int:
        return len(self.list())

    def _repr_html_(self) -> str:
        from morrow.html.tables import table

        rows = []
        for name in self.list():
            newest = self._metadata.at_branch(name).latest_snapshot()
            moment = "" if newest is None else f"{newest.time:%Y-%m-%d %H:%M:%S}"
            rows.append((name, "" if newest is None else newest.id, moment))
        return table(("branch", "newest snapshot", "time (UTC)"), rows, numbers=("newest snapshot",))

    def __repr__(self) -> str:
        return "\n".join(map(one_line, self.list())) or "no branches"
