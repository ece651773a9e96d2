package morrow.spark.jvm;

import java.io.Serializable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.codehaus.commons.compiler.CompileException;
import org.codehaus.janino.SimpleCompiler;

/** A function of the catalog whose definition is a Java lambda, which each process compiles at its first call. */
public final class JavaLambda implements UnboundFunction, ScalarFunction, Serializable {
    private static final Pattern LAMBDA = Pattern.compile("\\s*\\(([^)]*)\\)\\s*->\\s*(.+?)\\s*", Pattern.DOTALL);
    private static final String CLASS = "MorrowLambda";
    private final String name;
    private final StructType parameters;
    private final DataType result;
    private final boolean isDeterministic;
    private final String text;
    private transient Method compiled;

    JavaLambda(Map described) {
        name = (String) described.get("name");
        parameters = (StructType) DataType.fromJson((String) described.get("parameters"));
        result = ((StructType) DataType.fromJson((String) described.get("returns"))).apply(0).dataType();
        isDeterministic = Boolean.TRUE.equals(described.get("deterministic"));
        text = (String) described.get("lambda");
    }

    public String name() {
        return name;
    }

    public String canonicalName() {
        return "morrow." + name + "(" + text + ")";
    }

    public String description() {
        return name + ": " + text;
    }

    public BoundFunction bind(StructType given) {
        if (given.length() != parameters.length()) {
            throw new UnsupportedOperationException(name + " takes " + parameters.length() + " arguments, not " + given.length());
        }
        return this;
    }

    public DataType[] inputTypes() {
        DataType[] types = new DataType[parameters.length()];
        for (int i = 0; i < types.length; i++) {
            types[i] = parameters.apply(i).dataType();
        }
        return types;
    }

    public DataType resultType() {
        return result;
    }

    public boolean isDeterministic() {
        return isDeterministic;
    }

    public Object produceResult(InternalRow row) {
        Object[] values = new Object[parameters.length()];
        for (int i = 0; i < values.length; i++) {
            DataType type = parameters.apply(i).dataType();
            values[i] = row.isNullAt(i) ? null : CatalystTypeConverters.convertToScala(row.get(i, type), type);
        }
        try {
            if (compiled == null) {
                compiled = compile();
            }
            return CatalystTypeConverters.createToCatalystConverter(result).apply(compiled.invoke(null, values));
        } catch (InvocationTargetException error) {
            throw new IllegalArgumentException("the function " + name + " failed: " + error.getCause());
        } catch (ReflectiveOperationException error) {
            throw new IllegalArgumentException("the function " + name + " has wrong parameters: " + error.getMessage());
        }
    }

    /** Compiles the lambda as a static method, as Java Paimon does. */
    private Method compile() throws ReflectiveOperationException {
        Matcher found = LAMBDA.matcher(text);
        if (!found.matches()) {
            throw new IllegalArgumentException("the function " + name + " is no lambda such as (Integer x) -> x + 1: " + text);
        }
        String body = found.group(2);
        if (!body.startsWith("{")) {
            body = "{ " + (body.contains("return ") ? "" : "return ") + body + (body.endsWith(";") ? "" : ";") + " }";
        }
        SimpleCompiler compiler = new SimpleCompiler();
        compiler.setParentClassLoader(Thread.currentThread().getContextClassLoader());
        try {
            compiler.cook("public class " + CLASS + " { public static " + boxed() + " apply(" + found.group(1) + ") " + body + " }");
        } catch (CompileException error) {
            throw new IllegalArgumentException("the function " + name + " does not compile: " + error.getMessage());
        }
        Method[] methods = compiler.getClassLoader().loadClass(CLASS).getDeclaredMethods();
        for (int i = 0; i < methods.length; i++) {
            if (methods[i].getName().equals("apply")) {
                return methods[i];
            }
        }
        throw new IllegalStateException(text);
    }

    private String boxed() {
        String kind = result.typeName();
        String[][] names = {
            {"byte", "Byte"}, {"short", "Short"}, {"integer", "Integer"}, {"long", "Long"}, {"float", "Float"}, {"double", "Double"},
            {"boolean", "Boolean"}, {"string", "String"}, {"binary", "byte[]"}, {"date", "java.sql.Date"}, {"timestamp", "java.sql.Timestamp"}
        };
        for (int i = 0; i < names.length; i++) {
            if (kind.equals(names[i][0])) {
                return names[i][1];
            }
        }
        return kind.startsWith("decimal") ? "java.math.BigDecimal" : "Object";
    }

    /** Whether a function is described as a lambda. */
    static boolean is(Object described) {
        return described instanceof Map && ((Map) described).get("lambda") != null && ((Map) described).get("parameters") instanceof String;
    }

    /** The names of functions, as Spark lists them. */
    static String[] names(Object found) {
        return (String[]) ((List) found).toArray(new String[0]);
    }
}
