"""Rules about history: the start of reads, the retention of snapshots, the contents of streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from morrow.engine.options.declared import scans
from morrow.engine.options.declared.history import PARTITION_EXPIRATION_TIME
from morrow.engine.options.declared.merging import CHANGELOG_PRODUCER
from morrow.engine.options.declaring import AnyOption
from morrow.engine.options.expiring import parse_expire_options
from morrow.engine.schema.validation.proposal import Proposal

MILLIS, TIMESTAMP = scans.SCAN_TIMESTAMP_MILLIS, scans.SCAN_TIMESTAMP
SNAPSHOT, TAG, WATERMARK = scans.SCAN_SNAPSHOT_ID, scans.SCAN_TAG_NAME, scans.SCAN_WATERMARK
FILE_TIME, CREATION_TIME = scans.SCAN_FILE_CREATION_TIME_MILLIS, scans.SCAN_CREATION_TIME_MILLIS
BETWEEN, BETWEEN_TIMES = scans.INCREMENTAL_BETWEEN, scans.INCREMENTAL_BETWEEN_TIMESTAMP
TO_TAG = scans.INCREMENTAL_TO_AUTO_TAG

EVERY_START = (MILLIS, FILE_TIME, TIMESTAMP, SNAPSHOT, TAG, BETWEEN_TIMES, BETWEEN, TO_TAG)


@dataclass(frozen=True)
class Start:
    """The options required by a start mode: exactly one of `one_of` (if any), none of `none_of`."""

    one_of: tuple[AnyOption, ...] = ()
    none_of: tuple[AnyOption, ...] = ()


START_MODES = {
    "from-timestamp": Start((MILLIS, TIMESTAMP), (SNAPSHOT, FILE_TIME, TAG, BETWEEN_TIMES, BETWEEN, TO_TAG)),
    "from-snapshot": Start((SNAPSHOT, TAG, WATERMARK), (MILLIS, TIMESTAMP, FILE_TIME, BETWEEN_TIMES, BETWEEN, TO_TAG)),
    "incremental": Start((BETWEEN, BETWEEN_TIMES, TO_TAG), (SNAPSHOT, MILLIS, FILE_TIME, TIMESTAMP, TAG)),
    "from-snapshot-full": Start((SNAPSHOT,), (MILLIS, TIMESTAMP, FILE_TIME, TAG, BETWEEN_TIMES, BETWEEN, TO_TAG)),
    "from-file-creation-time": Start((FILE_TIME,), (SNAPSHOT, MILLIS, TAG, BETWEEN_TIMES, BETWEEN, TO_TAG)),
}
IMPLIED = (
    ((MILLIS, TIMESTAMP), "from-timestamp"),
    ((SNAPSHOT, TAG, WATERMARK), "from-snapshot"),
    ((FILE_TIME,), "from-file-creation-time"),
    ((CREATION_TIME,), "from-creation-timestamp"),
    ((BETWEEN, BETWEEN_TIMES), "incremental"),
)
"""The start mode when ``scan.mode`` is not set: the first line of which an option is set."""


def start(proposal: Proposal) -> None:
    """Checks that options for the start of a read do not contradict each other."""
    given = proposal.given
    proposal.require(
        not given.has(scans.SCAN_VERSION), f"{scans.SCAN_VERSION} is for one read; a table takes {SNAPSHOT} or {TAG}"
    )
    mode = given.get(scans.SCAN_MODE)
    if mode == scans.SCAN_MODE.default:
        mode = next((implied for options, implied in IMPLIED if any(map(given.has, options))), "latest-full")
    rule = START_MODES.get(mode, Start(none_of=EVERY_START))
    starts = [option for option in rule.one_of if given.has(option)]
    proposal.require(
        not rule.one_of or len(starts) == 1,
        f"{scans.SCAN_MODE} {mode} goes with exactly one of {_keys(rule.one_of)}; set are {_keys(starts) or 'none'}",
    )
    beside = [option for option in rule.none_of if given.has(option)]
    proposal.require(not beside, f"{scans.SCAN_MODE} {mode} does not go with {_keys(beside)}")


def _keys(options: Sequence[AnyOption]) -> str:
    return ", ".join(option.key for option in options)


def retention(proposal: Proposal) -> None:
    """Checks that at least one snapshot and one changelog are kept, and no minimum exceeds its maximum."""
    parsed = parse_expire_options(proposal.given.raw, where=proposal.where)
    for what, kept in (("snapshot", parsed.snapshots), ("changelog", parsed.changelogs)):
        proposal.require(kept.least > 0, f"'{what}.num-retained.min' = {kept.least} must be 1 or more")
        proposal.require(
            kept.least <= kept.most,
            f"'{what}.num-retained.min' = {kept.least} is more than '{what}.num-retained.max' = {kept.most}",
        )


def streams(proposal: Proposal) -> None:
    """Checks that streams of overwrites have a primary key, and a changelog that does not contain them already."""
    overwrites = scans.STREAMING_READ_OVERWRITE
    if proposal.given.get(overwrites):
        producer = proposal.options.changelog_producer
        proposal.require(
            producer not in ("full-compaction", "lookup"),
            f"{overwrites} does not go with {CHANGELOG_PRODUCER} = {producer}: changes would be read twice",
        )
        proposal.require(
            proposal.keyed,
            f"{overwrites} needs a primary key; set {scans.STREAMING_READ_APPEND_OVERWRITE} instead",
        )


def partition_expiration(proposal: Proposal) -> None:
    """Checks that only tables with partitions expire them."""
    proposal.require(
        not proposal.given.has(PARTITION_EXPIRATION_TIME) or bool(proposal.schema.partition_keys),
        f"{PARTITION_EXPIRATION_TIME} needs partition keys",
    )


RULES = (start, retention, streams, partition_expiration)
