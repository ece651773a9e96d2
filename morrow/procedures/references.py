"""Procedures for tags and branches."""

from __future__ import annotations

from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.snapshot import Tag
from morrow.procedures.procedure import DONE, RESULT, Call, Kind, Parameter, Procedure, Rows, required
from morrow.scans.travelling import moment
from morrow.tables.branches import Branches

NO_EXPIRED_TAGS = "No expired tags."
TAG_COLUMNS = "tagName STRING, snapshot BIGINT, commit_time BIGINT, watermark STRING"


def _create_tag(call: Call, tag: str, snapshot: int | None, time_retained: str | None) -> Rows:
    call.table.tags.create(tag, snapshot, time_retained)
    return DONE


def _create_tag_from_timestamp(call: Call, tag: str, timestamp: int, time_retained: str | None) -> Rows:
    made = call.table.tags.create_from_timestamp(tag, timestamp, time_retained)
    return [_tag_row(made)]


def _tag_row(tag: Tag) -> tuple[object, ...]:
    snapshot = tag.snapshot
    # Paimon's text of a missing watermark.
    watermark = "null" if snapshot.watermark is None else str(snapshot.watermark)
    return tag.name, snapshot.id, snapshot.time_millis, watermark


def _replace_tag(call: Call, tag: str, snapshot: int | None, time_retained: str | None) -> Rows:
    call.table.tags.replace(tag, snapshot, time_retained)
    return DONE


def _rename_tag(call: Call, tag: str, target_tag: str) -> Rows:
    call.table.tags.rename(tag, target_tag)
    return DONE


def _delete_tag(call: Call, tag: str) -> Rows:
    tags = call.table.tags
    for name in _names(tag):
        tags.delete(name, ignore_if_not_exists=True)  # as in Paimon: a missing tag is the result asked for
    return DONE


def _expire_tags(call: Call, older_than: str | None) -> Rows:
    gone = call.table.tags.expire(None if older_than is None else moment(older_than, "older_than"))
    return [(name,) for name in gone] or [(NO_EXPIRED_TAGS,)]


def _trigger_tag_automatic_creation(call: Call) -> Rows:
    call.table.tags.create_due()
    return DONE


def _create_branch(call: Call, branch: str, tag: str | None, ignore_if_exists: bool | str | None) -> Rows:
    ignore = str(ignore_if_exists or False).strip().lower() == "true"
    call.table.branches.create(branch, tag=tag, ignore_if_exists=ignore)
    return DONE


def _delete_branch(call: Call, branch: str) -> Rows:
    branches = call.table.branches
    for name in _names(branch):
        branches.delete(name)
    return DONE


def _rename_branch(call: Call, from_branch: str, to_branch: str) -> Rows:
    call.table.branches.rename(from_branch, to_branch)
    return DONE


def _fast_forward(call: Call, branch: str) -> Rows:
    call.table.branches.fast_forward(branch)
    return DONE


def _merge_branch(call: Call, source_branch: str, target_branch: str | None) -> Rows:
    Branches(call.metadata.on_branch(target_branch or MAIN_BRANCH)).merge(source_branch)
    return DONE


def _names(text: str) -> list[str]:
    """Splits names at commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


_TAG = (required("tag"), Parameter("snapshot", Kind.BIGINT), Parameter("time_retained"))
_SINCE = (required("tag"), required("timestamp", Kind.BIGINT), Parameter("time_retained"))
_BRANCH = (required("branch"), Parameter("tag"), Parameter("ignoreIfExists", Kind.FLAG))

PROCEDURES = (
    Procedure("create_tag", _TAG, RESULT, _create_tag),
    Procedure("create_tag_from_timestamp", _SINCE, TAG_COLUMNS, _create_tag_from_timestamp),
    Procedure("replace_tag", _TAG, RESULT, _replace_tag),
    Procedure("rename_tag", (required("tag"), required("target_tag")), RESULT, _rename_tag),
    Procedure("delete_tag", (required("tag"),), RESULT, _delete_tag),
    Procedure("expire_tags", (Parameter("older_than"),), "expired_tags STRING NOT NULL", _expire_tags),
    Procedure("trigger_tag_automatic_creation", (), RESULT, _trigger_tag_automatic_creation),
    Procedure("create_branch", _BRANCH, RESULT, _create_branch),
    Procedure("delete_branch", (required("branch"),), RESULT, _delete_branch),
    Procedure("rename_branch", (required("from_branch"), required("to_branch")), RESULT, _rename_branch),
    Procedure("merge_branch", (required("source_branch"), Parameter("target_branch")), RESULT, _merge_branch),
    Procedure("fast_forward", (required("branch"),), RESULT, _fast_forward),
)
