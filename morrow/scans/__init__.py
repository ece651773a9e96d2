"""Scans of tables, of their system tables and of their changes, and the forms that rows take."""
