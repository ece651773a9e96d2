"""The options of a table as given, and their values by declaration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.declaring import Declared
from morrow.engine.options.kinds import BadValue, UnknownWord

T = TypeVar("T")


class Options(msgspec.Struct, frozen=True):
    """Option texts by key; `where` names the table in errors.

    >>> Options({"bucket": "4"}).get(BUCKET)
    4
    """

    raw: Mapping[str, str] = msgspec.field(default_factory=dict)
    where: str = "options"

    def __eq__(self, other: object) -> bool:
        """Returns whether the texts are the same, wherever they come from."""
        return isinstance(other, Options) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(frozenset(self.raw.items()))

    def get(self, option: Declared[T]) -> T:
        """Returns the value of an option, or its default when neither its key nor a former one is set.

        Raises:
            InvalidArgument: the text is not a value of the option's kind.
            Unsupported: a word that the option does not know.
        """
        for key in option.keys:
            if key in self.raw:
                return self._parsed(option, key)
        return option.default

    def has(self, option: Declared[Any]) -> bool:
        """Returns whether the option is set, by its key or a former one."""
        return any(key in self.raw for key in option.keys)

    def text(self, option: Declared[Any]) -> str | None:
        """Returns the text of an option as it was given, None when it is not set."""
        return next((self.raw[key] for key in option.keys if key in self.raw), None)

    def refused(self, option: Declared[Any], problem: str) -> InvalidArgument:
        """Returns the error for the value of an option that is set."""
        key = next(key for key in option.keys if key in self.raw)
        return refused_value(self.raw, key, self.where, problem)

    def _parsed(self, option: Declared[T], key: str) -> T:
        try:
            return option.kind.parse(self.raw[key])
        except UnknownWord as error:
            hint = f"known values: {error}"
            raise Unsupported(f"the option {key!r} = {self.raw[key]!r}", where=self.where, hint=hint) from None
        except BadValue as error:
            raise refused_value(self.raw, key, self.where, str(error)) from None


def refused_value(raw: Mapping[str, str], key: str, where: str, problem: str) -> InvalidArgument:
    """Returns the error for a value that does not parse."""
    return InvalidArgument(f"{where}: the option {key!r} has the value {raw[key]!r}; {problem}")
