"""Key lookups in the upper levels of a merge tree: deletion vectors, changelogs, first rows."""

from morrow.writers.lookup.keys import looked_up
from morrow.writers.lookup.rewriters import FirstRowRewriter, FullCompactionRewriter, LookupRewriter
from morrow.writers.lookup.strategy import LookupStrategy

__all__ = ["FirstRowRewriter", "FullCompactionRewriter", "LookupRewriter", "LookupStrategy", "looked_up"]
