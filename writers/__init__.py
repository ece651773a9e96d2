"""Writes tables (arrives with the writing milestone)."""
