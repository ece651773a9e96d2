"""Executes a ScanPlan: file formats, position masks, merges; results as Arrow, Polars, DuckDB."""
