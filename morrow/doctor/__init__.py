"""Diagnostics of whole tables: `Table.doctor` and `Table.inspect`.

`examination` runs the checks, whose findings are a `report`; `inspection` is a page of `charts`.
"""

from __future__ import annotations
