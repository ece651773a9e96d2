"""Statements that name tables as ``pm.db.t``, done without a catalog in the JVM: by DataFrame calls."""
