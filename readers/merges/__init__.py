"""Merges that combine versions of a key: partial-update and aggregation.

Only keys with more than one version are merged. Their rows are ordered by key and age and arranged in rounds
(`versions`), and folded by one expression per column and round (`engines`, with the functions of `functions`).
`sections` reads the inputs for a section of a plan, in bounded memory.
"""

from __future__ import annotations
