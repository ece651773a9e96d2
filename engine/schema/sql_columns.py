"""Types and column lists in SQL, in Paimon's syntax.

columns  = column {"," column} ["," "PRIMARY KEY" "(" name {"," name} ")" ["NOT ENFORCED"]]
column   = name type {"COMMENT" text | "DEFAULT" literal | "PRIMARY KEY"}
type     = (atomic | "ARRAY" "<" type ">" | "MULTISET" "<" type ">" | "MAP" "<" type "," type ">"
           | "VECTOR" "<" type "," length ">" | ("ROW" | "STRUCT") "<" member {"," member} ">") ["NOT" "NULL" | "NULL"]
member   = name [":"] type ["COMMENT" text]

Names may be quoted by backquotes or double quotes, texts by single quotes; a doubled quote stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t

TOKEN = re.compile(
    r"""\s*(?: (?P<text>'(?:[^']|'')*') | (?P<quoted>`(?:[^`]|``)*`|"(?:[^"]|"")*")
             | (?P<number>[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?) | (?P<word>[^\W\d][\w$]*) | (?P<mark>[<>(),:]) )""",
    re.VERBOSE,
)
ZONES = (("WITH", "LOCAL", "TIME", "ZONE"), ("WITHOUT", "TIME", "ZONE"), ("WITH", "TIME", "ZONE"))
LITERAL_PREFIXES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "X")
TYPE_HINT = "the types are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), CHAR(n), VARCHAR(n), \
STRING, BINARY(n), VARBINARY(n), BYTES, DATE, TIME(p), TIMESTAMP(p), TIMESTAMP_LTZ(p), VARIANT, BLOB, ARRAY<t>, \
MAP<k, v>, MULTISET<t>, VECTOR<t, n> and ROW<name t, ...>"

OTHER_NAMES = {
    "TIMESTAMPTZ": "TIMESTAMP_LTZ",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMP_NTZ": "TIMESTAMP",
    "TEXT": "STRING",
    "JSON": "VARIANT, or STRING",
    "JSONB": "VARIANT, or STRING",
    "UUID": "STRING, or BINARY(16)",
    "NUMBER": "DECIMAL(p, s)",
    "BIGNUMERIC": "DECIMAL(p, s)",
    "HUGEINT": "DECIMAL(38, 0)",
    "UINT": "BIGINT",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20, 0)",
    "INT8": "TINYINT",
    "INT16": "SMALLINT",
    "INT32": "INT",
    "INT64": "BIGINT",
    "FLOAT32": "FLOAT",
    "FLOAT64": "DOUBLE",
    "REAL": "FLOAT",
    "LIST": "ARRAY<t>",
}
"""Paimon's names of types that other systems name otherwise."""

T = TypeVar("T")


@dataclass(frozen=True)
class Column:
    """A column without an id yet. `default` is the text that schema files hold."""

    name: str
    type: t.DataType
    comment: str | None = None
    default: str | None = None


@dataclass(frozen=True)
class Columns:
    """Columns in order, and the primary key if their source names one."""

    columns: tuple[Column, ...]
    primary_keys: tuple[str, ...] = ()


def parse_columns(text: str, *, only: str | None = None) -> Columns:
    """Read a column list such as ``id BIGINT NOT NULL, name STRING COMMENT 'x' DEFAULT 'y', PRIMARY KEY (id)``.

    `only`: the single column that the text must describe, for errors.

    Raises `InvalidArgument`: it does not parse. `Unsupported`: a type that Paimon does not have.
    """
    parser = _Parser(text)
    columns: list[Column] = []
    keys: list[str] = []
    while not parser.at_end():
        if parser.take("PRIMARY", "KEY"):
            keys += parser.names()
            parser.take("NOT", "ENFORCED")
        else:
            definition, is_key = parser.column()
            columns.append(definition)
            keys += [definition.name] * is_key
        if not parser.take(",") and not parser.at_end():
            raise parser.error("',' or the end")
    if not columns or (only is not None and len(columns) > 1):
        raise InvalidArgument(f"{text!r} is not a list of columns; write 'id BIGINT NOT NULL, name STRING'")
    return Columns(tuple(columns), tuple(keys))


def parse_type(text: str, column: str) -> t.DataType:
    """Read one type such as ``ARRAY<ROW<a INT NOT NULL>>``; `column` goes into errors. Raises as `parse_columns`."""
    parser = _Parser(text, column)
    found = parser.type()
    if not parser.at_end():
        raise parser.error("the end of the type")
    return found


@dataclass
class _Parser:
    """A cursor over tokens; words are compared in upper case, quoted text is never a keyword."""

    text: str
    subject: str = ""
    tokens: list[tuple[str, str]] = field(init=False)
    at: int = 0

    def __post_init__(self) -> None:
        self.tokens = []
        end = 0
        while self.text[end:].strip():
            match = TOKEN.match(self.text, end)
            if match is None:
                raise InvalidArgument(f"{self.text!r} does not parse as SQL columns at {self.text[end:][:20]!r}")
            self.tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            end = match.end()

    # Tokens

    def at_end(self) -> bool:
        return self.at == len(self.tokens)

    def error(self, expected: str) -> InvalidArgument:
        found = "the end" if self.at_end() else repr(self.tokens[self.at][1])
        of = f" of the column {self.subject!r}" if self.subject else ""
        return InvalidArgument(f"{self.text!r}{of}: expected {expected}, found {found}")

    def take(self, *words: str) -> bool:
        """Consume these words or mark if they come next; return whether they did."""
        coming = self.tokens[self.at : self.at + len(words)]
        if tuple(value.upper() if kind in ("word", "mark") else None for kind, value in coming) != words:
            return False
        self.at += len(words)
        return True

    def need(self, word: str) -> None:
        if not self.take(word):
            raise self.error(repr(word))

    def next_of(self, *kinds: str, expected: str) -> str:
        if self.at_end() or self.tokens[self.at][0] not in kinds:
            raise self.error(expected)
        kind, value = self.tokens[self.at]
        self.at += 1
        return _unquote_token(value) if kind in ("text", "quoted") else value

    def separated(self, read: Callable[[], T], opening: str, closing: str) -> list[T]:
        self.need(opening)
        found = [read()]
        while self.take(","):
            found.append(read())
        self.need(closing)
        return found

    # Grammar

    def names(self) -> list[str]:
        return self.separated(self.name, "(", ")")

    def name(self) -> str:
        return self.next_of("word", "quoted", expected="a name")

    def comment(self) -> str:
        return self.next_of("text", expected="a text in single quotes")

    def default(self) -> str | None:
        """Return the text that schema files hold: quoted only if bare text would read differently."""
        for prefix in LITERAL_PREFIXES:
            if len(self.tokens) > self.at + 1 and self.tokens[self.at + 1][0] == "text" and self.take(prefix):
                break
        if self.take("NULL"):
            return None
        literal = self.next_of("text", "number", "word", expected="a literal")
        return quote_default(literal)

    def column(self) -> tuple[Column, bool]:
        self.subject = self.name()
        data_type, comment, default, is_key = self.type(), None, None, False
        while not self.at_end():
            if self.take("COMMENT"):
                comment = self.comment()
            elif self.take("DEFAULT"):
                default = self.default()
            elif self.take("PRIMARY", "KEY"):
                is_key = True
            elif self.take("NOT", "NULL"):
                data_type = data_type.with_nullable(False)
            elif not self.take("NOT", "ENFORCED"):
                break
        return Column(self.subject, data_type, comment, default), is_key

    def type(self) -> t.DataType:
        word = self.next_of("word", expected=f"a type ({TYPE_HINT})").upper()
        found = NESTED[word](self) if word in NESTED else self.atomic(word)
        if self.take("NOT", "NULL"):
            return found.with_nullable(False)
        self.take("NULL")
        return found

    def atomic(self, word: str) -> t.DataType:
        words = [word]
        if word == "DOUBLE" and self.take("PRECISION"):
            words.append("PRECISION")
        if not self.at_end() and self.tokens[self.at] == ("mark", "("):
            words.append(f"({', '.join(self.separated(self.length, '(', ')'))})")
        words += next((zone for zone in ZONES if self.take(*zone)), ())
        try:
            return t.parse_atomic(" ".join(words))
        except Unsupported:
            where = f"the column {self.subject!r}" if self.subject else None
            hint = f"did you mean {OTHER_NAMES[word]}?" if word in OTHER_NAMES else TYPE_HINT
            raise Unsupported(f"the type {' '.join(words)}", where=where, hint=hint) from None

    def length(self) -> str:
        return self.next_of("number", expected="a number")

    def element(self) -> t.DataType:
        (found,) = self.separated(self.type, "<", ">")
        return found

    def map(self) -> t.MapType:
        self.need("<")
        key = self.type()
        self.need(",")
        value = self.type()
        self.need(">")
        return t.MapType(key=key, value=value)

    def vector(self) -> t.VectorType:
        self.need("<")
        element = self.type()
        self.need(",")
        length = self.length()
        self.need(">")
        if not length.isdigit() or int(length) < 1:
            raise InvalidArgument(f"{self.text!r}: a vector has a length of 1 or more, not {length}")
        return t.VectorType(element=element, length=int(length))

    def row(self) -> t.RowType:
        members = self.separated(self.member, "<", ">")
        return t.RowType(fields=tuple(t.DataField(i, *member) for i, member in enumerate(members)))

    def member(self) -> tuple[str, t.DataType, str | None]:
        name = self.name()
        self.take(":")
        return name, self.type(), self.comment() if self.take("COMMENT") else None


NESTED: dict[str, Callable[[_Parser], t.DataType]] = {
    "ARRAY": lambda parser: t.ArrayType(element=parser.element()),
    "MULTISET": lambda parser: t.MultisetType(element=parser.element()),
    "MAP": _Parser.map,
    "VECTOR": _Parser.vector,
    "ROW": _Parser.row,
    "STRUCT": _Parser.row,
}


def quote_default(value: str) -> str:
    """Return a default as schema files hold it: quoted text gets a second pair of quotes, as readers strip one."""
    return f"'{value}'" if value.startswith("'") and value.endswith("'") else value


def _unquote_token(token: str) -> str:
    quote = token[0]
    return token[1:-1].replace(quote * 2, quote)
