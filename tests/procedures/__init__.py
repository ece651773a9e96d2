"""Tests of `morrow.procedures`."""
