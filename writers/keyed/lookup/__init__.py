"""Key lookups in the upper levels of a merge tree: deletion vectors, changelogs, first rows."""

from morrow.writers.keyed.lookup.keys import looked_up
from morrow.writers.keyed.lookup.rewriters import rewriter_for
from morrow.writers.keyed.lookup.strategy import LookupStrategy

__all__ = ["LookupStrategy", "looked_up", "rewriter_for"]
