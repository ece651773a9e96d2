"""The purposes for which writers look keys up."""

from __future__ import annotations

from dataclasses import dataclass

from morrow.engine.merge.spec import Rule
from morrow.engine.options.words import ChangelogProducer
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class LookupStrategy:
    """The reasons to look up the keys of level 0 in the levels above when compaction lifts them there.

    `first_row`: a key found above is dropped. `changelog`: the old row goes into changelog files. `vectors`: its
    position is marked as dead. `forced`: the option ``force-lookup``.
    """

    first_row: bool = False
    changelog: bool = False
    vectors: bool = False
    forced: bool = False

    @classmethod
    def of(cls, target: WriteTarget) -> LookupStrategy:
        """Returns the strategy of a keyed table; append tables need no lookups."""
        if target.merge is None:
            return cls()
        return cls(
            first_row=target.merge.rule is Rule.FIRST,
            changelog=target.write.changelog_producer is ChangelogProducer.LOOKUP,
            vectors=target.write.deletion_vectors,
            forced=target.write.force_lookup,
        )

    @property
    def needed(self) -> bool:
        """Whether level 0 is compacted by lookup at every write."""
        return self.first_row or self.changelog or self.vectors or self.forced

    def reads_values(self, target: WriteTarget) -> bool:
        """Returns whether the values of the rows found are needed, not only their positions."""
        assert target.merge is not None
        if self.first_row:
            return False
        return not self.vectors or self.changelog or target.merge.folds or bool(target.merge.sequence)
