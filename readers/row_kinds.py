"""Row kinds as ``_VALUE_KIND`` stores them: +I 0, -U 1, +U 2, -D 3."""

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)

RETRACT_BIT = 1
"""Retractions (-U, -D) are the odd kinds."""
