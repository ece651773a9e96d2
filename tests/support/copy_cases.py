"""Cases of COPY INTO, which `Catalog.sql` and Spark run alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Files = Mapping[str, "str | pa.Table"]
Loads = list[tuple[Any, ...]]
"""Name, status, rows loaded, rows parsed and errors of each file."""


@dataclass(frozen=True)
class Case:
    """A load: the columns of a table, files, the end of the statement, and the expected rows and report."""

    columns: str
    files: Files
    format: str
    rows: list[tuple[Any, ...]]
    loads: Loads | None = None
    into: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    """A part of the first error of files."""

    def write(self, folder: Path) -> None:
        """Write the files into a new folder."""
        folder.mkdir()
        for name, content in self.files.items():
            if isinstance(content, str):
                (folder / name).write_text(content)
            else:
                pq.write_table(content, folder / name)


ID_NAME = "id INT, name STRING"
ANN_BOB = [(1, "ann"), (2, "bob")]
CSV = "FILE_FORMAT = (TYPE = CSV)"
JSON = "FILE_FORMAT = (TYPE = JSON)"
PARQUET = "FILE_FORMAT = (TYPE = PARQUET)"


def lines(*objects: str) -> str:
    return "".join(f"{each}\n" for each in objects)


CASES: Mapping[str, Case] = {
    "csv by position": Case(ID_NAME, {"a.csv": "1,ann\n2,bob\n"}, CSV, ANN_BOB, [("a.csv", "LOADED", 2, 2, 0)]),
    "csv with a delimiter": Case(
        ID_NAME, {"a": "1|ann\n2|bob"}, "FILE_FORMAT = (type = csv, field_delimiter = '|')", ANN_BOB
    ),
    "csv with tabs": Case(
        ID_NAME, {"a": "1\tann\n"}, r"FILE_FORMAT = (TYPE = CSV, FIELD_DELIMITER = '\t')", [(1, "ann")]
    ),
    "csv with a header": Case(
        ID_NAME, {"a": "x,y\n1,ann\n"}, "FILE_FORMAT = (TYPE = 'csv', SKIP_HEADER = 1)", [(1, "ann")]
    ),
    "csv with quotes": Case(
        ID_NAME,
        {"a": '1,"ann ""the great"""\n2,"b,b"\n'},
        """FILE_FORMAT = (TYPE = CSV, QUOTE = '"', ESCAPE = '"')""",
        [(1, 'ann "the great"'), (2, "b,b")],
    ),
    "csv with other quotes": Case(ID_NAME, {"a": "1,~a,n~\n"}, "FILE_FORMAT = (TYPE = CSV, QUOTE = '~')", [(1, "a,n")]),
    "csv with null": Case(
        ID_NAME,
        {"a": "1,NULL\n2,\\N\n3,ann\n"},
        r"FILE_FORMAT = (TYPE = CSV, NULL_IF = ('NULL', '\\N'))",
        [(1, None), (2, None), (3, "ann")],
    ),
    "csv with empty cells": Case(
        ID_NAME, {"a": '1,\n2,""\n'}, "FILE_FORMAT = (TYPE = CSV, EMPTY_FIELD_AS_NULL = TRUE)", [(1, None), (2, None)]
    ),
    "csv by a pattern": Case(
        ID_NAME,
        {"a.csv": "1,ann\n", "b.csv": "2,bob\n", "c.txt": "3,cid\n", "_d.csv": "4,dan\n"},
        CSV + r" PATTERN = '.*\.csv'",
        ANN_BOB,
        [("a.csv", "LOADED", 1, 1, 0), ("b.csv", "LOADED", 1, 1, 0)],
    ),
    "csv into columns": Case(
        "id INT, name STRING, age INT, kind STRING DEFAULT 'new'",
        {"a": "ann,1\nbob,2\n"},
        CSV,
        [(1, "ann", None, "new"), (2, "bob", None, "new")],
        into="(NAME, Id)",
    ),
    "csv in names with blanks": Case(
        ID_NAME, {"a b%20[c].csv": "1,ann\n"}, CSV, [(1, "ann")], [("a b%20[c].csv", "LOADED", 1, 1, 0)]
    ),
    "csv that is empty": Case(
        ID_NAME, {"a": "", "b": "1,ann\n"}, CSV, [(1, "ann")], [("a", "LOADED", 0, 0, 0), ("b", "LOADED", 1, 1, 0)]
    ),
    "csv of many types": Case(
        "a BOOLEAN, b BIGINT, c DOUBLE, d DECIMAL(9, 2), e DATE",
        {"a": "true,-9000000000,0.5,1.25,2024-02-29\n"},
        "FILE_FORMAT = (TYPE = CSV) ON_ERROR = ABORT_STATEMENT",
        [(True, -9000000000, 0.5, "1.25", "2024-02-29")],
    ),
    "csv with wrong rows": Case(
        ID_NAME,
        {"a": "1,ann\nabc,bob\n3,cid\n", "b": "4,dan\n"},
        CSV + " ON_ERROR = CONTINUE",
        [(1, "ann"), (3, "cid"), (4, "dan")],
        [("a", "PARTIALLY_LOADED", 2, 3, 1), ("b", "LOADED", 1, 1, 0)],
        errors={"a": "Cast failure in column 'id': 'abc' is no INT"},
    ),
    "csv with rows of other lengths": Case(
        "id INT, name STRING, age INT",
        {"a": "1,ann\n2,bob,20\n3,cid,30,x\n"},
        CSV + " ON_ERROR = CONTINUE",
        [(2, "bob", 20)],
        [("a", "PARTIALLY_LOADED", 1, 3, 2)],
        errors={"a": "Malformed record: 1,ann"},
    ),
    "csv with wrong rows alone": Case(
        ID_NAME,
        {"a": "abc,ann\n1.5,bob\n99999999999,cid\n"},
        CSV + " ON_ERROR = CONTINUE",
        [],
        [("a", "LOAD_FAILED", 0, 3, 3)],
    ),
    "csv with wrong files": Case(
        ID_NAME,
        {"a": "1,ann\n2,bob\n", "b": "3,cid\nabc,dan\n"},
        CSV + " FORCE = FALSE ON_ERROR = SKIP_FILE",
        ANN_BOB,
        [("a", "LOADED", 2, 2, 0), ("b", "LOAD_FAILED", 0, 2, 1)],
        errors={"b": "Cast failure in column 'id'"},
    ),
    "json by name": Case(
        ID_NAME,
        {"a.json": lines('{"name": "ann", "id": 1, "more": [1]}', '{"id": "2"}')},
        JSON,
        [(1, "ann"), (2, None)],
        [("a.json", "LOADED", 2, 2, 0)],
    ),
    "json over lines": Case(
        ID_NAME,
        {"a": '[\n {"id": "1", "name": "ann"},\n {"id": "2",\n "name": "bob"}\n]'},
        "FILE_FORMAT = (TYPE = JSON, MULTI_LINE = TRUE)",
        ANN_BOB,
    ),
    "json with null": Case(
        ID_NAME,
        {"a": lines('{"id": 1, "name": "NULL"}', r'{"id": 2, "name": "\\N"}', '{"id": 3, "name": ""}', '{"id": null}')},
        r"FILE_FORMAT = (TYPE = JSON, NULL_IF = ('NULL', '\N'), EMPTY_FIELD_AS_NULL = TRUE)",
        [(1, None), (2, None), (3, None), (None, None)],
    ),
    "json with text of members": Case(
        ID_NAME, {"a": lines('{"id": 1, "name": {"x":[1,2]}}')}, JSON, [(1, '{"x":[1,2]}')]
    ),
    "json into columns": Case(
        "id INT, name STRING, age INT",
        {"a": lines('{"id": 1, "name": "ann", "age": 7}')},
        JSON,
        [(1, "ann", None)],
        into="(id, name)",
    ),
    "json with wrong lines": Case(
        ID_NAME,
        {"a": lines('{"id": 1, "name": "ann"}', "{bad json}", '{"id": "abc"}', '{"id": 2, "name": "bob"}')},
        JSON + " ON_ERROR = CONTINUE",
        ANN_BOB,
        [("a", "PARTIALLY_LOADED", 2, 4, 2)],
    ),
    "json with wrong files": Case(
        ID_NAME,
        {"a": lines('{"id": 1, "name": "ann"}', '{"id": 2, "name": "bob"}'), "b": lines("{bad json}")},
        JSON + " ON_ERROR = SKIP_FILE",
        ANN_BOB,
        [("a", "LOADED", 2, 2, 0), ("b", "LOAD_FAILED", 0, 1, 1)],
        errors={"b": "Malformed record: {bad json}"},
    ),
    "parquet by name": Case(
        "id INT, name STRING, age INT",
        {
            "a.parquet": pa.table({"NAME": ["ann"], "more": [0.5], "id": pa.array([1], pa.int64())}),
            "b.parquet": pa.table({"id": pa.array([2], pa.int64()), "age": pa.array([3], pa.int32())}),
        },
        PARQUET,
        [(1, "ann", None), (2, None, 3)],
        [("a.parquet", "LOADED", 1, 1, 0), ("b.parquet", "LOADED", 1, 1, 0)],
    ),
    "parquet into columns": Case(
        ID_NAME, {"a": pa.table({"id": [1], "name": ["ann"]})}, PARQUET, [(None, "ann")], into="(name)"
    ),
    "parquet with wrong values": Case(
        ID_NAME,
        {"a": pa.table({"id": ["1", "abc"], "name": ["ann", "bob"]}), "b": pa.table({"id": ["2"], "name": ["bob"]})},
        PARQUET + " ON_ERROR = CONTINUE",
        ANN_BOB,
        [("a", "PARTIALLY_LOADED", 1, 2, 1), ("b", "LOADED", 1, 1, 0)],
    ),
    "parquet with wrong files": Case(
        ID_NAME,
        {"a": pa.table({"id": [2**40, 3], "name": ["ann", "bob"]}), "b": pa.table({"id": [2], "name": ["bob"]})},
        PARQUET + " ON_ERROR = SKIP_FILE",
        [(2, "bob")],
        [("a", "LOAD_FAILED", 0, 2, 1), ("b", "LOADED", 1, 1, 0)],
    ),
    "parquet with nested values": Case(
        "id INT, tags ARRAY<STRING>",
        {"a": pa.table({"id": pa.array([1], pa.int32()), "tags": [["x", "y"]]})},
        PARQUET,
        [(1, ["x", "y"])],
    ),
}

REFUSED: Mapping[str, tuple[str, str]] = {
    "FILE_FORMAT = (TYPE = ORC)": ("InvalidArgument", "Unsupported file format type: ORC"),
    "FILE_FORMAT = (FIELD_DELIMITER = ',')": ("InvalidArgument", "FILE_FORMAT must include TYPE"),
    "FILE_FORMAT = (TYPE = CSV, TYPE = CSV)": ("InvalidArgument", "Duplicate FILE_FORMAT option: TYPE"),
    "FILE_FORMAT = (TYPE = CSV, BOGUS = TRUE)": (
        "InvalidArgument",
        "Unsupported FILE_FORMAT options for import: BOGUS",
    ),
    "FILE_FORMAT = (TYPE = CSV, MODE = FAILFAST)": ("InvalidArgument", "Unsupported FILE_FORMAT options"),
    "FILE_FORMAT = (TYPE = JSON, SKIP_HEADER = 1)": ("InvalidArgument", "Unsupported FILE_FORMAT options for import"),
    "FILE_FORMAT = (TYPE = PARQUET, QUOTE = 'x')": ("InvalidArgument", "Unsupported FILE_FORMAT options for import"),
    "FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 2)": ("InvalidArgument", "SKIP_HEADER supports only 0 or 1, got: 2"),
    "FILE_FORMAT = (TYPE = JSON, MULTI_LINE = MAYBE)": ("InvalidArgument", "MULTI_LINE is TRUE or FALSE"),
    "FILE_FORMAT = (TYPE = CSV) PATTERN = '('": ("InvalidArgument", "not a regular expression"),
    "FILE_FORMAT = (TYPE = CSV) ON_ERROR = SKIP": ("InvalidArgument", "ABORT_STATEMENT, CONTINUE or SKIP_FILE"),
    "FILE_FORMAT = (TYPE = CSV) FORCE = YES": ("InvalidArgument", "TRUE or FALSE is expected"),
    "FILE_FORMAT = (TYPE = CSV) SINGLE = TRUE": ("InvalidArgument", "the end of the statement is expected"),
}
"""Wrong ends of COPY INTO a table, and the error."""
