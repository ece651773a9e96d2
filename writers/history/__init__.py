"""History of a table: tags, branches, rollback, expiry, and removal of orphan files."""
