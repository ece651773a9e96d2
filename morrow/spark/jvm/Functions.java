package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnresolvedNamedLambdaVariable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.mutable.ArrayBuffer;

/** Calls of functions of a Morrow catalog, which become expressions, or calls of temporary functions with the same definition. */
final class Functions extends scala.runtime.AbstractPartialFunction {
    private final SessionState state;

    Functions(SessionState state) {
        this.state = state;
    }

    /** The plan with the calls replaced; the same plan if there are none. */
    TreeNode called(LogicalPlan plan) {
        boolean calls = plan.containsPattern(TreePattern.UNRESOLVED_FUNCTION()) || plan.containsPattern(TreePattern.PLAN_EXPRESSION());
        return calls ? plan.transformAllExpressionsWithSubqueries(this) : plan;
    }

    public boolean isDefinedAt(Object node) {
        return node instanceof UnresolvedFunction && replaced((UnresolvedFunction) node) != null;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
        Object found = node instanceof UnresolvedFunction ? replaced((UnresolvedFunction) node) : null;
        return found == null ? otherwise.apply(node) : found;
    }

    private Expression replaced(UnresolvedFunction call) {
        List names = new ArrayList(scala.jdk.javaapi.CollectionConverters.asJava(call.nameParts()));
        if (names.size() == 1 && state.catalog().lookupBuiltinOrTempFunction((String) names.get(0)).isDefined()) {
            return null;
        }
        MorrowCatalog catalog = completed(names);
        if (catalog == null || names.size() != 2) {
            return null;
        }
        Map found = catalog.function((String) names.get(0), (String) names.get(1), literals(call));
        if (found != null && found.get("expression") != null) {
            return (Expression) Plans.condition(state, found.get("expression")).transformUp(new Arguments(call.arguments()));
        }
        if (found == null || found.get("temporary") == null) {
            return null; // Spark itself resolves or reports it
        }
        ((scala.collection.mutable.Set) AnalysisContext.get().referredTempFunctionNames()).add(found.get("temporary")); // views hide others
        ArrayBuffer name = new ArrayBuffer(1);
        name.$plus$eq(found.get("temporary"));
        return call.copy(
                (scala.collection.immutable.Seq) name.toSeq(), call.arguments(), call.isDistinct(), call.filter(), call.ignoreNulls(),
                call.orderingWithinGroup(), call.isInternal());
    }

    /** The arguments of a call as text; null for those that are not literals. */
    private static List literals(UnresolvedFunction call) {
        List found = new ArrayList();
        scala.collection.Iterator all = call.arguments().iterator();
        while (all.hasNext()) {
            Object each = all.next();
            Object value = each instanceof Literal ? ((Literal) each).value() : null;
            found.add(value == null ? null : value.toString());
        }
        return found;
    }

    /** Makes a name that of a database and a function; returns the catalog, or null if it is none of Morrow. */
    private MorrowCatalog completed(List names) {
        CatalogManager manager = state.catalogManager();
        if (names.size() > 1 && manager.isCatalogRegistered((String) names.get(0))) {
            return ours(manager.catalog((String) names.remove(0)));
        }
        List around = scala.jdk.javaapi.CollectionConverters.asJava(AnalysisContext.get().catalogAndNamespace()); // of a view
        if (names.size() == 1) {
            String[] namespace = manager.currentNamespace();
            names.addAll(0, around.isEmpty() ? java.util.Arrays.asList(namespace) : around.subList(1, around.size()));
        }
        return ours(around.isEmpty() ? manager.currentCatalog() : manager.catalog((String) around.get(0)));
    }

    private static MorrowCatalog ours(CatalogPlugin catalog) {
        return catalog instanceof MorrowCatalog ? (MorrowCatalog) catalog : null;
    }

    /** A function whose calls become expressions, as catalogs list it. */
    static final class Replaced implements UnboundFunction {
        private final String name;

        Replaced(String name) {
            this.name = name;
        }

        public String name() {
            return name;
        }

        public String description() {
            return "sys." + name;
        }

        public BoundFunction bind(StructType given) {
            throw new UnsupportedOperationException("sys." + name + " is called in SQL: spark.sql, expr or selectExpr");
        }
    }

    /** Puts the arguments of a call into the expression that Python describes. */
    static final class Arguments extends scala.runtime.AbstractPartialFunction {
        private static final String NAME = "morrow_argument";
        private final scala.collection.immutable.Seq given;

        Arguments(scala.collection.immutable.Seq given) {
            this.given = given;
        }

        public boolean isDefinedAt(Object node) {
            return !names(node).isEmpty() && names(node).head().equals(NAME);
        }

        public Object applyOrElse(Object node, Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            return given.apply(Integer.parseInt(((String) names(node).last()).substring(1)));
        }

        /** The parts of a name; in a lambda, all names are variables until they are resolved. */
        private static scala.collection.Seq names(Object node) {
            if (node instanceof UnresolvedNamedLambdaVariable) {
                return ((UnresolvedNamedLambdaVariable) node).nameParts();
            }
            return node instanceof UnresolvedAttribute ? ((UnresolvedAttribute) node).nameParts() : Alignment.seq(new Object[0]);
        }
    }
}
