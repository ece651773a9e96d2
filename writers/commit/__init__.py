"""Atomic commits: the changes of writers become manifests and a snapshot, or nothing at all."""

from morrow.writers.commit.table_commit import TableCommit

__all__ = ["TableCommit"]
