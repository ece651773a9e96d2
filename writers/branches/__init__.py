"""Branches of a table: made, removed, renamed, and made what main is."""
