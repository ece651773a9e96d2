"""The examination of a table, as `Table.doctor` runs it: all checks, one after another.

A check that fails does not stop the others. Storage checks examine snapshots, tags, branches, their files, hints and
orphan files. Content checks examine levels, deletion vectors, rows and options that affect reads. Cost checks find
reasons for slow reads and writes; their findings are advice, not damage.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice, pairwise
from posixpath import dirname

import polars as pl

from morrow.doctor.report import Check, Finding, Report, Severity, Subject, describe_root, is_there
from morrow.doctor.storage import KeptBy, measure_storage
from morrow.engine.errors import FileMissing, MorrowError, StorageError, Unsupported
from morrow.engine.format.paths import EARLIEST, POSTPONE_BUCKET
from morrow.engine.io.store import MAX_CONCURRENT_READS
from morrow.engine.names import cols
from morrow.engine.options import parse_write_options
from morrow.engine.options.declared.maintenance import SNAPSHOT_NUM_RETAINED_MAX
from morrow.engine.plan.changelogs import list_living_changelog_ids
from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.data_files import (
    attach_vectors,
    build_data_files,
    build_deletion_refs,
    build_file_paths,
    build_index_paths,
)
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.manifests import list_manifests, read_index_entries
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.plan.pruning import has_misplaced_keys
from morrow.engine.plan.references import KEY, StateWalk, list_changelog_files, list_extra_files, read_states_ahead
from morrow.engine.plan.roots import Line, Root, RootKind
from morrow.engine.redaction import clean_text, escape_to_line
from morrow.engine.schema.proposal import Proposal
from morrow.engine.schema.validation import RULES
from morrow.engine.units import MILLIS_PER_SECOND, format_count, format_size
from morrow.readers.execution.type_changes import find_unreadable
from morrow.readers.masks.live_rows import read_deletion
from morrow.scans.table_scan import make_scan
from morrow.writers.history.hints import find_wrong_hints
from morrow.writers.history.orphan_files import remove_orphan_files
from morrow.writers.operations.compaction import build_levels, plan_compactions

PATH, SIZE, STATE = "path", "size", "state"
MAX_EXPIRY_SECONDS = 3_600
"""Maximum duration of an expiry. After this time, it was interrupted or the hint is wrong."""
MAX_ROOTS_AT_ONCE = 256
RESTORE = "restore it from a backup"
MAY_BE_SOUND = "the file may be sound"
BUCKET_FILES = {"_BUCKET": pl.Int32, "_TOTAL_BUCKETS": pl.Int32, "_MIN_KEY": pl.Binary}


def check_schemas(subject: Subject) -> Generator[Finding, None, str]:
    """Check that every schema of every branch can be read."""
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
                yield _build_finding("schemas", where, error, f"{RESTORE}: files of it cannot be read")
    return format_count(count, "version") + " read"


def check_files(subject: Subject) -> Generator[Finding, None, str]:
    """Check that every file of a snapshot, tag or changelog exists with the size in metadata."""
    wanted = pl.DataFrame(schema={PATH: pl.String, SIZE: pl.Int64, STATE: pl.String})
    seen = _Seen()
    states = 0
    by_name: dict[str, Root] = {}
    for branch in subject.branches:
        yield from _find_gaps(subject, branch)
        for root in _read_ahead(branch, _read_roots(branch)):
            if isinstance(root, Finding):
                yield root
                continue
            states += 1
            by_name[describe_root(root)] = root
            try:
                parts = [
                    part.with_columns(pl.lit(describe_root(root)).alias(STATE))
                    for part in _find_named_files(root, seen)
                ]
            except StorageError:
                raise
            except MorrowError as error:
                if is_there(root):
                    yield _report_unreadable(subject, root, error)
                continue
            wanted = pl.concat([wanted, *parts])
    wanted = wanted.unique(PATH, keep="first", maintain_order=True)
    found = _list_sizes(subject, wanted[PATH].to_list())
    yield from _find_wrong_files(subject, wanted, found, by_name)
    size = format_size(sum(size for size in found.values() if size is not None))
    return f"{format_count(wanted.height, 'data and index file')} of {format_count(states, 'state')}, {size}"


def _find_gaps(subject: Subject, branch: TableMetadata) -> Iterator[Finding]:
    if Owned.SNAPSHOTS in branch.owner.owns:
        return
    for before, after in pairwise(branch.living_snapshot_ids()):
        if after != before + 1 and before in branch.living_snapshot_ids():
            where = subject.relative(branch.paths.snapshot(before + 1))
            what = f"no file, though the snapshots {before} and {after} are there"
            yield Finding(Severity.ERROR, "files", where, what, f"{RESTORE}, or expire the snapshots before {after}")


def _read_roots(branch: TableMetadata) -> Iterator[Root | Finding]:
    """Yield the roots of a branch, the newest snapshot first, and a finding for each unreadable one."""
    for snapshot_id in reversed(branch.living_snapshot_ids()):
        try:
            found = branch.snapshot_or_none(snapshot_id)
        except StorageError:
            raise
        except MorrowError as error:
            yield _build_finding("files", f"snapshot {snapshot_id}", error, RESTORE)
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
            yield _build_finding("files", f"tag {name}", error, f"{RESTORE}, or delete the tag")
    changelog_ids = tuple(list_living_changelog_ids(branch))
    yield from Line(branch, (), (), changelog_ids).changelogs(changelog_ids)


def _read_ahead(branch: TableMetadata, roots: Iterator[Root | Finding]) -> Iterator[Root | Finding]:
    """Yield the roots, and prefetch manifests of several roots together."""
    some: list[Root | Finding] = []
    failed: MorrowError | None = None
    while not failed:
        try:
            some = []
            some.extend(islice(roots, MAX_ROOTS_AT_ONCE))
        except MorrowError as error:
            failed = error
        if not some:
            break
        read_states_ahead(branch, [root.snapshot for root in some if isinstance(root, Root) and root.keeps_data])
        yield from some
    if failed:
        raise failed


@dataclass
class _Seen:
    """The data files, index manifests and index files of the roots examined so far."""

    walk: StateWalk = field(default_factory=StateWalk)
    index_manifests: set[str] = field(default_factory=set)
    names: dict[str, pl.DataFrame] = field(default_factory=dict)

    def new(self, kind: str, frame: pl.DataFrame, key: Iterable[str]) -> pl.DataFrame:
        """Return the rows with new keys, and remember these keys."""
        key, known = [*key], self.names.get(kind)
        new = frame if known is None else frame.join(known, on=key, how="anti", maintain_order="left")
        if new.height:
            self.names[kind] = pl.concat([*([] if known is None else [known]), new.select(cols(key))])
        return new


def _find_named_files(root: Root, seen: _Seen) -> Iterator[pl.DataFrame]:
    """Yield paths and sizes of the files of a root that earlier roots do not name."""
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
            extra = list_extra_files(beside, [*KEY, "_EXTERNAL_PATH"]).with_columns(pl.lit(None, pl.Int64).alias(SIZE))
            names.append(extra.join(sizes, on=KEY, how="anti"))
    if root.kind != RootKind.TAG and snapshot.changelog_manifest_list is not None:
        logged = list_changelog_files([root])
        names.append(logged.select(*KEY, "_EXTERNAL_PATH", pl.lit(None, pl.Int64).alias(SIZE)))
    found = [frame for frame in names if frame.height]
    if found:
        new = seen.new("data", pl.concat(found), KEY)
        if new.height:
            yield pl.DataFrame({PATH: build_file_paths(metadata, schema, options, new), SIZE: new[SIZE]})
    if root.kind == RootKind.CHANGELOG:
        return
    if snapshot.index_manifest is not None and snapshot.index_manifest not in seen.index_manifests:
        indexes = read_index_entries(metadata, snapshot)
        seen.index_manifests.add(snapshot.index_manifest)
        new = pl.DataFrame() if indexes is None else seen.new("index", indexes, ("_FILE_NAME",))
        if new.height:
            yield pl.DataFrame({PATH: build_index_paths(metadata, schema, options, new), SIZE: new["_FILE_SIZE"]})
    if snapshot.statistics is not None:
        path = metadata.paths.statistics(snapshot.statistics)
        yield pl.DataFrame({PATH: [path], SIZE: [None]}, schema={PATH: pl.String, SIZE: pl.Int64})


def _list_sizes(subject: Subject, paths: list[str]) -> Mapping[str, int | None]:
    """List the folders, and return the size of each path; None if the file is missing."""
    store = subject.metadata.store
    folders = list(dict.fromkeys(map(dirname, paths)))

    def sizes(folder: str) -> dict[str, int]:
        return {f"{folder}/{each.name}": each.size for each in store.list(folder) if not each.is_dir}

    with ThreadPoolExecutor(MAX_CONCURRENT_READS) as pool:
        there = {path: size for found in pool.map(sizes, folders) for path, size in found.items()}
    return {path: there.get(path) for path in paths}


def _find_wrong_files(
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


def _report_unreadable(subject: Subject, root: Root, error: MorrowError) -> Finding:
    path = getattr(error, "path", None)
    where = describe_root(root) if path is None else subject.relative(path)
    return _build_finding("files", where, error, f"{RESTORE}; {describe_root(root)} cannot be read without it")


def check_hints(subject: Subject) -> Generator[Finding, None, str]:
    """Check that LATEST and EARLIEST are right in all branches. Missing hints are allowed."""
    found = [hint for hint in find_wrong_hints(subject.metadata) if hint.before is not None]
    for hint in found:
        branch = subject.metadata.at_branch(hint.branch)
        where = subject.relative(f"{branch.paths.branch_root}/{hint.folder}/{hint.name}")
        right = "there is nothing that it could name" if hint.after is None else f"{hint.after} is right"
        what = f"it says {hint.before!r}; {right}"
        remedy = "`morrow repair`, or Table.repair(); Java trusts it"
        yield Finding(Severity.WARNING, "hints", where, what, remedy, "hints")
    for branch in subject.branches:
        yield from _find_hidden_snapshots(subject, branch)
    return f"{len(found)} wrong" if found else "right"


def _find_hidden_snapshots(subject: Subject, branch: TableMetadata) -> Iterator[Finding]:
    """Yield a finding if EARLIEST has hidden snapshots for longer than an expiry takes."""
    living = branch.living_snapshot_ids()
    hidden = [number for number in branch.snapshot_ids() if living and number < living[0]]
    long_ago = (time.time() - MAX_EXPIRY_SECONDS) * MILLIS_PER_SECOND
    listed = branch.store.list(branch.paths.snapshot_dir) if hidden else ()
    if any(status.name == EARLIEST and status.modified_millis < long_ago for status in listed):
        where = subject.relative(f"{branch.paths.snapshot_dir}/{EARLIEST}")
        what = f"it says {living[0]}, and {format_count(len(hidden), 'older snapshot')} that no read sees lie there"
        remedy = f"the next `morrow expire` removes them; to keep them, write {hidden[0]} into that file before"
        yield Finding(Severity.WARNING, "hints", where, what, remedy)


def check_orphans(subject: Subject) -> Generator[Finding, None, str]:
    """Look for old orphan files."""
    found = remove_orphan_files(subject.metadata, dry_run=True)
    if found.paths:
        what = f"{format_count(found.count, 'file')} older than a day, {format_size(found.bytes)}, that no state names"
        remedy = "`morrow orphans --delete`, or Table.remove_orphan_files(dry_run=False)"
        first = found.paths[0] if found.count == 1 else f"{found.paths[0]} and others"
        yield Finding(Severity.WARNING, "orphans", first, what, remedy, "orphans")
    return "none older than a day" if not found.paths else format_count(found.count, "file")


def check_options(subject: Subject) -> Generator[Finding, None, str]:
    """Check that the options of the newest schema are valid and do not contradict each other."""
    where, schema = subject.metadata.where, subject.metadata.latest_schema()

    def found(error: MorrowError) -> Finding:
        what = str(error).removeprefix(f"{where}: ")
        return Finding(Severity.WARNING, "options", "options", what, "correct it: `morrow alter --set` or `--unset`")

    told: set[str] = set()
    try:
        proposal = Proposal.of(schema, where)
        parse_write_options(schema.options, keyed=bool(schema.primary_keys), where=where)
    except Unsupported as error:
        return f"{len(schema.options)} set; {error.args[0].removeprefix(f'{where}: ')}"
    except MorrowError as error:
        yield found(error)
        return "cannot be read"
    for rule in RULES:
        try:
            rule(proposal)
        except Unsupported:
            continue  # options of other software, which Morrow's reads refuse if necessary
        except MorrowError as error:
            if str(error) not in told:
                yield found(error)
            told.add(str(error))
    return f"{len(schema.options)} set"


def check_levels(subject: Subject) -> Generator[Finding, None, str]:
    """Check that files of a level above 0 do not overlap, and that first keys are not greater than last keys and lie in
    the buckets of their hashes."""
    if not subject.metadata.latest_schema().primary_keys:
        return "an append table has none"
    trees = 0
    for place, state in subject.states.items():
        if place.bucket == POSTPONE_BUCKET or not state.files:
            continue
        trees += 1
        where = subject.place(place)
        remedy = "`morrow compact --full` cannot repair it: restore the manifest, or rewrite the bucket's rows"
        try:
            tree = build_levels(subject.target, state)
        except StorageError:
            raise
        except MorrowError as error:
            yield Finding(Severity.ERROR, "levels", where, str(error), remedy)
            continue
        for run in tree.level_runs:
            for file in run.files:
                if tree.order(file.min_key) > tree.order(file.max_key):
                    what = f"the first key of {file.file_name} is greater than its last"
                    yield Finding(Severity.ERROR, "levels", where, what, remedy)
    files = [(p.bucket, s.total_buckets, f.min_key) for p, s in subject.states.items() for f in s.files]
    entries = pl.DataFrame(files, BUCKET_FILES, orient="row")
    options = subject.target.options
    if has_misplaced_keys(subject.metadata, subject.target.schema, options, entries):
        what = "files begin with keys that belong to other buckets, as pypaimon before 1.4 wrote them"
        yield Finding(Severity.ERROR, "levels", "buckets", what, f"`Table.rescale({options.bucket})`")
    return f"{format_count(trees, 'merge tree')} in order"


def check_vectors(subject: Subject) -> Generator[Finding, None, str]:
    """Check that every deletion vector of the newest snapshot is readable and has the cardinality in metadata."""
    metadata, snapshot = subject.metadata, subject.snapshot
    if snapshot is None:
        return "none"
    table_options, schema = metadata.options(metadata.latest_schema()), metadata.schema(snapshot.schema_id)
    live = read_live_entries(metadata, snapshot, schema).frame
    frame, known = attach_vectors(metadata, table_options, snapshot, live)
    refs = build_deletion_refs(metadata, schema, table_options, known, frame)
    rows = sorted(refs)
    marked = build_data_files(
        metadata, schema, table_options, frame[rows], {i: refs[row] for i, row in enumerate(rows)}
    )
    dead = 0
    for file in marked:
        try:
            mask = read_deletion(file, metadata.store)
        except StorageError:
            raise
        except MorrowError as error:
            remedy = "restore its index file: without it deleted rows come back"
            yield Finding(Severity.ERROR, "vectors", subject.relative(file.path), str(error), remedy)
            continue
        dead += len(mask) - int(mask.sum())
    return f"{format_count(len(marked), 'file')} with dead rows, {dead:,} of them" if marked else "none"


def check_data(subject: Subject) -> Generator[Finding, None, str]:
    """Check rows against metadata: counts, statistics, order and uniqueness of keys, checksums, indexes."""
    if not subject.data:
        return "not read: --data, or doctor(data=True), reads every file"
    if subject.snapshot is None:
        return "nothing was committed"
    found = make_scan(subject.metadata).verification()
    for file in found.unsound:
        remedy = MAY_BE_SOUND if isinstance(file.error, Unsupported) else RESTORE
        remedy += "; the other files can be read"
        for problem in file.problems:
            yield Finding(Severity.ERROR, "data", subject.relative(file.path), problem, remedy)
    return f"{format_count(len(found.files), 'file')} read, {sum(file.rows for file in found.files):,} rows"


def check_types(subject: Subject) -> Generator[Finding, None, str]:
    """Check that files written before a change of a column's type can be read in the newest type."""
    if not subject.data:
        return "not read: --data, or doctor(data=True), reads the files of before"
    if subject.snapshot is None:
        return "nothing was committed"
    count = 0
    for error in find_unreadable(subject.metadata, make_scan(subject.metadata).plan):
        count += 1
        place, _, what = str(error).partition(": ")
        remedy = "set the type back: `morrow alter --type`"
        yield Finding(Severity.ERROR, "types", subject.relative(place), what, remedy)
    return f"{format_count(count, 'column')} of files cannot be read" if count else "all values can be read"


MAX_SNAPSHOTS = 1_000
MAX_MANIFESTS = 1_000
MAX_SMALL_FILES = 100
"""Number of small files above which a compaction is advised. Fewer do not slow reads noticeably."""
MIN_FILE_BYTES = 1 << 20
"""Average size of files below which partitions or buckets count as too small. Opening a file takes as long as reading
about this many bytes."""
TOO_MANY_PARTITIONS = "partition a new table by a coarser column, such as the month, and append the rows of this one"
MAX_STORED_TIMES = 4
"""Stored bytes, in multiples of the live bytes, above which expiry is advised."""
MIN_HISTORY_BYTES = 1 << 20
MAX_DEAD_SHARE = 0.3
MIN_DEAD_ROWS = 10_000
COMPACT = "`morrow compact`, or Table.compact()"


def check_runs(subject: Subject) -> Generator[Finding, None, str]:
    """Check that no bucket has more sorted runs than the limit at which writers wait for a compaction."""
    if not subject.metadata.latest_schema().primary_keys:
        return "no key, so nothing is merged"
    most, limit = 0, subject.target.write.run_stop_trigger
    crowded = {}
    for place, state in subject.states.items():
        if place.bucket < 0:
            continue
        count = len(build_levels(subject.target, state).level_runs)
        most = max(most, count)
        if count > limit:
            crowded[place] = count
    if crowded:
        worst = max(crowded, key=lambda place: crowded[place])
        what = (
            f"{format_count(len(crowded), 'bucket')} with more than {limit} sorted runs; {crowded[worst]} in "
            f"{subject.place(worst)}, each of which a read merges"
        )
        yield Finding(Severity.ADVICE, "runs", "buckets", what, COMPACT, "compaction")
    return f"{most} in a bucket at most"


def check_small_files(subject: Subject) -> Generator[Finding, None, str]:
    """Check that there are not many small files that a compaction would merge."""
    if subject.snapshot is None:
        return "nothing was committed"
    planned = list(plan_compactions(subject.target, subject.states))
    files = sum(len(each.files) for each in planned)
    size = sum(each.size for each in planned)
    if files >= MAX_SMALL_FILES and not subject.target.keyed:
        what = f"{format_count(files, 'small file')} of {format_size(size / files)} on average"
        yield Finding(Severity.ADVICE, "small files", "files", what, COMPACT, "compaction")
    whole = sum(len(state.files) for state in subject.states.values())
    left, places = whole - files, max(len(subject.states), 1)
    mean = (sum(file.file_size for state in subject.states.values() for file in state.files) - size) / max(left, 1)
    if left >= MAX_SMALL_FILES and mean < MIN_FILE_BYTES and places >= MAX_SMALL_FILES:
        partitions = len({place.partition for place in subject.states})
        what = (
            f"{format_count(left, 'file')} of {format_size(mean)} on average in {format_count(places, 'bucket')} of "
            f"{format_count(partitions, 'partition')}; compactions do not merge files of different buckets"
        )
        remedy = TOO_MANY_PARTITIONS if partitions >= MAX_SMALL_FILES else "fewer buckets: Table.rescale(buckets)"
        yield Finding(Severity.ADVICE, "small files", "partitions", what, remedy)
    return f"a compaction would take {files:,} of {format_count(whole, 'file')}"


def check_dead_rows(subject: Subject) -> Generator[Finding, None, str]:
    """Check that the share of deleted rows that reads decode is small."""
    stored = sum(file.row_count for state in subject.states.values() for file in state.files)
    ranges = (
        each for state in subject.states.values() for index in state.index_files for each in index.deletion_ranges or ()
    )
    dead = sum(each.cardinality or 0 for each in ranges)
    share = dead / stored if stored else 0
    if dead >= MIN_DEAD_ROWS and share > MAX_DEAD_SHARE:
        what = f"{share:.0%} of the stored rows are dead, and every read passes over them"
        remedy = "`morrow compact --full`, or Table.compact(full=True)"
        yield Finding(Severity.ADVICE, "dead rows", "files", what, remedy)
    return f"{share:.0%} of the stored rows"


def check_history(subject: Subject) -> Generator[Finding, None, str]:
    """Check that snapshots, manifests and tags are not kept too long, and that consumers can continue."""
    metadata = subject.metadata
    ids = metadata.living_snapshot_ids()
    most = subject.target.options.given.get(SNAPSHOT_NUM_RETAINED_MAX)
    limit = MAX_SNAPSHOTS if most is None else min(most, MAX_SNAPSHOTS)
    if len(ids) > limit:
        what = f"{format_count(len(ids), 'snapshot')}, where {limit:,} are many"
        yield Finding(Severity.ADVICE, "history", "snapshots", what, "`morrow expire`, or Table.expire_snapshots()")
    for name, following in sorted(Consumers(metadata).all().items()):
        if ids and following < ids[0]:
            what = f"it reads snapshot {following} next, which has expired; the oldest is {ids[0]}"
            remedy = "Table.consumers.record(name, ...), or delete it"
            yield Finding(Severity.WARNING, "history", f"consumer {name}", what, remedy)
    now = dt.datetime.now()
    for tag in metadata.tags():
        if tag.create_time is not None and tag.time_retained is not None:
            until = tag.create_time.replace(tzinfo=None) + tag.time_retained
            if until < now - dt.timedelta(days=1):
                what = f"its time has been over since {until.isoformat(sep=' ', timespec='minutes')}"
                remedy = "the next commit or `morrow expire` deletes it, or t.tags.delete(name)"
                yield Finding(Severity.ADVICE, "history", f"tag {tag.name}", what, remedy)
    manifests = 0 if subject.snapshot is None else list_manifests(metadata, subject.snapshot).height
    if manifests > MAX_MANIFESTS:
        what = f"{format_count(manifests, 'manifest')}, all of which planning may read"
        yield Finding(
            Severity.ADVICE, "history", "manifests", what, "they are merged by the next commits; see manifest.*"
        )
    return f"{format_count(len(ids), 'snapshot')}, {format_count(manifests, 'manifest')}"


def check_storage(subject: Subject) -> Generator[Finding, None, str]:
    """Check that history, tags and branches do not keep many times the bytes of the live files."""
    if subject.snapshot is None:
        return "nothing was committed"
    sums = dict(measure_storage(subject.metadata).group_by("kept_by").agg(pl.col("bytes").sum()).iter_rows())
    live, stored = sums.get(KeptBy.LIVE, 0), sum(sums.values())
    told = f"{format_size(stored)} stored for {format_size(live)} live"
    if stored > MAX_STORED_TIMES * live and stored - live >= MIN_HISTORY_BYTES:
        kept = [f"{name}: {format_size(size)}" for name, size in sums.items() if name != KeptBy.LIVE and size]
        ways = (
            (KeptBy.EXPIRED, "`morrow expire` frees {}"),
            (KeptBy.SNAPSHOTS, "`morrow expire --retain-max 1 --retain-min 1` frees {}"),
            (KeptBy.TAG, "deleting tags frees up to {}"),
            (KeptBy.BRANCH, "deleting branches frees up to {}"),
            (KeptBy.CHANGELOGS, "Table.expire_changelogs() frees up to {}"),
        )
        remedy = "; ".join(way.format(format_size(sums[name])) for name, way in ways if sums.get(name))
        yield Finding(Severity.ADVICE, "storage", "files", f"{told} ({', '.join(kept)})", remedy)
    return told


CHECKS: Mapping[str, Check] = {
    "options": check_options,
    "schemas": check_schemas,
    "hints": check_hints,
    "files": check_files,
    "levels": check_levels,
    "vectors": check_vectors,
    "data": check_data,
    "types": check_types,
    "orphans": check_orphans,
    "runs": check_runs,
    "small files": check_small_files,
    "dead rows": check_dead_rows,
    "history": check_history,
    "storage": check_storage,
}
"""The checks by name, in the order in which they run."""


def examine(metadata: TableMetadata, *, data: bool = False) -> Report:
    """Run all checks of a table; see `Table.doctor`.

    Raises `StorageError`: the store does not answer, which is not a finding about the table.
    """
    METADATA_CACHE.clear()  # cached metadata would hide damage of files
    subject = Subject(metadata, data)
    findings: list[Finding] = []
    told: list[tuple[str, str]] = []
    for name, check in CHECKS.items():
        told.append((name, _run_check(check, subject, name, findings)))
    order_of = list(Severity)
    findings.sort(key=lambda finding: order_of.index(finding.severity))
    try:
        snapshot = subject.snapshot
    except MorrowError:
        snapshot = None
    return Report(metadata.where, None if snapshot is None else snapshot.id, tuple(findings), tuple(told))


def _run_check(check: Check, subject: Subject, name: str, findings: list[Finding]) -> str:
    """Run a check and add its findings; return its summary.

    An error becomes a finding, unless an earlier finding names the same file.
    """
    running = check(subject)
    known = {(each.where, each.what) for each in findings}
    while True:
        try:
            found = next(running)
        except StopIteration as ended:
            return str(ended.value)
        except StorageError:
            raise
        except Unsupported as error:
            return (
                f"not looked at: {clean_text(escape_to_line(str(error).removeprefix(f'{subject.metadata.where}: ')))}"
            )
        except MorrowError as error:
            if not any(_is_reported(finding, subject, error) for finding in findings):
                path = getattr(error, "path", None)
                where = "table" if path is None else subject.relative(path)
                findings.append(_build_finding(name, where, error, f"{RESTORE}, or go back: `morrow rollback`"))
            return "not looked at: what it needs cannot be read"
        if (found.where, found.what) not in known:
            known.add((found.where, found.what))
            findings.append(found)


def _is_reported(finding: Finding, subject: Subject, error: MorrowError) -> bool:
    path = getattr(error, "path", None)
    known = "" if path is None else subject.relative(path)
    return str(error) == finding.what or (path is not None and known in (finding.where, finding.what))


def _build_finding(check: str, where: str, error: MorrowError, remedy: str) -> Finding:
    """Return the finding for an error. A file that Morrow does not know needs no restoring."""
    if isinstance(error, Unsupported):
        remedy = MAY_BE_SOUND
    return Finding(Severity.ERROR, check, where, escape_to_line(str(error)), remedy)
