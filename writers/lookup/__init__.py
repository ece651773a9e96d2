"""Keys looked up in the upper levels of a merge tree: deletion vectors, changelogs, first rows.

Public: `rewriter_for`, `LookupStrategy`, `looked_up`.
"""

from morrow.writers.lookup.keys import looked_up
from morrow.writers.lookup.rewriters import rewriter_for
from morrow.writers.lookup.strategy import LookupStrategy

__all__ = ["LookupStrategy", "looked_up", "rewriter_for"]
