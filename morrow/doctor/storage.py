"""Checks of what is stored: snapshots, tags and branches with all files that they name, hints, orphans."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice, pairwise
from posixpath import dirname

import polars as pl

from morrow.doctor.report import Finding, Severity
from morrow.doctor.subject import Subject, is_there, state_of
from morrow.engine.errors import FileMissing, MorrowError, StorageError
from morrow.engine.format.paths import EARLIEST
from morrow.engine.io.ahead import READERS
from morrow.engine.names import cols
from morrow.engine.plan.changelogs import living_changelog_ids
from morrow.engine.plan.data_files import file_paths
from morrow.engine.plan.deletions import index_paths
from morrow.engine.plan.manifests import index_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.plan.references import KEY, changelog_names, extra_files
from morrow.engine.plan.roots import Line, Root, RootKind
from morrow.engine.plan.state_walk import StateWalk, read_ahead
from morrow.engine.telling import one_line
from morrow.engine.units import MILLIS_PER_SECOND
from morrow.engine.wording import plural, size_text
from morrow.writers.history.cleaning.orphans import remove_orphan_files
from morrow.writers.history.cleaning.repair import wrong_hints

PATH, SIZE, STATE = "path", "size", "state"
LONG_EXPIRY_SECONDS = 3_600
"""An expiry that began longer ago was interrupted; or the hint is wrong."""
STATES_AT_ONCE = 256
RESTORE = "restore it from a backup"


def schemas(subject: Subject) -> Generator[Finding, None, str]:
    """Every schema of every branch can be read."""
    count = 0
    for branch in subject.branches:
        for schema_id in branch.schema_ids():
            count += 1
            try:
                branch.schema(schema_id)
            except StorageError:
                raise
            except MorrowError as error:
                where = subject.relative(branch.paths.schema(schema_id))
                yield Finding(Severity.ERROR, "schemas", where, str(error), f"{RESTORE}: files of it cannot be read")
    return plural(count, "version") + " read"


def files(subject: Subject) -> Generator[Finding, None, str]:
    """Every file that a snapshot, tag or changelog names is there, with the size that metadata say."""
    wanted = pl.DataFrame(schema={PATH: pl.String, SIZE: pl.Int64, STATE: pl.String})
    seen = _Seen()
    states = 0
    by_name: dict[str, Root] = {}
    for branch in subject.branches:
        yield from _gaps(subject, branch)
        for root in _ahead(branch, _roots(branch)):
            if isinstance(root, Finding):
                yield root
                continue
            states += 1
            by_name[state_of(root)] = root
            try:
                parts = [part.with_columns(pl.lit(state_of(root)).alias(STATE)) for part in _named_by(root, seen)]
            except StorageError:
                raise
            except MorrowError as error:
                if is_there(root):
                    yield _unreadable(subject, root, error)
                continue
            wanted = pl.concat([wanted, *parts])
    wanted = wanted.unique(PATH, keep="first", maintain_order=True)
    found = _listed(subject, wanted[PATH].to_list())
    yield from _wrong(subject, wanted, found, by_name)
    size = size_text(sum(size for size in found.values() if size is not None))
    return f"{plural(wanted.height, 'data and index file')} of {plural(states, 'state')}, {size}"


def _gaps(subject: Subject, branch: TableMetadata) -> Iterator[Finding]:
    if Owned.SNAPSHOTS in branch.owner.owns:
        return
    for before, after in pairwise(branch.living_snapshot_ids()):
        if after != before + 1 and before in branch.living_snapshot_ids():
            where = subject.relative(branch.paths.snapshot(before + 1))
            what = f"no file, though the snapshots {before} and {after} are there"
            yield Finding(Severity.ERROR, "files", where, what, f"{RESTORE}, or expire the snapshots before {after}")


def _roots(branch: TableMetadata) -> Iterator[Root | Finding]:
    """Yields the states of a branch, the newest snapshot first; a finding for each that cannot be read."""
    for snapshot_id in reversed(branch.living_snapshot_ids()):
        try:
            found = branch.snapshot_or_none(snapshot_id)
        except StorageError:
            raise
        except MorrowError as error:
            yield Finding(Severity.ERROR, "files", f"snapshot {snapshot_id}", str(error), RESTORE)
            continue
        if found is not None:
            yield Root(branch, RootKind.SNAPSHOT, found)
    for name in branch.tag_names():
        try:
            yield Root(branch, RootKind.TAG, branch.tag(name).snapshot, name)
        except FileMissing:
            continue
        except StorageError:
            raise
        except MorrowError as error:
            yield Finding(Severity.ERROR, "files", f"tag {name}", str(error), f"{RESTORE}, or delete the tag")
    changelog_ids = tuple(living_changelog_ids(branch))
    yield from Line(branch, (), (), changelog_ids).changelogs(changelog_ids)


def _ahead(branch: TableMetadata, roots: Iterator[Root | Finding]) -> Iterator[Root | Finding]:
    """Yields the states; what many of them are made of is read together."""
    some: list[Root | Finding] = []
    failed: MorrowError | None = None
    while not failed:
        try:
            some = []
            some.extend(islice(roots, STATES_AT_ONCE))
        except MorrowError as error:
            failed = error
        if not some:
            break
        read_ahead(branch, [root.snapshot for root in some if isinstance(root, Root) and root.keeps_data])
        yield from some
    if failed:
        raise failed


@dataclass
class _Seen:
    """What the states so far have named: data files, index manifests, index files."""

    walk: StateWalk = field(default_factory=StateWalk)
    index_manifests: set[str] = field(default_factory=set)
    names: dict[str, pl.DataFrame] = field(default_factory=dict)

    def new(self, kind: str, frame: pl.DataFrame, key: Iterable[str]) -> pl.DataFrame:
        """Returns the rows whose key no state so far has named."""
        key, known = [*key], self.names.get(kind)
        new = frame if known is None else frame.join(known, on=key, how="anti", maintain_order="left")
        if new.height:
            self.names[kind] = pl.concat([*([] if known is None else [known]), new.select(cols(key))])
        return new


def _named_by(root: Root, seen: _Seen) -> Iterator[pl.DataFrame]:
    """Yields paths and sizes of the files that a state names and that none before it did."""
    metadata, snapshot = root.metadata, root.snapshot
    schema = metadata.schema(snapshot.schema_id)
    options = metadata.options(metadata.latest_schema())
    names: list[pl.DataFrame] = []
    if root.keeps_data:
        live = seen.walk.unseen(metadata, snapshot, schema)
        sizes = live.select(*KEY, "_EXTERNAL_PATH", pl.col("_FILE_SIZE").alias(SIZE))
        beside = live.filter(pl.col("_EXTRA_FILES").list.len() > 0)
        names.append(sizes)
        if beside.height:
            extra = extra_files(beside, [*KEY, "_EXTERNAL_PATH"]).with_columns(pl.lit(None, pl.Int64).alias(SIZE))
            names.append(extra.join(sizes, on=KEY, how="anti"))
    if root.kind != RootKind.TAG and snapshot.changelog_manifest_list is not None:
        logged = changelog_names([root])
        names.append(logged.select(*KEY, "_EXTERNAL_PATH", pl.lit(None, pl.Int64).alias(SIZE)))
    found = [frame for frame in names if frame.height]
    if found:
        new = seen.new("data", pl.concat(found), KEY)
        if new.height:
            yield pl.DataFrame({PATH: file_paths(metadata, schema, options, new), SIZE: new[SIZE]})
    if root.kind == RootKind.CHANGELOG:
        return
    if snapshot.index_manifest is not None and snapshot.index_manifest not in seen.index_manifests:
        indexes = index_entries(metadata, snapshot)
        seen.index_manifests.add(snapshot.index_manifest)
        new = pl.DataFrame() if indexes is None else seen.new("index", indexes, ("_FILE_NAME",))
        if new.height:
            yield pl.DataFrame({PATH: index_paths(metadata, schema, options, new), SIZE: new["_FILE_SIZE"]})
    if snapshot.statistics is not None:
        path = metadata.paths.statistics(snapshot.statistics)
        yield pl.DataFrame({PATH: [path], SIZE: [None]}, schema={PATH: pl.String, SIZE: pl.Int64})


def _listed(subject: Subject, paths: list[str]) -> Mapping[str, int | None]:
    """Returns the size of each path, None where there is no file: from listings of the folders."""
    store = subject.metadata.store
    folders = list(dict.fromkeys(map(dirname, paths)))

    def sizes(folder: str) -> dict[str, int]:
        return {f"{folder}/{each.name}": each.size for each in store.list(folder) if not each.is_dir}

    with ThreadPoolExecutor(READERS) as pool:
        there = {path: size for found in pool.map(sizes, folders) for path, size in found.items()}
    return {path: there.get(path) for path in paths}


def _wrong(
    subject: Subject, wanted: pl.DataFrame, found: Mapping[str, int | None], roots: Mapping[str, Root]
) -> Iterator[Finding]:
    newest = "" if subject.snapshot is None else f"snapshot {subject.snapshot.id}"
    living: dict[str, bool] = {}
    for path, size, state in wanted.iter_rows():
        there = found[path]
        if there is not None and size in (None, there):
            continue
        if there is None and state not in living:
            living[state] = is_there(roots[state])
        if there is None and not living[state]:
            continue
        what = f"missing, and {state} needs it" if there is None else f"{there:,} bytes where {state} says {size:,}"
        remedy = f"{RESTORE}; else let that state go: `morrow expire`, or delete the tag"
        if state == newest:
            remedy = f"{RESTORE}; else Table.remove_unexisting_files(dry_run=False) goes on without its rows"
        yield Finding(Severity.ERROR, "files", subject.relative(path), what, remedy)


def _unreadable(subject: Subject, root: Root, error: MorrowError) -> Finding:
    path = getattr(error, "path", None)
    where = state_of(root) if path is None else subject.relative(path)
    remedy = f"{RESTORE}; {state_of(root)} cannot be read without it"
    return Finding(Severity.ERROR, "files", where, one_line(str(error)), remedy)


def hints(subject: Subject) -> Generator[Finding, None, str]:
    """LATEST and EARLIEST are right, in all branches; without them the folder is listed."""
    found = [hint for hint in wrong_hints(subject.metadata) if hint.before is not None]
    for hint in found:
        branch = subject.metadata.at_branch(hint.branch)
        where = subject.relative(f"{branch.paths.branch_root}/{hint.folder}/{hint.name}")
        right = "there is nothing that it could name" if hint.after is None else f"{hint.after} is right"
        what = f"it says {hint.before!r}; {right}"
        remedy = "`morrow repair`, or Table.repair(); Java trusts it"
        yield Finding(Severity.WARNING, "hints", where, what, remedy, "hints")
    for branch in subject.branches:
        yield from _hidden(subject, branch)
    return f"{len(found)} wrong" if found else "right"


def _hidden(subject: Subject, branch: TableMetadata) -> Iterator[Finding]:
    """Yields a finding where EARLIEST has hidden snapshots for longer than their expiry takes."""
    living = branch.living_snapshot_ids()
    hidden = [number for number in branch.snapshot_ids() if living and number < living[0]]
    long_ago = (time.time() - LONG_EXPIRY_SECONDS) * MILLIS_PER_SECOND
    listed = branch.store.list(branch.paths.snapshot_dir) if hidden else ()
    if any(status.name == EARLIEST and status.modified_millis < long_ago for status in listed):
        where = subject.relative(f"{branch.paths.snapshot_dir}/{EARLIEST}")
        what = f"it says {living[0]}, and {plural(len(hidden), 'older snapshot')} that no read sees lie there"
        remedy = f"the next `morrow expire` removes them; to keep them, write {hidden[0]} into that file before"
        yield Finding(Severity.WARNING, "hints", where, what, remedy)


def orphans(subject: Subject) -> Generator[Finding, None, str]:
    """No old file lies there that nothing names."""
    found = remove_orphan_files(subject.metadata, dry_run=True)
    if found.paths:
        what = f"{plural(found.count, 'file')} older than a day, {size_text(found.bytes)}, that no state names"
        remedy = "`morrow orphans --delete`, or Table.remove_orphan_files(dry_run=False)"
        first = found.paths[0] if found.count == 1 else f"{found.paths[0]} and others"
        yield Finding(Severity.WARNING, "orphans", first, what, remedy, "orphans")
    return "none older than a day" if not found.paths else plural(found.count, "file")
