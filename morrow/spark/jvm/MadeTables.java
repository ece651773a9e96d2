package morrow.spark.jvm;

import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedTableSpec;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SessionState;

/** Tables that a statement makes of rows: options of its write that are the table's, and conditions of overwrites. */
final class MadeTables {
    private static final int OPTIONS = 4; // of CREATE and REPLACE TABLE AS SELECT: name, partitions, query, table, options
    private final SessionState state;
    private final Names names;

    MadeTables(SessionState state, Names names) {
        this.state = state;
        this.names = names;
    }

    /** The statement, with those options of its write that are the table's as properties of the table. */
    TreeNode made(TreeNode plan) {
        Object[] parts = Plans.parts(plan);
        Map given = Plans.javaMap(parts[OPTIONS]);
        Names.Place place = given.isEmpty() || !(parts[3] instanceof UnresolvedTableSpec) ? null : named(parts[0]);
        if (place == null) {
            return plan;
        }
        if (Plans.find(given, Writes.WHERE) != null) {
            return replaced(plan, parts, given, place);
        }
        List own = (List) place.catalog.ask(Questions.of("table options", "options", given));
        if (own.isEmpty()) {
            return plan;
        }
        Object[] table = Plans.parts((TreeNode) parts[3]);
        Map properties = Plans.javaMap(table[0]);
        for (int i = 0; i < own.size(); i++) {
            properties.put(own.get(i), given.remove(own.get(i)));
        }
        table[0] = Plans.scalaMap(properties);
        parts[3] = ((TreeNode) parts[3]).makeCopy(table);
        parts[OPTIONS] = Plans.scalaMap(given);
        return plan.makeCopy(parts);
    }

    private Names.Place named(Object name) {
        if (name instanceof UnresolvedIdentifier) {
            return names.place(((UnresolvedIdentifier) name).nameParts());
        }
        boolean isOurs = name instanceof ResolvedIdentifier && ((ResolvedIdentifier) name).catalog() instanceof MorrowCatalog;
        return isOurs ? new Names.Place((MorrowCatalog) ((ResolvedIdentifier) name).catalog(), ((ResolvedIdentifier) name).identifier()) : null;
    }

    /** saveAsTable in the mode overwrite, with a condition: not the table is replaced, but rows of it. */
    private TreeNode replaced(TreeNode plan, Object[] parts, Map given, Names.Place place) {
        Table table = plan instanceof ReplaceTableAsSelect ? place.table() : null;
        if (!(table instanceof Target)) {
            throw Refused.of("Unsupported", "replaceWhere of a table that is not there, or that is not overwritten, is not supported; create the table first");
        }
        Object relation = DataSourceV2Relation.create(table, scala.Option.apply((CatalogPlugin) place.catalog), scala.Option.apply(place.name));
        Expression where = Plans.condition(state, Plans.find(given, Writes.WHERE));
        Object made = Plans.scalaMap(Plans.without(given, Writes.WHERE));
        return (TreeNode) overwriting(relation, parts[2], where, made);
    }

    /** OverwriteByExpression.byName, which has one more parameter since Spark 4.2. */
    private static Object overwriting(Object table, Object rows, Expression where, Object options) {
        Method[] all = OverwriteByExpression.class.getMethods();
        for (int i = 0; i < all.length; i++) {
            if (all[i].getName().equals("byName")) {
                boolean isLong = all[i].getParameterTypes().length > 4;
                Object[] given = isLong ? new Object[] {table, rows, where, options, Boolean.FALSE} : new Object[] {table, rows, where, options};
                try {
                    return all[i].invoke(null, given);
                } catch (ReflectiveOperationException error) {
                    throw new IllegalStateException(error);
                }
            }
        }
        throw new IllegalStateException("OverwriteByExpression.byName");
    }
}
