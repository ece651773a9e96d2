"""The JVM that interop tests share, one per test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.jvm import JavaPaimon, JavaUnavailable


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPaimon]:
    """Start Java Paimon, or skip and name what is missing."""
    try:
        paimon = JavaPaimon(tmp_path_factory.mktemp("java"))
    except JavaUnavailable as reason:
        pytest.skip(str(reason))
    yield paimon
    paimon.close()
