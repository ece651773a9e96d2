"""The campaign that runs pypaimon's tests: the changed imports, and the table of its counts."""

from __future__ import annotations

from collections import Counter

from tests.campaigns.compat.__main__ import BEGIN, END, GUARANTEES, count, describe, replace_table
from tests.campaigns.compat.sources import change_imports

CASES = [
    {"file": "pypaimon_tests/a_test.py", "outcome": "passed"},
    {"file": "pypaimon_tests/a_test.py", "outcome": "refused"},
    {"file": "pypaimon_tests/b_test.py", "outcome": "internal"},
]


def test_imports_are_changed_and_other_names_are_not() -> None:
    text = (
        "from pypaimon import Schema\nimport pypaimon.read.split as s\n"
        "from pypaimon.tests.x import y\npypaimon_rust = 1"
    )
    assert change_imports(text).splitlines() == [
        "from morrow.compat.pypaimon import Schema",
        "import morrow.compat.pypaimon.read.split as s",
        "from pypaimon_tests.x import y",
        "pypaimon_rust = 1",
    ]


def test_the_table_stands_between_its_marks() -> None:
    text = GUARANTEES.read_text()
    page = replace_table(text, count(CASES))
    table = page.partition(BEGIN)[2].partition(END)[0].split("\n")
    assert [line for line in table if "test.py" in line] == ["| a_test.py | 1 | | 1 | | |"]
    assert table[-3] == "| all | 1 | 0 | 1 | 0 | 1 |"
    assert (page.partition(BEGIN)[0], page.partition(END)[2]) == (text.partition(BEGIN)[0], text.partition(END)[2])
    assert describe(Counter(passed=1200, failed=3)) == "1,200 passed, 3 failed"
