"""Morrow reads and writes Apache Paimon tables as vectorised Arrow, Polars and DuckDB queries."""
