"""Append tables: write rows, compact small files, sort files, delete and update rows."""
