package morrow.spark.jvm;

import java.lang.reflect.Constructor;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.InsertStarAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateStarAction;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;

/** MERGE under write.merge-schema: the table gets the columns of the source that clauses assign, before Spark resolves them. */
final class Evolution {
    private static final int MATCHED = 3, UNMATCHED = 4; // parts of MERGE: its clauses
    private final SessionState state;
    private final Target table;
    private final LogicalPlan source;
    private StructType wanted = new StructType();

    private Evolution(SessionState state, Target table, LogicalPlan source) {
        this.state = state;
        this.table = table;
        this.source = source;
    }

    /** The statement on the changed table, with an assignment for each column of the source instead of every star. */
    static TreeNode merged(SessionState state, MergeIntoTable plan, Target table, Map question) {
        LogicalPlan source = state.executePlan(plan.sourceTable(), CommandExecutionMode.SKIP()).analyzed();
        Evolution made = new Evolution(state, table, source);
        Object[] parts = Plans.parts(plan);
        parts[1] = source;
        String stars = made.findStars((Seq) parts[MATCHED]);
        parts[MATCHED] = made.clauses((Seq) parts[MATCHED]);
        parts[UNMATCHED] = made.clauses((Seq) parts[UNMATCHED]);
        if (made.wanted.length() > 0) {
            question.put("columns", made.wanted.json());
            question.put("explained", Boolean.valueOf(isExplained()));
            Python.ask(table.catalog, question);
        }
        return Casts.marked(((TreeNode) plan).makeCopy(parts), Alignment.FILL, stars);
    }

    /** Whether EXPLAIN analyses the statement: its plan does not show this. */
    static boolean isExplained() {
        StackTraceElement[] callers = new Throwable().getStackTrace();
        for (int i = 0; i < callers.length; i++) {
            if (callers[i].getClassName().endsWith(".ExplainCommand")) {
                return true;
            }
        }
        return false;
    }

    /** The places of UPDATE SET *, separated by commas. */
    private String findStars(Seq clauses) {
        String found = "";
        for (int i = 0; i < clauses.size(); i++) {
            found += clauses.apply(i) instanceof UpdateStarAction ? "," + i : "";
        }
        return found;
    }

    private Seq clauses(Seq all) {
        ArrayBuffer made = new ArrayBuffer(4);
        scala.collection.Iterator each = all.iterator();
        while (each.hasNext()) {
            Object clause = each.next();
            if (clause instanceof UpdateStarAction) {
                made.$plus$eq(update(((UpdateStarAction) clause).condition()));
            } else if (clause instanceof InsertStarAction) {
                made.$plus$eq(new InsertAction(((InsertStarAction) clause).condition(), stars()));
            } else {
                noteAssigned((TreeNode) clause);
                made.$plus$eq(clause);
            }
        }
        return (Seq) made.toSeq();
    }

    /** A clause WHEN MATCHED THEN UPDATE. From Spark 4.1 on its constructor has a third parameter. */
    private TreeNode update(scala.Option condition) {
        Constructor constructor = UpdateAction.class.getConstructors()[0];
        Object[] given = constructor.getParameterTypes().length == 2
            ? new Object[] {condition, stars()} : new Object[] {condition, stars(), Boolean.FALSE};
        try {
            return (TreeNode) constructor.newInstance(given);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** An assignment of each column of the source to the column of the same name. */
    private Seq stars() {
        ArrayBuffer made = new ArrayBuffer(8);
        scala.collection.Iterator columns = source.output().iterator();
        while (columns.hasNext()) {
            Attribute column = (Attribute) columns.next();
            StructField known = find(table.schema, column.name());
            String name = known == null ? column.name() : known.name(); // Spark keeps the case of the name
            want(name, column.dataType());
            made.$plus$eq(new Assignment(new UnresolvedAttribute(Alignment.seq(new Object[] {name})), column));
        }
        return (Seq) made.toSeq();
    }

    private void want(String name, DataType type) {
        if (find(wanted, name) == null) {
            wanted = wanted.add(name, type, true);
        }
    }

    /** Notes columns of the source that an explicit assignment sets, and that the table lacks, or whose members it may lack. */
    private void noteAssigned(TreeNode clause) {
        Object[] parts = Plans.parts(clause);
        scala.collection.Iterator all = parts.length > 1 ? ((Seq) parts[1]).iterator() : Alignment.seq(new Object[0]).iterator();
        while (all.hasNext()) {
            Assignment each = (Assignment) all.next();
            String key = name(each.key(), table.schema);
            StructField known = key == null ? null : find(table.schema, key);
            StructField named = key == null ? null : find(source.schema(), key);
            String value = name(each.value(), source.schema());
            StructField given = value == null ? null : find(source.schema(), value);
            if (key != null && known == null && named != null) {
                want(key, named.dataType());
            } else if (known != null && given != null && !(known.dataType() instanceof AtomicType) && !(given.dataType() instanceof AtomicType)) {
                want(key, given.dataType());
            }
        }
    }

    /** The column that an expression names, with or without its table; null for members and other expressions. */
    private String name(Expression expression, StructType columns) {
        if (!(expression instanceof UnresolvedAttribute)) {
            return expression instanceof Attribute ? ((Attribute) expression).name() : null;
        }
        Seq parts = ((UnresolvedAttribute) expression).nameParts();
        boolean isMember = parts.size() > 2 || (parts.size() == 2 && find(columns, (String) parts.head()) != null);
        return isMember ? null : (String) parts.last();
    }

    private StructField find(StructType columns, String name) {
        StructField[] all = columns.fields();
        for (int i = 0; i < all.length; i++) {
            if (state.conf().caseSensitiveAnalysis() ? all[i].name().equals(name) : all[i].name().equalsIgnoreCase(name)) {
                return all[i];
            }
        }
        return null;
    }
}
