import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.paimon.rest.auth.AuthProvider;
import org.apache.paimon.rest.auth.BearTokenAuthProvider;
import org.apache.paimon.rest.auth.DLFAuthProvider;
import org.apache.paimon.rest.auth.DLFDefaultSigner;
import org.apache.paimon.rest.auth.DLFToken;
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
        JsonNode given = request.get("auth");
        AuthProvider auth =
                given.has("token") ? new BearTokenAuthProvider(given.get("token").asText()) : signing(given);
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

    /**
     * Signs a request as of the second in which its client has signed it.
     *
     * <p>Java's own provider signs as of now: a request that arrives in the next second would not be let in.
     */
    private static AuthProvider signing(JsonNode given) {
        DLFDefaultSigner signer = new DLFDefaultSigner(given.get("dlf.region").asText());
        DLFToken token =
                new DLFToken(
                        given.get("dlf.access-key-id").asText(),
                        given.get("dlf.access-key-secret").asText(),
                        given.get("dlf.security-token").asText(),
                        null);
        return (sent, parameter) -> {
            Map<String, String> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
            headers.putAll(sent);
            String told = headers.getOrDefault(DLFAuthProvider.DLF_DATE_HEADER_KEY, "19700101T000000Z");
            Instant then = LocalDateTime.parse(told, DLFAuthProvider.AUTH_DATE_TIME_FORMATTER).toInstant(ZoneOffset.UTC);
            headers.putAll(signer.signHeaders(parameter.data(), then, token.getSecurityToken(), "localhost"));
            try {
                String authorization = signer.authorization(parameter, token, "localhost", headers);
                headers.put(DLFAuthProvider.DLF_AUTHORIZATION_HEADER_KEY, authorization);
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
            return headers;
        };
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
