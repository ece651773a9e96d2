package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogUtils;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's own catalog with Morrow's tables: tables of both lie in its databases, and all others stay Spark's. */
public class GenericCatalog extends DelegatingCatalogExtension implements StagingTableCatalog, ProcedureCatalog {
    private static final String[] PROVIDERS = {"paimon", "morrow"};
    private final MorrowCatalog own = new MorrowCatalog();

    public void initialize(String name, CaseInsensitiveStringMap options) {
        own.initialize(name, options);
    }

    MorrowCatalog own() {
        return own;
    }

    /** Whether a table of this name is Morrow's; names of its system tables and branches too. */
    public boolean owns(String database, String name) {
        int mark = name.indexOf('$', 1);
        return own.tableExists(folded(Identifier.of(new String[] {database}, mark < 0 ? name : name.substring(0, mark))));
    }

    /** A table with the name of its database in lower case, as Spark's catalog has it. */
    private static Identifier folded(Identifier table) {
        boolean isFolded = table.namespace().length == 1 && !SQLConf.get().caseSensitiveAnalysis();
        return isFolded ? Identifier.of(new String[] {table.namespace()[0].toLowerCase(java.util.Locale.ROOT)}, table.name()) : table;
    }

    private boolean owns(Identifier table) {
        return table.namespace().length == 1 && owns(table.namespace()[0], table.name());
    }

    /** Whether a new table is Morrow's: USING paimon, in the folder of its database. Spark's catalog notes tables with a LOCATION. */
    private static boolean isOwn(Map properties) {
        return isOurs(properties.get(TableCatalog.PROP_PROVIDER)) && !properties.containsKey(TableCatalog.PROP_LOCATION);
    }

    static boolean isOurs(Object provider) {
        return provider != null && Arrays.asList(PROVIDERS).contains(((String) provider).toLowerCase(java.util.Locale.ROOT));
    }

    private TableCatalog others() {
        return (TableCatalog) delegate;
    }

    public Set capabilities() {
        Set all = new LinkedHashSet(super.capabilities());
        all.add(TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE);
        return all;
    }

    // Namespaces

    public boolean dropNamespace(String[] namespace, boolean cascade) throws NoSuchNamespaceException, NonEmptyNamespaceException {
        List names = ownTables(namespace);
        if (!cascade && !names.isEmpty()) {
            throw new NonEmptyNamespaceException(namespace);
        }
        for (int i = 0; i < names.size(); i++) {
            own.dropTable((Identifier) names.get(i));
        }
        return super.dropNamespace(namespace, cascade);
    }

    private List ownTables(String[] namespace) {
        try {
            return Arrays.asList(own.listTables(folded(Identifier.of(namespace, "")).namespace()));
        } catch (NoSuchNamespaceException error) {
            return new ArrayList();
        }
    }

    // Tables

    public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
        Set all = new LinkedHashSet(Arrays.asList(super.listTables(namespace)));
        all.addAll(ownTables(namespace));
        return (Identifier[]) all.toArray(new Identifier[0]);
    }

    public Table loadTable(Identifier table) throws NoSuchTableException {
        try {
            return own.loadTable(folded(table));
        } catch (NoSuchTableException error) {
            return located(super.loadTable(table), null, null);
        }
    }

    /** A table of the format that Spark's catalog knows by its LOCATION, with an option, as a table of the format; other tables unchanged. */
    private static Table located(Table found, String option, String value) {
        CatalogTable known = found instanceof V1Table ? ((V1Table) found).v1Table() : null;
        if (known == null || known.provider().isEmpty() || !isOurs(known.provider().get())) {
            return found;
        }
        Map options = new HashMap(scala.jdk.javaapi.CollectionConverters.asJava(known.properties()));
        options.putAll(scala.jdk.javaapi.CollectionConverters.asJava(known.storage().properties()));
        options.put("path", CatalogUtils.URIToString(known.location()));
        if (option != null) {
            options.put(option, value);
        }
        return MorrowFormat.ofSparksCatalog(options);
    }

    public Table loadTable(Identifier table, String version) throws NoSuchTableException {
        if (owns(table)) {
            return own.loadTable(folded(table), version);
        }
        Table found = super.loadTable(table);
        Table located = located(found, "scan.version", version);
        return located == found ? super.loadTable(table, version) : located;
    }

    public Table loadTable(Identifier table, long micros) throws NoSuchTableException {
        if (owns(table)) {
            return own.loadTable(folded(table), micros);
        }
        Table found = super.loadTable(table);
        Table located = located(found, "scan.timestamp-millis", String.valueOf(Math.floorDiv(micros, 1000L)));
        return located == found ? super.loadTable(table, micros) : located;
    }

    public boolean tableExists(Identifier table) {
        return owns(table) || super.tableExists(table);
    }

    public Table createTable(Identifier table, Column[] columns, Transform[] partitions, Map properties)
            throws TableAlreadyExistsException, NoSuchNamespaceException {
        if (!isOwn(properties)) {
            return located(super.createTable(table, columns, partitions, properties), null, null);
        }
        refuseTaken(table);
        return own.createTable(folded(table), columns, partitions, properties);
    }

    private void refuseTaken(Identifier table) throws TableAlreadyExistsException {
        if (super.tableExists(table)) {
            throw new TableAlreadyExistsException(table);
        }
    }

    public Table alterTable(Identifier table, TableChange[] changes) throws NoSuchTableException {
        return owns(table) ? own.alterTable(folded(table), changes) : others().alterTable(table, changes);
    }

    public boolean dropTable(Identifier table) {
        return owns(table) ? own.dropTable(folded(table)) : super.dropTable(table);
    }

    public boolean purgeTable(Identifier table) {
        return owns(table) ? own.purgeTable(folded(table)) : super.purgeTable(table);
    }

    public void renameTable(Identifier table, Identifier to) throws NoSuchTableException, TableAlreadyExistsException {
        if (owns(table)) {
            refuseTaken(to.namespace().length == 0 ? Identifier.of(table.namespace(), to.name()) : to);
            own.renameTable(folded(table), folded(to));
        } else {
            super.renameTable(table, to);
        }
    }

    public StagedTable stageCreate(Identifier table, Column[] columns, Transform[] partitions, Map properties)
            throws TableAlreadyExistsException, NoSuchNamespaceException {
        refuseOthers(properties);
        refuseTaken(table);
        return own.stageCreate(folded(table), columns, partitions, properties);
    }

    public StagedTable stageReplace(Identifier table, Column[] columns, Transform[] partitions, Map properties)
            throws NoSuchNamespaceException, NoSuchTableException {
        refuseOthers(properties);
        return isOther(table) ? beside(table, columns, partitions, properties) : own.stageReplace(folded(table), columns, partitions, properties);
    }

    public StagedTable stageCreateOrReplace(Identifier table, Column[] columns, Transform[] partitions, Map properties)
            throws NoSuchNamespaceException {
        refuseOthers(properties);
        return isOther(table) ? beside(table, columns, partitions, properties) : own.stageCreateOrReplace(folded(table), columns, partitions, properties);
    }

    private boolean isOther(Identifier table) {
        return !owns(table) && super.tableExists(table);
    }

    /** Fills a table under another name, and drops Spark's own table, whose folder it gets, when it is complete. */
    private StagedTable beside(Identifier table, Column[] columns, Transform[] partitions, Map properties) throws NoSuchNamespaceException {
        StagedTable made = own.replacing(folded(table), columns, partitions, properties, "beside");
        return ((StagedTarget) made).insteadOf(new Removal(others(), table));
    }

    static final class Removal implements Runnable {
        private final TableCatalog others;
        private final Identifier table;

        Removal(TableCatalog others, Identifier table) {
            this.others = others;
            this.table = table;
        }

        public void run() {
            others.dropTable(table);
        }
    }

    /** Refuses a table with a query that is Spark's and made by a format of data sources, which Spark's catalog does not stage. */
    private static void refuseOthers(Map properties) {
        if (!isOwn(properties)) {
            throw Refused.of("Unsupported", "CREATE or REPLACE TABLE AS of this format, or with a LOCATION, in spark_catalog is not supported; create the table, then INSERT INTO it");
        }
    }

    // Procedures and functions

    public UnboundProcedure loadProcedure(Identifier procedure) {
        return own.loadProcedure(procedure);
    }

    public Identifier[] listProcedures(String[] namespace) {
        return own.listProcedures(namespace);
    }

    public UnboundFunction loadFunction(Identifier function) throws NoSuchFunctionException {
        try {
            return own.loadFunction(function);
        } catch (NoSuchFunctionException error) {
            return super.loadFunction(function);
        }
    }

    public boolean functionExists(Identifier function) {
        return own.functionExists(function) || super.functionExists(function);
    }

    public Identifier[] listFunctions(String[] namespace) throws NoSuchNamespaceException {
        boolean isOwn = namespace.length == 1 && namespace[0].equals("sys");
        return isOwn ? own.listFunctions(namespace) : super.listFunctions(namespace);
    }
}
