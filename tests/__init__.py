"""The tests of Morrow.

Workers of `make test` together keep all cores busy, each with one Polars thread: threads that wait for each other
spin, and on small tables they take twice the CPU. The first worker, and processes that run alone, have Polars' default
number of threads, so that parallel code is tested too; `make test-long` uses it everywhere. Polars reads the variable
when it is imported, so it is set here.
"""

import os

if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0" and os.environ.get("HYPOTHESIS_PROFILE") != "long":
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
