"""Options of a table that are overridden for one operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from morrow.engine.errors import InvalidArgument
from morrow.engine.options import parse_write_options
from morrow.engine.options.registry import OPTIONS, present_key
from morrow.engine.schema.option_changes import check_set_option
from morrow.writers.target import WriteTarget


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
