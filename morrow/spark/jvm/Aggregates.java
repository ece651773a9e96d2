package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;

/** Aggregates as values for JSON: [[[function, column], ...], [grouping column, ...]]; COUNT(*) is without a column. */
final class Aggregates {
    private Aggregates() {}

    /** Null if an aggregate has another form: an expression, DISTINCT, another function. */
    static List told(Aggregation aggregation) {
        List functions = new ArrayList();
        AggregateFunc[] asked = aggregation.aggregateExpressions();
        for (int i = 0; i < asked.length; i++) {
            List function = function(asked[i]);
            if (function == null) {
                return null;
            }
            functions.add(function);
        }
        List groups = new ArrayList();
        org.apache.spark.sql.connector.expressions.Expression[] keys = aggregation.groupByExpressions();
        for (int i = 0; i < keys.length; i++) {
            String column = column(keys[i]);
            if (column == null) {
                return null;
            }
            groups.add(column);
        }
        List both = new ArrayList();
        both.add(functions);
        both.add(groups);
        return both;
    }

    private static List function(AggregateFunc asked) {
        if (asked instanceof CountStar) {
            return named("count", null);
        }
        org.apache.spark.sql.connector.expressions.Expression of = asked.children().length == 1 ? asked.children()[0] : null;
        String column = column(of);
        if (column == null) {
            return null;
        }
        if (asked instanceof Count && !((Count) asked).isDistinct()) {
            return named("count", column);
        }
        if (asked instanceof Min) {
            return named("min", column);
        }
        return asked instanceof Max ? named("max", column) : null;
    }

    private static String column(org.apache.spark.sql.connector.expressions.Expression expression) {
        if (!(expression instanceof NamedReference)) {
            return null;
        }
        String[] path = ((NamedReference) expression).fieldNames();
        return path.length == 1 ? path[0] : null;
    }

    private static List named(String function, String column) {
        List named = new ArrayList();
        named.add(function);
        named.add(column);
        return named;
    }
}
