"""Buckets finished: their files written and described, several at a time where they are small."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

from morrow.writers.append.writer import MOST_WRITERS, AppendWriter, describe_together, grouped
from morrow.writers.buckets.bucket_writer import BucketWriter
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.keyed.writer import MergeTreeWriter
from morrow.writers.target import WriteTarget

MANY, FLUSHES = 8, 8
"""The least number of buckets, small ones if keyed, whose files are finished in parallel, and how many at once."""
MOST_AHEAD = MOST_WRITERS
"""The most buckets that wait to be finished in parallel with their rows prepared."""


def finish(
    target: WriteTarget, writers: Sequence[BucketWriter], messages: list[CommitMessage], *, wait_compaction: bool
) -> None:
    """Adds the message of each writer to the list, also those of the writers before and beside a failing one."""
    appending = [writer for writer in writers if isinstance(writer, AppendWriter)]
    small = all(isinstance(writer, MergeTreeWriter) and writer.is_small for writer in writers)
    if len(writers) < MANY or not (small or len(appending) == len(writers)):
        for writer in writers:
            messages.append(writer.prepare_commit(wait_compaction=wait_compaction))  # noqa: PERF401 - see above
        return
    groups: Iterable[Sequence[BucketWriter]] = [writers] if small else grouped(appending)
    done: list[Future[CommitMessage]] = []
    try:
        # Small files cost little besides the wait until they are durable.
        with ThreadPoolExecutor(FLUSHES) as pool:
            try:
                for group in groups:
                    wait(done[:-MOST_AHEAD], return_when=FIRST_EXCEPTION)
                    if any(future.done() and future.exception() for future in done):
                        break
                    if not small:
                        describe_together(target, [each for each in group if isinstance(each, AppendWriter)])
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
