package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.internal.SessionState;
import scala.Product;

/** Helpers for parts of plans, and for options as Java and Scala maps. */
final class Plans {
    private Plans() {}

    static Object[] parts(TreeNode plan) {
        List found = new ArrayList();
        scala.collection.Iterator all = ((Product) plan).productIterator();
        while (all.hasNext()) {
            found.add(all.next());
        }
        return found.toArray();
    }

    static int options(Object[] parts) {
        for (int i = 0; i < parts.length; i++) {
            if (parts[i] instanceof scala.collection.immutable.Map) {
                return i;
            }
        }
        return -1;
    }

    static Map javaMap(Object map) {
        return new HashMap(scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Map) map));
    }

    static Object scalaMap(Map map) {
        return scala.collection.immutable.Map$.MODULE$.from(scala.jdk.javaapi.CollectionConverters.asScala(map));
    }

    static Object find(Map options, String name) {
        Object[] keys = options.keySet().toArray();
        for (int i = 0; i < keys.length; i++) {
            if (((String) keys[i]).equalsIgnoreCase(name)) {
                return options.get(keys[i]);
            }
        }
        return null;
    }

    static Map without(Map options, String name) {
        Map left = new HashMap();
        Object[] keys = options.keySet().toArray();
        for (int i = 0; i < keys.length; i++) {
            if (!((String) keys[i]).equalsIgnoreCase(name)) {
                left.put(keys[i], options.get(keys[i]));
            }
        }
        return left;
    }

    /** Parses a condition in SQL; throws the errors of Spark's parser. */
    static Expression condition(SessionState state, Object text) {
        try {
            return state.sqlParser().parseExpression((String) text);
        } catch (Exception error) {
            return (Expression) new scala.util.Failure(error).get(); // throws the error unchanged
        }
    }
}
