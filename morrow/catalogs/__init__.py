"""The class `Catalog`: databases, tables, views and functions by name."""
