"""The engines that choose one version of a key: `deduplicate` keeps the newest, `first-row` the oldest.

``-U`` and ``-D`` retract. With `deduplicate` the key is deleted if its newest record retracts; with ``ignore-delete``
retractions are skipped. `first-row` refuses them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.records import Record, RetractionError, Row, Rules


def deduplicate(records: Sequence[Record], names: Sequence[str], rules: Rules) -> Row | None:  # noqa: ARG001
    newest = None
    for record in records:
        if rules.ignore_delete and record.retracts:
            continue
        newest = record
    return None if newest is None or newest.retracts else newest.row


def first_row(records: Sequence[Record], names: Sequence[str], rules: Rules) -> Row | None:  # noqa: ARG001
    first = None
    for record in records:
        if record.retracts:
            if rules.ignore_delete:
                continue
            raise RetractionError(record)
        if first is None:
            first = record
    return None if first is None else first.row
