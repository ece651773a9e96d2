"""Execution of plans: data files, masks and merges become rows for Arrow, Polars and DuckDB."""
