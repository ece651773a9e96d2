"""Frozen dataclasses whose attributes are options: each names the declaration, which has kind and default.

@dataclass(frozen=True)
class Sizes:
    target: int | None = option(TARGET_FILE_SIZE)

read(Sizes, options).target
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from morrow.engine.options.declaring import Declared
from morrow.engine.options.given import Options

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    V = TypeVar("V", bound=DataclassInstance)
else:
    V = TypeVar("V")
T = TypeVar("T")
DECLARED = "declared"


def option(declared: Declared[T]) -> T:
    """Returns a dataclass attribute that takes the value of an option."""
    member: Any = field(
        default_factory=lambda: declared.default,
        hash=not isinstance(declared.default, Mapping),
        metadata={DECLARED: declared},
    )
    return cast(T, member)


def values(view: type[V], options: Options) -> dict[str, Any]:
    """Returns the values of the attributes that are options, by name.

    Raises: as `Options.get`.
    """
    return {name: options.get(declared) for name, declared in _members(view)}


@lru_cache
def _members(view: type[DataclassInstance]) -> tuple[tuple[str, Declared[Any]], ...]:
    declared = ((member.name, member.metadata.get(DECLARED)) for member in fields(view))
    return tuple((name, each) for name, each in declared if each is not None)
