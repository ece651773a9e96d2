import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.rest.auth.AuthProvider;
import org.apache.paimon.rest.auth.BearTokenAuthProvider;
import org.apache.paimon.rest.auth.DLFAuthProviderFactory;
import org.apache.paimon.options.Options;
import org.apache.paimon.rest.responses.ConfigResponse;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** Java Paimon's own server of a REST catalog, with which it tests its client; it ends with this JVM. */
final class Rest {
    private static ClassLoader loader;

    private Rest() {}

    /**
     * Starts one; returns its address.
     *
     * <p>Its classes are in a loader of their own: the jar of Paimon's tests names factories that nobody else should find.
     */
    static Object start(JsonNode request) throws Exception {
        Map<String, String> defaults = new HashMap<>();
        request.get("defaults").fields().forEachRemaining(each -> defaults.put(each.getKey(), each.getValue().asText()));
        Options given = new Options();
        given.setString("uri", "http://localhost"); // by which DLF finds out how requests are signed
        request.get("auth").fields().forEachRemaining(each -> given.setString(each.getKey(), each.getValue().asText()));
        AuthProvider auth =
                given.containsKey("token")
                        ? new BearTokenAuthProvider(given.get("token"))
                        : new DLFAuthProviderFactory().create(given);
        Class<?> kind = loader(request).loadClass("org.apache.paimon.rest.RESTCatalogServer");
        Object server =
                kind.getConstructor(String.class, AuthProvider.class, ConfigResponse.class, String.class)
                        .newInstance(
                                request.get("path").asText(),
                                auth,
                                new ConfigResponse(defaults, Map.of()),
                                request.get("warehouse").asText());
        kind.getMethod("start").invoke(server);
        return Map.of("uri", kind.getMethod("getUrl").invoke(server));
    }

    /** Says whether the next commit is made and its answer is an error. */
    static Object loseAnswer(JsonNode request) throws Exception {
        Class<?> kind = loader(request).loadClass("org.apache.paimon.rest.RESTCatalogServer");
        kind.getField("commitSuccessThrowException").set(null, request.get("lose").asBoolean());
        return Map.of();
    }

    private static synchronized ClassLoader loader(JsonNode request) throws Exception {
        if (loader == null) {
            List<URL> places = new ArrayList<>();
            for (JsonNode jar : request.get("jars")) {
                places.add(Path.of(jar.asText()).toUri().toURL());
            }
            loader = new URLClassLoader(places.toArray(new URL[0]), Rest.class.getClassLoader());
        }
        return loader;
    }
}
