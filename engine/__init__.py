"""Knows the table and runs no query over data: metadata, merge descriptions, plans, the catalog."""
