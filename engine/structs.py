"""Copies of values with other members, for dataclasses and for msgspec structs, which are 40 times faster to
declare.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from dataclasses import replace as replace  # noqa: TID251  # whose members the type checker knows, those of structs as well
else:

    def replace(value, /, **changes):
        """Return the value with other members; raise `TypeError` for an unknown member."""
        change = msgspec.structs.replace if isinstance(value, msgspec.Struct) else dataclasses.replace  # noqa: TID251
        return change(value, **changes)
