"""Checks of what files hold: merge trees, deletion vectors, rows; and of the options that say how to read them."""

from __future__ import annotations

from collections.abc import Generator

from morrow.doctor.report import Finding, Severity
from morrow.doctor.subject import Subject
from morrow.engine.errors import MorrowError, StorageError, Unsupported
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.options import parse_write_options
from morrow.engine.plan.data_files import data_files
from morrow.engine.plan.deletions import deletion_refs, with_vectors
from morrow.engine.plan.entries import live_entries
from morrow.engine.schema.validation import RULES
from morrow.engine.schema.validation.proposal import Proposal
from morrow.engine.wording import plural
from morrow.readers.execution.verification.retyped import unreadable
from morrow.readers.masks.live import read_deletion
from morrow.scans.making import make_scan
from morrow.writers.operations.planned import levels_of


def options(subject: Subject) -> Generator[Finding, None, str]:
    """The options of the newest schema can be read, and do not contradict each other."""
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
            continue  # other software's, which reads of Morrow's refuse by themselves
        except MorrowError as error:
            if str(error) not in told:
                yield found(error)
            told.add(str(error))
    return f"{len(schema.options)} set"


def levels(subject: Subject) -> Generator[Finding, None, str]:
    """Files of one level above 0 do not overlap; the first key of a file is not greater than its last."""
    if not subject.metadata.latest_schema().primary_keys:
        return "an append table has none"
    trees = 0
    for place, state in subject.states.items():
        if place.bucket == POSTPONE_BUCKET or not state.files:
            continue
        trees += 1
        where = subject.place(place)
        remedy = "`morrow compact --full` cannot mend it: restore the manifest, or write the bucket's rows anew"
        try:
            tree = levels_of(subject.target, state)
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
    return f"{plural(trees, 'merge tree')} in order"


def vectors(subject: Subject) -> Generator[Finding, None, str]:
    """Every deletion vector of the newest snapshot can be read, and has as many rows as metadata say."""
    metadata, snapshot = subject.metadata, subject.snapshot
    if snapshot is None:
        return "none"
    table_options, schema = metadata.options(metadata.latest_schema()), metadata.schema(snapshot.schema_id)
    live = live_entries(metadata, snapshot, schema).frame
    frame, known = with_vectors(metadata, table_options, snapshot, live)
    refs = deletion_refs(metadata, schema, table_options, known, frame)
    rows = sorted(refs)
    marked = data_files(metadata, schema, table_options, frame[rows], {i: refs[row] for i, row in enumerate(rows)})
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
    return f"{plural(len(marked), 'file')} with dead rows, {dead:,} of them" if marked else "none"


def data(subject: Subject) -> Generator[Finding, None, str]:
    """All rows are what metadata say: counts, statistics, order and uniqueness of keys, checksums, indexes."""
    if not subject.data:
        return "not read: --data, or doctor(data=True), reads every file"
    if subject.snapshot is None:
        return "nothing was committed"
    found = make_scan(subject.metadata).verification()
    for file in found.unsound:
        remedy = "the file may be sound" if isinstance(file.error, Unsupported) else "restore it from a backup"
        remedy += "; the other files can be read"
        for problem in file.problems:
            yield Finding(Severity.ERROR, "data", subject.relative(file.path), problem, remedy)
    return f"{plural(len(found.files), 'file')} read, {sum(file.rows for file in found.files):,} rows"


def types(subject: Subject) -> Generator[Finding, None, str]:
    """Files of before a change of a column's type can be read in the newest type."""
    if not subject.data:
        return "not read: --data, or doctor(data=True), reads the files of before"
    if subject.snapshot is None:
        return "nothing was committed"
    count = 0
    for error in unreadable(subject.metadata, make_scan(subject.metadata).plan):
        count += 1
        place, _, what = str(error).partition(": ")
        remedy = "set the type back: `morrow alter --type`"
        yield Finding(Severity.ERROR, "types", subject.relative(place), what, remedy)
    return f"{plural(count, 'column')} of files cannot be read" if count else "all values can be read"
