"""Describes the small files of many buckets at once: one query finds the metadata of all of them.

Polars takes as long to find the bounds of ten rows as of ten thousand, and a file of few rows needs a dozen such
figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from morrow.writers.append.writer import AppendWriter
from morrow.writers.files.kind import FileKind
from morrow.writers.target import WriteTarget

MOST_WRITERS = 512
MOST_BYTES = 16 << 20
"""The most bytes of rows that are described together: they are copied."""


def groups(writers: Sequence[AppendWriter]) -> Iterator[list[AppendWriter]]:
    """Yields the writers in groups that are worth describing together and small enough for it."""
    group, held = list[AppendWriter](), 0
    for writer in writers:
        if group and (len(group) >= MOST_WRITERS or held + writer.buffered_bytes > MOST_BYTES):
            yield group
            group, held = [], 0
        group.append(writer)
        held += writer.buffered_bytes
    if group:
        yield group


def describe(target: WriteTarget, writers: Sequence[AppendWriter]) -> None:
    """Prepares the next file of each of these writers whose rows are few.

    Raises:
        InvalidArgument: rows of any of them that cannot be written.
    """
    few = [(writer, rows) for writer in writers if (rows := writer.few_rows()) is not None]
    if len(few) < 2:
        return
    kind = FileKind.of(target, 0, changelog=False)
    target.find_folders([writer.partition for writer, _ in few])
    for (writer, _), described in zip(few, kind.describe_each([rows for _, rows in few]), strict=True):
        writer.prepare(kind, described)
