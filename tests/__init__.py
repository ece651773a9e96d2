"""The tests of Morrow.

Workers of `make test` keep all cores busy together, each in one thread of Polars: threads that wait for each other
spin, and on small tables they take twice the CPU. The first worker, and processes that run alone, have as many threads
as Polars gives them, so that what is done in parallel is tested too; `make test-long` has them everywhere. Polars reads
the variable when it is imported, so it is set here.
"""

import os

if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0" and os.environ.get("HYPOTHESIS_PROFILE") != "long":
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
