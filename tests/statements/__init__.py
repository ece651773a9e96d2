"""Tests of morrow.statements."""
