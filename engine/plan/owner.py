"""The catalog's authority over a table, beyond the files in the table's folder.

Readers find schemas, snapshots, tags and branches in the table's folder, with any catalog. A catalog that commits (a
REST server, for example) writes them there itself, and determines which snapshot is the newest.
"""

# ruff: noqa: ARG002  # catalogs override the methods, and need their arguments

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Flag, auto
from typing import TYPE_CHECKING

from morrow.engine.errors import Unsupported

if TYPE_CHECKING:
    from morrow.engine.format.schema import TableSchema
    from morrow.engine.format.snapshot import Snapshot


class Owned(Flag):
    """The parts of a table that only its catalog writes."""

    NOTHING = 0
    SCHEMAS = auto()
    SNAPSHOTS = auto()
    TAGS = auto()
    BRANCHES = auto()


class TableOwner:
    """The catalog's side of one table: override the methods of what it owns, and `lock` if its commits need a lock.

    Methods "for" a member of `Owned` are only called if `owns` has it. Files that a method writes are in
    the table's folder when it returns, under the names that Paimon gives them. Owners are shared with the table's
    metadata: several threads call them.
    """

    owns: Owned = Owned.NOTHING
    is_external: bool = False
    """Whether the table's folder is not the catalog's: dropping the table leaves its files."""

    def lock(self, branch: str) -> AbstractContextManager[object]:
        """Hold the table against commits of others if files cannot be created atomically."""
        del branch
        return nullcontext()

    def latest_snapshot(self, branch: str) -> Snapshot | None:
        """Return the newest snapshot of a branch, None if nothing was committed. For `Owned.SNAPSHOTS`."""
        raise self._make_refusal("the newest snapshot")

    def commit_snapshot(self, branch: str, base: Snapshot | None, snapshot: Snapshot) -> bool:
        """Make `snapshot` the newest of the branch if `base` currently is; otherwise return False.

        A repeated call with a committed snapshot returns True. For `Owned.SNAPSHOTS`.

        Raises `UnclearOutcome`: the snapshot may have been committed. `StorageError`: it was not.
        """
        raise self._make_refusal("a commit")

    def snapshot_committed(self, branch: str, snapshot: Snapshot) -> None:
        """Handle a new snapshot of a branch, for catalogs that keep a list of partitions. Raises nothing."""

    def add_partitions(self, partitions: Sequence[Mapping[str, str]]) -> None:
        """Add partitions, by the values in their folder names, to the catalog's list."""
        raise self._has_no_partitions()

    def report_done(self, partitions: Sequence[Mapping[str, str]]) -> None:
        """Tell the catalog that partitions are done."""
        raise self._has_no_partitions()

    def roll_back(self, branch: str, goal: Snapshot) -> None:
        """Make an older snapshot the newest and remove the snapshots after it. For `Owned.SNAPSHOTS`."""
        raise self._make_refusal("a rollback")

    def commit_schema(self, branch: str, schema: TableSchema, changes: Sequence[object]) -> bool:
        """Make `schema` the newest of the branch if its id follows the newest; otherwise return False.

        `changes` are the `SchemaChange`s that lead to it from the previous schema. For `Owned.SCHEMAS`.
        """
        raise self._make_refusal("a change of the schema")

    def schema_changed(self, branch: str, schema: TableSchema) -> None:
        """Handle a new schema file of a branch, for catalogs that keep a copy of the options."""

    def create_tag(self, branch: str, name: str, data: bytes) -> bool:
        """Create a tag with this JSON; return False if the name exists. For `Owned.TAGS`."""
        raise self._make_refusal("the creation of a tag")

    def delete_tag(self, branch: str, name: str) -> bool:
        """Delete a tag; return False if it does not exist. For `Owned.TAGS`."""
        raise self._make_refusal("the deletion of a tag")

    def create_branch(self, branch: str, name: str, *, tag: str | None, snapshot: Snapshot | None) -> bool:
        """Create a branch of `branch`, empty or from a tag or snapshot; return False if the name exists.

        For `Owned.BRANCHES`.
        """
        raise self._make_refusal("the creation of a branch")

    def delete_branch(self, name: str) -> None:
        """Remove a branch. For `Owned.BRANCHES`."""
        raise self._make_refusal("the removal of a branch")

    def rename_branch(self, name: str, new_name: str) -> None:
        """Rename a branch. For `Owned.BRANCHES`."""
        raise self._make_refusal("a rename of a branch")

    def fast_forward(self, branch: str, name: str) -> None:
        """Replace the contents of `branch` with the contents of the branch `name`. For `Owned.BRANCHES`."""
        raise self._make_refusal("a fast-forward")

    def _has_no_partitions(self) -> Unsupported:
        return Unsupported(
            "marking a partition as done in a catalog that keeps no partitions",
            hint="set 'partition.mark-done-action' = 'success-file'",
        )

    def _make_refusal(self, what: str) -> Unsupported:
        return Unsupported(f"{what} in the catalog {type(self).__name__}", hint="the catalog commits by itself")

    def refuse(self, owned: Owned, what: str) -> None:
        """Raise `Unsupported` for a change of files that belong to the catalog."""
        if owned & self.owns:
            raise self._make_refusal(what)


FILES = TableOwner()
"""The default owner, which owns nothing: the table's files decide."""
