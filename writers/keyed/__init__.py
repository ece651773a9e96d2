"""Keyed tables: a sort buffer, levels of sorted runs, and compactions that merge the runs."""
