"""What a table says of itself: a few lines of text that fit a screen, and HTML for notebooks."""

from __future__ import annotations

from morrow.engine.errors import MorrowError
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.plan.entries import live_entries
from morrow.engine.plan.manifests import manifests_of
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.telling import one_line, shown, without_secrets
from morrow.engine.wording import age_text, moment_text, plural, size_text
from morrow.html.elements import joined
from morrow.html.tables import facts, table, titled

MOST_COLUMNS = 40
"""Columns that are listed; the others are counted."""
MOST_MANIFEST_BYTES = 8 << 20
"""Bytes of manifests above which a notebook does not wait for the size of a table."""


def text_of(metadata: TableMetadata, path: str) -> str:
    """Returns where the table is, its keys, its newest snapshot, and its columns, one a line."""
    schema = metadata.latest_schema()
    keys = [f"primary key ({', '.join(schema.primary_keys)})"] if schema.primary_keys else ["append"]
    if schema.partition_keys:
        keys.append(f"partitioned by ({', '.join(schema.partition_keys)})")
    branch = "" if metadata.branch == MAIN_BRANCH else f", branch {metadata.branch}"
    columns = [shown(f"  {one_line(f.name)}: {f.type}") for f in schema.fields[:MOST_COLUMNS]]
    if (left := len(schema.fields) - MOST_COLUMNS) > 0:
        columns.append(f"  ... and {plural(left, 'more column')}")
    lines = [shown(f"Table({shown(path)!r}{branch}, {one_line(', '.join(keys))})"), *columns]
    return "\n".join([*lines, f"  {_snapshot(metadata)}"])


def html_of(metadata: TableMetadata, path: str, name: str) -> str:
    """Returns the same and the options, without their secrets, and how large the table is."""
    schema = metadata.latest_schema()
    partitions = ", ".join(schema.partition_keys)
    known = [
        ("path", path),
        ("branch", None if metadata.branch == MAIN_BRANCH else metadata.branch),
        ("comment", schema.comment),
        ("primary key", ", ".join(schema.primary_keys) or "none: an append table"),
        ("partitioned by", partitions or None),
        ("snapshot", _snapshot(metadata)),
        ("stored", _stored(metadata)),
        *((key, value) for key, value in without_secrets(schema.options).items()),
    ]
    rows = [(field.name, field.type, field.description or "") for field in schema.fields]
    return joined(titled(name, facts(known)), table(("column", "type", "comment"), rows))


def _snapshot(metadata: TableMetadata) -> str:
    try:
        newest = metadata.latest_snapshot()
    except MorrowError as error:
        return shown(f"snapshot: {one_line(str(error))}")
    if newest is None:
        return "no snapshot: nothing was committed"
    count = newest.total_record_count
    rows = "" if count is None else f", {plural(count, 'stored row')}"
    return f"snapshot {newest.id}, {moment_text(newest.time)} ({age_text(newest.time)}){rows}"


def _stored(metadata: TableMetadata) -> str | None:
    """Returns ``3 files, 12 KiB``; None where that takes long to know, or cannot be known."""
    try:
        newest = metadata.latest_snapshot()
        if newest is None or int(manifests_of(metadata, newest)["_FILE_SIZE"].sum()) > MOST_MANIFEST_BYTES:
            return None
        files = live_entries(metadata, newest, metadata.schema(newest.schema_id)).frame
    except MorrowError as error:
        return one_line(str(error))
    return f"{plural(files.height, 'file')}, {size_text(int(files['_FILE_SIZE'].sum()))}"
