package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;

/** A table-valued function for a table's changes: it reads the table with the arguments as options. */
public final class ChangedRows extends scala.runtime.AbstractFunction1 {
    private static final String[] NAMES = {
        "paimon_incremental_query", "paimon_incremental_between_timestamp", "paimon_incremental_to_auto_tag"
    };
    private final String id;
    private final String name;

    private ChangedRows(String id, String name) {
        this.id = id;
        this.name = name;
    }

    /** Registers the functions in a session; questions about them are sent under the id of its statements. */
    static void install(SessionState state, String id) {
        TableFunctionRegistry registry = state.tableFunctionRegistry();
        for (int i = 0; i < NAMES.length; i++) {
            ExpressionInfo info = new ExpressionInfo(ChangedRows.class.getName(), NAMES[i]);
            ChangedRows function = new ChangedRows(id, NAMES[i]);
            try {
                registry.registerFunction(new FunctionIdentifier(NAMES[i]), info, function);
            } catch (AssertionError error) { // Spark 4.3 identifies functions by all parts of their names
                FunctionIdentifier whole = new FunctionIdentifier(NAMES[i], scala.Option.apply("session"), scala.Option.apply("system"));
                registry.registerFunction(whole, info, function);
            }
        }
    }

    public Object apply(Object given) {
        List arguments = new ArrayList();
        scala.collection.Iterator all = ((Seq) given).iterator();
        while (all.hasNext()) {
            Expression one = (Expression) all.next();
            if (!one.foldable()) {
                throw Refused.of("Unsupported", name + " of anything but constants is not supported");
            }
            Object value = one.eval(null);
            arguments.add(value == null ? null : value.toString());
        }
        Map question = Questions.of("changed rows", "function", name, "arguments", arguments);
        Map found = (Map) Python.ask(id, question);
        ArrayBuffer parts = new ArrayBuffer(3);
        for (int i = 0; i < ((List) found.get("table")).size(); i++) {
            parts.$plus$eq(((List) found.get("table")).get(i));
        }
        return new UnresolvedRelation((Seq) parts.toSeq(), new CaseInsensitiveStringMap((Map) found.get("options")), false);
    }
}
