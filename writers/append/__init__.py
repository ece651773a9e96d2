"""Append tables: writing of rows, compaction of small files, sorting of files, deletes and updates of rows."""
