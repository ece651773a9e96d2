"""ALTER TABLE as statements: options, columns, partitions and tags."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence

from sqlglot.tokenizer_core import TokenType

from morrow.engine.errors import Unsupported
from morrow.statements.parsing_rows import static_partition
from morrow.statements.statement import Name, Statement
from morrow.statements.table_statements import (
    AlterChange,
    AlterTable,
    CreateTag,
    DeleteTags,
    DropPartitions,
    NewColumn,
    RenameTable,
    RenameTag,
)
from morrow.statements.words import OPENING, Words, either

COMMENT = "comment"


LITERALS = frozenset({"TRUE", "FALSE", "NULL", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "X"})
"""Words with which the literal of a default value may begin."""
UNITS: Mapping[str, dt.timedelta] = {
    "DAYS": dt.timedelta(days=1),
    "HOURS": dt.timedelta(hours=1),
    "MINUTES": dt.timedelta(minutes=1),
}
"""The units of RETAIN."""


def text_or_null(words: Words) -> str | None:
    return None if words.has("NULL") else words.string()


def parse_alteration(words: Words) -> Statement:
    if words.comes("IF", "EXISTS"):
        raise Unsupported("ALTER TABLE IF EXISTS")
    table = words.path()
    for begin, parse in _CHANGES:
        if words.has(*begin):
            return parse(words, table)
    raise words.unexpected("ADD, DROP, ALTER, RENAME, SET, UNSET or a statement of tags")


def _one(table: Name, change: AlterChange) -> AlterTable:
    return AlterTable(table, (change,))


def _rename(words: Words, table: Name) -> Statement:
    if words.has("TO"):
        to = words.path()
        return RenameTable(table, to if len(to) > 1 else (*table[:-1], *to))
    words.has("COLUMN")
    path = words.path()
    words.need("TO")
    return _one(table, AlterChange("rename column", path, words.name()))


def _set_options(words: Words, table: Name) -> Statement:
    given = words.properties()
    return AlterTable(table, tuple(_option(key, value) for key, value in given.items()))


def _option(key: str, value: str | None) -> AlterChange:
    if key == COMMENT:
        return AlterChange("set table comment", value=value)
    return AlterChange("unset option" if value is None else "set option", (key,), value)


def _unset_options(words: Words, table: Name) -> Statement:
    words.has("IF", "EXISTS")
    return AlterTable(table, tuple(_option(key, None) for key in words.enclosed(words.property_key)))


def _add(words: Words, table: Name) -> Statement:
    if words.comes("PARTITION") or words.comes("IF", "NOT", "EXISTS"):
        raise Unsupported("ALTER TABLE ADD PARTITION", hint="a partition is there when it has rows")
    if words.comes("CONSTRAINT") or words.comes("PRIMARY"):
        raise Unsupported("ALTER TABLE ADD CONSTRAINT")
    if not words.has("COLUMNS"):
        words.has("COLUMN")
    if words.comes("("):
        columns = words.enclosed(lambda: _new_column(words))
    else:
        columns = words.listed(lambda: _new_column(words))
    return AlterTable(table, tuple(AlterChange("add column", column.path, new=column) for column in columns))


def _new_column(words: Words) -> NewColumn:
    path, start, depth = words.path(), words.at, 0
    while (token := words.next) is not None:
        if depth == 0 and (token.text in ",)" or words.comes("FIRST") or words.comes("AFTER")):
            break
        if depth == 0 and words.comes("DEFAULT"):
            check_literal(words, words.at + 1)
        is_text = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        depth += 0 if is_text else (token.text in "(<") - (token.text in ")>")
        words.at += 1
    if start == words.at:
        raise words.unexpected("a type")
    definition = words.plain(start, words.at)
    return NewColumn(path, definition, _place(words))


def _place(words: Words) -> str | None:
    """Takes FIRST (an empty name) or AFTER a column."""
    if words.has("FIRST"):
        return ""
    return words.name() if words.has("AFTER") else None


def _drop(words: Words, table: Name) -> Statement:
    ignores = words.has("IF", "EXISTS")
    if words.comes("PARTITION"):
        if ignores:
            raise Unsupported("DROP IF EXISTS PARTITION", hint="a partition without rows is dropped without an error")

        def one() -> Mapping[str, str | None]:
            words.need("PARTITION")
            return static_partition(words)

        return DropPartitions(table, tuple(words.listed(one)))
    if not words.has("COLUMNS"):
        words.has("COLUMN")
    ignores = words.has("IF", "EXISTS") or ignores
    paths = words.enclosed(words.path) if words.comes("(") else words.listed(words.path)
    return AlterTable(table, tuple(AlterChange("drop column", path, if_exists=ignores) for path in paths))


def _alter_column(words: Words, table: Name) -> Statement:
    words.has("COLUMN")
    changes = words.listed(lambda: _column_changes(words))
    return AlterTable(table, tuple(change for some in changes for change in some))


def _column_changes(words: Words) -> list[AlterChange]:
    path = words.path()
    changes = []
    while not words.is_at_end() and not words.comes(","):
        changes.append(_column_change(words, path))
    if not changes:
        raise words.unexpected("TYPE, COMMENT, SET, DROP, FIRST or AFTER")
    return changes


def _column_change(words: Words, path: Name) -> AlterChange:
    if words.has("TYPE") or words.has("SET", "DATA", "TYPE"):
        start, depth = words.at, 0
        while (token := words.next) is not None and (depth or token.text not in (",",)):
            if depth == 0 and any(words.comes(word) for word in ("COMMENT", "FIRST", "AFTER", "SET", "USING")):
                break
            depth += (token.text in "(<") - (token.text in ")>")
            words.at += 1
        return AlterChange("set type", path, words.plain(start, words.at))
    if words.has("COMMENT"):
        return AlterChange("set comment", path, words.string() or None)
    if words.comes("FIRST") or words.comes("AFTER"):
        return AlterChange("move column", path, _place(words))
    if words.has("SET", "DEFAULT"):
        check_literal(words, words.at)
        return AlterChange("set default", path, words.until(","))
    if words.has("DROP", "DEFAULT"):
        return AlterChange("set default", path)
    if words.has("SET", "NOT", "NULL"):
        return AlterChange("set not null", path)
    if words.has("DROP", "NOT", "NULL"):
        return AlterChange("drop not null", path)
    raise words.unexpected("TYPE, COMMENT, SET DEFAULT, DROP DEFAULT, SET NOT NULL, DROP NOT NULL, FIRST or AFTER")


def _created(*, replace: bool) -> Callable[[Words, Name], Statement]:
    def parse(words: Words, table: Name) -> Statement:
        ignores = not replace and words.has("IF", "NOT", "EXISTS")
        tag = words.name()
        snapshot = words.number() if words.has("AS", "OF", "VERSION") else None
        retained = None
        if words.has("RETAIN"):
            number, unit = words.number(), words.one_of(*UNITS)
            if unit is None:
                raise words.unexpected(either(UNITS))
            retained = number * UNITS[unit]
        return CreateTag(table, tag, snapshot, retained, replace, ignores)

    return parse


def _deleted(words: Words, table: Name) -> Statement:
    ignores = words.has("IF", "EXISTS")
    return DeleteTags(table, words.name(), ignores)


def _renamed(words: Words, table: Name) -> Statement:
    ignores = words.has("IF", "EXISTS")
    tag = words.name()
    words.need("TO")
    return RenameTag(table, tag, words.name(), ignores)


def _refused(what: str, hint: str | None = None) -> Callable[[Words, Name], Statement]:
    def parse(_words: Words, _table: Name) -> Statement:
        raise Unsupported(what, hint=hint)

    return parse


def check_literal(words: Words, at: int) -> None:
    """Refuses a default value that is computed: Paimon stores a value, and no expression."""
    token = words.tokens[at] if at < len(words.tokens) else None
    following = words.tokens[at + 1] if at + 1 < len(words.tokens) else None
    if token is None:
        raise words.unexpected("a literal")
    opens = following is not None and following.token_type in OPENING
    is_word = token.token_type not in (TokenType.STRING, TokenType.NUMBER, TokenType.DASH, TokenType.PLUS)
    if opens or (is_word and token.text.upper() not in LITERALS):
        raise Unsupported(f"the default value {token.text}", hint="give a literal")


_CHANGES: Sequence[tuple[tuple[str, ...], Callable[[Words, Name], Statement]]] = (
    (("CREATE", "TAG"), _created(replace=False)),
    (("CREATE", "OR", "REPLACE", "TAG"), _created(replace=True)),
    (("REPLACE", "TAG"), _created(replace=True)),
    (("DELETE", "TAG"), _deleted),
    (("RENAME", "TAG"), _renamed),
    (("RENAME",), _rename),
    (("SET", "TBLPROPERTIES"), _set_options),
    (("SET", "LOCATION"), _refused("ALTER TABLE SET LOCATION", "tables lie in the folder of their catalog")),
    (("SET",), _set_options),
    (("UNSET", "TBLPROPERTIES"), _unset_options),
    (("RESET",), _unset_options),
    (("ADD",), _add),
    (("DROP",), _drop),
    (("ALTER",), _alter_column),
    (("CHANGE",), _alter_column),
    (("MODIFY",), _refused("ALTER TABLE MODIFY", "write ALTER COLUMN")),
    (("REPLACE", "COLUMNS"), _refused("ALTER TABLE REPLACE COLUMNS", "drop and add columns")),
    (("RECOVER",), _refused("ALTER TABLE RECOVER PARTITIONS")),
)
"""What follows ALTER TABLE and a name, and what parses the rest."""
