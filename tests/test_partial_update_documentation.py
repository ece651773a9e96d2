"""The examples in Paimon's partial-update documentation: INSERTs, SELECTs and their output."""

from __future__ import annotations

from pathlib import Path

import pytest

from morrow.engine.errors import Unsupported
from tests.support.sql_session import SqlSession


@pytest.fixture
def session(tmp_path: Path) -> SqlSession:
    return SqlSession(tmp_path)


def test_columns_are_updated_one_by_one_and_nulls_do_not_overwrite(session: SqlSession) -> None:
    rows = session.run("""
        CREATE TABLE t (k INT, price DOUBLE, amount INT, title VARCHAR, PRIMARY KEY (k) NOT ENFORCED)
        WITH ('merge-engine' = 'partial-update');
        INSERT INTO t VALUES (1, 23.0, 10, NULL);
        INSERT INTO t VALUES (1, NULL, NULL, 'This is a book');
        INSERT INTO t VALUES (1, 25.2, NULL, NULL);
        SELECT * FROM t;
    """)
    assert rows == [[(1, 25.2, 10, "This is a book")]]


def test_sequence_group(session: SqlSession) -> None:
    after_second, after_third = session.run("""
        CREATE TABLE t (k INT, a INT, b INT, g_1 INT, c INT, d INT, g_2 INT, PRIMARY KEY (k) NOT ENFORCED)
        WITH (
            'merge-engine' = 'partial-update',
            'fields.g_1.sequence-group' = 'a,b',
            'fields.g_2.sequence-group' = 'c,d'
        );
        INSERT INTO t VALUES (1, 1, 1, 1, 1, 1, 1);
        -- g_2 is null, c, d should not be updated
        INSERT INTO t VALUES (1, 2, 2, 2, 2, 2, CAST(NULL AS INT));
        SELECT * FROM t;
        -- g_1 is smaller, a, b should not be updated
        INSERT INTO t VALUES (1, 3, 3, 1, 3, 3, 3);
        SELECT * FROM t;
    """)
    assert after_second == [(1, 2, 2, 2, 1, 1, 1)]
    assert after_third == [(1, 2, 2, 2, 3, 3, 3)]


def test_sequence_group_of_several_fields(session: SqlSession) -> None:
    after_second, after_third = session.run("""
        CREATE TABLE SG (k INT, a INT, b INT, g_1 INT, c INT, d INT, g_2 INT, g_3 INT, PRIMARY KEY (k) NOT ENFORCED)
        WITH (
            'merge-engine' = 'partial-update',
            'fields.g_1.sequence-group' = 'a,b',
            'fields.g_2,g_3.sequence-group' = 'c,d'
        );
        INSERT INTO SG VALUES (1, 1, 1, 1, 1, 1, 1, 1);
        -- g_3 is null, g_2, g_3 are not bigger, c, d should not be updated
        INSERT INTO SG VALUES (1, 2, 2, 2, 2, 2, 1, CAST(NULL AS INT));
        SELECT * FROM SG;
        -- g_1 is smaller, a, b should not be updated
        INSERT INTO SG VALUES (1, 3, 3, 1, 3, 3, 3, 1);
        SELECT * FROM SG;
    """)
    assert after_second == [(1, 2, 2, 2, 1, 1, 1, 1)]
    assert after_third == [(1, 2, 2, 2, 3, 3, 3, 1)]


def test_aggregation_in_sequence_groups(session: SqlSession) -> None:
    rows = session.run("""
        CREATE TABLE t (k INT, a INT, b INT, c INT, d INT, PRIMARY KEY (k) NOT ENFORCED)
        WITH (
            'merge-engine' = 'partial-update',
            'fields.a.sequence-group' = 'b',
            'fields.b.aggregate-function' = 'first_value',
            'fields.c.sequence-group' = 'd',
            'fields.d.aggregate-function' = 'sum'
        );
        INSERT INTO t VALUES (1, 1, 1, CAST(NULL AS INT), CAST(NULL AS INT));
        INSERT INTO t VALUES (1, CAST(NULL AS INT), CAST(NULL AS INT), 1, 1);
        INSERT INTO t VALUES (1, 2, 2, CAST(NULL AS INT), CAST(NULL AS INT));
        INSERT INTO t VALUES (1, CAST(NULL AS INT), CAST(NULL AS INT), 2, 2);
        SELECT * FROM t;
    """)
    assert rows == [[(1, 2, 1, 2, 3)]]


def test_aggregation_in_a_sequence_group_of_several_fields(session: SqlSession) -> None:
    after_second, after_third = session.run("""
        CREATE TABLE AGG (k INT, a INT, b INT, g_1 INT, c VARCHAR, g_2 INT, g_3 INT, PRIMARY KEY (k) NOT ENFORCED)
        WITH (
            'merge-engine' = 'partial-update',
            'fields.a.aggregate-function' = 'sum',
            'fields.g_1,g_3.sequence-group' = 'a',
            'fields.g_2.sequence-group' = 'c'
        );
        INSERT INTO AGG VALUES (1, 1, 1, 1, '1', 1, 1);
        -- g_2 is null, c should not be updated
        INSERT INTO AGG VALUES (1, 2, 2, 2, '2', CAST(NULL AS INT), 2);
        SELECT * FROM AGG;
        -- (g_1, g_3) = (2, 1) is smaller than the stored (2, 2), and a is summed up all the same
        INSERT INTO AGG VALUES (1, 3, 3, 2, '3', 3, 1);
        SELECT * FROM AGG;
    """)
    assert after_second == [(1, 3, 2, 2, "1", 1, 2)]
    assert after_third == [(1, 6, 3, 2, "3", 3, 2)]


def test_default_aggregate_function(session: SqlSession) -> None:
    rows = session.run("""
        CREATE TABLE t (k INT, a INT, b INT, c INT, d INT, PRIMARY KEY (k) NOT ENFORCED)
        WITH (
            'merge-engine' = 'partial-update',
            'fields.a.sequence-group' = 'b',
            'fields.c.sequence-group' = 'd',
            'fields.default-aggregate-function' = 'last_non_null_value',
            'fields.d.aggregate-function' = 'sum'
        );
        INSERT INTO t VALUES (1, 1, 1, CAST(NULL AS INT), CAST(NULL AS INT));
        INSERT INTO t VALUES (1, CAST(NULL AS INT), CAST(NULL AS INT), 1, 1);
        INSERT INTO t VALUES (1, 2, 2, CAST(NULL AS INT), CAST(NULL AS INT));
        INSERT INTO t VALUES (1, CAST(NULL AS INT), CAST(NULL AS INT), 2, 2);
        SELECT * FROM t;
    """)
    assert rows == [[(1, 2, 2, 2, 3)]]


PLAIN = "CREATE TABLE t (k INT, a INT, b INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('merge-engine' = 'partial-update'{});"
HISTORY = """
    INSERT INTO t VALUES (1, 1, 1), (2, 2, 2);
    DELETE FROM t VALUES (1, 1, 1);
    SELECT * FROM t;
    INSERT INTO t VALUES (1, NULL, 3);
    SELECT * FROM t;
"""


def test_delete_records_need_a_solution_and_the_error_lists_all_three(session: SqlSession) -> None:
    with pytest.raises(Unsupported) as refused:
        session.run(PLAIN.format("") + HISTORY)
    for solution in (
        "'ignore-delete'",
        "'partial-update.remove-record-on-delete'",
        "'partial-update.remove-record-on-sequence-group'",
    ):
        assert solution in str(refused.value)


def test_ignore_delete(session: SqlSession) -> None:
    rows = session.run(PLAIN.format(", 'ignore-delete' = 'true'") + HISTORY)
    assert rows == [[(1, 1, 1), (2, 2, 2)], [(1, 1, 3), (2, 2, 2)]]


def test_remove_record_on_delete(session: SqlSession) -> None:
    """After the deletion the row restarts with the values of the deletion."""
    rows = session.run(PLAIN.format(", 'partial-update.remove-record-on-delete' = 'true'") + HISTORY)
    assert rows == [[(2, 2, 2)], [(1, 1, 3), (2, 2, 2)]]


GROUPED = """
    CREATE TABLE t (k INT, a INT, g INT, b INT, h INT, PRIMARY KEY (k) NOT ENFORCED)
    WITH (
        'merge-engine' = 'partial-update',
        'fields.g.sequence-group' = 'a',
        'fields.h.sequence-group' = 'b'{}
    );
    INSERT INTO t VALUES (1, 1, 1, 1, 1);
    DELETE FROM t VALUES (1, 2, 2, NULL, NULL);
    SELECT * FROM t;
"""


def test_a_delete_retracts_the_columns_of_its_sequence_groups(session: SqlSession) -> None:
    assert session.run(GROUPED.format("")) == [[(1, None, 2, 1, 1)]]


def test_remove_record_on_sequence_group(session: SqlSession) -> None:
    removing = ", 'partial-update.remove-record-on-sequence-group' = '{}'"
    assert session.run(GROUPED.format(removing.format("g"))) == [[]]
    assert session.run(GROUPED.format(removing.format("h"))) == [[(1, None, 2, 1, 1)]]
