"""Converts incoming data to checked Polars frames in the types of the table."""

from morrow.writers.rows.incoming import NULL, Missing, incoming
from morrow.writers.rows.kinds import Kinds

__all__ = ["NULL", "Kinds", "Missing", "incoming"]
