"""Spark's queries and expressions as tokens with their positions, so that names in the text can be replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sqlglot.tokenizer_core import Token, TokenType

from morrow.spark.catalogs.syntax import SPARK_SYNTAX
from morrow.statements.tokens import Words, read_tokens


class SparkWords(Words):
    """A cursor over the tokens of a query or an expression."""

    def __init__(self, text: str) -> None:
        """Tokenize a text. Raises `InvalidArgument` if it cannot be tokenized, such as for an open quote."""
        super().__init__(text, read_tokens(text, SPARK_SYNTAX), SPARK_SYNTAX)

    def parenthesized(self) -> str:
        """Parse parentheses; return the text between them, which may be empty."""
        self.need("(")
        text = "" if self.word() == ")" else self.until()
        self.need(")")
        return text

    def expressions(self) -> list[str]:
        """Parse expressions in parentheses, separated by commas; return the text of each."""
        self.need("(")
        found = [] if self.word() == ")" else self.listed(lambda: self.until(","))
        self.need(")")
        return found

    def text_if_any(self) -> str | None:
        """Parse a quoted text, if it comes next."""
        token = self.next
        return self.string() if token is not None and token.token_type is TokenType.STRING else None

    def alias(self) -> str | None:
        """Parse ``AS name`` or a name, if one comes next."""
        if self.has("AS"):
            return self.name()
        token = self.next
        is_name = token is not None and token.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
        return self.name() if is_name and self.word() not in CLAUSES else None

    def has_subquery(self) -> bool:
        """Return whether the remaining text contains SELECT."""
        return any(token.token_type is TokenType.SELECT for token in self.tokens[self.at :])

    def paths(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Parse every dotted name in the remaining text.

        Yields the number of its first token and its parts.
        """
        while self.at < len(self.tokens):
            first, token = self.at, self.tokens[self.at]
            after_dot = first > 0 and self.tokens[first - 1].token_type is TokenType.DOT
            if after_dot or not _is_name_like(token):
                self.at += 1
                continue
            names = [token.text]
            self.at += 1
            while self._is_dotted():
                names.append(self.tokens[self.at + 1].text)
                self.at += 2
            yield first, tuple(names)

    def _is_dotted(self) -> bool:
        ahead = self.tokens[self.at : self.at + 2]
        return len(ahead) == 2 and ahead[0].token_type is TokenType.DOT and _is_name_like(ahead[1])

    def start(self, number: int) -> int:
        """Return the position in the text at which a token starts."""
        return self.tokens[number].start

    @property
    def taken(self) -> int:
        """The position in the text at which the last consumed token ends."""
        return self.tokens[self.at - 1].end + 1 if self.at else 0


def _is_name_like(token: Token) -> bool:
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
        "GROUP",
        "ORDER",
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
"""Words after a table that are not an alias, regardless of their token type in sqlglot."""


def replace_parts(text: str, parts: Mapping[tuple[int, int], str]) -> str:
    """Replace the parts of a text at these positions."""
    made, end = [], 0
    for (start, stop), new in sorted(parts.items()):
        made += [text[end:start], new]
        end = stop
    return "".join([*made, text[end:]])


def rewrite_qualifiers(text: str, prefix: Callable[[tuple[str, ...]], tuple[int, str] | None]) -> str:
    """Replace the qualifiers in an expression.

    `prefix`: a function of a name; returns how many of its parts are a qualifier, and their replacement with its dot.
    """
    words = SparkWords(text)
    parts = {}
    for first, names in words.paths():
        found = prefix(names)
        if found is not None and len(names) > found[0]:
            parts[words.start(first), words.start(first + 2 * found[0])] = found[1]
    return replace_parts(text, parts)
