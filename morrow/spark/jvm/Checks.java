package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableOrView;
import org.apache.spark.sql.catalyst.plans.logical.CreateTable;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.CreateView;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RenameTable;
import org.apache.spark.sql.catalyst.plans.logical.SetTableProperties;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedTableSpec;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.command.CreateTableLikeCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SessionState;
import scala.collection.immutable.Seq;

/** Refusals of statements that Spark would ignore, or execute in part. */
final class Checks {
    private final SessionState state;
    private final Names names;
    private final String id;

    Checks(SessionState state, Names names, String id) {
        this.state = state;
        this.names = names;
        this.id = id;
    }

    void checkProperties(SetTableProperties command) {
        Names.Place place = names.place(((UnresolvedTable) command.table()).multipartIdentifier());
        if (place != null) {
            place.catalog.ask(Questions.of("check properties", "properties", new ArrayList(Plans.javaMap(command.properties()).keySet())));
        }
    }

    /** Refuses a table or view of Spark's with the name of a Morrow table in Spark's own catalog, which would make both. */
    void refuseTaken(TreeNode plan) {
        Object[] parts = Plans.parts(plan);
        Seq made = createdName(plan, parts);
        boolean isOwn = false;
        for (int i = 0; i < parts.length && made != null; i++) {
            scala.Option provider = parts[i] instanceof UnresolvedTableSpec ? ((UnresolvedTableSpec) parts[i]).provider() : null;
            isOwn = isOwn || (provider != null && provider.isDefined() && GenericCatalog.isOurs(provider.get()));
        }
        Names.Place place = made == null || isOwn ? null : names.place(made);
        if (place != null && place.plugin instanceof GenericCatalog) {
            throw Refused.of("AlreadyExists", "there is a table " + place.name + " USING paimon; drop it, or choose another name");
        }
    }

    private static boolean isLike(TreeNode plan) {
        return plan instanceof CreateTableLikeCommand || plan.nodeName().equals("CreateTableLike");
    }

    /** The name that a statement creates; null for other statements. */
    private Seq createdName(TreeNode plan, Object[] parts) {
        if (plan instanceof CreateTableLikeCommand) {
            return ((CreateTableLikeCommand) plan).targetTable().nameParts();
        }
        if (plan instanceof RenameTable && parts[0] instanceof UnresolvedTableOrView) {
            Seq old = ((UnresolvedTableOrView) parts[0]).multipartIdentifier();
            Seq name = ((RenameTable) plan).newName();
            return state.catalog().isTempView(old) || names.place(old) != null ? null : name.size() > 1 ? name : (Seq) ((Seq) old.init()).appended(name.head());
        }
        boolean creates = plan instanceof CreateTable || plan instanceof CreateTableAsSelect || plan instanceof CreateView || isLike(plan);
        return creates && parts[0] instanceof UnresolvedIdentifier ? ((UnresolvedIdentifier) parts[0]).nameParts() : null;
    }

    /** Refuses options on a temporary view of a Morrow table, which Spark ignores. */
    void refuseView(UnresolvedRelation view) {
        Seq parts = view.multipartIdentifier();
        Map options = view.clearWritePrivileges().options().asCaseSensitiveMap();
        if (!options.isEmpty() && state.catalog().isTempView(parts)) {
            Python.ask(id, Questions.of("options of view", "view", parts.mkString("."), "options", new ArrayList(options.keySet())));
        }
    }

    /** Checks the options of a stream by name before Spark does, which asserts that they do not contain time travel. */
    void checkStream(UnresolvedRelation stream) {
        Map options = stream.clearWritePrivileges().options().asCaseSensitiveMap();
        Names.Place place = options.isEmpty() ? null : names.place(stream.multipartIdentifier());
        if (place != null) {
            Map question = place.catalog.named("check stream", place.name);
            question.put("options", new HashMap(options));
            place.catalog.ask(question);
        }
    }

    /** The Morrow table that a statement changes; null for all other tables. */
    Target target(LogicalPlan target) {
        Object leaf = target.collectLeaves().head();
        Table table = null;
        if (leaf instanceof DataSourceV2Relation) {
            table = ((DataSourceV2Relation) leaf).table();
        } else if (leaf instanceof UnresolvedRelation) {
            Seq parts = ((UnresolvedRelation) leaf).multipartIdentifier();
            Names.Place place = names.place(parts);
            table = place == null ? names.ofSpark(parts) : place.table();
        }
        return table instanceof Target ? (Target) table : null;
    }

    /** Refuses schema evolution if the table's columns would stay unchanged, and additional columns of the rows would be dropped. */
    void checkEvolution(Target table, boolean isSaid) {
        if (!evolves(table) && (isSaid || table instanceof LocatedTarget)) {
            String what = isSaid ? "MERGE WITH SCHEMA EVOLUTION is not supported; " : "MERGE under the setting spark.paimon.write.merge-schema is not supported; RESET it, and ";
            throw Refused.of("Unsupported", what + advice(table));
        }
    }

    static boolean evolves(Target table) {
        return Commands.EVOLVES && !(table instanceof LocatedTarget);
    }

    /** What else adds the columns: a table of Spark's own catalog has no ALTER TABLE. */
    static String advice(Target table) {
        String columns = "add the columns by ALTER TABLE";
        return table instanceof LocatedTarget ? columns + ", and name the table by a catalog of morrow.spark.catalog" : columns;
    }
}
