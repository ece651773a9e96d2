"""The class `Catalog`: databases, tables, views and functions by name; catalogs by options and profiles."""

from __future__ import annotations
