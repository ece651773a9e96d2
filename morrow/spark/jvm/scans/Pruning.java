package morrow.spark.jvm.scans;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Conditions of a query on the constants of files. */
final class Pruning {
    private final BasePredicate condition;

    Pruning(scala.collection.Seq filters, StructType columns) {
        Expression all = null;
        scala.collection.Iterator each = filters.iterator();
        while (each.hasNext()) {
            Expression one = (Expression) each.next();
            all = all == null ? one : new And(all, one);
        }
        this.condition = all == null ? null : Predicate$.MODULE$.createInterpreted((Expression) all.transform(new Bound(columns)));
    }

    boolean keeps(InternalRow values) {
        return condition == null || condition.eval(values);
    }

    static final class Bound extends scala.runtime.AbstractPartialFunction {
        private final StructType columns;

        Bound(StructType columns) {
            this.columns = columns;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof AttributeReference;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            int index = columns.fieldIndex(((AttributeReference) node).name());
            StructField column = columns.fields()[index];
            return new BoundReference(index, column.dataType(), true);
        }
    }
}
