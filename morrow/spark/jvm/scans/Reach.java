package morrow.spark.jvm.scans;

import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;

/** Whether Spark reaches files outside the local disk, as its session is configured. */
public final class Reach {
    private static final Map KNOWN = new ConcurrentHashMap();

    private Reach() {}

    /**
     * The reason, in one line without values of settings, why Spark does not find a file of this size at a URL; null if it does.
     * Results are cached for each bucket, as long as the file system settings are the same.
     */
    public static String obstacle(SparkSession spark, String url, long size) {
        Configuration settings = spark.sessionState().newHadoopConf();
        Path path = new Path(url);
        Object key = path.toUri().getScheme() + "://" + path.toUri().getAuthority() + " " + fingerprint(settings);
        String known = (String) KNOWN.get(key);
        if (known == null) {
            known = asked(settings, path, size);
            KNOWN.put(key, known);
        }
        return known.isEmpty() ? null : known;
    }

    private static String asked(Configuration settings, Path path, long size) {
        String scheme = path.toUri().getScheme();
        try {
            FileSystem.getFileSystemClass(scheme, settings);
        } catch (Throwable error) { // also an error of a class with a missing dependency
            return "Spark has no file system for " + scheme + "://";
        }
        try {
            long found = path.getFileSystem(settings).getFileStatus(path).getLen();
            return found == size ? "" : "Spark finds another file at " + scheme + "://" + path.toUri().getAuthority();
        } catch (Throwable error) {
            String what = error.getClass().getSimpleName(); // the message may contain secrets
            return "Spark does not reach " + scheme + "://" + path.toUri().getAuthority() + " (" + what + ")";
        }
    }

    private static int fingerprint(Configuration settings) {
        Map found = new TreeMap();
        Iterator all = settings.iterator();
        while (all.hasNext()) {
            Map.Entry entry = (Map.Entry) all.next();
            if (((String) entry.getKey()).startsWith("fs.")) {
                found.put(entry.getKey(), entry.getValue());
            }
        }
        return found.hashCode();
    }
}
