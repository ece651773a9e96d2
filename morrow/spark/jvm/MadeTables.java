package morrow.spark.jvm;

import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedTableSpec;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SessionState;

/** Tables created by a statement with rows: options of its write that belong to the table, and conditions of overwrites. */
final class MadeTables {
    private static final String WRITER = ".DataFrameWriter";
    private static final String SAVING = "saveAsTable";
    private static final int OPTIONS = 4; // child of CREATE and REPLACE TABLE AS SELECT: name, partitions, query, table, options
    private final SessionState state;
    private final Names names;

    MadeTables(SessionState state, Names names) {
        this.state = state;
        this.names = names;
    }

    /** The statement, in which options of the write that belong to the table become properties of the table. */
    TreeNode made(TreeNode plan) {
        Object[] parts = Plans.parts(plan);
        Map given = Plans.javaMap(parts[OPTIONS]);
        boolean isSaved = plan instanceof ReplaceTableAsSelect && isSaved();
        boolean isAsked = (isSaved || !given.isEmpty()) && parts[3] instanceof UnresolvedTableSpec;
        Names.Place place = isAsked ? named(parts[0]) : null;
        if (place == null) {
            return plan;
        }
        if (Plans.find(given, Writes.WHERE) != null) {
            return replaced(plan, parts, given, place);
        }
        Table there = isSaved ? place.table() : null;
        if (there instanceof Target) {
            return kept((Target) there, parts, given, place);
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
        return isOurs ? new Names.Place((MorrowCatalog) ((ResolvedIdentifier) name).catalog(), ((ResolvedIdentifier) name).catalog(), ((ResolvedIdentifier) name).identifier()) : null;
    }

    /** saveAsTable in the mode overwrite with a condition: it replaces rows of the table, not the table. */
    private TreeNode replaced(TreeNode plan, Object[] parts, Map given, Names.Place place) {
        Table table = plan instanceof ReplaceTableAsSelect ? place.table() : null;
        if (!(table instanceof Target)) {
            throw Refused.of("Unsupported", "replaceWhere of a table that is not there, or that is not overwritten, is not supported; create the table first");
        }
        Expression where = Plans.condition(state, Plans.find(given, Writes.WHERE));
        Object made = Plans.scalaMap(Plans.without(given, Writes.WHERE));
        return byName(OverwriteByExpression.class, new Object[] {relation(table, place), parts[2], where, made});
    }

    /** Whether DataFrameWriter.saveAsTable is analysing the statement: its plan does not show this. */
    private static boolean isSaved() {
        StackTraceElement[] callers = new Throwable().getStackTrace();
        for (int i = 0; i < callers.length; i++) {
            if (callers[i].getMethodName().equals(SAVING) && callers[i].getClassName().endsWith(WRITER)) {
                return true;
            }
        }
        return false;
    }

    /** saveAsTable in the mode overwrite on an existing table: as in Paimon, it replaces the rows and keeps the table. */
    private TreeNode kept(Target table, Object[] parts, Map given, Names.Place place) {
        UnresolvedTableSpec asked = (UnresolvedTableSpec) parts[3];
        Map question = table.question("kept table");
        question.put("options", given);
        List partitions = scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Seq) parts[1]);
        question.put("partitions", Questions.keys((Transform[]) partitions.toArray(new Transform[0])));
        question.put("provider", asked.provider().isDefined() ? asked.provider().get() : null);
        question.put("location", asked.location().isDefined() ? asked.location().get() : null);
        Object left = Plans.scalaMap((Map) Python.ask(table.catalog, question));
        boolean isDynamic = state.conf().partitionOverwriteMode().toString().equalsIgnoreCase("dynamic");
        if (isDynamic && table.partitioning().length > 0) {
            return byName(OverwritePartitionsDynamic.class, new Object[] {relation(table, place), parts[2], left});
        }
        return byName(OverwriteByExpression.class, new Object[] {relation(table, place), parts[2], Literal.TrueLiteral(), left});
    }

    private static Object relation(Table table, Names.Place place) {
        return DataSourceV2Relation.create(table, scala.Option.apply(place.plugin), scala.Option.apply(place.name));
    }

    /** A write by name. Since Spark 4.2 its constructors have an additional parameter: whether to add columns. */
    private static TreeNode byName(Class write, Object[] given) {
        Method[] all = write.getMethods();
        for (int i = 0; i < all.length; i++) {
            if (all[i].getName().equals("byName")) {
                Object[] whole = Arrays.copyOf(given, all[i].getParameterTypes().length);
                if (whole.length > given.length) {
                    whole[given.length] = Boolean.FALSE;
                }
                try {
                    return (TreeNode) all[i].invoke(null, whole);
                } catch (ReflectiveOperationException error) {
                    throw new IllegalStateException(error);
                }
            }
        }
        throw new IllegalStateException(write.getSimpleName() + ".byName");
    }
}
