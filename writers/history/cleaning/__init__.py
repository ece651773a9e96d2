"""Cleaning of a table's folder: removal of orphan files, repair of hints, and purging a table with its history."""
