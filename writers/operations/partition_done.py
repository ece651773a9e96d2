"""Partitions marked as done: a file ``_SUCCESS`` in the folder of each tells other systems that it is complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.partition_path import partition_path
from morrow.engine.options.declared.catalogs import PARTITION_MARK_DONE_ACTION
from morrow.engine.options.kinds import names
from morrow.writers.history.expiry.snapshots import now_millis
from morrow.writers.history.tags.success import SUFFIX as SUCCESS_FILE
from morrow.writers.history.tags.success import write_success_at
from morrow.writers.operations.partitions import partition_spec
from morrow.writers.target import WriteTarget

SUCCESS = "success-file"


def mark_partitions_done(target: WriteTarget, partitions: Sequence[Mapping[str, object]]) -> list[str]:
    """Marks partitions as done; see `Table.mark_partition_done`."""
    actions = names(target.write.given.get(PARTITION_MARK_DONE_ACTION))
    others = [action for action in actions if action != SUCCESS]
    if others:
        raise Unsupported(
            f"'{PARTITION_MARK_DONE_ACTION.key}' = {others[0]!r}", where=target.where, hint=f"Morrow has {SUCCESS!r}"
        )
    if not partitions:
        raise InvalidArgument(f"{target.where}: mark_partition_done: name the partitions that are done")
    folders = [_folder(target, partition) for partition in partitions]  # all of them before the first is written
    paths = [f"{target.metadata.root}/{folder}/{SUCCESS_FILE}" for folder in folders]
    for path in paths:
        write_success_at(target.metadata, path, now_millis())
    return [target.store.url(path) for path in paths]


def _folder(target: WriteTarget, partition: Mapping[str, object]) -> str:
    """Returns the folder of a partition, or of all that begin with the values of its first columns."""
    spec = partition_spec(target, partition)
    keys = target.schema.partition_keys[: len(spec)]
    if not spec or set(spec) != set(keys):
        columns = ", ".join(target.schema.partition_keys) or "none"
        raise InvalidArgument(
            f"{target.where}: mark_partition_done: {dict(partition)!r} names no folder; give values of all partition "
            f"columns, or of the first ones ({columns})"
        )
    return partition_path(
        [spec[name] for name in keys],
        [target.schema.by_name[name].type for name in keys],
        keys,
        default_name=target.options.partition_default_name,
        legacy_name=target.options.legacy_partition_name,
    )
