package morrow.spark.jvm;

import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A warehouse as a catalog of Spark. It has no state of its own: every question goes to Python. */
public class MorrowCatalog implements StagingTableCatalog, SupportsNamespaces, ProcedureCatalog, FunctionCatalog {
    private static final String DEFAULT = "default";
    private static final String PROCEDURES = "sys";
    private String name;
    private String id;

    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
        this.id = options.get("id");
        if (id == null) {
            throw Refused.of("Unsupported", "the catalog " + name + " by configuration alone; call morrow.spark.catalog(spark, ...)");
        }
    }

    public String name() {
        return name;
    }

    public String[] defaultNamespace() {
        return new String[] {DEFAULT};
    }

    Object ask(Map question) {
        return Python.ask(id, question);
    }

    public Set capabilities() {
        return EnumSet.of(TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE);
    }

    // Namespaces

    public String[][] listNamespaces() {
        List found = (List) ask(Questions.of("databases"));
        String[][] names = new String[found.size()][];
        for (int i = 0; i < names.length; i++) {
            names[i] = new String[] {(String) found.get(i)};
        }
        return names;
    }

    public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
        if (namespace.length == 0) {
            return listNamespaces();
        }
        loadNamespaceMetadata(namespace);
        return new String[0][];
    }

    public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
        Map found = namespace.length == 1 ? (Map) ask(Questions.of("database", "database", namespace[0])) : null;
        if (found == null) {
            throw new NoSuchNamespaceException(namespace);
        }
        return found;
    }

    public boolean namespaceExists(String[] namespace) {
        return namespace.length == 1 && ask(Questions.of("database", "database", namespace[0])) != null;
    }

    public void createNamespace(String[] namespace, Map properties) throws NamespaceAlreadyExistsException {
        if (namespace.length != 1) {
            throw Refused.of("Unsupported", "a namespace in a namespace is not supported; databases have one name");
        }
        try {
            ask(Questions.of("create database", "database", namespace[0], "properties", new HashMap(properties)));
        } catch (RuntimeException error) {
            if (Refused.is(error, "AlreadyExists")) {
                throw new NamespaceAlreadyExistsException(namespace);
            }
            throw error;
        }
    }

    public void alterNamespace(String[] namespace, NamespaceChange[] changes) throws NoSuchNamespaceException {
        loadNamespaceMetadata(namespace);
        ask(Questions.of("alter database", "database", namespace[0], "changes", Questions.changes(changes)));
    }

    public boolean dropNamespace(String[] namespace, boolean cascade) throws NoSuchNamespaceException, NonEmptyNamespaceException {
        loadNamespaceMetadata(namespace);
        if (!cascade && ((List) ask(Questions.of("tables", "database", namespace[0]))).size() > 0) {
            throw new NonEmptyNamespaceException(namespace);
        }
        ask(Questions.of("drop database", "database", namespace[0], "cascade", Boolean.valueOf(cascade)));
        return true;
    }

    // Tables

    public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
        loadNamespaceMetadata(namespace);
        List found = (List) ask(Questions.of("tables", "database", namespace[0]));
        Identifier[] names = new Identifier[found.size()];
        for (int i = 0; i < names.length; i++) {
            names[i] = Identifier.of(namespace, (String) found.get(i));
        }
        return names;
    }

    public Table loadTable(Identifier table) throws NoSuchTableException {
        if (table.equals(renamed)) {
            renamed = null;
            return load(renamedTo, null, null);
        }
        return load(table, null, null);
    }

    public Table loadTable(Identifier table, String version) throws NoSuchTableException {
        return load(table, "version", version);
    }

    public Table loadTable(Identifier table, long micros) throws NoSuchTableException {
        return load(table, "micros", Long.valueOf(micros));
    }

    private Table load(Identifier table, String travel, Object value) throws NoSuchTableException {
        Map question = named("load", table);
        if (travel != null) {
            question.put(travel, value);
        }
        question.put("settings", Questions.settings());
        try {
            Map found = (Map) ask(question);
            return found.get("view") == null ? (Table) MorrowTable.of(name, id, table, found) : (Table) MorrowView.of(name, id, table, found);
        } catch (RuntimeException error) {
            if (Refused.is(error, "TableNotFound") || Refused.is(error, "DatabaseNotFound") || Refused.is(error, "BranchNotFound")) {
                throw new NoSuchTableException(table);
            }
            throw error;
        }
    }

    public Table createTable(Identifier table, Column[] columns, Transform[] partitions, Map properties)
            throws TableAlreadyExistsException, NoSuchNamespaceException {
        Map question = Questions.creation(named("create table", table), columns, partitions, properties);
        // toTable passes the session's default format if its caller names none, as saveAsTable does.
        StackTraceElement[] callers = Thread.currentThread().getStackTrace();
        for (int at = 0; at < callers.length; at++) {
            if (callers[at].getClassName().endsWith(".DataStreamWriter")) {
                question.put("how", "stream");
            }
        }
        return made(question, table);
    }

    private MorrowTable made(Map question, Identifier table) throws TableAlreadyExistsException, NoSuchNamespaceException {
        try {
            return MorrowTable.of(name, id, table, (Map) ask(question));
        } catch (RuntimeException error) {
            if (Refused.is(error, "AlreadyExists")) {
                throw new TableAlreadyExistsException(table);
            }
            if (Refused.is(error, "DatabaseNotFound")) {
                throw new NoSuchNamespaceException(table.namespace());
            }
            throw error;
        }
    }

    public Table alterTable(Identifier table, TableChange[] changes) throws NoSuchTableException {
        refuseWhereExplained();
        Map question = named("alter table", table);
        question.put("changes", Questions.changes(changes));
        try {
            return MorrowTable.of(name, id, table, (Map) ask(question));
        } catch (RuntimeException error) {
            if (Refused.is(error, "TableNotFound")) {
                throw new NoSuchTableException(table);
            }
            throw Refused.ofAlter(error);
        }
    }

    /** Refuses EXPLAIN of a statement WITH SCHEMA EVOLUTION: Spark changes the columns during analysis. */
    private static void refuseWhereExplained() {
        if (Evolution.isExplained()) {
            throw Refused.of("Unsupported", "EXPLAIN WITH SCHEMA EVOLUTION is not supported; it would change the table's columns");
        }
    }

    /** Whether there is a table, also one that cannot be read: DROP TABLE removes it. */
    public boolean tableExists(Identifier table) {
        try {
            loadTable(table);
            return true;
        } catch (NoSuchTableException error) {
            return false;
        } catch (RuntimeException error) {
            if (Boolean.TRUE.equals(ask(named("has table", table)))) {
                return true;
            }
            throw error;
        }
    }

    public boolean dropTable(Identifier table) {
        return ((Boolean) ask(named("drop table", table))).booleanValue();
    }

    /** The table name as written in the statement, by which Spark loads a table that is in its cache. */
    private Identifier renamed;
    private Identifier renamedTo;

    public void renameTable(Identifier table, Identifier to) throws NoSuchTableException, TableAlreadyExistsException {
        Map question = named("rename table", table);
        question.put("to", to.name());
        question.put("to namespace", Arrays.asList((Object[]) to.namespace()));
        try {
            String database = (String) ask(question);
            renamed = to.namespace().length == 1 ? null : to;
            renamedTo = Identifier.of(new String[] {database}, to.name());
        } catch (RuntimeException error) {
            if (Refused.is(error, "TableNotFound")) {
                throw new NoSuchTableException(table);
            }
            if (Refused.is(error, "AlreadyExists")) {
                throw new TableAlreadyExistsException(to);
            }
            throw error;
        }
    }

    Map named(String verb, Identifier table) {
        return Questions.of(verb, "namespace", Arrays.asList((Object[]) table.namespace()), "name", table.name());
    }

    // Procedures

    public UnboundProcedure loadProcedure(Identifier procedure) {
        return new MorrowProcedure(id, procedure);
    }

    public Identifier[] listProcedures(String[] namespace) {
        if (namespace.length != 1 || !namespace[0].equals(PROCEDURES)) {
            return new Identifier[0];
        }
        List found = (List) ask(Questions.of("procedures"));
        Identifier[] names = new Identifier[found.size()];
        for (int i = 0; i < names.length; i++) {
            names[i] = Identifier.of(namespace, (String) found.get(i));
        }
        return names;
    }

    // Functions

    /** A function as Python describes it: a lambda, or a temporary function of the session; null if there is none.
     *
     * literals: the arguments of a call, null for those that are not literals.
     */
    Map function(String database, String name, List literals) {
        Map question = Questions.of("function", "database", database, "name", name);
        question.put("literals", literals);
        return (Map) ask(question);
    }

    public UnboundFunction loadFunction(Identifier function) throws NoSuchFunctionException {
        String[] namespace = function.namespace();
        if (namespace.length == 0 && function.name().startsWith(Buckets.Hash.PREFIX)) {
            return new Buckets.Hash(function.name());
        }
        if (namespace.length == 1 && namespace[0].equals(PROCEDURES) && function.name().equalsIgnoreCase(MaxPartition.NAME)) {
            return new MaxPartition(id);
        }
        if (namespace.length == 1 && namespace[0].equals(PROCEDURES) && functionExists(function)) {
            return new Functions.Replaced(function.name());
        }
        Map found = namespace.length == 1 ? function(namespace[0], function.name(), null) : null;
        if (!JavaLambda.is(found)) {
            throw new NoSuchFunctionException(function);
        }
        return new JavaLambda(found);
    }

    public boolean functionExists(Identifier function) {
        String[] namespace = function.namespace();
        if (namespace.length != 1 || !namespace[0].equals(PROCEDURES)) {
            return namespace.length == 1 && function(namespace[0], function.name(), null) != null;
        }
        Identifier[] own = listFunctions(namespace);
        boolean isOwn = false;
        for (int i = 0; i < own.length; i++) {
            isOwn |= own[i].name().equalsIgnoreCase(function.name());
        }
        return isOwn;
    }

    public Identifier[] listFunctions(String[] namespace) {
        String[] found = JavaLambda.names(ask(Questions.of("functions", "database", namespace.length == 0 ? PROCEDURES : namespace[0])));
        Identifier[] names = new Identifier[found.length];
        for (int i = 0; i < names.length; i++) {
            names[i] = Identifier.of(namespace, found[i]);
        }
        return names;
    }

    // Tables created together with their rows

    public StagedTable stageCreate(Identifier table, Column[] columns, Transform[] partitions, Map properties)
            throws TableAlreadyExistsException, NoSuchNamespaceException {
        return staged(table, columns, partitions, properties, "create");
    }

    public StagedTable stageReplace(Identifier table, Column[] columns, Transform[] partitions, Map properties)
            throws NoSuchNamespaceException, NoSuchTableException {
        if (!tableExists(table)) {
            throw new NoSuchTableException(table);
        }
        return replacing(table, columns, partitions, properties);
    }

    public StagedTable stageCreateOrReplace(Identifier table, Column[] columns, Transform[] partitions, Map properties)
            throws NoSuchNamespaceException {
        return replacing(table, columns, partitions, properties);
    }

    private StagedTable replacing(Identifier table, Column[] columns, Transform[] partitions, Map properties)
            throws NoSuchNamespaceException {
        return replacing(table, columns, partitions, properties, "replace");
    }

    StagedTable replacing(Identifier table, Column[] columns, Transform[] partitions, Map properties, String how)
            throws NoSuchNamespaceException {
        try {
            return staged(table, columns, partitions, properties, how);
        } catch (TableAlreadyExistsException error) {
            throw Refused.of("AlreadyExists", table + " was made meanwhile");
        }
    }

    private StagedTable staged(Identifier table, Column[] columns, Transform[] partitions, Map properties, String how)
            throws TableAlreadyExistsException, NoSuchNamespaceException {
        Map question = Questions.creation(named("stage table", table), columns, partitions, properties);
        question.put("how", how);
        return (StagedTable) made(question, table);
    }
}
