"""Checks of what makes reads and writes dear although every row is right: advice, not damage."""

from __future__ import annotations

import datetime as dt
from collections.abc import Generator

from morrow.doctor.report import Finding, Severity
from morrow.doctor.subject import Subject
from morrow.engine.options.declared.history import SNAPSHOT_NUM_RETAINED_MAX
from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.manifests import manifests_of
from morrow.engine.wording import plural, size_text
from morrow.writers.operations.planned import levels_of, planned_compactions

MANY_SNAPSHOTS = 1_000
MANY_MANIFESTS = 1_000
MANY_SMALL_FILES = 100
"""Files that one compaction would make few of: fewer cost no read anything worth telling."""
DEAD_SHARE = 0.3
MANY_DEAD_ROWS = 10_000
COMPACT = "`morrow compact`, or Table.compact()"


def runs(subject: Subject) -> Generator[Finding, None, str]:
    """No bucket has more sorted runs than those at which its writers would wait for a compaction."""
    if not subject.metadata.latest_schema().primary_keys:
        return "no key, so nothing is merged"
    most, limit = 0, subject.target.write.run_stop_trigger
    crowded = {}
    for place, state in subject.states.items():
        if place.bucket < 0:
            continue
        count = len(levels_of(subject.target, state).level_runs)
        most = max(most, count)
        if count > limit:
            crowded[place] = count
    if crowded:
        worst = max(crowded, key=lambda place: crowded[place])
        what = (
            f"{plural(len(crowded), 'bucket')} with more than {limit} sorted runs; {crowded[worst]} in "
            f"{subject.place(worst)}, each of which a read merges"
        )
        yield Finding(Severity.ADVICE, "runs", "buckets", what, COMPACT, "compaction")
    return f"{most} in a bucket at most"


def small_files(subject: Subject) -> Generator[Finding, None, str]:
    """There are not many small files that a compaction would make few of."""
    if subject.snapshot is None:
        return "nothing was committed"
    planned = list(planned_compactions(subject.target, subject.states))
    files = sum(len(each.files) for each in planned)
    size = sum(each.size for each in planned)
    if files >= MANY_SMALL_FILES and not subject.target.keyed:
        what = f"{plural(files, 'small file')} of {size_text(size / files)} on average"
        yield Finding(Severity.ADVICE, "small files", "files", what, COMPACT, "compaction")
    whole = sum(len(state.files) for state in subject.states.values())
    return f"a compaction would take {files:,} of {plural(whole, 'file')}"


def dead_rows(subject: Subject) -> Generator[Finding, None, str]:
    """Not too many of the rows that reads decode are dead."""
    stored = sum(file.row_count for state in subject.states.values() for file in state.files)
    ranges = (
        each for state in subject.states.values() for index in state.index_files for each in index.deletion_ranges or ()
    )
    dead = sum(each.cardinality or 0 for each in ranges)
    share = dead / stored if stored else 0
    if dead >= MANY_DEAD_ROWS and share > DEAD_SHARE:
        what = f"{share:.0%} of the stored rows are dead, and every read passes over them"
        remedy = "`morrow compact --full`, or Table.compact(full=True)"
        yield Finding(Severity.ADVICE, "dead rows", "files", what, remedy)
    return f"{share:.0%} of the stored rows"


def history(subject: Subject) -> Generator[Finding, None, str]:
    """Snapshots, manifests and tags are not kept longer than they have to be; consumers can go on."""
    metadata = subject.metadata
    ids = metadata.living_snapshot_ids()
    most = subject.target.options.given.get(SNAPSHOT_NUM_RETAINED_MAX)
    limit = MANY_SNAPSHOTS if most is None else min(most, MANY_SNAPSHOTS)
    if len(ids) > limit:
        what = f"{plural(len(ids), 'snapshot')}, where {limit:,} are many"
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
    manifests = 0 if subject.snapshot is None else manifests_of(metadata, subject.snapshot).height
    if manifests > MANY_MANIFESTS:
        what = f"{plural(manifests, 'manifest')}, all of which planning may read"
        yield Finding(
            Severity.ADVICE, "history", "manifests", what, "they are merged by the next commits; see manifest.*"
        )
    return f"{plural(len(ids), 'snapshot')}, {plural(manifests, 'manifest')}"
