"""Buckets finished: their files written and described, several at a time where they are small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeAlias

from morrow.writers.append.writer import AppendWriter
from morrow.writers.buckets.bucket_writer import BucketWriter
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.files.kind import FileKind
from morrow.writers.keyed.writer import MergeTreeWriter
from morrow.writers.target import WriteTarget

MANY, FLUSHES = 8, 8
"""The least number of buckets, small ones if keyed, whose files are finished in parallel, and how many at once."""
MOST_WRITERS = 512
"""The most writers whose files are described together, and the most that wait to be finished with that done.

Polars takes as long to find the bounds of ten rows as of ten thousand, and a file of few rows needs a dozen such
figures: one query finds them for the small files of many buckets.
"""
MOST_BYTES = 16 << 20
"""The most bytes of rows that are described together: they are copied."""

Describing: TypeAlias = AppendWriter | MergeTreeWriter


def finish(
    target: WriteTarget, writers: Sequence[BucketWriter], messages: list[CommitMessage], *, wait_compaction: bool
) -> None:
    """Adds the message of each writer to the list, also those of the writers before and beside a failing one."""
    describing = _in_parallel(writers)
    if describing is None:
        for writer in writers:
            messages.append(writer.prepare_commit(wait_compaction=wait_compaction))  # noqa: PERF401 - see above
        return
    done: list[Future[CommitMessage]] = []
    try:
        # Small files cost little besides the wait until they are durable.
        with ThreadPoolExecutor(FLUSHES) as pool:
            try:
                for group in _groups(describing):
                    wait(done[:-MOST_WRITERS], return_when=FIRST_EXCEPTION)
                    if any(future.done() and future.exception() for future in done):
                        break
                    _describe_together(target, group)
                    done += [pool.submit(each.prepare_commit, wait_compaction=wait_compaction) for each in group]
                wait(done, return_when=FIRST_EXCEPTION)
            finally:
                for future in done:
                    future.cancel()
    finally:
        messages += [each.result() for each in done if not each.cancelled() and each.exception() is None]
    for future in done:
        if not future.cancelled():
            future.result()


def _in_parallel(writers: Sequence[BucketWriter]) -> list[Describing] | None:
    """Returns the writers if several of them may be finished at once: appending ones, or small ones with keys."""
    appending = [writer for writer in writers if isinstance(writer, AppendWriter)]
    small = [writer for writer in writers if isinstance(writer, MergeTreeWriter) and writer.is_small]
    alike: list[Describing] = [*(appending or small)]
    return alike if len(alike) == len(writers) >= MANY else None


def _groups(writers: Sequence[Describing]) -> Iterator[list[Describing]]:
    """Yields the writers in groups that are worth describing together and small enough for it."""
    group, held = list[Describing](), 0
    for writer in writers:
        if group and (len(group) >= MOST_WRITERS or held + writer.buffered_bytes > MOST_BYTES):
            yield group
            group, held = [], 0
        group.append(writer)
        held += writer.buffered_bytes
    if group:
        yield group


def _describe_together(target: WriteTarget, writers: Sequence[Describing]) -> None:
    """Prepares the next file of each of these writers whose rows are few.

    Raises:
        InvalidArgument: rows of any of them that cannot be written. Unsupported: versions that cannot be merged.
    """
    target.find_folders([writer.partition for writer in writers])
    few = [(writer, rows) for writer in writers if (rows := writer.few_rows()) is not None]
    if len(few) < 2:
        return
    kind = FileKind.of(target, 0, changelog=False)
    for (writer, _), described in zip(few, kind.describe_each([rows for _, rows in few]), strict=True):
        writer.prepare((kind, described))
