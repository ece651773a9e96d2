package morrow.spark.jvm;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.internal.VariableSubstitution;

/** The session's own parser, except that Python may replace a statement of Paimon by a statement of Spark, and settings of Paimon need no quotes. */
public final class Statements implements InvocationHandler {
    private static final Pattern MAYBE_PAIMONS = Pattern.compile("/\\*\\+|\\bWITH\\s*\\(|\\bTAGS?\\b|\\bANALYZE\\b|\\bCOPY\\b|\\bVIEWS?\\b|\\bFUNCTION\\b|\\bREPAIR\\b|\\bCONSTRAINT\\b|\\bTABLE\\b.*\\bLIKE\\b", Pattern.CASE_INSENSITIVE | Pattern.DOTALL);
    private static final Pattern SETTING = Pattern.compile("\\s*(SET|RESET)\\s+(spark\\.paimon\\.[^\\s=`;]+)(.*)", Pattern.CASE_INSENSITIVE | Pattern.DOTALL);
    private static final String PARSED = "parsePlan";
    private final Object own;
    private final String id;

    private Statements(Object own, String id) {
        this.own = own;
        this.id = id;
    }

    /** Makes this the parser of a session, unless it already is; returns the id that it sends with its questions. */
    public static String install(SessionState state) throws Exception {
        Object there = state.sqlParser();
        if (Proxy.isProxyClass(there.getClass()) && Proxy.getInvocationHandler(there) instanceof Statements) {
            return ((Statements) Proxy.getInvocationHandler(there)).id;
        }
        Statements made = new Statements(there, UUID.randomUUID().toString());
        Object parser = Proxy.newProxyInstance(Statements.class.getClassLoader(), new Class[] {ParserInterface.class}, made);
        ((ParserInterface) parser).parsePlan("SELECT 1");
        ChangedRows.install(state, made.id);
        Writes.install(state, made.id);
        Field field = SessionState.class.getDeclaredField("sqlParser");
        field.setAccessible(true);
        field.set(state, parser);
        if (state.sqlParser() != parser) {
            throw new IllegalStateException("its parser stays the same");
        }
        return made.id;
    }

    public Object invoke(Object proxy, Method method, Object[] given) throws Throwable {
        Object[] arguments = given;
        Matcher setting = SETTING.matcher(method.getName().startsWith(PARSED) ? (String) given[0] : "");
        if (setting.matches()) { // Spark takes names with hyphens only in quotes
            arguments = (Object[]) given.clone();
            arguments[0] = setting.group(1) + " `" + setting.group(2) + "`" + setting.group(3);
        } else if (method.getName().startsWith(PARSED) && MAYBE_PAIMONS.matcher((String) given[0]).find()) {
            arguments = (Object[]) given.clone();
            arguments[0] = spoken((String) given[0]);
        }
        try {
            return method.invoke(own, arguments);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }

    /** The statement that Spark parses: the same text, or its replacement if it is a Paimon statement. */
    private String spoken(String text) {
        Object found = Python.ask(id, Questions.of("rewrite", "text", new VariableSubstitution().substitute(text)));
        return found == null ? text : (String) found;
    }
}
