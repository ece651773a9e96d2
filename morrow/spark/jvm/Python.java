package morrow.spark.jvm;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;

/** The driver's Python process: it answers the questions of catalogs, as JSON or, for rows, as Datasets. */
public final class Python {
    /** The functions that answer the questions of catalogs, by id: (question as JSON, Dataset or null) to answer. */
    public static final Map ANSWERING = new ConcurrentHashMap();
    private static final ObjectMapper JSON = new ObjectMapper();

    private Python() {}

    /** Asks, and returns the answer: null, text, a list or a map. Throws Refused with the error raised in Python. */
    static Object ask(String catalog, Map question, Object rows) {
        Map answer = parsed((String) send(catalog, question, rows));
        if (answer.containsKey("error")) {
            throw Refused.of((String) answer.get("error"), (String) answer.get("message"));
        }
        return answer.get("value");
    }

    static Object ask(String catalog, Map question) {
        return ask(catalog, question, null);
    }

    /** Asks for rows; the answer is a Dataset. */
    static org.apache.spark.sql.classic.Dataset rows(String catalog, Map question) {
        org.apache.spark.sql.classic.Dataset found = rowsIfAny(catalog, question);
        if (found == null) {
            throw new IllegalStateException("there are no rows");
        }
        return found;
    }

    /** Asks for rows, if there are any; null represents none. */
    static org.apache.spark.sql.classic.Dataset rowsIfAny(String catalog, Map question) {
        Object answer = send(catalog, question, null);
        if (answer instanceof org.apache.spark.sql.classic.Dataset) {
            return (org.apache.spark.sql.classic.Dataset) answer;
        }
        Map told = parsed((String) answer);
        if (told.containsKey("error")) {
            throw Refused.of((String) told.get("error"), (String) told.get("message"));
        }
        return null;
    }

    /** Asks for several Datasets. */
    static java.util.List frames(String catalog, Map question) {
        Object answer = send(catalog, question, null);
        if (answer instanceof java.util.List) {
            return (java.util.List) answer;
        }
        Map error = parsed((String) answer);
        throw Refused.of((String) error.get("error"), (String) error.get("message"));
    }

    private static Object send(String catalog, Map question, Object rows) {
        BiFunction function = (BiFunction) ANSWERING.get(catalog);
        if (function == null) {
            throw Refused.of("Unsupported", "the Python process that made this catalog is gone; call morrow.spark.catalog again");
        }
        Object answer = function.apply(text(question), rows);
        if (answer instanceof Throwable) {
            new scala.util.Failure((Throwable) answer).get(); // throws the error unchanged, without declaring it
        }
        return answer;
    }

    static String text(Object told) {
        try {
            return JSON.writeValueAsString(told);
        } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }

    static Map parsed(String text) {
        try {
            return (Map) JSON.readValue(text, Map.class);
        } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }
}
