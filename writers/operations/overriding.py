"""Options of a table that are overridden for one operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options import parse_write_options
from morrow.engine.options.declared import commits, compaction, files, flink, formats, history, merging, table
from morrow.engine.options.registry import OPTIONS, declared_in, present_key
from morrow.engine.schema.option_changes import check_set_option
from morrow.engine.values import replace
from morrow.writers.target import WriteTarget

OF_A_WRITE = frozenset(
    option.key
    for option in (
        *(option for theme in (files, formats, compaction, commits, history) for option in declared_in(theme)),
        *(merging.IGNORE_DELETE, merging.IGNORE_UPDATE_BEFORE, merging.LOOKUP_WAIT),
        *(table.DYNAMIC_BUCKET_TARGET_ROW_NUM, table.POSTPONE_BATCH_WRITE_FIXED_BUCKET),
        flink.SINK_PARALLELISM,
    )
    if not option.idle and not option.immutable
)
"""Options that may be others for one write: how files are written, compacted, committed, not what rows mean."""


def check_heeded(options: Iterable[str]) -> None:
    """Raises `Unsupported` for an option that a single write does not heed."""
    for key in options:
        name = present_key(key)
        if name not in OF_A_WRITE:
            idle = OPTIONS[name].idle if name in OPTIONS else None
            reason = f", where it has no effect: {idle}," if idle else ""
            raise Unsupported(f"the option {key!r} of a write{reason}", hint="set options of a table by ALTER TABLE")


def with_options(target: WriteTarget, options: Mapping[str, str]) -> WriteTarget:
    """Returns the table with other options, for one operation.

    Raises:
        InvalidArgument: an unknown option, a value that does not parse, or an option that cannot change.
        Unsupported: as if the table had these options.
    """
    if not options:
        return target
    changed: dict[str, str] = {}
    for key, value in options.items():
        name = present_key(key)
        if name not in OPTIONS:
            raise InvalidArgument(f"{target.where}: there is no option {key!r} of tables")
        check_set_option(target.schema.options, name, value, target.where)
        changed[name] = value
    schema = replace(target.schema, options={**target.schema.options, **changed})
    write = parse_write_options(schema.options, keyed=target.keyed, where=target.where)
    return replace(target, schema=schema, options=target.metadata.options(schema), write=write)
