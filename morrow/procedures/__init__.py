"""Paimon's procedures: their names, arguments and results, and what they do without Spark."""
