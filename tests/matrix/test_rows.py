"""The table of compatibility in the README, which the matrix writes."""

from __future__ import annotations

from tests.matrix.__main__ import BEGIN, END, README, write_rows


def test_rows_are_replaced_in_the_order_of_the_cells() -> None:
    text = README.read_text()
    once = write_rows(text, {"polars-1.44": "| polars-1.44 | new |", "oldest": "| oldest | new |"})
    again = write_rows(once, {"oldest": "| oldest | newer |"})
    table = again.partition(BEGIN)[2].partition(END)[0]
    assert "| oldest | newer |\n" in table and "| oldest | new |" not in table
    assert table.index("oldest") < table.index("polars-1.44")
    assert again.partition(BEGIN)[0] == text.partition(BEGIN)[0]
    assert again.partition(END)[2] == text.partition(END)[2]
    assert write_rows(text, {}) == text
