"""Merge engines as descriptions: which versions of a key count, in which order, by which function."""
