"""Arrow columns as exact text, a column at a time: cells of tables and CSV, and JSON.

| type                | text                                           | in JSON                      |
|---------------------|------------------------------------------------|------------------------------|
| boolean, integer    | ``true``, ``-7``                               | as they are                  |
| FLOAT, DOUBLE       | the shortest that reads back as the same value | as they are, or a string:    |
|                     |                                                | ``NaN``, ``Infinity``        |
| DECIMAL             | all digits of its scale                        | a string                     |
| DATE                | ``2024-05-14``                                 | a string                     |
| TIME                | ``12:00:00.000``                               | a string                     |
| TIMESTAMP           | ``2024-05-14T12:00:00.000000``, digits by unit | a string                     |
| TIMESTAMP LTZ       | the same in UTC with ``Z``                     | a string                     |
| BINARY, BYTES, BLOB | lower-case hex                                 | a string                     |
| ARRAY               | JSON                                           | an array                     |
| MAP, MULTISET       | JSON                                           | an array of ``[key, value]`` |
| ROW, VARIANT        | JSON                                           | an object                    |
| null                | stays null                                     | ``null``                     |
"""

from __future__ import annotations

import pyarrow as pa

from morrow.cli.plain_text import plain, plain_texts


def texts(array: pa.Array) -> pa.Array:
    """Returns the values as text (large_string); nulls stay null.

    Raises:
        Unsupported: a type that Morrow's tables do not have (an interval, a union: only SQL makes them).
    """
    array = plain(array)
    if not _is_nested(array.type):
        return plain_texts(array)
    from morrow.cli.json_text import nested_texts  # it needs Arrow's functions, which take long to import

    return nested_texts(array)


def _is_nested(kind: pa.DataType) -> bool:
    tests = (pa.types.is_map, pa.types.is_list, pa.types.is_large_list, pa.types.is_struct)
    return any(test(kind) for test in tests)
