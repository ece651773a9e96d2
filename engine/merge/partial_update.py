"""partial-update: values that are not null overwrite, oldest version first; sequence groups have an order of their own.

``fields.<s1>,<s2>.sequence-group`` = ``a,b`` makes a group: its columns change only when the version's (s1, s2) is not
older than the group's. An aggregate function inside a group folds versions of every age.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.calls import aggregate_call, check_functions_known, check_retraction, function_of
from morrow.engine.merge.field_options import PREFIX, FieldOptions, require_columns, split_names
from morrow.engine.merge.ordering import check_comparable, check_sequence_fields
from morrow.engine.merge.spec import AggregateCall, ColumnMerge, MergeSpec, OnDelete, SequenceGroup
from morrow.engine.options import TableOptions, flag

GROUP_SUFFIX = ".sequence-group"
REMOVE_ON_DELETE = "partial-update.remove-record-on-delete"
REMOVE_ON_GROUP = "partial-update.remove-record-on-sequence-group"
UNGROUPED_FUNCTION = "last_non_null_value"
"""The only function that needs no sequence group."""

NamedGroup = tuple[tuple[str, ...], tuple[str, ...]]
"""What an option says: the sequence columns of a group, and the columns it lists."""


def partial_update(schema: TableSchema, options: TableOptions, where: str) -> MergeSpec:
    """Describe the merge of a partial-update table.

    Raises:
        Unsupported: an aggregate function or a sequence column that Morrow does not handle.
        InvalidArgument: groups or functions that do not fit the columns, or options that contradict each other.
    """
    check_sequence_fields(schema, options, where)
    check_functions_known(schema, options, where)
    groups = sequence_groups(schema, options.raw, where)
    return MergeSpec(
        "partial-update",
        schema.trimmed_primary_keys,
        options.sequence_fields,
        options.sequence_descending,
        columns=tuple(_columns(schema, options, groups, where)),
        groups=groups,
        on_delete=_on_delete(options, groups, where),
    )


def sequence_groups(schema: TableSchema, raw: Mapping[str, str], where: str) -> tuple[SequenceGroup, ...]:
    """The groups in the order of their first sequence columns in the schema.

    Key columns that a group lists are left out of `protected`: all versions of a key agree on them. A sequence column
    that a group lists belongs to the group it orders.
    """
    found = sorted(_named_groups(schema, raw, where))
    _check_disjoint(found, where)
    place = {field.name: number for number, field in enumerate(schema.fields)}
    elsewhere = {*schema.primary_keys, *(name for sequence, _ in found for name in sequence)}
    removing = _removing(raw, found, where)
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
        if key.startswith(PREFIX) and key.endswith(GROUP_SUFFIX):
            sequence, protected = split_names(key[len(PREFIX) : -len(GROUP_SUFFIX)]), split_names(value)
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
                # Paimon reads this, and which group moves the column on depends on the order of a hash map.
                raise Unsupported(
                    f"the sequence column {name!r} of two groups, {ordering[name]} and {group},",
                    where=where,
                    hint="give each group sequence columns of its own",
                )
            ordering[name] = group


def _removing(raw: Mapping[str, str], groups: Sequence[NamedGroup], where: str) -> frozenset[str]:
    """The sequence columns that `REMOVE_ON_GROUP` names; one column stands for its group."""
    if REMOVE_ON_GROUP not in raw:
        return frozenset()
    known = {name for sequence, _ in groups for name in sequence}
    names = split_names(raw[REMOVE_ON_GROUP])
    for name in names:
        if name not in known:
            raise InvalidArgument(
                f"{where}: the option {REMOVE_ON_GROUP!r} names {name!r}, which is no sequence column of a group; "
                f"they are {', '.join(sorted(known)) or '(none)'}"
            )
    return frozenset(names)


def _columns(
    schema: TableSchema, options: TableOptions, groups: Sequence[SequenceGroup], where: str
) -> Iterator[ColumnMerge]:
    ordering = {name: number for number, group in enumerate(groups) for name in group.sequence}
    protecting = {name: number for number, group in enumerate(groups) for name in group.protected}
    for field in schema.fields:
        view = FieldOptions(field, options.raw, where)
        if field.name in schema.primary_keys:
            check_retraction(view)
        elif field.name in ordering:
            # A function that options give a sequence column means nothing.
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
            f"list the column in a '{PREFIX}<sequence column>{GROUP_SUFFIX}', or use {UNGROUPED_FUNCTION}"
        )
    return aggregate_call(name, options)


def _on_delete(options: TableOptions, groups: Sequence[SequenceGroup], where: str) -> OnDelete:
    """What retractions do: ``ignore-delete`` before groups before the removal of the row."""
    removes = flag(options.raw, REMOVE_ON_DELETE, False, where)
    conflicts = {
        ("ignore-delete", REMOVE_ON_DELETE): options.ignore_delete and removes,
        ("ignore-delete", REMOVE_ON_GROUP): options.ignore_delete and REMOVE_ON_GROUP in options.raw,
        ("sequence-group", REMOVE_ON_DELETE): bool(groups) and removes,
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
