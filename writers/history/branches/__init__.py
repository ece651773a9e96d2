"""Branches of a table: creation, removal, renames and fast-forward."""
