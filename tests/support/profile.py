"""Tells which tests run: `make test`, or `make test-long`, which tries much more."""

from __future__ import annotations

import os

IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
