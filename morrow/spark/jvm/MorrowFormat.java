package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.DataSourceUtils;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The format "morrow": tables by path, for DataFrames, streams, temporary views, and tables of Spark's own catalog. */
public class MorrowFormat implements TableProvider, DataSourceRegister, CreatableRelationProvider, StreamSinkProvider {
    /** The setting with the id that a session sends with its questions. */
    static final String SETTING = "spark.morrow.format";
    private static final StructType LATER = new StructType();
    private static final String SPARKS_CATALOG = "V2SessionCatalog";
    private static final String STREAMS = "DataStreamReader";
    private static final String BATCHES = "MicroBatchExecution";
    private static final String PLANNING = "logicalPlan";
    private static final String MAKING = "createTable";
    private static final String[] NOTED = {
        TableCatalog.PROP_OWNER, TableCatalog.PROP_PROVIDER, TableCatalog.PROP_LOCATION, TableCatalog.PROP_IS_MANAGED_LOCATION,
        TableCatalog.PROP_EXTERNAL, TableCatalog.PROP_COMMENT};

    /** The options that name a table of a catalog, as in Paimon: the catalog, and the parts that differ from the path's. */
    private static final String[] NAMES = {"catalog", "database", "table", "path"};
    private static final String SUFFIX = ".db";

    /** The name in the options; missing parts are the last two folders of the path. */
    private static Identifier identifier(Map options) {
        String path = (String) Plans.find(options, NAMES[3]);
        String[] folders = path == null ? new String[0] : path.split("/");
        Object database = Plans.find(options, NAMES[1]);
        Object table = Plans.find(options, NAMES[2]);
        if (folders.length < 2 && (database == null || table == null)) {
            throw Refused.of("InvalidArgument", "the option 'catalog' needs the options 'database' and 'table', or a path that ends in them");
        }
        String folder = folders.length < 2 ? null : folders[folders.length - 2];
        String ofPath = folder != null && folder.endsWith(SUFFIX) ? folder.substring(0, folder.length() - SUFFIX.length()) : folder;
        String name = (String) (table == null ? folders[folders.length - 1] : table);
        return Identifier.of(new String[] {(String) (database == null ? ofPath : database)}, name);
    }

    private static Table loaded(String catalog, Identifier name) {
        try {
            SparkSession session = (SparkSession) SparkSession.active();
            return ((TableCatalog) session.sessionState().catalogManager().catalog(catalog)).loadTable(name);
        } catch (Exception error) {
            return (Table) new scala.util.Failure(error).get(); // throws the error unchanged
        }
    }

    public String shortName() {
        return "morrow";
    }

    public String toString() {
        return shortName();
    }

    /** The same format under Paimon's name. */
    public static final class Alias extends MorrowFormat {
        public String shortName() {
            return "paimon";
        }
    }

    /** Sends a question under the id that the session has registered. */
    static String id() {
        String id = SQLConf.get().getConfString(SETTING, null);
        if (id == null) {
            throw Refused.of("Unsupported", "format('morrow') in a session that has not registered it; call morrow.spark.register(spark)");
        }
        return id;
    }

    /** The columns, for Spark's own catalog, which stores them; otherwise none, since a write may be about to create the table. */
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return callOf(SPARKS_CATALOG) == null ? LATER : new Located(id(), ofReads(own(options)), null, false).schema();
    }

    public boolean supportsExternalMetadata() {
        return true;
    }

    /** The table. Its columns have to match a schema given by the user. Spark's own catalog creates the table with this schema. */
    public Table getTable(StructType schema, Transform[] partitions, Map options) {
        String call = callOf(SPARKS_CATALOG);
        if (call == null && Plans.find(options, NAMES[0]) != null) {
            Identifier name = identifier(options);
            return MorrowTable.named(loaded((String) Plans.find(options, NAMES[0]), name), NAMES);
        }
        if (call == null) {
            return new Located(id(), options, schema == LATER ? null : schema.json(), callOf(STREAMS) != null);
        }
        Map own = own(options);
        if (call.startsWith(MAKING)) {
            Map question = Questions.of("make", "options", own, "schema", schema.json());
            question.put("comment", options.get(TableCatalog.PROP_COMMENT));
            question.put("partitions", Questions.keys(partitions));
            Python.ask(id(), question);
        }
        return ofSparksCatalog(own);
    }

    /** A table that Spark's own catalog knows with these options. The columns stored by Spark may be out of date. */
    static Table ofSparksCatalog(Map options) {
        return new Located(id(), ofReads(own(options)), null, false).target();
    }

    private static Map ofReads(Map own) {
        return (Map) Python.ask(id(), Questions.of("options of reads", "options", own));
    }

    /** The calling method of a Spark class; null if the class is not among the callers. */
    private static String callOf(String asking) {
        StackTraceElement[] callers = new Throwable().getStackTrace();
        for (int i = 0; i < callers.length; i++) {
            if (callers[i].getClassName().endsWith("." + asking)) {
                return callers[i].getMethodName();
            }
        }
        return null;
    }

    /** Whether a streaming query is being planned, as opposed to a query in a function that the stream runs. */
    static boolean isPlannedAsStream() {
        String call = callOf(BATCHES);
        return call != null && call.contains(PLANNING);
    }

    /** The table options in Spark's own catalog, without the entries that it adds itself. */
    private static Map own(Map options) {
        Map given = options instanceof CaseInsensitiveStringMap ? ((CaseInsensitiveStringMap) options).asCaseSensitiveMap() : options;
        Map own = new HashMap(given);
        for (int i = 0; i < NOTED.length; i++) {
            own.remove(NOTED[i]);
        }
        Object[] keys = own.keySet().toArray();
        for (int i = 0; i < keys.length; i++) {
            if (((String) keys[i]).startsWith(TableCatalog.OPTION_PREFIX)) {
                own.remove(keys[i]);
            }
        }
        return own;
    }

    // Writes in Spark's V1 interface, which supports modes and creates tables

    public BaseRelation createRelation(SQLContext context, SaveMode mode, scala.collection.immutable.Map options, Dataset rows) {
        Map given = original(options);
        Object keys = given.remove(DataSourceUtils.PARTITIONING_COLUMNS_KEY());
        if (Plans.find(given, NAMES[0]) != null) {
            Identifier name = identifier(given);
            String parts = MorrowTable.quoted(name.namespace()[0]) + "." + MorrowTable.quoted(name.name());
            String catalog = MorrowTable.quoted((String) Plans.find(given, NAMES[0]));
            org.apache.spark.sql.DataFrameWriter write = rows.write().format(shortName()).mode(mode).options(MorrowTable.without(given, NAMES));
            (keys == null ? write : write.partitionBy(DataSourceUtils.decodePartitioningColumns((String) keys))).saveAsTable(catalog + "." + parts);
            return new Saved(context, rows.schema());
        }
        if (given.remove(DataSourceUtils.CLUSTERING_COLUMNS_KEY()) != null) {
            throw Refused.of("Unsupported", "clusterBy with format('morrow') is not supported; set the option 'clustering.columns' of the table");
        }
        Map question = Questions.of("save", "mode", mode.name().toLowerCase(java.util.Locale.ROOT), "options", given);
        question.put("settings", Questions.settings());
        question.put("partitions", keys == null ? new ArrayList() : names(DataSourceUtils.decodePartitioningColumns((String) keys)));
        Python.ask(id(), question, rows);
        return new Saved(context, rows.schema());
    }

    /** The result of a save, which is never read. */
    static final class Saved extends BaseRelation {
        private final SQLContext context;
        private final StructType columns;

        Saved(SQLContext context, StructType columns) {
            this.context = context;
            this.columns = columns;
        }

        public SQLContext sqlContext() {
            return context;
        }

        public StructType schema() {
            return columns;
        }
    }

    public Sink createSink(SQLContext context, scala.collection.immutable.Map options, scala.collection.immutable.Seq partitions, OutputMode mode) {
        Map question = Questions.of("check sink", "mode", mode.toString(), "options", original(options));
        question.put("partitions", names(partitions));
        question.put("settings", Questions.settings());
        Python.ask(id(), question);
        question.put("verb", "write batch");
        return new BatchSink(id(), question);
    }

    private static List names(scala.collection.Seq columns) {
        List names = new ArrayList();
        scala.collection.Iterator all = columns.iterator();
        while (all.hasNext()) {
            names.add(all.next());
        }
        return names;
    }

    /** The options as they were written: the names in Spark's map are in lower case. */
    private static Map original(scala.collection.immutable.Map options) {
        Object map = options instanceof CaseInsensitiveMap ? ((CaseInsensitiveMap) options).originalMap() : options;
        return new HashMap(scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Map) map));
    }
}
