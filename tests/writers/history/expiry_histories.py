"""Tables with empty data files, for tests of the files that remain.

life = Life(tmp_path)
life.write("a", "b")                 # snapshot 1
life.compact("a", "b", into="c")     # snapshot 2
life.expire(retain_max=1)
life.files()                         # {"c"}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from morrow.engine.format.manifest_entries import EMPTY_ROW, DataFileMeta, FileSource
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.local import disable_fsync
from morrow.engine.io.store import FileStore
from morrow.engine.structs import replace
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.files.data_files import Placement, build_file_path
from morrow.writers.history.snapshot_expiry import expire_snapshots
from morrow.writers.history.tags import create_tag
from morrow.writers.target import WriteTarget
from tests.lifecycle.needed import balance
from tests.support.commits import data_file, live, table
from tests.support.commits import partition as partition_row

KEYS_OF_A_FILE = 10


@dataclass
class Life:
    """A table ``k INT, v INT`` with a primary key, or partitioned by ``p``, whose files are identified by name."""

    folder: Path
    options: Mapping[str, str] = field(default_factory=dict)
    partitioned: bool = False
    store: FileStore | None = None

    def __post_init__(self) -> None:
        self.metadata = table(
            self.folder, keyed=True, partitioned=self.partitioned, options=self.options, store=self.store
        )
        self.known: dict[str, tuple[Placement, DataFileMeta]] = {}

    @property
    def root(self) -> Path:
        return Path(self.metadata.root)

    def on_branch(self, branch: str) -> Life:
        """Return a life that commits the same files to a branch."""
        other = replace(self)
        other.metadata, other.known = self.metadata.on_branch(branch), self.known
        return other

    def write(self, *names: str, to: str | None = None, changelog: Sequence[str] = (), **members: Any) -> Snapshot:
        """Add files to the partition `to`."""
        place = Placement(EMPTY_ROW if to is None else partition_row(to), 0)
        files = [self._made(name, place, **members) for name in names]
        return self._commit(
            place, new_files=tuple(files), changelog_files=tuple(self._made(n, place) for n in changelog)
        )

    def compact(self, *names: str, into: str) -> Snapshot:
        """Replace files of one partition with a new file."""
        place = self.known[names[0]][0]
        before = tuple(self.known[name][1] for name in names)
        made = self._made(into, place, level=5, file_source=FileSource.COMPACT, like=before[0])
        return self._commit(place, compact_before=before, compact_after=(made,))

    def upgrade(self, name: str) -> Snapshot:
        """Move a file to level 5 without rewriting it."""
        place, file = self.known[name]
        lifted = msgspec.structs.replace(file, level=5)
        self.known[name] = place, lifted
        return self._commit(place, compact_before=(file,), compact_after=(lifted,))

    def remove(self, *names: str) -> Snapshot:
        place = self.known[names[0]][0]
        return self._commit(place, deleted_files=tuple(self.known[name][1] for name in names))

    def tag(self, name: str, snapshot: int | None = None) -> None:
        create_tag(self.metadata, name, snapshot)

    def expire(self, retain_max: int = 1, **arguments: Any) -> int:
        return expire_snapshots(self.metadata, **{"retain_max": retain_max, "max_deletes": 1000, **arguments})

    def files(self) -> set[str]:
        """List the names of the existing data and changelog files."""
        folders = [folder for pattern in ("bucket-*", "*=*") for folder in self.root.glob(pattern)]
        return {path.stem for folder in folders for path in folder.rglob("*") if path.is_file()}

    def names(self) -> list[str]:
        """List the names of the newest snapshot's data files."""
        return [name.removesuffix(".parquet") for name, _ in live(self.metadata)]

    def check(self) -> None:
        """Check that the needed files exist, and no others."""
        found = balance(self.root)
        assert (found.missing, found.unneeded) == (frozenset(), frozenset())

    def _made(
        self,
        name: str,
        place: Placement,
        *,
        like: DataFileMeta | None = None,
        extra: Sequence[str] = (),
        **members: Any,
    ) -> DataFileMeta:
        """Make an empty file whose keys are in no other file, or equal the keys of the file `like`."""
        low = len(self.known) * KEYS_OF_A_FILE
        high = low + KEYS_OF_A_FILE - 1
        numbers = {"min_sequence_number": low, "max_sequence_number": high}  # later files have larger numbers
        made = data_file(f"{name}.parquet", low, high, file_source=FileSource.APPEND, **numbers)
        if like is not None:
            made = msgspec.structs.replace(made, min_key=like.min_key, max_key=like.max_key)
        made = msgspec.structs.replace(made, extra_files=tuple(extra), **members)
        self.known[name] = place, made
        target = WriteTarget.of(self.metadata)
        for file in (made.file_name, *made.extra_files):
            path = Path(build_file_path(target, place, file))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return made

    def _commit(self, place: Placement, **files: Any) -> Snapshot:
        message = CommitMessage(partition=place.partition, bucket=0, total_buckets=1, **files)
        with disable_fsync():
            done = TableCommit(WriteTarget.of(self.metadata)).commit([message])
        assert done is not None
        return done
