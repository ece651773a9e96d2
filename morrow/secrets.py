"""Secrets of object stores, for processes that unpickle tables, catalogs, scans and Spark jobs.

    morrow.secrets.register(lambda url: {"aws_access_key_id": ..., "aws_secret_access_key": ...})

Pickles hold no secrets: see `register`.
"""

from __future__ import annotations

from morrow.engine.io.secrets import ENVIRONMENT, Resolver, register

__all__ = ["ENVIRONMENT", "Resolver", "register"]
