package morrow.spark.jvm;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.collection.mutable.ArrayBuffer;

/** The rule that puts the plan of a table's rows where a query scans the table, with the names and ids that the query has. */
public class ReadPlans extends Rule {
    public TreeNode apply(TreeNode plan) {
        if (Commands.changesRows(plan)) {
            return plan; // whose target has to stay the table; Commands has the rows read
        }
        return (TreeNode) ((LogicalPlan) plan).transformDown(new Scans());
    }

    static final class Scans extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof DataSourceV2ScanRelation && ((DataSourceV2ScanRelation) node).scan() instanceof MorrowScan;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) node;
            return renamed(((MorrowScan) relation.scan()).plan(), relation.output());
        }
    }

    static LogicalPlan renamed(LogicalPlan made, scala.collection.immutable.Seq wanted) {
        Map columns = new HashMap();
        scala.collection.Iterator there = made.output().iterator();
        while (there.hasNext()) {
            Attribute column = (Attribute) there.next();
            columns.put(column.name(), column);
        }
        ArrayBuffer named = new ArrayBuffer(8);
        scala.collection.immutable.Seq none = (scala.collection.immutable.Seq) new ArrayBuffer(0).toSeq();
        scala.collection.Iterator all = wanted.iterator();
        while (all.hasNext()) {
            Attribute a = (Attribute) all.next();
            named.$plus$eq(new Alias((Expression) columns.get(a.name()), a.name(), a.exprId(), a.qualifier(), scala.Option.empty(), none));
        }
        return new Project((scala.collection.immutable.Seq) named.toSeq(), made);
    }
}
