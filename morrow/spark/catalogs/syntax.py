"""Statements of Paimon's that Spark does not know, parsed from their text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from morrow.engine.errors import InvalidArgument

UNITS: Mapping[str, dt.timedelta] = {
    "DAYS": dt.timedelta(days=1),
    "HOURS": dt.timedelta(hours=1),
    "MINUTES": dt.timedelta(minutes=1),
}
"""The units of RETAIN."""

ALL_ANALYZED = "analyze all"
"""The verb of ANALYZE TABLES, which names a database."""

CONSTRAINT = "constraint"
"""The verb of ALTER TABLE ... ADD | DROP CONSTRAINT, which tables do not have."""

NO_NAMES = frozenset({TokenType.NUMBER, TokenType.STRING})
"""Tokens of words and digits that are no names."""


@dataclass(frozen=True)
class Statement:
    """A statement: what it does, the parts of its table's name, and its other parts, which JSON can hold."""

    verb: str
    table: tuple[str, ...]
    parts: Mapping[str, Any] = field(default_factory=dict)


class Words(Spark.Tokenizer):
    """Spark's tokens, also of statements that sqlglot takes as one text."""

    COMMANDS: ClassVar[set[TokenType]] = set()


class Tokens:
    """The tokens of a statement, read from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = Words(dialect="spark").tokenize(text)
        self._at = 0

    def has(self, *words: str) -> bool:
        """Takes these words, in any case, if they are the next ones; returns whether they are."""
        ahead = self._tokens[self._at : self._at + len(words)]
        if len(ahead) < len(words) or not all(map(_is_word, ahead, words)):
            return False
        self._at += len(words)
        return True

    def one_of(self, *words: str) -> str | None:
        return next((word for word in words if self.has(word)), None)

    def name(self) -> str:
        """Takes a name: a word, or anything in backticks."""
        token = self._next()
        if token is None or not _is_name(token):
            raise self.unexpected("a name")
        self._at += 1
        return token.text

    def path(self) -> tuple[str, ...]:
        """Takes names that dots join."""
        found = [self.name()]
        while self._takes(TokenType.DOT):
            found.append(self.name())
        return tuple(found)

    def names(self) -> list[str]:
        """Takes names that commas separate."""
        found = [self.name()]
        while self._takes(TokenType.COMMA):
            found.append(self.name())
        return found

    def skip_parentheses(self) -> None:
        """Takes what stands in parentheses."""
        if not self._takes(TokenType.L_PAREN):
            raise self.unexpected("(")
        while not self._takes(TokenType.R_PAREN):
            if self._next() is None:
                raise self.unexpected(")")
            self._at += 1

    def number(self) -> int:
        token = self._next()
        if token is None or token.token_type is not TokenType.NUMBER or not token.text.isdecimal():
            raise self.unexpected("a number")
        self._at += 1
        return int(token.text)

    def properties(self) -> dict[str, str]:
        """Takes ``('key' = 'value', ...)``."""
        found: dict[str, str] = {}
        opened = self._takes(TokenType.L_PAREN)
        while opened:
            key = self._text_of(TokenType.STRING) or ".".join(self.path())
            self._takes(TokenType.EQ)
            value = self._text_of(TokenType.STRING, TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE)
            if value is None:
                raise self.unexpected("a value")
            if found.setdefault(key, value) != value:
                raise InvalidArgument(f"{self}: the property {key!r} is given twice")
            opened = self._takes(TokenType.COMMA)
        if not self._takes(TokenType.R_PAREN):
            raise self.unexpected("a list of properties")
        return found

    def _text_of(self, *kinds: TokenType) -> str | None:
        token = self._next()
        if token is None or token.token_type not in kinds:
            return None
        self._at += 1
        return token.text

    def is_at_end(self) -> bool:
        """Consumes semicolons and returns whether nothing else is left."""
        while self._takes(TokenType.SEMICOLON):
            pass
        return self._next() is None

    def end(self) -> None:
        if not self.is_at_end():
            raise self.unexpected("the end")

    def __str__(self) -> str:
        return " ".join(self._text.split())

    def unexpected(self, wanted: str) -> InvalidArgument:
        token = self._next()
        there = "the end" if token is None else repr(self._text[token.start : token.end + 1])
        return InvalidArgument(f"{self}: {wanted} is expected, not {there}")

    def _takes(self, kind: TokenType) -> bool:
        token = self._next()
        if token is None or token.token_type is not kind:
            return False
        self._at += 1
        return True

    def _next(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None


def _is_word(token: Token, word: str) -> bool:
    return token.token_type is not TokenType.IDENTIFIER and token.text.upper() == word


def _is_name(token: Token) -> bool:
    if token.token_type is TokenType.IDENTIFIER:
        return True
    return token.token_type not in NO_NAMES and token.text.replace("_", "a").isalnum()


def parsed(text: str) -> Statement | None:
    """Returns a statement of Paimon's; None for all others, which are Spark's.

    Raises:
        InvalidArgument: it begins as one of Paimon's, and goes on otherwise.
    """
    try:
        words = Tokens(text)
    except TokenError:
        return None
    if words.has("SHOW", "TAGS"):
        return _ended(words, Statement("show tags", words.path()))
    if words.has("CREATE", "TABLE"):
        return _like(words)
    if words.has("ANALYZE", "TABLE"):
        return _analyzed(words)
    if words.has("ANALYZE", "TABLES"):
        return _all_analyzed(words)
    if words.has("ALTER", "TABLE"):
        try:
            table = words.path()
        except InvalidArgument:
            return None
        if words.has("ADD", "CONSTRAINT") or words.has("DROP", "CONSTRAINT"):
            return Statement(CONSTRAINT, table)
        for begin, parse in _OF_TAGS:
            if words.has(*begin):
                return _ended(words, parse(words, table))
    return None


def _like(words: Tokens) -> Statement | None:
    """Parses CREATE TABLE ... LIKE; None for every other CREATE TABLE."""
    ignores = words.has("IF", "NOT", "EXISTS")
    try:
        table = words.path()
    except InvalidArgument:
        return None
    if not words.has("LIKE"):
        return None
    parts: dict[str, Any] = {"source": words.path(), "if not exists": ignores, "properties": {}}
    while not words.is_at_end():
        if words.has("USING"):
            parts["provider"] = words.name()
        elif words.has("TBLPROPERTIES"):
            parts["properties"] = words.properties()
        else:
            raise words.unexpected("USING, TBLPROPERTIES or the end")
    return _ended(words, Statement("create like", table, parts))


def _analyzed(words: Tokens) -> Statement | None:
    """Parses ANALYZE TABLE; None where no name follows."""
    try:
        table = words.path()
    except InvalidArgument:
        return None
    of_partitions = words.has("PARTITION")
    if of_partitions:
        words.skip_parentheses()
    if not words.has("COMPUTE", "STATISTICS"):
        raise words.unexpected("COMPUTE STATISTICS")
    parts: dict[str, Any] = {"partition": of_partitions, "noscan": words.has("NOSCAN"), "columns": []}
    if words.has("FOR", "ALL", "COLUMNS"):
        parts["columns"] = None
    elif words.has("FOR", "COLUMNS"):
        parts["columns"] = words.names()
    return _ended(words, Statement("analyze", table, parts))


def _all_analyzed(words: Tokens) -> Statement:
    """Parses ANALYZE TABLES; its name is that of a database, empty for the current one."""
    named = words.has("IN") or words.has("FROM")
    path = words.path() if named else ()
    if not words.has("COMPUTE", "STATISTICS"):
        raise words.unexpected("COMPUTE STATISTICS")
    return _ended(words, Statement(ALL_ANALYZED, path, {"noscan": words.has("NOSCAN")}))


def name_of(text: str) -> tuple[str, ...]:
    """Returns the parts of a name. Raises `InvalidArgument` for other text."""
    try:
        words = Tokens(text)
    except TokenError as error:
        raise InvalidArgument(f"{text!r} is no name of a table") from error
    found = words.path()
    words.end()
    return found


def _ended(words: Tokens, statement: Statement) -> Statement:
    words.end()
    return statement


def _created(*, replace: bool) -> Callable[[Tokens, tuple[str, ...]], Statement]:
    def parse(words: Tokens, table: tuple[str, ...]) -> Statement:
        ignores = not replace and words.has("IF", "NOT", "EXISTS")
        parts: dict[str, Any] = {"tag": words.name(), "replace": replace, "if not exists": ignores}
        if words.has("AS", "OF", "VERSION"):
            parts["snapshot"] = words.number()
        if words.has("RETAIN"):
            number = words.number()
            unit = words.one_of(*UNITS)
            if unit is None:
                raise words.unexpected(_either(UNITS))
            parts["seconds"] = number * UNITS[unit].total_seconds()
        return Statement("create tag", table, parts)

    return parse


def _deleted(words: Tokens, table: tuple[str, ...]) -> Statement:
    ignores = words.has("IF", "EXISTS")
    return Statement("delete tag", table, {"tags": words.name(), "if exists": ignores})


def _renamed(words: Tokens, table: tuple[str, ...]) -> Statement:
    ignores = words.has("IF", "EXISTS")
    tag = words.name()
    if not words.has("TO"):
        raise words.unexpected("TO")
    return Statement("rename tag", table, {"tag": tag, "to": words.name(), "if exists": ignores})


def _either(words: Iterable[str]) -> str:
    return " or ".join(words)


_OF_TAGS: tuple[tuple[tuple[str, ...], Callable[[Tokens, tuple[str, ...]], Statement]], ...] = (
    (("CREATE", "TAG"), _created(replace=False)),
    (("CREATE", "OR", "REPLACE", "TAG"), _created(replace=True)),
    (("REPLACE", "TAG"), _created(replace=True)),
    (("DELETE", "TAG"), _deleted),
    (("RENAME", "TAG"), _renamed),
)
"""What follows ALTER TABLE and a name, and what parses the rest."""
