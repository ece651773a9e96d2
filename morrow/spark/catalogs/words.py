"""The tokens of a statement of Spark's, read from left to right; see `morrow.statements.words`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from morrow.engine.errors import InvalidArgument
from morrow.statements.words import Words

QUOTED = frozenset({TokenType.STRING, TokenType.IDENTIFIER})


class Tokenizer(Spark.Tokenizer):
    """Spark's tokens, also of statements that sqlglot takes as one text."""

    COMMANDS: ClassVar[set[TokenType]] = set()


class SparkWords(Words):
    """A cursor over the tokens of one statement, which semicolons may end."""

    def __init__(self, text: str) -> None:
        """Raises `InvalidArgument` for text that has no tokens, such as an open quote."""
        try:
            found = Tokenizer(dialect="spark").tokenize(text)
        except TokenError as error:
            raise InvalidArgument(f"the statement does not parse: {str(error).splitlines()[0]}") from error
        super().__init__(text, [part for token in found for part in _single(token)])

    def is_at_end(self) -> bool:
        """Takes semicolons, and returns whether nothing else is left."""
        while self.takes(TokenType.SEMICOLON):
            pass
        return self.next is None

    def raw(self, start: int, end: int) -> str:
        """Returns the text of some tokens as it was written; comments after the last one are left out."""
        return self.text[self.tokens[start].start : self.tokens[end - 1].end + 1]


def _single(token: Token) -> Iterator[Token]:
    """Yields the words of a token, of which sqlglot makes one where they are a keyword (``PARTITIONED BY``)."""
    parts = token.text.split()
    if len(parts) < 2 or token.token_type in QUOTED:
        yield token
        return
    for match in re.finditer(r"\S+", token.text):
        start = token.start + match.start()
        yield Token(TokenType.VAR, match.group(), start=start, end=start + len(match.group()) - 1)


def name_of(text: str) -> tuple[str, ...]:
    """Returns the parts of a name. Raises `InvalidArgument` for other text."""
    try:
        words = SparkWords(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{text!r} is no name of a table") from error
    found = words.path()
    words.end()
    return found
