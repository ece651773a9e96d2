"""partial-update: values that are not null overwrite, oldest version first; sequence groups have an order of their own.

``fields.<s1>,<s2>.sequence-group`` = ``a,b`` makes a group: its columns change only when the version's (s1, s2) is not
older than the group's. An aggregate function inside a group also folds older versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.calls import aggregate_call, check_functions_known, check_retraction, function_of
from morrow.engine.merge.field_options import FieldOptions, require_columns, split_names
from morrow.engine.merge.ordering import check_comparable, check_sequence_fields
from morrow.engine.merge.spec import AggregateCall, ColumnMerge, MergeSpec, OnDelete, Rule, SequenceGroup
from morrow.engine.options import Options, TableOptions
from morrow.engine.options.declared.columns import SEQUENCE_GROUP
from morrow.engine.options.declared.merging import (
    IGNORE_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
)
from morrow.engine.options.declaring import FIELDS

GROUP_SUFFIX = f".{SEQUENCE_GROUP.suffix}"
UNGROUPED_FUNCTION = "last_non_null_value"
"""The only function that needs no sequence group."""

NamedGroup = tuple[tuple[str, ...], tuple[str, ...]]
"""A sequence group as an option gives it: its sequence columns, and the columns it lists."""


def partial_update(schema: TableSchema, options: TableOptions, where: str) -> MergeSpec:
    """Describes the merge of a partial-update table.

    Raises:
        Unsupported: an aggregate function or a sequence column that Morrow does not handle.
        InvalidArgument: groups or functions that do not fit the columns, or options that contradict each other.
    """
    check_sequence_fields(schema, options, where)
    check_functions_known(schema, options, where)
    groups = sequence_groups(schema, options.given, where)
    on_delete = _on_delete(options, groups, where)
    return MergeSpec(
        "partial-update",
        Rule.UPDATE,
        schema.trimmed_primary_keys,
        options.sequence_fields,
        options.sequence_descending,
        columns=tuple(_columns(schema, options, groups)),
        groups=groups,
        on_delete=on_delete,
        undeletable=_undeletable(on_delete, groups),
        refused_retractions=_refused(on_delete),
    )


def check_partial_update(schema: TableSchema, options: TableOptions, where: str) -> None:
    """Checks Paimon's rules for tables that are created or changed, which do not apply to reads.

    No group may list a sequence column of another group: the group that moves it would be undefined.

    Raises:
        InvalidArgument: such a group.
    """
    if not schema.primary_keys:
        return
    groups = dict(_named_groups(schema, options.raw, where))
    for sequence, listed in groups.items():
        for other in groups.keys() - {sequence}:
            if both := sorted(set(listed) & set(other)):
                raise InvalidArgument(
                    f"{where}: the sequence group of ({', '.join(sequence)}) lists {', '.join(both)}, which orders "
                    "another group"
                )


def _undeletable(on_delete: OnDelete, groups: Sequence[SequenceGroup]) -> str | None:
    if on_delete is OnDelete.REMOVE_RECORD or any(group.removes_record for group in groups):
        return None
    if not groups and on_delete is OnDelete.REFUSE:
        return f"set {PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE.key}"
    option = PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP if groups else PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE
    return f"overwrite the table with the rows that stay, or make another table with {option.key}"


def _refused(on_delete: OnDelete) -> str | None:
    if on_delete is not OnDelete.REFUSE:
        return None
    return (
        f"say what they do by an option: {IGNORE_DELETE.key}, {PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE.key}, or a "
        "sequence group"
    )


def sequence_groups(schema: TableSchema, given: Options, where: str) -> tuple[SequenceGroup, ...]:
    """Returns the groups in the order of their first sequence columns in the schema.

    Key columns that a group lists are left out of `protected`: all versions of a key agree on them. A sequence column
    that a group lists belongs to the group it orders.
    """
    found = sorted(_named_groups(schema, given.raw, where))
    _check_disjoint(found, where)
    place = {field.name: number for number, field in enumerate(schema.fields)}
    elsewhere = {*schema.primary_keys, *(name for sequence, _ in found for name in sequence)}
    removing = _removing(given, found, where)
    return tuple(
        SequenceGroup(
            sequence,
            tuple(sorted((name for name in protected if name not in elsewhere), key=place.__getitem__)),
            removes_record=not removing.isdisjoint(sequence),
        )
        for sequence, protected in sorted(found, key=lambda group: place[group[0][0]])
    )


def _named_groups(schema: TableSchema, raw: Mapping[str, str], where: str) -> Iterator[NamedGroup]:
    for key, value in raw.items():
        if key.startswith(FIELDS) and key.endswith(GROUP_SUFFIX):
            sequence, protected = split_names(key[len(FIELDS) : -len(GROUP_SUFFIX)]), split_names(value)
            require_columns(schema, (*sequence, *protected), key, where)
            for name in sequence:
                check_comparable(schema, name, where)
            yield sequence, protected


def _check_disjoint(groups: Sequence[NamedGroup], where: str) -> None:
    protecting: dict[str, str] = {}
    ordering: dict[str, str] = {}
    for sequence, protected in groups:
        group = f"({', '.join(sequence)})"
        for name in protected:
            if name in protecting:
                raise InvalidArgument(
                    f"{where}: column {name!r} is listed by two sequence groups, {protecting[name]} and {group}; "
                    "leave it in one"
                )
            protecting[name] = group
        for name in sequence:
            if name in ordering:
                # Paimon reads this, and the group that moves the column depends on the order of a hash map.
                raise Unsupported(
                    f"the sequence column {name!r} of two groups, {ordering[name]} and {group},",
                    where=where,
                    hint="give each group sequence columns of its own",
                )
            ordering[name] = group


def _removing(given: Options, groups: Sequence[NamedGroup], where: str) -> frozenset[str]:
    """Returns the sequence columns whose groups remove records; one column stands for its group."""
    text = given.get(PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP)
    if text is None:
        return frozenset()
    known = {name for sequence, _ in groups for name in sequence}
    names = split_names(text)
    for name in names:
        if name not in known:
            raise InvalidArgument(
                f"{where}: the option {PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP} names {name!r}, which is no "
                f"sequence column of a group; they are {', '.join(sorted(known)) or '(none)'}"
            )
    return frozenset(names)


def _columns(schema: TableSchema, options: TableOptions, groups: Sequence[SequenceGroup]) -> Iterator[ColumnMerge]:
    ordering = {name: number for number, group in enumerate(groups) for name in group.sequence}
    protecting = {name: number for number, group in enumerate(groups) for name in group.protected}
    for field in schema.fields:
        view = FieldOptions(field, options.given)
        if field.name in schema.primary_keys:
            check_retraction(view)
        elif field.name in ordering:
            # A function that options give a sequence column is ignored.
            yield ColumnMerge(field.name, None, ordering[field.name])
        else:
            yield ColumnMerge(field.name, _call(view, field.name in protecting), protecting.get(field.name))


def _call(options: FieldOptions, grouped: bool) -> AggregateCall | None:
    name = function_of(options)
    if name is None:
        return None
    if not grouped and name != UNGROUPED_FUNCTION:
        raise InvalidArgument(
            f"{options.where}: the aggregate function {name} of column {options.column.name!r} needs a sequence group; "
            f"list the column in a '{FIELDS}<sequence column>{GROUP_SUFFIX}', or use {UNGROUPED_FUNCTION}"
        )
    return aggregate_call(name, options)


def _on_delete(options: TableOptions, groups: Sequence[SequenceGroup], where: str) -> OnDelete:
    """Returns the effect of retractions: ``ignore-delete`` before groups before the removal of the row."""
    on_delete, on_group = PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE, PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP
    removes = options.given.get(on_delete)
    conflicts = {
        (IGNORE_DELETE.key, on_delete.key): options.ignore_delete and removes,
        (IGNORE_DELETE.key, on_group.key): options.ignore_delete and options.given.has(on_group),
        (SEQUENCE_GROUP.suffix, on_delete.key): bool(groups) and removes,
    }
    for (first, second), together in conflicts.items():
        if together:
            raise InvalidArgument(
                f"{where}: the options {first!r} and {second!r} contradict each other; set one of them"
            )
    if options.ignore_delete:
        return OnDelete.IGNORE
    if groups:
        return OnDelete.RETRACT
    return OnDelete.REMOVE_RECORD if removes else OnDelete.REFUSE
