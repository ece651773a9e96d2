"""Rules about history: where reads start, how long snapshots stay, what streams read."""

from __future__ import annotations

from dataclasses import dataclass

from morrow.engine.schema.validation.proposal import Proposal

MILLIS, TIMESTAMP = "scan.timestamp-millis", "scan.timestamp"
SNAPSHOT, TAG, WATERMARK, VERSION = "scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version"
FILE_TIME, CREATION_TIME = "scan.file-creation-time-millis", "scan.creation-time-millis"
BETWEEN, BETWEEN_TIMES, TO_TAG = "incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag"

EVERY_START = (MILLIS, FILE_TIME, TIMESTAMP, SNAPSHOT, TAG, BETWEEN_TIMES, BETWEEN, TO_TAG)


@dataclass(frozen=True)
class Start:
    """What options a start mode goes with: exactly one of `one_of` (if any), none of `none_of`."""

    one_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()


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
"""What starts reads when ``scan.mode`` is not set: the first line of which an option is."""


def start(proposal: Proposal) -> None:
    """Options that say where a read starts do not contradict each other."""
    raw = proposal.raw
    proposal.require(VERSION not in raw, f"{VERSION!r} is for one read; a table takes {SNAPSHOT!r} or {TAG!r}")
    mode = raw.get("scan.mode", "default").lower()
    if mode == "default":
        mode = next((implied for keys, implied in IMPLIED if any(key in raw for key in keys)), "latest-full")
    rule = START_MODES.get(mode, Start(none_of=EVERY_START))
    given = [key for key in rule.one_of if key in raw]
    proposal.require(
        not rule.one_of or len(given) == 1,
        f"'scan.mode' {mode} goes with exactly one of {', '.join(rule.one_of)}; set are {', '.join(given) or 'none'}",
    )
    beside = [key for key in rule.none_of if key in raw]
    proposal.require(not beside, f"'scan.mode' {mode} does not go with {', '.join(beside)}")


def retention(proposal: Proposal) -> None:
    """At least one snapshot and one changelog is kept, and no more at least than at most."""
    least = proposal.integer("snapshot.num-retained.min", 10)
    most = proposal.integer("snapshot.num-retained.max", 2**31 - 1)
    bounds = {
        "snapshot": (least, most),
        "changelog": (
            proposal.integer("changelog.num-retained.min", least),
            proposal.integer("changelog.num-retained.max", most),
        ),
    }
    for what, (low, high) in bounds.items():
        proposal.require(low > 0, f"'{what}.num-retained.min' = {low} must be 1 or more")
        proposal.require(
            low <= high, f"'{what}.num-retained.min' = {low} is more than '{what}.num-retained.max' = {high}"
        )


def streams(proposal: Proposal) -> None:
    """Streams that read overwrites need a primary key, and a changelog that does not hold them already."""
    if proposal.flag("streaming-read-overwrite"):
        producer = proposal.changelog_producer
        proposal.require(
            producer not in ("full-compaction", "lookup"),
            f"'streaming-read-overwrite' does not go with 'changelog-producer' = {producer}: "
            "changes would be read twice",
        )
        proposal.require(
            proposal.keyed,
            "'streaming-read-overwrite' needs a primary key; set 'streaming-read-append-overwrite' instead",
        )


def partition_expiration(proposal: Proposal) -> None:
    """Only tables with partitions expire them."""
    proposal.require(
        "partition.expiration-time" not in proposal.raw or bool(proposal.schema.partition_keys),
        "'partition.expiration-time' needs partition keys",
    )


RULES = (start, retention, streams, partition_expiration)
