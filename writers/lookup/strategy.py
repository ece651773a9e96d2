"""When writers look keys up, and what for."""

from __future__ import annotations

from dataclasses import dataclass

from morrow.engine.options.writing import ChangelogProducer
from morrow.writers.target import WriteTarget

FIRST_ROW = "first-row"


@dataclass(frozen=True)
class LookupStrategy:
    """Why the keys of level 0 are looked up in the levels above when compaction takes them there.

    `first_row`: a key that is there already is dropped. `changelog`: what the key was before goes into changelog
    files. `vectors`: its position is marked as dead. `forced`: the option ``force-lookup``.
    """

    first_row: bool = False
    changelog: bool = False
    vectors: bool = False
    forced: bool = False

    @classmethod
    def of(cls, target: WriteTarget) -> LookupStrategy:
        """The strategy of a keyed table; of an append table nothing is needed."""
        if not target.keyed:
            return cls()
        return cls(
            first_row=target.options.merge_engine == FIRST_ROW,
            changelog=target.write.changelog_producer is ChangelogProducer.LOOKUP,
            vectors=target.write.deletion_vectors,
            forced=target.write.force_lookup,
        )

    @property
    def needed(self) -> bool:
        """Whether level 0 is compacted by lookup at every write."""
        return self.first_row or self.changelog or self.vectors or self.forced

    def reads_values(self, target: WriteTarget) -> bool:
        """Whether the rows that are found matter, not only where they are."""
        assert target.merge is not None
        if self.first_row:
            return False
        return not self.vectors or self.changelog or target.merge.folds or bool(target.merge.sequence)
