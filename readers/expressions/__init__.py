"""Predicates and residuals in the language of each engine: Polars, Arrow, DuckDB's SQL."""
