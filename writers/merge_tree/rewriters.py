"""Finds the rewriter of a table by its options."""

from __future__ import annotations

from morrow.engine.errors import Unsupported
from morrow.engine.options.parsing import flag
from morrow.engine.options.writing import ChangelogProducer
from morrow.writers.deletion_vectors import DeletionMaintainer
from morrow.writers.files import Placement
from morrow.writers.merge_tree.rewriter import Rewriter
from morrow.writers.target import WriteTarget


def looks_up(target: WriteTarget) -> bool:
    """Whether keys that leave level 0 are looked up in the levels above, so that level 0 has to be emptied."""
    write = target.write
    return (
        write.deletion_vectors
        or write.changelog_producer is ChangelogProducer.LOOKUP
        or target.options.merge_engine == "first-row"
        or flag(write.raw, "force-lookup", False, target.where)
    )


def rewriter_for(target: WriteTarget, place: Placement, vectors: DeletionMaintainer | None) -> Rewriter:
    """The rewriter that a table's changelog producer and lookups ask for.

    Raises:
        Unsupported: options that Morrow does not know.
    """
    if flag(target.write.raw, "pk-clustering-override", False, target.where):
        raise Unsupported("the option 'pk-clustering-override'", where=target.where)
    if target.write.changelog_producer is ChangelogProducer.FULL_COMPACTION or looks_up(target):
        raise Unsupported("lookups and changelogs of compactions", where=target.where)
    return Rewriter(target, place, vectors)
