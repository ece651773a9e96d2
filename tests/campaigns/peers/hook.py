"""A plugin of pytest that sends each read of pypaimon to the campaign, with the rows that pypaimon returned.

It runs in pypaimon's environment. A message is a dict; the answer is a list of tables' copies to be read back:

=========== ================================================================
op          ``read``, ``readback`` (of a copy that Morrow wrote to), ``skip``
test        the id of the test
path        the table's folder
branch      its branch, None for main
options     options of this read that the stored table may lack
at          ``{}`` or the snapshot, tag or time, by the names of ``Table.scan``
columns     the names that are read
filter      None, or ``(method, column, literals)``; of ``and`` and ``or`` the literals are filters
limit       rows at most, or None
rows        an IPC stream
write       whether all rows of the newest snapshot were read
=========== ================================================================
"""

from __future__ import annotations

import datetime
import decimal
import functools
import os
import threading
from collections import Counter
from multiprocessing.connection import Client
from pathlib import Path

import pyarrow as pa
import pytest

ADDRESS = "MORROW_PEERS_ADDRESS"
LITERALS = (type(None), bool, int, float, str, bytes, decimal.Decimal, datetime.date, datetime.datetime, datetime.time)
TRAVEL = {
    "scan.snapshot-id": ("snapshot", int),
    "scan.tag-name": ("tag", str),
    "scan.timestamp-millis": ("timestamp", int),
    "scan.timestamp": ("timestamp", str),
    "scan.watermark": ("watermark", int),
    "scan.version": ("version", str),
}
"""Read options of pypaimon with an equivalent argument of `Table.scan`."""
FORMS = ("blob-as-descriptor", "blob-view.resolve.enabled")
"""Options that single reads of pypaimon set, which say what BLOB columns give."""
OTHER_ROWS = ("incremental-between", "scan.creation", "scan.file-creation", "scan.fallback", "search-mode")
"""Parts of the names of options that make a read anything but a scan of one snapshot."""
LOCAL_SCHEME = "file:"
MAX_COMPARED_BYTES = 64 * 2**20
"""Rows of more bytes are not compared: their text would take many times the memory."""


class NotCompared(Exception):
    """Raised, with the reason, for a read that is not a scan of one snapshot."""


class Recorder:
    """The plans of a test, and the connection to the campaign."""

    def __init__(self):
        self.connection = Client(os.environ[ADDRESS], "AF_UNIX")
        self.lock = threading.RLock()
        self.process = os.getpid()
        self.test = ""
        self.plans = []
        self.marked = {}
        self.written = set()
        self.is_reading = False

    def send(self, **message):
        self.connection.send({"test": self.test, **message})
        return self.connection.recv()

    def skip(self, reason):
        self.send(op="skip", reason=reason)

    def begin(self, test):
        self.test, self.plans, self.marked = test, [], {}


def pytest_configure():
    from pypaimon.read.table_read import TableRead
    from pypaimon.read.table_scan import TableScan

    recorder = Recorder()
    pytest.morrow_recorder = recorder
    TableScan.plan = _planning(recorder, TableScan.plan)
    for name in dir(TableScan):
        if name.startswith("with_"):
            setattr(TableScan, name, _marking(recorder, name, getattr(TableScan, name)))
    whole = TableRead.to_arrow
    TableRead.to_arrow = _reading(recorder, TableRead.to_arrow, whole)
    for name in ("to_arrow_batch_reader", "to_iterator"):
        if hasattr(TableRead, name):
            setattr(TableRead, name, _reading(recorder, getattr(TableRead, name), whole))


def pytest_runtest_setup(item):
    pytest.morrow_recorder.begin(item.nodeid)


def _planning(recorder, plan):
    @functools.wraps(plan)
    def planned(scan, *args, **kwargs):
        made = plan(scan, *args, **kwargs)
        recorder.plans.append((scan, made, _newest(scan.table)))
        return made

    return planned


def _marking(recorder, name, method):
    @functools.wraps(method)
    def marked(scan, *args, **kwargs):
        recorder.marked[id(scan)] = name
        return method(scan, *args, **kwargs)

    return marked


def _reading(recorder, method, whole):
    """Send the rows of each read; if they are returned in pieces, read them all beforehand."""

    @functools.wraps(method)
    def read(self, splits, *args, **kwargs):
        if recorder.is_reading or recorder.process != os.getpid():
            return method(self, splits, *args, **kwargs)
        with recorder.lock:
            recorder.is_reading = True
            try:
                rows = whole(self, splits, *args, **kwargs) if method is whole else None
                try:
                    _send(recorder, self, splits, whole, rows)
                except NotCompared as reason:
                    recorder.skip(str(reason))
                except (OSError, EOFError):
                    raise
                except Exception as error:  # noqa: BLE001  # of any pypaimon version; the test goes on
                    recorder.skip(f"the hook failed: {type(error).__name__}: {error}")
                return rows if method is whole else method(self, splits, *args, **kwargs)
            finally:
                recorder.is_reading = False

    return read


def _send(recorder, read, splits, whole, rows):
    splits = list(splits)
    table = read.table
    scan, newest = _plan_of(recorder, table, splits)
    if getattr(read, "include_row_kind", False):
        raise NotCompared("row kinds are read")
    if getattr(read, "nested_name_paths", None):
        raise NotCompared("members are read")
    if scan.predicate != read.predicate:
        raise NotCompared("the scan has another filter than the read")
    path = str(table.table_path)
    path = path[len(LOCAL_SCHEME) :].replace("//", "/") if path.startswith(LOCAL_SCHEME) else path
    if not Path(path).is_dir():
        raise NotCompared("the table is not on a local disk")
    travel, options = _travel(table)
    if not travel and table.schema_manager.latest().id != table.table_schema.id:
        raise NotCompared("the schema has changed since the table was opened")
    if not travel and _newest(table) != newest:
        travel = {"snapshot": newest}
    if rows is None:
        rows = whole(read, splits)
    if rows.nbytes > MAX_COMPARED_BYTES:
        raise NotCompared("more than 64 MiB of rows")
    predicates = [each for each in (read.predicate, getattr(scan, "partition_predicate", None)) if each is not None]
    trees = [_tree(each) for each in predicates]
    limit = getattr(read, "limit", None)
    limit = getattr(scan, "limit", None) if limit is None else limit
    branch = _branch(table)
    columns = [each.name for each in read.read_type]
    is_whole = not (travel or trees or branch or "data-file.external-paths" in options) and limit is None
    identity = (path, newest, table.table_schema.id)
    write = is_whole and columns == list(table.field_names) and identity not in recorder.written
    answer = recorder.send(
        op="read",
        path=path,
        branch=branch,
        options={name: options[name] for name in FORMS if name in options},
        at=travel,
        columns=columns,
        filter=("and", None, trees) if trees else None,
        limit=limit,
        rows=_ipc(rows),
        write=write,
    )
    if write:
        recorder.written.add(identity)
    for copy in answer:
        _read_back(recorder, table, whole, copy)


def _read_back(recorder, table, whole, copy):
    """Read a copy that Morrow wrote to, and send its rows."""
    path = type(table.table_path)(copy)
    message = {"op": "readback", "path": copy}
    try:
        schema = type(table.schema_manager)(table.file_io, path).latest()
        builder = type(table)(table.file_io, table.identifier, path, schema).new_read_builder()
        rows = whole(builder.new_read(), builder.new_scan().plan().splits())
    except Exception as error:  # noqa: BLE001  # counted by class
        recorder.send(**message, error=f"{type(error).__name__}: {error}")
    else:
        recorder.send(**message, rows=_ipc(rows))


def _plan_of(recorder, table, splits):
    """Return the scan whose plan has exactly these splits, and the newest snapshot at that time."""
    wanted = Counter(map(id, splits))
    for scan, plan, newest in reversed(recorder.plans):
        made = Counter(map(id, plan.splits()))
        if scan.table.table_path == table.table_path and wanted == made:
            if id(scan) in recorder.marked:
                raise NotCompared("a part of a plan: " + recorder.marked[id(scan)])
            return scan, newest
    raise NotCompared("some splits of a plan")


def _travel(table):
    """Return the time travel arguments in the table's options, and all options."""
    options = table.table_schema.options
    for name in options:
        if any(part in name for part in OTHER_ROWS):
            raise NotCompared("the option " + name)
    return {TRAVEL[name][0]: TRAVEL[name][1](options[name]) for name in options if name in TRAVEL}, options


def _branch(table):
    name = table.current_branch()
    return None if name == "main" else name


def _newest(table):
    snapshot = table.snapshot_manager().get_latest_snapshot()
    return None if snapshot is None else snapshot.id


def _tree(predicate):
    if predicate.method in ("and", "or"):
        return predicate.method, None, [_tree(each) for each in predicate.literals]
    literals = list(predicate.literals or ())
    for each in literals:
        if not isinstance(each, LITERALS):
            raise NotCompared("a literal of the type " + type(each).__name__)
    return predicate.method, predicate.field, literals


def _ipc(rows):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()
