"""Checks of data files against their metadata, row by row, as `Scan.verify` runs them.

| module | holds |
|---|---|
| `report` | the problems found, by file |
| `files` | one file, read whole and once: its checks, one after another |
| `contents` | aggregates of a file's columns while it is read: nulls, bounds, order of keys |
| `bounds` | checks of statistics against the values, with Java's adjustments |
| `indexes` | checks that a file index leaves out no matching rows |
| `retyped` | columns whose type is another one now: values that it does not read, or does not keep |
"""
