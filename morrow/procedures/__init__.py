"""Paimon's procedures: their names, arguments and results, and their implementations without Spark."""
