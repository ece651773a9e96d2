"""Chooses the rewriter of a table by its options."""

from __future__ import annotations

from collections.abc import Callable

from morrow.engine.options.words import ChangelogProducer
from morrow.writers.files import Placement
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.keyed.lookup import FirstRowRewriter, FullCompactionRewriter, LookupRewriter, LookupStrategy
from morrow.writers.keyed.rewriter import Rewriter
from morrow.writers.target import WriteTarget

REWRITERS: tuple[tuple[Callable[[WriteTarget], bool], type[Rewriter]], ...] = (
    (lambda target: target.write.changelog_producer is ChangelogProducer.FULL_COMPACTION, FullCompactionRewriter),
    (lambda target: LookupStrategy.of(target).first_row, FirstRowRewriter),
    (lambda target: LookupStrategy.of(target).needed, LookupRewriter),
    (lambda _: True, Rewriter),
)
"""Conditions and rewriters: the first whose condition a table fulfils compacts its buckets."""


def rewriter_for(target: WriteTarget, place: Placement, vectors: DeletionMaintainer | None) -> Rewriter:
    """Returns the rewriter of the files of a bucket."""
    kind = next(kind for applies, kind in REWRITERS if applies(target))
    return kind(target, place, vectors)
