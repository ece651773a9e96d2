"""Metadata, merge descriptions, plans and the catalog of tables, without queries over data."""
