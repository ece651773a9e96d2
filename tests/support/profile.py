"""The test profile: `make test`, or `make test-long`, which tries many more cases."""

from __future__ import annotations

import os

IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
