"""The tokens of a statement, read from left to right, and the values of its parameters.

`Catalog.sql` and `morrow.spark.sql` share this tokenizer; a `Syntax` says what differs. Every token of a statement
must be parsed; a token that no parser takes is an error, so that nothing is ignored. Queries and expressions are passed
on as written. Parameters are ``$name`` and ``:name`` of a mapping, ``?`` and ``$1`` of a sequence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, TypeAlias, TypeVar

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.filter.sql_parsing import describe_problem
from morrow.engine.plan.predicate import shorten_text
from morrow.queries.dialect import Dialect

OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})
NO_NAMES = frozenset({TokenType.NUMBER, TokenType.STRING})
FLAGS = {"TRUE": True, "FALSE": False}
DATABASE = ("DATABASE", "SCHEMA", "NAMESPACE")
"""The words of SQL for a database."""

T = TypeVar("T")


class Tokenizer(Dialect.Tokenizer):
    """DuckDB's tokenizer, which also splits statements that sqlglot would treat as one text."""

    COMMANDS: ClassVar[set[TokenType]] = set()


@dataclass(frozen=True)
class Syntax:
    """The differences in the text of statements between `Catalog.sql` and `morrow.spark.sql`."""

    tokenize: Callable[[str], list[Token]]
    has_catalogs: bool = False
    """Whether to parse as Spark does: DESCRIBE QUERY, CREATE TABLE with a query without AS, names of three parts."""
    has_returning: bool = True
    """RETURNING ends a condition or query, and is refused. Otherwise it may be the name of a column."""
    keeps_comments: bool = True
    """Text that is passed on includes the comments behind it, which may be hints."""


CATALOG_SYNTAX = Syntax(lambda text: Tokenizer(dialect=Dialect).tokenize(text))
"""The syntax of `Catalog.sql`: DuckDB's SQL, and names in backticks."""


@dataclass
class Words:
    """A cursor over the tokens of one statement."""

    text: str
    tokens: Sequence[Token]
    syntax: Syntax = CATALOG_SYNTAX
    before: str = ""
    """The statements before this one, which count for positions in messages."""
    at: int = 0

    # Lookahead

    @property
    def next(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def word(self, ahead: int = 0) -> str:
        """Return the next word, or the word `ahead` tokens later, in upper case.

        Returns an empty text at the end and for quoted names.
        """
        at = self.at + ahead
        if at >= len(self.tokens) or self.tokens[at].token_type is TokenType.IDENTIFIER:
            return ""
        return self.tokens[at].text.upper()

    def comes(self, *words: str, after: int = 0) -> bool:
        """Return whether these words, in any case, come next."""
        first = self.at + after
        there = self.tokens[first : first + len(words)]
        return len(there) == len(words) and all(map(_is_word, there, words))

    def has(self, *words: str) -> bool:
        """Take these words if they come next; return whether they did."""
        comes = self.comes(*words)
        self.at += len(words) if comes else 0
        return comes

    def need(self, *words: str) -> None:
        if not self.has(*words):
            raise self.unexpected(" ".join(words))

    def one_of(self, *words: str) -> str | None:
        return next((word for word in words if self.has(word)), None)

    def takes(self, kind: TokenType) -> bool:
        token = self.next
        if token is None or token.token_type is not kind:
            return False
        self.at += 1
        return True

    def needs(self, kind: TokenType, what: str) -> None:
        if not self.takes(kind):
            raise self.unexpected(what)

    def is_at_end(self) -> bool:
        return self.next is None

    def end(self) -> None:
        if not self.is_at_end():
            raise self.unexpected("the end of the statement")

    # Parts

    def name(self) -> str:
        """Take a name: a word, or anything in backticks or double quotes."""
        token = self.next
        if token is None or not _is_name(token):
            raise self.unexpected("a name")
        self.at += 1
        return token.text

    def path(self) -> tuple[str, ...]:
        """Take names joined by dots."""
        found = [self.name()]
        while self.takes(TokenType.DOT):
            found.append(self.name())
        return tuple(found)

    def database(self) -> tuple[str, ...]:
        """Take the name of a database, which may begin with its catalog."""
        return self.path()

    def listed(self, item: Callable[[], T]) -> list[T]:
        """Take items separated by commas."""
        found = [item()]
        while self.takes(TokenType.COMMA):
            found.append(item())
        return found

    def enclosed(self, item: Callable[[], T]) -> list[T]:
        """Take items in parentheses."""
        self.needs(TokenType.L_PAREN, "(")
        found = self.listed(item)
        self.needs(TokenType.R_PAREN, ")")
        return found

    def string(self) -> str:
        token = self.next
        if token is None or token.token_type is not TokenType.STRING:
            raise self.unexpected("a text in single quotes")
        self.at += 1
        return token.text

    def number(self) -> int:
        token = self.next
        if token is None or token.token_type is not TokenType.NUMBER or not token.text.isdecimal():
            raise self.unexpected("a number")
        self.at += 1
        return int(token.text)

    def properties(self) -> dict[str, str]:
        """Take ``('key' = 'value', ...)``; keys may be unquoted, values numbers or booleans."""
        found: dict[str, str] = {}
        for key, value in self.enclosed(self._property):
            if found.setdefault(key, value) != value:
                raise InvalidArgument(f"{self}: the property {key!r} is given twice")
        return found

    def _property(self) -> tuple[str, str]:
        key = self.property_key()
        self.takes(TokenType.EQ)
        return key, self._property_value()

    def property_key(self) -> str:
        token = self.next
        if token is not None and token.token_type is TokenType.STRING:
            return self.string()
        return ".".join(self.path())

    def setting(self) -> tuple[str, str | None]:
        """Take ``key = value`` of SET to the end, with or without quotes; the value is None without ``=``."""
        start = self.at
        while not self.is_at_end() and not self.comes("="):
            self.at += 1
        if start == self.at:
            raise self.unexpected("the key of an option")
        key = self._unquote(start, self.at)
        if not self.takes(TokenType.EQ):
            return key, None
        start, self.at = self.at, len(self.tokens)
        if start == self.at:
            raise self.unexpected("a value")
        return key, self._unquote(start, self.at)

    def _unquote(self, start: int, end: int) -> str:
        """Return the text of some tokens as written; that of a single quoted token without its quotes."""
        if end - start == 1 and _is_quoted(self.tokens[start]):
            return self.tokens[start].text
        return self.text[self.tokens[start].start : self.tokens[end - 1].end + 1]

    def _property_value(self) -> str:
        minus = "-" if self.takes(TokenType.DASH) else ""
        token = self.next
        kinds = (TokenType.NUMBER,) if minus else (TokenType.STRING, TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE)
        if token is None or token.token_type not in kinds:
            raise self.unexpected("a value")
        self.at += 1
        return minus + (token.text.lower() if token.text.upper() in FLAGS else token.text)

    # Text passed on

    def until(self, *ends: str) -> str:
        """Take an expression up to one of the words or marks outside brackets and CASE, or to the end."""
        start, depth = self.at, 0
        while (token := self.next) is not None:
            if depth == 0 and (token.token_type in CLOSING or (any(map(self.comes, ends)) and not self._is_compared())):
                break
            depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
            self.at += 1
        if self.at == start:
            raise self.unexpected("an expression")
        return self.raw(start, self.at)

    def _is_compared(self) -> bool:
        """Return whether the next word is the FROM of ``IS DISTINCT FROM``."""
        return self.comes("FROM") and self.at > 0 and _is_word(self.tokens[self.at - 1], "DISTINCT")

    def condition(self, *ends: str) -> str:
        """Take an expression up to one of the words, RETURNING or the end."""
        return self.until(*ends, *(("RETURNING",) if self.syntax.has_returning else ()))

    def rest(self) -> str:
        """Take the rest of the statement as written."""
        start, self.at = self.at, len(self.tokens)
        if start == self.at:
            raise self.unexpected("a query")
        return self.raw(start, self.at)

    def raw(self, start: int, end: int) -> str:
        """Return the text of some tokens as written, with comments."""
        if not self.syntax.keeps_comments:
            return self.text[self.tokens[start].start : self.tokens[end - 1].end + 1]
        after = self.tokens[end].start if end < len(self.tokens) else len(self.text)
        return self.text[self.tokens[start].start : after].rstrip()

    def plain(self, start: int, end: int) -> str:
        """Return the text of some tokens without comments. Several tokens may have one text (``1L``)."""
        spans = dict.fromkeys((token.start, token.end) for token in self.tokens[start:end])
        return " ".join(self.text[first : last + 1] for first, last in spans)

    # Errors

    def __str__(self) -> str:
        return shorten_text(" ".join(self.text.split()))

    def unexpected(self, wanted: str) -> InvalidArgument:
        token = self.next
        if token is None:
            return InvalidArgument(f"{self}: {wanted} is expected, not the end")
        passed = self.before + self.text[: token.start]
        line, column = passed.count("\n") + 1, len(passed) - passed.rfind("\n")
        there = repr(self.text[token.start : token.end + 1])
        return InvalidArgument(f"{self}: {wanted} is expected, not {there} at line {line}, column {column}")


def _is_word(token: Token, word: str) -> bool:
    return not _is_quoted(token) and token.text.upper() == word


def _is_quoted(token: Token) -> bool:
    return token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)


def _is_name(token: Token) -> bool:
    if token.token_type is TokenType.IDENTIFIER:
        return True
    return token.token_type not in NO_NAMES and token.text.replace("_", "a").replace("$", "a").isalnum()


def read_tokens(text: str, syntax: Syntax = CATALOG_SYNTAX) -> list[Token]:
    """Tokenize SQL. Raises `InvalidArgument` for invalid text, such as an open quote."""
    if not isinstance(text, str):
        raise InvalidArgument(f"a query must be text, not {text!r}")
    try:
        return [part for token in syntax.tokenize(text) for part in _split_token(token)]
    except TokenError as error:
        raise InvalidArgument(f"the query does not parse{describe_problem(error)}") from error


_JOINED = re.compile(r"[A-Za-z_]+(?:\s+[A-Za-z_]+)+")


def _split_token(token: Token) -> Iterator[Token]:
    """Yield the words of a token: sqlglot joins the words of some keywords to one token (``PARTITIONED BY``)."""
    if token.end - token.start + 1 != len(token.text) or not _JOINED.fullmatch(token.text):
        yield token
        return
    for word in re.finditer(r"\S+", token.text):
        start, end = token.start + word.start(), token.start + word.end() - 1
        comments = token.comments if end == token.end else []
        yield Token(TokenType.VAR, word[0], start=start, end=end, comments=comments)


def read_words(text: str, syntax: Syntax = CATALOG_SYNTAX) -> Words:
    """Tokenize a part of a statement. Raises as `read_tokens`."""
    return Words(text, read_tokens(text, syntax), syntax)


def split(text: str, syntax: Syntax = CATALOG_SYNTAX) -> list[Words]:
    """Split a text at semicolons into statements, without empty ones."""
    semicolons = [token.start for token in read_tokens(text, syntax) if token.token_type is TokenType.SEMICOLON]
    starts, ends = [0, *(at + 1 for at in semicolons)], [*semicolons, len(text)]
    pieces = [(text[start:end], text[:start]) for start, end in zip(starts, ends)]
    found = (Words(piece, read_tokens(piece, syntax), syntax, before) for piece, before in pieces)
    return [words for words in found if words.tokens]


def join_words(words: Iterable[str]) -> str:
    return " or ".join(words)


Parameters: TypeAlias = "Mapping[str, object] | Sequence[object] | None"


def bind_parameters(text: str, parameters: Parameters) -> tuple[str, Mapping[str, object]]:
    """Replace question marks with ``$1`` and so on; return the text and the values by name.

    Raises `InvalidArgument`: a wrong number of values, an unused value, or no values at all.
    """
    text, marks = _number_placeholders(text)
    if parameters is None:
        given: dict[str, object] = {}
    elif isinstance(parameters, Mapping):
        given = {str(name): value for name, value in parameters.items()}
    elif isinstance(parameters, Sequence) and not isinstance(parameters, (str, bytes)):
        given = {str(number): value for number, value in enumerate(parameters, 1)}
    else:
        raise InvalidArgument(f"parameters are a mapping of names or a list of values, not {parameters!r}")
    if marks and (isinstance(parameters, Mapping) or len(given) != marks):
        raise InvalidArgument(f"the query has {marks} question marks; give a list of as many values")
    named = _find_names(text) if given else set()
    unused = [name for name in given if name not in named]
    if unused:
        raise InvalidArgument(f"the query has no parameter ${unused[0]}")
    return text, given


def _number_placeholders(text: str) -> tuple[str, int]:
    if not isinstance(text, str) or "?" not in text:
        return text, 0
    parts, end, count = [], 0, 0
    for token in read_tokens(text):
        if token.token_type is TokenType.PLACEHOLDER:
            count += 1
            parts += [text[end : token.start], f" ${count} "]
            end = token.end + 1
    return "".join([*parts, text[end:]]), count


def _find_names(text: str) -> set[str]:
    tokens = read_tokens(text)
    marks = (TokenType.PARAMETER, TokenType.COLON)
    return {name.text for mark, name in pairwise(tokens) if mark.token_type in marks}
