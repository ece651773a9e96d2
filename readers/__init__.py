"""Execution of a ScanPlan: file formats, position masks and merges, with results as Arrow, Polars or DuckDB."""
