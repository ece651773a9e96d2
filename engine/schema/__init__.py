"""Schemas made and changed: columns from Arrow or SQL, the rules of creation, and changes as values."""
