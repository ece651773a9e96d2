"""The merge trees of keyed tables: a sorted buffer, levels of sorted runs, and compactions that merge them."""
