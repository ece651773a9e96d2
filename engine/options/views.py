"""Frozen structs whose attributes are options: each names the declaration, which has kind and default.

class Sizes(msgspec.Struct, frozen=True):
    target: int | None = option(TARGET_FILE_SIZE)

read(Sizes, options).target
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec

from morrow.engine.options.declaring import Declared
from morrow.engine.options.given import Options

T = TypeVar("T")


class _Default(msgspec.Struct, frozen=True):
    """Makes the default of an option."""

    declared: Declared[Any]

    def __call__(self) -> Any:
        return self.declared.default


def option(declared: Declared[T]) -> T:
    """Returns an attribute that takes the value of an option."""
    return cast(T, msgspec.field(default_factory=_Default(declared)))


def values(view: type[msgspec.Struct], options: Options) -> dict[str, Any]:
    """Returns the values of the attributes that are options, by name.

    Raises: as `Options.get`.
    """
    return {name: options.get(declared) for name, declared in _members(view)}


@lru_cache
def _members(view: type[msgspec.Struct]) -> tuple[tuple[str, Declared[Any]], ...]:
    defaults = (getattr(default, "factory", None) for default in view.__struct_defaults__)
    named = zip(view.__struct_fields__[-len(view.__struct_defaults__) :], defaults)
    return tuple((name, default.declared) for name, default in named if isinstance(default, _Default))
