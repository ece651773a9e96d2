"""Key lookups in the upper levels of a merge tree: deletion vectors, changelogs, first rows."""

from morrow.writers.keyed.lookup.keys import looked_up
from morrow.writers.keyed.lookup.rewriters import FirstRowRewriter, FullCompactionRewriter, LookupRewriter
from morrow.writers.keyed.lookup.strategy import LookupStrategy

__all__ = ["FirstRowRewriter", "FullCompactionRewriter", "LookupRewriter", "LookupStrategy", "looked_up"]
