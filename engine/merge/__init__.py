"""Merge engines as descriptions: which versions of a key count, their order, and the functions that combine them."""
