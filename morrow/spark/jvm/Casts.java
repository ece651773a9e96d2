package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.types.DataType;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;

/** The rule that casts the values of INSERT, UPDATE and MERGE as Paimon does. It runs with Spark's own rules of resolution.
 *
 * Spark would refuse the types of values as soon as they are known. So an unresolved mark in the condition
 * of an UPDATE or MERGE, and a table that accepts any columns in an INSERT, make Spark wait until this rule has run.
 */
public class Casts extends Rule {
    private static final String MARK = "__morrow_uncast";
    private static final int CONDITION = 2; // part of UPDATE and MERGE
    private static final int ACTIONS = 3; // the first of the three kinds of clauses of MERGE
    private static final int INSERTS = ACTIONS + 1; // the clauses of MERGE that insert rows
    private final SessionState state;

    Casts(SessionState state) {
        this.state = state;
    }

    // Before Spark resolves a statement

    /** An UPDATE or MERGE that Spark does not resolve before this rule has run.
     *
     * how: as in Alignment. stars: the places of clauses that were UPDATE SET *, each after a comma.
     */
    static TreeNode marked(TreeNode plan, int how, String stars) {
        Object[] parts = Plans.parts(plan);
        Expression own = condition(parts);
        if (mark(own) != null) {
            return plan;
        }
        Expression mark = new UnresolvedAttribute(Alignment.seq(new Object[] {MARK, String.valueOf(how), stars}));
        return with(plan, parts, own == null ? mark : new And(own, mark));
    }

    static boolean isMarked(TreeNode plan) {
        return mark(condition(Plans.parts(plan))) != null;
    }

    private static Expression condition(Object[] parts) {
        Object found = parts[CONDITION];
        if (found instanceof scala.Option) {
            return ((scala.Option) found).isDefined() ? (Expression) ((scala.Option) found).get() : null;
        }
        return (Expression) found;
    }

    private static TreeNode with(TreeNode plan, Object[] parts, Expression condition) {
        parts[CONDITION] = plan instanceof UpdateTable ? scala.Option.apply(condition) : condition;
        return plan.makeCopy(parts);
    }

    private static UnresolvedAttribute mark(Expression condition) {
        Expression last = condition instanceof And ? ((And) condition).right() : condition;
        boolean isMark = last instanceof UnresolvedAttribute && ((UnresolvedAttribute) last).nameParts().head().equals(MARK);
        return isMark ? (UnresolvedAttribute) last : null;
    }

    // While Spark resolves it

    public TreeNode apply(TreeNode plan) {
        if (plan instanceof UpdateTable || plan instanceof MergeIntoTable) {
            Object[] parts = Plans.parts(plan);
            UnresolvedAttribute mark = mark(condition(parts));
            return mark != null && isReady((LogicalPlan) plan, parts) ? changed((LogicalPlan) plan, parts, mark) : plan;
        }
        if (plan instanceof V2WriteCommand && ((V2WriteCommand) plan).query().resolved()) {
            Object[] parts = Plans.parts(plan);
            DataSourceV2Relation relation = parts[0] instanceof DataSourceV2Relation ? (DataSourceV2Relation) parts[0] : null;
            boolean isTaken = relation != null && relation.table() instanceof Target && ((Target) relation.table()).isUncast();
            return isTaken ? written((V2WriteCommand) plan, parts, relation) : plan;
        }
        return plan;
    }

    /** Whether all but the mark is resolved. */
    private static boolean isReady(LogicalPlan plan, Object[] parts) {
        if (!plan.childrenResolved()) {
            return false;
        }
        scala.collection.Iterator all = plan.expressions().iterator();
        while (all.hasNext()) {
            Expression each = (Expression) all.next();
            if (mark(each) == null ? !each.resolved() : each instanceof And && !((And) each).left().resolved()) {
                return false;
            }
        }
        return true;
    }

    private TreeNode changed(LogicalPlan plan, Object[] parts, UnresolvedAttribute mark) {
        int how = Integer.parseInt((String) mark.nameParts().apply(1));
        LogicalPlan row = (LogicalPlan) parts[plan instanceof UpdateTable ? 0 : 1];
        Alignment values = new Alignment(state.conf(), how, row.output(), true);
        Alignment kept = new Alignment(state.conf(), Alignment.KEEP, row.output(), true);
        Set set = new LinkedHashSet();
        if (plan instanceof UpdateTable) {
            note(set, (Seq) parts[1]);
            parts[1] = assigned((Seq) parts[1], values);
        } else {
            for (int i = ACTIONS; i < ACTIONS + 3; i++) {
                noteClauses(set, (Seq) parts[i]);
                parts[i] = clauses((Seq) parts[i], values, kept, i == ACTIONS ? mark.nameParts().last() + "," : "");
            }
            parts[INSERTS] = completed((Seq) parts[INSERTS], hidden(plan, (LogicalPlan) parts[0]));
        }
        scala.collection.Iterator leaves = ((LogicalPlan) parts[0]).collectLeaves().iterator();
        while (leaves.hasNext()) {
            Object leaf = leaves.next();
            if (leaf instanceof DataSourceV2Relation && ((DataSourceV2Relation) leaf).table() instanceof Target) {
                ((Target) ((DataSourceV2Relation) leaf).table()).assign(new ArrayList(set));
            }
        }
        Expression condition = condition(parts);
        return with(plan, parts, condition instanceof And ? ((And) condition).left() : null);
    }

    /** Notes the columns that clauses of a MERGE update. */
    private static void noteClauses(Set found, Seq clauses) {
        scala.collection.Iterator all = clauses.iterator();
        while (all.hasNext()) {
            Object clause = all.next();
            if (clause instanceof UpdateAction) {
                note(found, (Seq) Plans.parts((TreeNode) clause)[1]);
            }
        }
    }

    /** Notes the columns that assignments set, other than to their own values. */
    private static void note(Set found, Seq assignments) {
        scala.collection.Iterator all = assignments.iterator();
        while (all.hasNext()) {
            Assignment each = (Assignment) all.next();
            scala.collection.Iterator columns = each.key().references().iterator();
            while (columns.hasNext() && !each.key().semanticEquals(each.value())) {
                found.add(((Attribute) columns.next()).name());
            }
        }
    }

    private Seq clauses(Seq all, Alignment values, Alignment kept, String stars) {
        ArrayBuffer made = new ArrayBuffer(4);
        for (int i = 0; i < all.size(); i++) {
            TreeNode clause = (TreeNode) all.apply(i);
            Object[] parts = Plans.parts(clause);
            if (parts.length > 1) {
                parts[1] = assigned((Seq) parts[1], stars.indexOf("," + i + ",") >= 0 ? kept : values);
                made.$plus$eq(clause.makeCopy(parts));
            } else {
                made.$plus$eq(clause);
            }
        }
        return (Seq) made.toSeq();
    }

    private Seq assigned(Seq all, Alignment values) {
        ArrayBuffer made = new ArrayBuffer(8);
        scala.collection.Iterator each = all.iterator();
        while (each.hasNext()) {
            Assignment assignment = (Assignment) each.next();
            Expression key = assignment.key();
            String name = key instanceof Attribute ? ((Attribute) key).name() : key.sql().replace("`", "");
            Expression value = values.align(assignment.value(), key.dataType(), name, key);
            made.$plus$eq(value == assignment.value() ? assignment : new Assignment(key, value));
        }
        return (Seq) made.toSeq();
    }

    /** The hidden columns that Spark adds to the target if the statement names one of them. */
    private static List hidden(LogicalPlan plan, LogicalPlan target) {
        List all = new ArrayList();
        boolean isNamed = false;
        scala.collection.Iterator columns = target.metadataOutput().iterator();
        while (columns.hasNext()) {
            Attribute column = (Attribute) columns.next();
            isNamed |= plan.references().contains(column);
            all.add(column);
        }
        return isNamed ? all : new ArrayList();
    }

    /** Clauses that insert rows, with any value for hidden columns: Spark requires one, and no write reads it. */
    private static Seq completed(Seq clauses, List hidden) {
        ArrayBuffer made = new ArrayBuffer(4);
        for (int i = 0; i < clauses.size(); i++) {
            TreeNode clause = (TreeNode) clauses.apply(i);
            Object[] parts = Plans.parts(clause);
            for (int c = 0; c < hidden.size(); c++) {
                Attribute column = (Attribute) hidden.get(c);
                parts[1] = ((Seq) parts[1]).appended(new Assignment(column, any(column.dataType())));
            }
            made.$plus$eq(clause.makeCopy(parts));
        }
        return (Seq) made.toSeq();
    }

    /** Spark's own value for a type; in Java, the name of the method is a keyword. */
    private static Expression any(DataType type) {
        try {
            return (Expression) Literal.class.getMethod("default", new Class[] {DataType.class}).invoke(null, new Object[] {type});
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The write with cast columns, of a table that again accepts only its own, unless columns are added to it. */
    private TreeNode written(V2WriteCommand plan, Object[] parts, DataSourceV2Relation relation) {
        Target table = (Target) relation.table();
        parts[0] = Writes.relation(table.taking(table.takes(), false), relation);
        LogicalPlan query = plan.query();
        boolean isChecked = table.takes() == null;
        int how = !plan.isByName() ? Alignment.POSITION : isChecked ? Alignment.NAME : Alignment.OPEN;
        Alignment values = new Alignment(state.conf(), how, query.output(), isChecked);
        Attribute[] columns = new Attribute[relation.output().size()];
        relation.output().copyToArray(columns);
        ArrayBuffer made = new ArrayBuffer(8);
        boolean isChanged = false;
        scala.collection.Iterator given = query.output().iterator();
        for (int i = 0; given.hasNext(); i++) {
            Attribute value = (Attribute) given.next();
            Attribute column = plan.isByName() ? column(columns, value.name()) : i < columns.length ? columns[i] : null;
            Expression cast = column == null ? value : values.align(value, column.dataType(), column.name(), null);
            isChanged |= cast != value;
            made.$plus$eq(cast == value ? value : (Object) Alignment.named(cast, value.name()));
        }
        TreeNode copy = ((TreeNode) plan).makeCopy(parts);
        return isChanged ? (TreeNode) ((V2WriteCommand) copy).withNewQuery(new Project((Seq) made.toSeq(), query)) : copy;
    }

    private Attribute column(Attribute[] columns, String name) {
        for (int i = 0; i < columns.length; i++) {
            boolean isSame = state.conf().caseSensitiveAnalysis() ? columns[i].name().equals(name) : columns[i].name().equalsIgnoreCase(name);
            if (isSame) {
                return columns[i];
            }
        }
        return null;
    }
}
