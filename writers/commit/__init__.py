"""Commits: changes of writers become manifests and snapshots, or nothing at all."""

from morrow.writers.commit.table_commit import TableCommit

__all__ = ["TableCommit"]
