"""Fixtures and settings for all tests."""

from __future__ import annotations

import gc
import importlib
import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from morrow.engine import redaction
from morrow.engine.io import cache_folder, object_store, secrets
from morrow.engine.io.local import disable_fsync
from tests.support import golden
from tests.support.costs import Costs, recorded, steps
from tests.support.old_libraries import raise_own_errors, skip_refused
from tests.support.profile import IS_LONG, choose_cases

PROJECT = Path(__file__).parents[1]
if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
    # Polars reads the first when it is first used, DuckDB the second for each database. There are more workers than
    # cores, and tables of tests are small, so that waking other threads costs more than it saves. The first worker has
    # all threads, as users do.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    os.environ.setdefault("SLURM_CPUS_ON_NODE", "1")
MARK_THEIR_OWN = ("tests/test_golden.py",)
"""Files that mark their slow tests themselves."""
ONLY_LONG = (
    "tests/campaigns/test_damage.py",
    "tests/cli/test_terminal_width.py",
    "tests/durability/test_crashes_in_stores.py",
    "tests/durability/test_races.py",
    "tests/interop/test_catalogs.py",
    "tests/interop/test_hdfs.py",
    "tests/interop/test_hive.py",
    "tests/interop/test_spark.py",
    "tests/isolation/test_racing.py",
    "tests/spark/reading/test_golden_read.py",
    "tests/spark/statements/test_execution.py",
    "tests/spark/test_cluster.py",
    "tests/spark/test_guide.py",
    "tests/spark/test_pipeline.py",
    "tests/spark/test_servers.py",
    "tests/test_site.py",
)
"""Files that run in `make test-long` alone: each takes 8 to 70 CPU seconds, most of them to start processes."""
SPARK_WITHOUT_FIXTURE = tuple(f"tests/spark/test_{name}.py" for name in ("cluster", "pipeline"))
"""Tests that start Spark drivers of their own."""

# `make test` always tries the same examples, so that a failure is due to a change; `make test-long` tries new ones.
settings.register_profile(
    "default",
    max_examples=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
LONG_EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES", "2000"))
"""Examples of `make test-long`; CI sets fewer, since a job may take six hours."""
settings.register_profile("long", settings.get_profile("default"), max_examples=LONG_EXAMPLES, derandomize=False)
settings.register_profile("check", settings.get_profile("default"))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", metavar="FILE", help="measure wall and CPU by file and by test; all of it goes to FILE")
    parser.addoption("--quick", action="store_true", help="leave out tests marked spark, interop or slow (make check)")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    outcome: Any = yield
    skip_refused(outcome.get_result())


def pytest_configure(config: pytest.Config) -> None:
    raise_own_errors()
    # Tests never write to the folder of the user; some have a folder of their own.
    os.environ[cache_folder.SWITCH] = "off"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # shells start background jobs this way
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if target := config.getoption("--costs"):
        config.pluginmanager.register(Costs(Path(target)))
    if config.getoption("--quick"):
        config.option.markexpr = "not (spark or interop or slow)"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Keep `make check` and `make test` from importing tests that they leave out."""
    file = collection_path.relative_to(PROJECT).as_posix() if collection_path.is_relative_to(PROJECT) else ""
    if file in ONLY_LONG and not IS_LONG:
        return True
    return True if config.getoption("--quick") and (file == "tests/interop" or is_slow(file)) else None


def is_slow(file: str) -> bool:
    """Check whether `make check` leaves out all tests of a file because they are expensive."""
    return file in recorded() and file not in MARK_THEIR_OWN


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Disable the garbage collector, which would search again and again through objects that all stay."""
    gc.disable()
    if runs_all_files(session.config):
        import_own_part(session.config)


def runs_all_files(config: pytest.Config) -> bool:
    return bool(config.args) and {config.rootpath / each for each in config.args} == {PROJECT / "tests"}


def import_own_part(config: pytest.Config) -> None:
    """Import a part of the tests first, a different part in each worker.

    All workers import all tests at the same time. In a fresh clone each module has to be compiled and its asserts
    rewritten, which takes longer than the rest of the collection; this way others have done most of it for each worker.
    """
    worker, workers = (os.environ.get(f"PYTEST_XDIST_WORKER{name}") for name in ("", "_COUNT"))
    modules = sorted(path for path in (PROJECT / "tests").rglob("test_*.py") if not pytest_ignore_collect(path, config))
    for path in modules[int(worker.removeprefix("gw")) :: int(workers)] if worker and workers else ():
        with suppress(Exception, pytest.skip.Exception):  # the collection imports it again and reports errors
            importlib.import_module(".".join(path.relative_to(PROJECT).with_suffix("").parts))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exempt all existing objects from garbage collection, which took a twelfth of the tests' CPU."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Use two workers more than there are cores, since many tests wait for Spark's JVM, killed processes or clocks."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests.support.schedule import ByCost

    return ByCost(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that `make check` leaves out: tests with a JVM, and expensive files.

    A run of all files leaves out cases of expensive parametrised tests. `make test-long`, a run of named files or tests
    and one with `-k` take all.
    """
    if runs_all_files(config) and not (IS_LONG or config.option.keyword):
        left_out = alike_cases(items)
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        file = item.nodeid.partition("::")[0]
        if "spark" in fixtures or file in SPARK_WITHOUT_FIXTURE:
            item.add_marker("spark")
        if "java" in fixtures:
            item.add_marker("interop")
        if is_slow(file):
            item.add_marker("slow")


def alike_cases(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the cases that are left out of the files with a step in `tests/costs.txt`."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.nodeid.partition("::")[0] in steps() and hasattr(item, "callspec"):
            cases[item.nodeid.partition("[")[0]].append(item)
    left_out: set[pytest.Item] = set()
    for test, alike in cases.items():
        values = [item.callspec.indices for item in alike]  # type: ignore[attr-defined]  # has been checked
        taken = choose_cases(steps()[test.partition("::")[0]], values)
        left_out.update(item for number, item in enumerate(alike) if number not in taken)
    return left_out


@pytest.fixture(autouse=True)
def syncing() -> Iterator[None]:
    """Turn syncing off, since tables of tests may be lost. Tests of durability override this fixture."""
    with disable_fsync():
        yield


PYTESTS_OWN = b"PYTEST_CURRENT_TEST"
"""The variable that pytest sets before each step of a test."""


def environment_of_test() -> dict[bytes, bytes]:
    """Copy the environment except for pytest's variable, without the decoding of `os.environ`, which takes longer."""
    held: dict[bytes, bytes] = os.environb._data  # type: ignore[attr-defined]  # public ways are slower
    return {name: value for name, value in held.items() if name != PYTESTS_OWN}


KEPT_BY_PROCESS = (
    (redaction, "_secrets"),
    (object_store, "_proven"),
    *((secrets, name) for name in ("_resolver", "_held", "_names")),
)
"""Facts about opened stores that modules remember."""


@pytest.fixture(autouse=True)
def process_state() -> Iterator[None]:
    """Restore the state of the process after a test, so that the order of tests makes no difference.

    The state consists of secrets that messages hide, secrets left out of pickles and their resolver, facts about stores
    that were checked, and the environment.
    """
    environment = environment_of_test()
    before = [copy(getattr(module, name)) for module, name in KEPT_BY_PROCESS]
    yield
    for (module, name), value in zip(KEPT_BY_PROCESS, before, strict=True):
        setattr(module, name, value)
    found = environment_of_test()
    # Only changed variables are set: threads of Polars and others read the environment at any time, against which the C
    # library does not protect itself, and a process whose whole environment is replaced may crash.
    for name in found.keys() - environment.keys():
        del os.environb[name]
    for name, value in environment.items() if found != environment else ():
        if found.get(name) != value:
            os.environb[name] = value


@pytest.fixture(scope="session")
def golden_root() -> Path:
    """Return the folder of the golden tables: ``public/<case>/`` and ``versions/<version>/<case>/``. Read-only."""
    return golden.unpack(PROJECT / ".cache")
