"""The class `Table` and its sides: rows, history, maintenance, schema changes; format tables."""

from __future__ import annotations
