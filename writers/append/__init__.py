"""Append tables: writing rows, compacting small files, sorting, and changing rows.

Public: `AppendWriter`, `compact_append`, `sort_compact`, `delete_where`, `update_where`, `RowChanges`. Modules are
imported by their own names, since writers of whole tables need few of them.
"""
