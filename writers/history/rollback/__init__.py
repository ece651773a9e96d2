"""Rollback: removal of later snapshots and tags at once, and of the files that only they need after them."""
