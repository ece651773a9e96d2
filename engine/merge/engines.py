"""Merge engines: the built-in engines, engines of other packages, and the `MergeSpec` that each creates for a table.

To add an engine, put a `MergeEngine` in `BUILT_IN`, or in an entry point ``morrow.merge_engines`` of another package.
In an entry point, the function `MergeEngine.describe` alone suffices.

- deduplicate: the newest version of a key is its row; a key whose newest version is a retraction is omitted.
- first-row: compaction keeps the first version. Above level 0 each key has one row, so reads merge nothing.
- aggregation: each column outside the primary key has a function, last_non_null_value unless options name another.
- partial-update: values that are not null overwrite, oldest version first. ``fields.<s1>,<s2>.sequence-group`` =
  ``a,b`` makes a group: its columns change only if (s1, s2) of the version is not older than (s1, s2) of the group. An
  aggregate function inside a group also folds older versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.functions import (
    build_aggregate_call,
    check_functions_known,
    check_retraction,
    find_function_name,
)
from morrow.engine.merge.spec import (
    AggregateCall,
    ColumnMerge,
    FieldOptions,
    MergeSpec,
    OnDelete,
    Rule,
    SequenceGroup,
    check_comparable,
    check_field_names,
    check_sequence_fields,
    require_columns,
    split_names,
)
from morrow.engine.options import Options, TableOptions
from morrow.engine.options.declarations import FIELDS, MERGE_ENGINE_PLUGINS, ChangelogProducer
from morrow.engine.options.declared.merging import (
    AGGREGATION_REMOVE_RECORD_ON_DELETE,
    CHANGELOG_PRODUCER,
    DELETION_VECTORS_ENABLED,
    IGNORE_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
    SEQUENCE_FIELD,
    SEQUENCE_GROUP,
)
from morrow.engine.plugins import load_plugin
from morrow.engine.structs import replace


def describe_deduplicate(schema: TableSchema, options: TableOptions, where: str) -> MergeSpec:
    """Describe the merge of a deduplicate table. Raises `InvalidArgument` for an invalid sequence field."""
    check_sequence_fields(schema, options, where)
    return MergeSpec(
        "deduplicate",
        Rule.NEWEST,
        schema.trimmed_primary_keys,
        options.sequence_fields,
        options.sequence_descending,
        options.ignore_delete,
    )


CHANGELOG_PRODUCERS = (ChangelogProducer.NONE, ChangelogProducer.LOOKUP)

OVERWRITE_ADVICE = (
    "overwrite the table with the rows that stay: table.overwrite(table.scan(filter='NOT (...)'), dynamic=False)"
)


def describe_first_row(schema: TableSchema, options: TableOptions, where: str) -> MergeSpec:
    """Describe the merge of a first-row table. Raises `InvalidArgument` for incompatible options, as Paimon does."""
    check_first_row(schema, options, where)
    return MergeSpec(
        "first-row",
        Rule.FIRST,
        schema.trimmed_primary_keys,
        ignore_delete=options.ignore_delete,
        hides_level_zero=True,
        updatable=False,
        undeletable=f"drop whole partitions, or {OVERWRITE_ADVICE}",
        refused_retractions="set ignore-delete to leave them out",
    )


def check_first_row(_schema: TableSchema, options: TableOptions, where: str) -> None:
    """Raise `InvalidArgument` for options that contradict the engine; also called when append tables are created."""
    if options.sequence_fields:
        raise InvalidArgument(f"{where}: merge-engine first-row does not go with the option {SEQUENCE_FIELD}")
    if options.deletion_vectors:
        raise InvalidArgument(
            f"{where}: merge-engine first-row does not go with {DELETION_VECTORS_ENABLED}: no row is ever replaced"
        )
    producer = options.changelog_producer
    if producer not in CHANGELOG_PRODUCERS:
        raise InvalidArgument(
            f"{where}: merge-engine first-row does not go with {CHANGELOG_PRODUCER} = {producer.value!r}; "
            f"it takes {' or '.join(CHANGELOG_PRODUCERS)}"
        )


DEFAULT_FUNCTION = "last_non_null_value"
SEQUENCE_FUNCTION = "last_value"
"""The function of the columns of ``sequence.field``: the newest version's value, null or not."""


def describe_aggregation(schema: TableSchema, options: TableOptions, where: str) -> MergeSpec:
    """Describe the merge of an aggregation table.

    ``ignore-delete`` drops retractions when rows are written; retractions in files still retract.

    Raises:
        Unsupported: an aggregate function that Morrow does not know.
        InvalidArgument: functions that do not fit their columns, or options that contradict each other.
    """
    check_sequence_fields(schema, options, where)
    check_functions_known(schema, options, where)
    views = {field.name: FieldOptions(field, options.given) for field in schema.fields}
    for name in schema.primary_keys:
        check_retraction(views[name])
    removes = options.given.get(AGGREGATION_REMOVE_RECORD_ON_DELETE)
    return MergeSpec(
        "aggregation",
        Rule.AGGREGATE,
        schema.trimmed_primary_keys,
        options.sequence_fields,
        options.sequence_descending,
        columns=tuple(
            ColumnMerge(name, _build_call(view, name in options.sequence_fields))
            for name, view in views.items()
            if name not in schema.primary_keys
        ),
        on_delete=OnDelete.REMOVE_RECORD if removes else OnDelete.RETRACT,
        updatable=False,
        undeletable=None
        if removes
        else f"{OVERWRITE_ADVICE}, or make another table with {AGGREGATION_REMOVE_RECORD_ON_DELETE.key}",
    )


def _build_call(options: FieldOptions, is_sequence: bool) -> AggregateCall:
    if is_sequence:
        return build_aggregate_call(SEQUENCE_FUNCTION, options)
    name = find_function_name(options)
    return build_aggregate_call(DEFAULT_FUNCTION if name is None else name, options)


GROUP_SUFFIX = f".{SEQUENCE_GROUP.suffix}"
UNGROUPED_FUNCTION = "last_non_null_value"
"""The only function that needs no sequence group."""

NamedGroup = tuple[tuple[str, ...], tuple[str, ...]]
"""A sequence group as an option specifies it: its sequence columns, and the columns it lists."""


def describe_partial_update(schema: TableSchema, options: TableOptions, where: str) -> MergeSpec:
    """Describe the merge of a partial-update table.

    Raises:
        Unsupported: an aggregate function or a sequence column that Morrow does not handle.
        InvalidArgument: groups or functions that do not fit the columns, or options that contradict each other.
    """
    check_sequence_fields(schema, options, where)
    check_functions_known(schema, options, where)
    groups = parse_sequence_groups(schema, options.given, where)
    on_delete = _resolve_on_delete(options, groups, where)
    return MergeSpec(
        "partial-update",
        Rule.UPDATE,
        schema.trimmed_primary_keys,
        options.sequence_fields,
        options.sequence_descending,
        columns=tuple(_describe_columns(schema, options, groups)),
        groups=groups,
        on_delete=on_delete,
        undeletable=_explain_undeletable(on_delete, groups),
        refused_retractions=_explain_refusal(on_delete),
    )


def check_partial_update(schema: TableSchema, options: TableOptions, where: str) -> None:
    """Check Paimon's rules for tables that are created or changed, which do not apply to reads.

    No group may list a sequence column of another group: it would be undefined which group changes the column.

    Raises `InvalidArgument`: a group lists such a column.
    """
    if not schema.primary_keys:
        return
    groups = dict(_parse_named_groups(schema, options.raw, where))
    for sequence, listed in groups.items():
        for other in groups.keys() - {sequence}:
            if both := sorted(set(listed) & set(other)):
                raise InvalidArgument(
                    f"{where}: the sequence group of ({', '.join(sequence)}) lists {', '.join(both)}, which orders "
                    "another group"
                )


def _explain_undeletable(on_delete: OnDelete, groups: Sequence[SequenceGroup]) -> str | None:
    if on_delete is OnDelete.REMOVE_RECORD or any(group.removes_record for group in groups):
        return None
    if not groups and on_delete is OnDelete.REFUSE:
        return f"set {PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE.key}, or {OVERWRITE_ADVICE}"
    option = PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP if groups else PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE
    return f"{OVERWRITE_ADVICE}, or make another table with {option.key}"


def _explain_refusal(on_delete: OnDelete) -> str | None:
    if on_delete is not OnDelete.REFUSE:
        return None
    return (
        f"say what they do by an option: {IGNORE_DELETE.key}, {PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE.key}, or a "
        "sequence group"
    )


def parse_sequence_groups(schema: TableSchema, given: Options, where: str) -> tuple[SequenceGroup, ...]:
    """Return the groups in the order of their first sequence columns in the schema.

    Key columns that a group lists are omitted from `protected`: all versions of a key agree on them. A sequence column
    that a group lists belongs to the group that it orders.
    """
    found = sorted(_parse_named_groups(schema, given.raw, where))
    _check_disjoint(found, where)
    place = {field.name: number for number, field in enumerate(schema.fields)}
    elsewhere = {*schema.primary_keys, *(name for sequence, _ in found for name in sequence)}
    removing = _find_removing_columns(given, found, where)
    return tuple(
        SequenceGroup(
            sequence,
            tuple(sorted((name for name in protected if name not in elsewhere), key=place.__getitem__)),
            removes_record=not removing.isdisjoint(sequence),
        )
        for sequence, protected in sorted(found, key=lambda group: place[group[0][0]])
    )


def _parse_named_groups(schema: TableSchema, raw: Mapping[str, str], where: str) -> Iterator[NamedGroup]:
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
                # Paimon reads such tables, and the order of a hash map decides which group changes the column.
                raise Unsupported(
                    f"the sequence column {name!r} of two groups, {ordering[name]} and {group},",
                    where=where,
                    hint="give each group sequence columns of its own",
                )
            ordering[name] = group


def _find_removing_columns(given: Options, groups: Sequence[NamedGroup], where: str) -> frozenset[str]:
    """Return the sequence columns whose groups remove records; one column represents its group."""
    text = given.get(PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP)
    if text is None:
        return frozenset()
    known = {name for sequence, _ in groups for name in sequence}
    names = split_names(text)
    for name in names:
        if name not in known:
            raise InvalidArgument(
                f"{where}: the option {PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP} names {name!r}, which is not a "
                f"sequence column of a group; they are {', '.join(sorted(known)) or '(none)'}"
            )
    return frozenset(names)


def _describe_columns(
    schema: TableSchema, options: TableOptions, groups: Sequence[SequenceGroup]
) -> Iterator[ColumnMerge]:
    ordering = {name: number for number, group in enumerate(groups) for name in group.sequence}
    protecting = {name: number for number, group in enumerate(groups) for name in group.protected}
    for field in schema.fields:
        view = FieldOptions(field, options.given)
        if field.name in schema.primary_keys:
            check_retraction(view)
        elif field.name in ordering:
            # A function that options set for a sequence column is ignored.
            yield ColumnMerge(field.name, None, ordering[field.name])
        else:
            yield ColumnMerge(
                field.name, _build_grouped_call(view, field.name in protecting), protecting.get(field.name)
            )


def _build_grouped_call(options: FieldOptions, grouped: bool) -> AggregateCall | None:
    name = find_function_name(options)
    if name is None:
        return None
    if not grouped and name != UNGROUPED_FUNCTION:
        raise InvalidArgument(
            f"{options.where}: the aggregate function {name} of column {options.column.name!r} needs a sequence group; "
            f"list the column in a '{FIELDS}<sequence column>{GROUP_SUFFIX}', or use {UNGROUPED_FUNCTION}"
        )
    return build_aggregate_call(name, options)


def _resolve_on_delete(options: TableOptions, groups: Sequence[SequenceGroup], where: str) -> OnDelete:
    """Return the effect of retractions. Precedence: ``ignore-delete``, then groups, then removal of the row."""
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


Describe = Callable[[TableSchema, TableOptions, str], MergeSpec]
Check = Callable[[TableSchema, TableOptions, str], None]


def _accept_all(schema: TableSchema, options: TableOptions, where: str) -> None:
    """Accept every table."""


class MergeEngine(msgspec.Struct, frozen=True):
    """A merge engine: the description of a table's merge, and its rules for tables that are created or changed.

    Both functions get the schema, its options and the table's location for messages, and raise `MorrowError`.
    `describe` is called for tables with a primary key. `check` is called before any table whose options name the engine
    is created or changed.
    """

    describe: Describe
    check: Check = _accept_all


BUILT_IN: Mapping[str, MergeEngine] = {
    "deduplicate": MergeEngine(describe_deduplicate),
    "first-row": MergeEngine(describe_first_row, check_first_row),
    "partial-update": MergeEngine(describe_partial_update, check_partial_update),
    "aggregation": MergeEngine(describe_aggregation),
}


def describe_merge(schema: TableSchema, options: TableOptions, *, where: str) -> MergeSpec | None:
    """Return the merge of a primary-key table, None for append tables.

    Raises:
        Unsupported: a merge engine, aggregate function or sequence column that Morrow does not read, and never
            replaces by another one.
        InvalidArgument: options that do not fit the columns or contradict each other.
    """
    engine = _find_engine(options, where)
    if not schema.primary_keys:
        return None
    check_field_names(schema, options.raw, where)
    spec = engine.describe(schema, options, where)
    return replace(
        spec,
        looks_up=spec.looks_up or (spec.folds and options.looks_up),
        hides_level_zero=spec.hides_level_zero or options.waits_for_vectors,
        by_snapshot=options.orders_by_snapshot,
    )


def check_merge(schema: TableSchema, options: TableOptions, *, where: str) -> None:
    """Check the merge of a table that is about to be created or changed.

    Raises `Unsupported`, `InvalidArgument`: as `describe_merge`, and the engine's further rules for new tables.
    """
    _find_engine(options, where).check(schema, options, where)
    describe_merge(schema, options, where=where)


def _find_engine(options: TableOptions, where: str) -> MergeEngine:
    built_in = BUILT_IN.get(options.merge_engine)
    if built_in is not None:
        return built_in
    found = load_plugin(MERGE_ENGINE_PLUGINS, options.merge_engine)
    if found is None:
        raise Unsupported(
            f"the merge engine {options.merge_engine!r}",
            where=where,
            hint=f"Morrow reads {', '.join(BUILT_IN)}; it will not read this table as one of them",
        )
    return found if isinstance(found, MergeEngine) else MergeEngine(found)
