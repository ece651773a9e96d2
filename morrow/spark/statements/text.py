"""Statements as tokens with their places in the text, so that parts go to Spark as they were written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from morrow.engine.errors import InvalidArgument
from morrow.spark.catalogs.syntax import Tokens

OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE})
CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END})


class Statement(Tokens):
    """A statement, read from left to right; see `Tokens`."""

    def __init__(self, text: str) -> None:
        try:
            super().__init__(text)
        except TokenError as error:
            raise InvalidArgument(f"the statement does not parse: {str(error).splitlines()[0]}") from error
        self._tokens = [part for token in self._tokens for part in _words(token)]

    def starts(self, *words: str) -> bool:
        """Whether these words, in any case, are the next ones; takes none."""
        at = self._at
        found = self.has(*words)
        self._at = at
        return found

    def word(self, ahead: int = 0) -> str:
        """Returns the word that comes next, or so many later, in upper case; empty at the end and for names in
        backticks.
        """
        at = self._at + ahead
        if at >= len(self._tokens) or self._tokens[at].token_type is TokenType.IDENTIFIER:
            return ""
        return self._tokens[at].text.upper()

    def is_path(self) -> bool:
        """Whether a name comes next."""
        token = self._next()
        return token is not None and self._is_name(token)

    def until(self, *words: str) -> str:
        """Takes all that comes before one of these words or signs outside of parentheses and CASE, or the end.

        Returns: its text. Raises `InvalidArgument` where there is none.
        """
        first, depth = self._at, 0
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if depth == 0 and (self.word() in words or token.token_type in CLOSING):
                break
            depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
            self._at += 1
        if self._at == first:
            raise self.unexpected("an expression")
        return self._text[self._tokens[first].start : self._tokens[self._at - 1].end + 1]

    def parenthesized(self) -> str:
        """Takes what stands in parentheses; returns its text, perhaps empty."""
        if not self.takes("("):
            raise self.unexpected("(")
        text = "" if self.word() == ")" else self.until()
        if not self.takes(")"):
            raise self.unexpected(")")
        return text

    def takes(self, sign: str) -> bool:
        """Takes a sign or word if it comes next; returns whether it did."""
        if self.word() != sign:
            return False
        self._at += 1
        return True

    def listed(self) -> list[str]:
        """Takes expressions that commas separate, in parentheses; returns the text of each."""
        if not self.takes("("):
            raise self.unexpected("(")
        found = [] if self.word() == ")" else [self.until(",")]
        while self.takes(","):
            found.append(self.until(","))
        if not self.takes(")"):
            raise self.unexpected(")")
        return found

    def string(self) -> str | None:
        """Takes a text in quotes if it comes next."""
        return self._text_of(TokenType.STRING)

    def rest(self) -> str:
        """Takes all that is left, but for semicolons."""
        text = self.until(";")
        self.end()
        return text

    def alias(self) -> str | None:
        """Takes ``AS name`` or a name if one comes next."""
        if self.has("AS"):
            return self.name()
        token = self._next()
        is_name = token is not None and token.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
        return self.name() if is_name and self.word() not in CLAUSES else None

    def has_subquery(self) -> bool:
        """Whether a SELECT stands anywhere in what is left."""
        return any(token.token_type is TokenType.SELECT for token in self._tokens[self._at :])

    def paths(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Goes to each name that no dot comes before, and takes it with those that follow it after dots.

        Yields the place of its first token and the names.
        """
        while self._at < len(self._tokens):
            first, token = self._at, self._tokens[self._at]
            after_dot = first > 0 and self._tokens[first - 1].token_type is TokenType.DOT
            if after_dot or not self._is_name(token):
                self._at += 1
                continue
            names = [token.text]
            self._at += 1
            while self._dotted():
                names.append(self._tokens[self._at + 1].text)
                self._at += 2
            yield first, tuple(names)

    def _dotted(self) -> bool:
        ahead = self._tokens[self._at : self._at + 2]
        return len(ahead) == 2 and ahead[0].token_type is TokenType.DOT and self._is_name(ahead[1])

    def start(self, number: int) -> int:
        """Returns where a token begins in the text."""
        return self._tokens[number].start

    @property
    def at(self) -> int:
        """The number of tokens taken."""
        return self._at

    @property
    def taken(self) -> int:
        """Where the last token that was taken ends in the text."""
        return self._tokens[self._at - 1].end + 1 if self._at else 0

    @property
    def text(self) -> str:
        return self._text

    @staticmethod
    def _is_name(token: Token) -> bool:
        if token.token_type is TokenType.IDENTIFIER:
            return True
        word = token.text.replace("_", "a")
        return token.token_type not in (TokenType.NUMBER, TokenType.STRING) and word.isalnum() and not word[0].isdigit()


CLAUSES = frozenset(
    {
        "TABLESAMPLE",
        "PIVOT",
        "UNPIVOT",
        "LATERAL",
        "WHERE",
        "JOIN",
        "ON",
        "USING",
        "WITH",
        "SORT",
        "CLUSTER",
        "DISTRIBUTE",
        "MINUS",
        "SEMI",
        "ANTI",
        "SET",
        "WHEN",
        "VERSION",
        "TIMESTAMP",
    }
)
"""Words after a table that are no alias of it, whatever token sqlglot makes of them."""


def _words(token: Token) -> Iterator[Token]:
    """Yields the words of a token, of which sqlglot makes one where they are a keyword (``PARTITIONED BY``)."""
    parts = token.text.split()
    if len(parts) < 2 or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        yield token
        return
    for match in re.finditer(r"\S+", token.text):
        start = token.start + match.start()
        yield Token(TokenType.VAR, match.group(), start=start, end=start + len(match.group()) - 1)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def replaced(text: str, parts: Mapping[tuple[int, int], str]) -> str:
    """Returns a text with other ones at these places."""
    made, end = [], 0
    for (start, stop), new in sorted(parts.items()):
        made += [text[end:start], new]
        end = stop
    return "".join([*made, text[end:]])


def requalified(text: str, prefix: Callable[[tuple[str, ...]], tuple[int, str] | None]) -> str:
    """Returns an expression with other qualifiers.

    Args:
        prefix: gets a name; returns how many of its parts are a qualifier, and what takes their place, with its dot.
    """
    words = Statement(text)
    parts = {}
    for first, names in words.paths():
        found = prefix(names)
        if found is not None and len(names) > found[0]:
            parts[words.start(first), words.start(first + 2 * found[0])] = found[1]
    return replaced(text, parts)
