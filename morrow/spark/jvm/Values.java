package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.internal.connector.PredicateUtils;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.StringStartsWith;

/** Values and filters of Spark for JSON: [kind, text]; a null is ["null"]. */
final class Values {
    private static final int GREGORIAN = 1600;

    private Values() {}

    static List told(Object value) {
        List told = new ArrayList();
        if (value == null) {
            told.add("null");
        } else if (value instanceof java.sql.Date) {
            told.add("date");
            told.add(((java.sql.Date) value).toLocalDate().toString()); // its own text has four digits of the year
        } else if (value instanceof java.sql.Timestamp) {
            told.add("instant");
            told.add(((java.sql.Timestamp) value).toInstant().toString());
        } else if (value instanceof scala.collection.Map) {
            told.add("map");
            told.add(scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Map) value));
        } else {
            told.add(kind(value));
            told.add(value.toString());
        }
        return told;
    }

    private static String kind(Object value) {
        if (value instanceof Boolean) {
            return "boolean";
        }
        if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long) {
            return "integer";
        }
        if (value instanceof Float || value instanceof Double) {
            return "float";
        }
        if (value instanceof java.math.BigDecimal) {
            return "decimal";
        }
        if (value instanceof java.time.LocalDate) {
            return "date";
        }
        if (value instanceof java.time.LocalDateTime) {
            return "timestamp";
        }
        if (value instanceof java.time.Instant) {
            return "instant";
        }
        return value instanceof String ? "string" : "other";
    }

    /** A predicate as a filter, including Spark's special predicates on BOOLEAN columns; null if it cannot be expressed. */
    static Filter filter(Predicate predicate) {
        scala.Option known = PredicateUtils.toV1(predicate);
        if (known.isDefined()) {
            return (Filter) known.get();
        }
        Object[] parts = predicate.children();
        String name = predicate.name();
        if (name.equals("NOT")) {
            Filter inner = filter((Predicate) parts[0]);
            boolean isColumn = inner instanceof EqualTo && Boolean.TRUE.equals(((EqualTo) inner).value());
            return isColumn ? new EqualTo(((EqualTo) inner).attribute(), Boolean.FALSE) : null;
        }
        if (parts.length == 0 || !(parts[0] instanceof NamedReference)) {
            return null;
        }
        String column = ((NamedReference) parts[0]).describe();
        if (name.equals("BOOLEAN_EXPRESSION")) {
            return new EqualTo(column, Boolean.TRUE);
        }
        String value = parts.length == 2 && parts[1] instanceof Predicate ? ((Predicate) parts[1]).name() : "";
        if (!value.equals("ALWAYS_TRUE") && !value.equals("ALWAYS_FALSE")) {
            return null;
        }
        Boolean wanted = Boolean.valueOf(value.equals("ALWAYS_TRUE"));
        return name.equals("<=>") ? (Filter) new EqualNullSafe(column, wanted) : name.equals("=") ? (Filter) new EqualTo(column, wanted) : null;
    }

    /** A filter as [operator, column, value...], not as ["not", filter]; null if it has another form. */
    static List filter(Filter filter) {
        if (filter instanceof Not) {
            List inner = filter(((Not) filter).child());
            return inner == null || inner.get(0).equals("Not") ? null : listed("Not", inner);
        }
        String name = filter.getClass().getSimpleName();
        if (filter instanceof IsNull) {
            return listed(name, ((IsNull) filter).attribute());
        }
        if (filter instanceof IsNotNull) {
            return listed(name, ((IsNotNull) filter).attribute());
        }
        if (filter instanceof EqualTo) {
            return compared(name, ((EqualTo) filter).attribute(), ((EqualTo) filter).value());
        }
        if (filter instanceof EqualNullSafe) {
            return compared(name, ((EqualNullSafe) filter).attribute(), ((EqualNullSafe) filter).value());
        }
        if (filter instanceof GreaterThan) {
            return compared(name, ((GreaterThan) filter).attribute(), ((GreaterThan) filter).value());
        }
        if (filter instanceof GreaterThanOrEqual) {
            return compared(name, ((GreaterThanOrEqual) filter).attribute(), ((GreaterThanOrEqual) filter).value());
        }
        if (filter instanceof LessThan) {
            return compared(name, ((LessThan) filter).attribute(), ((LessThan) filter).value());
        }
        if (filter instanceof LessThanOrEqual) {
            return compared(name, ((LessThanOrEqual) filter).attribute(), ((LessThanOrEqual) filter).value());
        }
        if (filter instanceof StringStartsWith) {
            return compared(name, ((StringStartsWith) filter).attribute(), ((StringStartsWith) filter).value());
        }
        if (filter instanceof In) {
            Object[] values = ((In) filter).values();
            List all = new ArrayList();
            for (int i = 0; i < values.length; i++) {
                if (isOld(values[i])) {
                    return null;
                }
                all.add(told(values[i]));
            }
            List made = listed(name, ((In) filter).attribute());
            made.add(all);
            return made;
        }
        return null;
    }

    private static List compared(String name, String column, Object value) {
        if (isOld(value)) {
            return null;
        }
        List made = listed(name, column);
        made.add(told(value));
        return made;
    }

    /** Days of the Julian calendar, which these classes count differently from Paimon, Spark and SQL. */
    private static boolean isOld(Object value) {
        return value instanceof java.util.Date && ((java.util.Date) value).getTime() < (GREGORIAN - 1970) * 365L * 86400000L;
    }

    /** False for text with the replacement character, which may stand for bytes that are not UTF-8. */
    static boolean isExact(Object value) {
        return !(value instanceof String) || ((String) value).indexOf('\uFFFD') < 0;
    }

    private static List listed(String name, Object what) {
        List made = new ArrayList();
        made.add(name);
        made.add(what);
        return made;
    }
}
