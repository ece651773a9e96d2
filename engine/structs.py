"""Copies of values with other members: dataclasses and msgspec structs, whose declaration is 40 times faster."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from dataclasses import replace as replace  # noqa: TID251  # type checkers know its members, also for structs
else:

    def replace(value, /, **changes):
        """Return the value with other members; raise `TypeError` for an unknown member."""
        change = msgspec.structs.replace if isinstance(value, msgspec.Struct) else dataclasses.replace  # noqa: TID251
        return change(value, **changes)
