"""Diagnostics of whole tables: `Table.doctor` and `Table.inspect`.

`examination` runs the checks and builds a `report` of their findings; `inspection` builds a page of `charts`.
"""

from __future__ import annotations
