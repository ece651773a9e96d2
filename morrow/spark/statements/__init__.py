"""Statements on tables named ``pm.db.t``, executed by DataFrame calls without a catalog in the JVM."""
