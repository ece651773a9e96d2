"""Values of parameters: ``$name`` and ``:name`` of a mapping, ``?`` and ``$1`` of a sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from sqlglot.tokenizer_core import TokenType

from morrow.engine.errors import InvalidArgument
from morrow.statements.words import tokens_of

Parameters: TypeAlias = "Mapping[str, object] | Sequence[object] | None"


def bound(text: str, parameters: Parameters) -> tuple[str, Mapping[str, object]]:
    """Returns the text with ``$1`` and so on for its question marks, and the values by their names.

    Raises:
        InvalidArgument: another number of values, a value that the text does not name, or no values at all.
    """
    text, marks = _numbered(text)
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
    named = _names(text) if given else set()
    unused = [name for name in given if name not in named]
    if unused:
        raise InvalidArgument(f"the query has no parameter ${unused[0]}")
    return text, given


def _numbered(text: str) -> tuple[str, int]:
    if not isinstance(text, str) or "?" not in text:
        return text, 0
    parts, end, count = [], 0, 0
    for token in tokens_of(text):
        if token.token_type is TokenType.PLACEHOLDER:
            count += 1
            parts += [text[end : token.start], f" ${count} "]
            end = token.end + 1
    return "".join([*parts, text[end:]]), count


def _names(text: str) -> set[str]:
    tokens = tokens_of(text)
    marks = (TokenType.PARAMETER, TokenType.COLON)
    return {name.text for mark, name in pairwise(tokens) if mark.token_type in marks}
