package morrow.spark.jvm;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.RowLevelWrite;
import org.apache.spark.sql.catalyst.plans.logical.SetTableProperties;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedTableSpec;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Product;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;

/** The rule that prepares writes by name before Spark compares their columns, where options or settings ask for it. */
public class Writes extends Rule {
    private static final String RULES = "hintResolutionRules";
    private static final String WHERE = "replacewhere";
    private static final int OPTIONS = 4; // of CREATE and REPLACE TABLE AS SELECT: name, partitions, query, table, options
    private final SessionState state;
    private final String id;

    private Writes(SessionState state, String id) {
        this.state = state;
        this.id = id;
    }

    /** Puts the rule in front of those that a session analyses statements by, unless it is there already. */
    static void install(SessionState state, String id) throws Exception {
        Analyzer analyzer = state.analyzer();
        ArrayBuffer all = new ArrayBuffer(4);
        all.$plus$eq(new Writes(state, id));
        scala.collection.Iterator rules = analyzer.hintResolutionRules().iterator();
        while (rules.hasNext()) {
            Object rule = rules.next();
            if (rule instanceof Writes) {
                return;
            }
            all.$plus$eq(rule);
        }
        Field field = analyzer.getClass().getDeclaredField(RULES);
        field.setAccessible(true);
        field.set(analyzer, all.toSeq());
        if (!(analyzer.hintResolutionRules().head() instanceof Writes)) {
            throw new IllegalStateException("its analyzer keeps its rules");
        }
    }

    public TreeNode apply(TreeNode plan) {
        if (plan instanceof UnresolvedRelation && !((UnresolvedRelation) plan).options().isEmpty()) {
            refuseView((UnresolvedRelation) plan);
        }
        Object read = plan.children().size() == 1 ? plan.children().head() : plan; // a stream has a node with its name above it
        if (read instanceof UnresolvedRelation && ((UnresolvedRelation) read).isStreaming()) {
            checkStream((UnresolvedRelation) read);
        }
        if (plan instanceof MergeIntoTable && ((MergeIntoTable) plan).withSchemaEvolution()) {
            checkEvolution(((MergeIntoTable) plan).targetTable());
        }
        if (plan instanceof SetTableProperties && ((SetTableProperties) plan).table() instanceof UnresolvedTable) {
            checkProperties((SetTableProperties) plan);
        }
        if (plan instanceof InsertIntoStatement || (plan instanceof V2WriteCommand && !(plan instanceof RowLevelWrite))) {
            return written(plan);
        }
        return plan instanceof CreateTableAsSelect || plan instanceof ReplaceTableAsSelect ? made(plan) : plan;
    }

    private void checkProperties(SetTableProperties command) {
        Place place = place(((UnresolvedTable) command.table()).multipartIdentifier());
        if (place != null) {
            place.catalog.ask(Questions.of("check properties", "properties", new ArrayList(javaMap(command.properties()).keySet())));
        }
    }

    /** Refuses options of a temporary view of Morrow's, which Spark ignores. */
    private void refuseView(UnresolvedRelation view) {
        Seq parts = view.multipartIdentifier();
        Map options = view.clearWritePrivileges().options().asCaseSensitiveMap();
        if (!options.isEmpty() && state.catalog().isTempView(parts)) {
            Python.ask(id, Questions.of("options of view", "view", parts.mkString("."), "options", new ArrayList(options.keySet())));
        }
    }

    /** Checks the options of a stream by name before Spark does, which asserts that none of them travels in time. */
    private void checkStream(UnresolvedRelation stream) {
        Map options = stream.clearWritePrivileges().options().asCaseSensitiveMap();
        Place place = options.isEmpty() ? null : place(stream.multipartIdentifier());
        if (place != null) {
            Map question = place.catalog.named("check stream", place.name);
            question.put("options", new HashMap(options));
            place.catalog.ask(question);
        }
    }

    /** Refuses to evolve a table whose columns Spark would leave as they are, and the rows without those that it lacks. */
    private void checkEvolution(LogicalPlan target) {
        Object leaf = target.collectLeaves().head();
        Table table = null;
        if (leaf instanceof DataSourceV2Relation) {
            table = ((DataSourceV2Relation) leaf).table();
        } else if (leaf instanceof UnresolvedRelation) {
            Seq parts = ((UnresolvedRelation) leaf).multipartIdentifier();
            Place place = place(parts);
            table = place == null ? ofSpark(parts) : place.table();
        }
        if (table instanceof Target && (!Commands.EVOLVES || table instanceof LocatedTarget)) {
            throw Refused.of("Unsupported", "MERGE WITH SCHEMA EVOLUTION is not supported; add the columns by ALTER TABLE");
        }
    }

    /** The table of Spark's own catalog; null where there is none, or a view. */
    private Table ofSpark(Seq parts) {
        CatalogManager manager = state.catalogManager();
        boolean isOwn = parts.size() < 3 ? manager.currentCatalog() == manager.v2SessionCatalog() : parts.head().equals("spark_catalog");
        if (!isOwn || state.catalog().isTempView(parts)) {
            return null;
        }
        String[] namespace = parts.size() == 1 ? manager.currentNamespace() : new String[] {(String) parts.apply(parts.size() - 2)};
        try {
            return ((TableCatalog) manager.v2SessionCatalog()).loadTable(Identifier.of(namespace, (String) parts.last()));
        } catch (Exception error) {
            return null; // which Spark says itself
        }
    }

    // Rows for a table that is there

    private TreeNode written(TreeNode plan) {
        Object[] parts = parts(plan);
        int at = plan instanceof InsertIntoStatement ? -1 : options(parts);
        Map given = at < 0 ? new HashMap() : javaMap(parts[at]);
        Map beside = new HashMap(); // which Spark takes together with those of the write
        if (parts[0] instanceof UnresolvedRelation) {
            beside.putAll(((UnresolvedRelation) parts[0]).clearWritePrivileges().options().asCaseSensitiveMap());
        } else if (parts[0] instanceof DataSourceV2Relation) {
            beside.putAll(((DataSourceV2Relation) parts[0]).options().asCaseSensitiveMap());
        }
        given.putAll(beside);
        Map settings = Questions.settings();
        boolean isAsked = !given.isEmpty() || !settings.isEmpty();
        // Spark 4.0 does not put the defaults of columns in the place of those that a statement leaves out.
        boolean mayLack = !Commands.EVOLVES && plan instanceof InsertIntoStatement && isByName(plan);
        DataSourceV2Relation relation = isAsked || mayLack ? relation(parts[0]) : null;
        if (relation == null || ((Target) relation.table()).takes() != null) {
            return plan;
        }
        Target table = (Target) relation.table();
        Map told = isAsked ? asked(table, given, settings) : new HashMap();
        boolean isReplacing = told.get(WHERE) != null && plan instanceof OverwriteByExpression && parts[1].equals(Literal.TrueLiteral());
        if (isReplacing) {
            parts[1] = parsed(told.get(WHERE));
            parts[at] = scalaMap(without(javaMap(parts[at]), WHERE));
        }
        boolean isEvolving = Boolean.TRUE.equals(told.get("evolves")) || (mayLack && table.hasDefaults());
        if (!isEvolving && !isReplacing) {
            return plan;
        }
        Target other = isEvolving ? table.taking(isByName(plan) ? "name" : "position") : table;
        parts[0] = relation(other, relation, isReplacing ? without(beside, WHERE) : beside);
        return plan.makeCopy(parts);
    }

    private static Map asked(Target table, Map options, Map settings) {
        Map question = table.question("write options");
        question.put("options", options);
        question.put("settings", settings);
        return (Map) Python.ask(table.catalog, question);
    }

    private static boolean isByName(TreeNode plan) {
        if (plan instanceof InsertIntoStatement) {
            return ((InsertIntoStatement) plan).byName() || !((InsertIntoStatement) plan).userSpecifiedCols().isEmpty();
        }
        return ((V2WriteCommand) plan).isByName();
    }

    /** The relation of a table, with options. */
    private static Object relation(Target table, DataSourceV2Relation before, Map options) {
        TreeNode made = DataSourceV2Relation.create(table, before.catalog(), before.identifier());
        Object[] parts = parts(made);
        for (int i = 0; i < parts.length; i++) {
            if (parts[i] instanceof CaseInsensitiveStringMap) {
                parts[i] = new CaseInsensitiveStringMap(options);
            }
        }
        return made.makeCopy(parts);
    }

    /** The relation of a table of Morrow's that takes rows; null for all others. */
    private DataSourceV2Relation relation(Object table) {
        if (table instanceof DataSourceV2Relation) {
            Table known = ((DataSourceV2Relation) table).table();
            return known instanceof Target && !(known instanceof LocatedTarget) ? (DataSourceV2Relation) table : null;
        }
        Place place = table instanceof UnresolvedRelation ? place(((UnresolvedRelation) table).multipartIdentifier()) : null;
        Table found = place == null ? null : place.table();
        return found instanceof Target ? DataSourceV2Relation.create(found, scala.Option.apply((CatalogPlugin) place.catalog), scala.Option.apply(place.name)) : null;
    }

    /** The place that a name stands for; null where it is none of Morrow's. */
    private Place place(Seq parts) {
        List names = new ArrayList();
        scala.collection.Iterator all = parts.iterator();
        while (all.hasNext()) {
            names.add(all.next());
        }
        CatalogManager manager = state.catalogManager();
        boolean isWhole = names.size() > 1 && manager.isCatalogRegistered((String) names.get(0));
        CatalogPlugin catalog = isWhole ? manager.catalog((String) names.get(0)) : manager.currentCatalog();
        if (!(catalog instanceof MorrowCatalog) || (names.size() == 1 && state.catalog().getTempView((String) names.get(0)).isDefined())) {
            return null;
        }
        List namespace = new ArrayList(names.subList(isWhole ? 1 : 0, names.size() - 1));
        String[] database = names.size() == 1 ? manager.currentNamespace() : (String[]) namespace.toArray(new String[0]);
        return new Place((MorrowCatalog) catalog, Identifier.of(database, (String) names.get(names.size() - 1)));
    }

    static final class Place {
        final MorrowCatalog catalog;
        final Identifier name;

        Place(MorrowCatalog catalog, Identifier name) {
            this.catalog = catalog;
            this.name = name;
        }

        /** The table; null where there is none, which Spark says itself. */
        Table table() {
            try {
                return catalog.loadTable(name);
            } catch (Exception error) {
                if (error instanceof NoSuchTableException) {
                    return null;
                }
                throw (RuntimeException) error;
            }
        }
    }

    // Tables made of rows

    /** The statement, with those options of its write that are the table's as properties of the table. */
    private TreeNode made(TreeNode plan) {
        Object[] parts = parts(plan);
        Map given = javaMap(parts[OPTIONS]);
        Place place = given.isEmpty() || !(parts[3] instanceof UnresolvedTableSpec) ? null : named(parts[0]);
        if (place == null) {
            return plan;
        }
        if (find(given, WHERE) != null) {
            return replaced(plan, parts, given, place);
        }
        List own = (List) place.catalog.ask(Questions.of("table options", "options", given));
        if (own.isEmpty()) {
            return plan;
        }
        Object[] table = parts((TreeNode) parts[3]);
        Map properties = javaMap(table[0]);
        for (int i = 0; i < own.size(); i++) {
            properties.put(own.get(i), given.remove(own.get(i)));
        }
        table[0] = scalaMap(properties);
        parts[3] = ((TreeNode) parts[3]).makeCopy(table);
        parts[OPTIONS] = scalaMap(given);
        return plan.makeCopy(parts);
    }

    private Place named(Object name) {
        if (name instanceof UnresolvedIdentifier) {
            return place(((UnresolvedIdentifier) name).nameParts());
        }
        boolean isOurs = name instanceof ResolvedIdentifier && ((ResolvedIdentifier) name).catalog() instanceof MorrowCatalog;
        return isOurs ? new Place((MorrowCatalog) ((ResolvedIdentifier) name).catalog(), ((ResolvedIdentifier) name).identifier()) : null;
    }

    /** saveAsTable in the mode overwrite, with a condition: not the table is replaced, but rows of it. */
    private TreeNode replaced(TreeNode plan, Object[] parts, Map given, Place place) {
        Table table = plan instanceof ReplaceTableAsSelect ? place.table() : null;
        if (!(table instanceof Target)) {
            throw Refused.of("Unsupported", "replaceWhere of a table that is not there, or that is not overwritten, is not supported; create the table first");
        }
        Object relation = DataSourceV2Relation.create(table, scala.Option.apply((CatalogPlugin) place.catalog), scala.Option.apply(place.name));
        Expression where = parsed(find(given, WHERE));
        Object made = scalaMap(without(given, WHERE));
        return (TreeNode) overwriting(relation, parts[2], where, made);
    }

    /** OverwriteByExpression.byName, which has one more parameter since Spark 4.2. */
    private static Object overwriting(Object table, Object rows, Expression where, Object options) {
        Method[] all = OverwriteByExpression.class.getMethods();
        for (int i = 0; i < all.length; i++) {
            if (all[i].getName().equals("byName")) {
                boolean isLong = all[i].getParameterTypes().length > 4;
                Object[] given = isLong ? new Object[] {table, rows, where, options, Boolean.FALSE} : new Object[] {table, rows, where, options};
                try {
                    return all[i].invoke(null, given);
                } catch (ReflectiveOperationException error) {
                    throw new IllegalStateException(error);
                }
            }
        }
        throw new IllegalStateException("OverwriteByExpression.byName");
    }

    private Expression parsed(Object text) {
        try {
            return state.sqlParser().parseExpression((String) text);
        } catch (Exception error) {
            return (Expression) new scala.util.Failure(error).get(); // throws it as it is
        }
    }

    // Parts of plans

    private static Object[] parts(TreeNode plan) {
        List found = new ArrayList();
        scala.collection.Iterator all = ((Product) plan).productIterator();
        while (all.hasNext()) {
            found.add(all.next());
        }
        return found.toArray();
    }

    private static int options(Object[] parts) {
        for (int i = 0; i < parts.length; i++) {
            if (parts[i] instanceof scala.collection.immutable.Map) {
                return i;
            }
        }
        return -1;
    }

    private static Map javaMap(Object map) {
        return new HashMap(scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Map) map));
    }

    private static Object scalaMap(Map map) {
        return scala.collection.immutable.Map$.MODULE$.from(scala.jdk.javaapi.CollectionConverters.asScala(map));
    }

    private static Object find(Map options, String name) {
        Object[] keys = options.keySet().toArray();
        for (int i = 0; i < keys.length; i++) {
            if (((String) keys[i]).equalsIgnoreCase(name)) {
                return options.get(keys[i]);
            }
        }
        return null;
    }

    private static Map without(Map options, String name) {
        Map left = new HashMap();
        Object[] keys = options.keySet().toArray();
        for (int i = 0; i < keys.length; i++) {
            if (!((String) keys[i]).equalsIgnoreCase(name)) {
                left.put(keys[i], options.get(keys[i]));
            }
        }
        return left;
    }
}
