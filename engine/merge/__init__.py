"""Merge engines as descriptions: the versions of a key that count, their order, and the functions that combine them."""
