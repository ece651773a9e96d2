"""What is made when it is first needed: the methods of a `dataclass`, the automaton of a `pattern`.

The standard `dataclass` writes and compiles each method as the class is declared, most of a millisecond a class: that
of the many classes that a process declares and hardly uses was half of the time of its first read.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

ALWAYS = ("__init__", "__match_args__", "__dataclass_fields__", "__dataclass_params__")
OF_OPTIONS = {"repr": ("__repr__",), "eq": ("__eq__", "__hash__")}
"""Members of a frozen dataclass, the latter by the option without which it has them not."""


class Declared:
    """A class as it was declared: the options of `dataclass`, and what `field(...)` has returned, by field."""

    def __init__(self, cls: type, options: dict[str, bool], fields: dict[str, dataclasses.Field[Any]]) -> None:
        self.cls, self.options, self.fields = cls, options, fields

    def members(self) -> list[str]:
        chosen = (names for option, names in OF_OPTIONS.items() if self.options.get(option, True))
        return [*ALWAYS, *(name for names in chosen for name in names)]

    def complete(self) -> None:
        """Gives the class its members. Of threads that do so at once, each puts the same in place.

        They are made of a class that is like it in fields and bases, so that at no time a member is missing.
        """
        cls, declared = self.cls, get_annotations(self.cls)
        kept = {*declared, "__post_init__", "__orig_bases__", "__module__"}
        body = {name: value for name, value in vars(cls).items() if name in kept} | self.fields
        body |= {"__annotations__": declared, "__doc__": cls.__doc__ or cls.__name__, "__qualname__": cls.__qualname__}
        made: type = dataclasses.dataclass(**self.options)(type(cls)(cls.__name__, cls.__bases__, body))
        for name in self.members():
            if isinstance(vars(cls).get(name), Later):
                setattr(cls, name, vars(made)[name])


class Later:
    """Stands for a member of a class in whose place the first use puts what `dataclasses` makes of the class."""

    def __init__(self, declared: Declared, name: str) -> None:
        self.declared, self.name = declared, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        self.declared.complete()
        value = vars(self.declared.cls)[self.name]
        return value.__get__(instance, owner) if hasattr(value, "__get__") else value


def _refuse_changes(cls: Any) -> None:
    """Has assignments to fields of instances fail as those of a frozen dataclass do."""

    def fixed(self: object, name: str) -> bool:
        return type(self) is cls or name in cls.__dataclass_fields__

    def set_attribute(self: object, name: str, value: object) -> None:
        if fixed(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: object, name: str) -> None:
        if fixed(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__ = set_attribute
    cls.__delattr__ = delete_attribute


def _lazy(cls: type[T], options: dict[str, bool]) -> type[T]:
    own = vars(cls)
    unusual = {"__eq__", "__hash__", "__setattr__", "__delattr__"}.intersection(own)
    if unusual or not options.get("frozen") or not options.get("init", True):
        return dataclasses.dataclass(**options)(cls)  # what becomes of those is for the standard one to say
    fields = {name: value for name, value in own.items() if isinstance(value, dataclasses.Field)}
    for name, field in fields.items():
        if field.default is dataclasses.MISSING:
            delattr(cls, name)
        else:
            setattr(cls, name, field.default)
    declared = Declared(cls, options, fields)
    for name in declared.members():
        if name not in own:
            setattr(cls, name, Later(declared, name))
    _refuse_changes(cls)
    return cls


class LazyPattern:
    """A regular expression that is compiled when it is first used."""

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

    pattern = re.compile
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> type | Callable[[type], type]:
        """Declares a class as `dataclasses.dataclass` does: options, fields, equality and errors are the same."""
        return (lambda cls: _lazy(cls, options)) if cls is None else _lazy(cls, options)

    def pattern(text: str, flags: int = 0) -> LazyPattern:
        """Returns what has the members of the `re.Pattern` of the text. One with a mistake fails as it is used."""
        return LazyPattern(text, flags)
