"""Writes tables: rows become data files, data files become snapshots. See ARCHITECTURE.md, The way of a write."""
