"""The parser of Paimon's COPY INTO, and the options that each format has.

Texts have the escapes of Paimon's own parser in `Catalog.sql`, too: ``\\n``, ``\\t``, ``\\r``, ``\\\\`` and quotes.
Before other characters a backslash stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from morrow.engine.errors import InvalidArgument
from morrow.engine.redaction import suggest_name
from morrow.statements.statement import CopyFormat, CopyInto, CopyIntoLocation, Name, Statement
from morrow.statements.tokens import Syntax, Words, read_tokens

CSV, JSON, PARQUET = "CSV", "JSON", "PARQUET"
COMPRESSION, NULL_IF, EMPTY_FIELD_AS_NULL = "COMPRESSION", "NULL_IF", "EMPTY_FIELD_AS_NULL"
FIELD_DELIMITER, QUOTE, ESCAPE, HEADER, SKIP_HEADER = "FIELD_DELIMITER", "QUOTE", "ESCAPE", "HEADER", "SKIP_HEADER"
MULTI_LINE, DATE_FORMAT, TIMESTAMP_FORMAT = "MULTI_LINE", "DATE_FORMAT", "TIMESTAMP_FORMAT"
TYPE = "TYPE"
_FORM = (FIELD_DELIMITER, QUOTE, ESCAPE, COMPRESSION)
IMPORTED: Mapping[str, tuple[str, ...]] = {
    CSV: (*_FORM, SKIP_HEADER, NULL_IF, EMPTY_FIELD_AS_NULL),
    JSON: (MULTI_LINE, COMPRESSION, NULL_IF, EMPTY_FIELD_AS_NULL),
    PARQUET: (COMPRESSION,),
}
"""The options of COPY INTO a table, by format."""
EXPORTED: Mapping[str, tuple[str, ...]] = {
    CSV: (*_FORM, HEADER),
    JSON: (COMPRESSION, DATE_FORMAT, TIMESTAMP_FORMAT),
    PARQUET: (COMPRESSION,),
}
"""The options of COPY INTO a location, by format."""
FLAGS = (HEADER, MULTI_LINE, EMPTY_FIELD_AS_NULL)
ABORT, CONTINUE, SKIP_FILE = "ABORT_STATEMENT", "CONTINUE", "SKIP_FILE"
ESCAPES = re.compile(r"""\\(?P<char>[ntr\\'"])|(?P<quote>['"])(?P=quote)""")
CHARACTERS = {"n": "\n", "t": "\t", "r": "\r"}
READING = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
"""The first words of queries that a location may be filled with."""


def parse_copy_into(words: Words) -> Statement:
    """Parse the statement behind COPY INTO.

    Raises `InvalidArgument`: a syntax error, an unknown format, option or value; or a source that is not a query.
    """
    if words.next is not None and words.next.token_type is TokenType.STRING:
        return _parse_location(words)
    table = words.path()
    columns = tuple(words.enclosed(words.name)) if words.comes("(") else None
    words.need("FROM")
    if words.comes("("):
        raise InvalidArgument(
            f"{words}: COPY INTO a table reads the files of a location; for a query over files write INSERT INTO"
        )
    source, format = _text(words), _parse_format(words, IMPORTED, "import")
    pattern, force, on_error = None, False, ABORT
    while (clause := words.one_of("PATTERN", "FORCE", "ON_ERROR")) is not None:
        words.need("=")
        if clause == "PATTERN":
            pattern = _check_pattern(_text(words))
        elif clause == "FORCE":
            force = _flag(words)
        else:
            on_error = words.word()
            if words.one_of(ABORT, CONTINUE, SKIP_FILE) is None:
                raise words.unexpected(f"{ABORT}, {CONTINUE} or {SKIP_FILE}")
    return CopyInto(table, source, format, columns, pattern, force, on_error)


def _parse_location(words: Words) -> Statement:
    target = _text(words)
    words.need("FROM")
    table: Name = ()
    query = None
    if words.comes("("):
        query = _parse_query(words)
    else:
        table = words.path()
    format = _parse_format(words, EXPORTED, "export")
    overwrite = False
    if words.has("OVERWRITE"):
        words.need("=")
        overwrite = _flag(words)
    return CopyIntoLocation(target, format, table, query, overwrite)


def _parse_query(words: Words) -> str:
    """Take a query in parentheses. Raises `InvalidArgument` for other statements, which may change something."""
    words.needs(TokenType.L_PAREN, "(")
    if words.comes(")"):
        raise InvalidArgument(f"{words}: COPY INTO <location> FROM (<query>) requires a non-empty query")
    start = words.at
    query = words.until()
    if not _is_reading(words.tokens[start : words.at]):
        raise InvalidArgument(f"{words}: COPY INTO <location> FROM (<query>) only supports read-only queries: {query}")
    words.needs(TokenType.R_PAREN, ")")
    return query


def _is_reading(tokens: Sequence[Token]) -> bool:
    taken = [token.text.upper() for token in tokens]
    first = next((text for text in taken if text != "("), "")
    return first in READING and not any(pair in INSERTS for pair in pairwise(taken))


def check_reading(query: str, syntax: Syntax) -> None:
    """Raise `InvalidArgument` unless the text is a query, which changes nothing."""
    if not _is_reading(read_tokens(query, syntax)):
        raise InvalidArgument(f"{query!r} is not a query; write SELECT, VALUES, WITH, FROM or TABLE")


INSERTS = (("INSERT", "INTO"), ("INSERT", "OVERWRITE"))


def _parse_format(words: Words, known: Mapping[str, tuple[str, ...]], use: str) -> CopyFormat:
    words.need("FILE_FORMAT")
    words.need("=")
    options: dict[str, tuple[str, ...]] = {}

    def take_option() -> None:
        key = words.name().upper()
        words.need("=")
        if key in options:
            raise InvalidArgument(f"{words}: Duplicate FILE_FORMAT option: {key}; give it once")
        options[key] = _parse_value(words)

    words.enclosed(take_option)
    if TYPE not in options:
        raise InvalidArgument(f"{words}: FILE_FORMAT must include TYPE: {', '.join(known)}")
    type = "".join(options.pop(TYPE)).upper()
    if type not in known:
        raise InvalidArgument(f"{words}: Unsupported file format type: {type}. Supported types: {', '.join(known)}")
    for key, values in options.items():
        if key not in known[type]:
            raise InvalidArgument(
                f"{words}: Unsupported FILE_FORMAT options for {use}: {key}; {suggest_name(key, known[type])}"
                f"{type} has {', '.join(known[type])}"
            )
        _check_value(words, key, values)
    return CopyFormat(type, options)


def _check_value(words: Words, key: str, values: tuple[str, ...]) -> None:
    if key != NULL_IF and len(values) != 1:
        raise InvalidArgument(f"{words}: {key} is one value, not a list")
    value = values[0].upper()
    if key in FLAGS and value not in ("TRUE", "FALSE"):
        raise InvalidArgument(f"{words}: {key} is TRUE or FALSE, not {values[0]!r}")
    if key == SKIP_HEADER and value not in ("0", "1"):
        raise InvalidArgument(f"{words}: SKIP_HEADER supports only 0 or 1, got: {values[0]}")


def _parse_value(words: Words) -> tuple[str, ...]:
    if words.comes("("):
        return tuple(words.enclosed(lambda: _text(words)))
    token = words.next
    if token is not None and token.token_type is TokenType.STRING:
        return (_text(words),)
    if token is None or not token.text.replace("_", "a").isalnum():
        raise words.unexpected("a value")
    words.at += 1
    return (token.text,)


def _flag(words: Words) -> bool:
    flag = words.one_of("TRUE", "FALSE")
    if flag is None:
        raise words.unexpected("TRUE or FALSE")
    return flag == "TRUE"


def _check_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise InvalidArgument(f"PATTERN = {pattern!r} is not a regular expression: {error}") from error
    return pattern


def _text(words: Words) -> str:
    """Take a text with Paimon's escapes, which differ from those of the dialect."""
    token = words.next
    words.string()
    assert token is not None  # otherwise `string` has raised
    quoted = words.text[token.start : token.end + 1]
    quote = quoted[0]

    def resolve(found: re.Match[str]) -> str:
        char, doubled = found["char"], found["quote"]
        if char is None:
            return quote if doubled == quote else found[0]
        return CHARACTERS.get(char, char) if char not in "'\"" or char == quote else found[0]

    return ESCAPES.sub(resolve, quoted[1:-1])


def is_true(format: CopyFormat, key: str) -> bool:
    """Return whether an option of a format is TRUE or 1."""
    return format.options.get(key, ("",))[0].upper() in ("TRUE", "1")


def get_option(format: CopyFormat, key: str, default: str) -> str:
    """Return the one value of an option."""
    return format.options.get(key, (default,))[0]
