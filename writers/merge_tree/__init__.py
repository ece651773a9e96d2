"""Keyed tables as merge trees: a sorted buffer, levels of sorted runs, and compactions that merge them."""
