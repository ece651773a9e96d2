"""Writers: rows become data files, and data files become snapshots. See ARCHITECTURE.md."""
