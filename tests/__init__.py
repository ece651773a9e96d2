"""The tests of Morrow.

Workers of `make test` keep all cores busy together, each in one thread of Polars: threads that wait for each other spin,
and two workers with two threads each take three times the CPU for small tables. The first worker, and processes that
run alone, have as many threads as Polars gives them, so what is done in parallel is tested too; `make test-long` has
them everywhere. This is set here since Polars reads it when it is imported.
"""

import os

if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0" and os.environ.get("HYPOTHESIS_PROFILE") != "long":
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
