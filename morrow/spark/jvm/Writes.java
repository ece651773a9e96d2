package morrow.spark.jvm;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.DropPartitions;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.RowLevelWrite;
import org.apache.spark.sql.catalyst.plans.logical.SetTableProperties;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.mutable.ArrayBuffer;

/** The rule that prepares writes by name before Spark compares their columns, if options or settings require it. */
public class Writes extends Rule {
    private static final String RULES = "hintResolutionRules";
    private static final String RESOLUTION = "extendedResolutionRules";
    static final String WHERE = "replacewhere";
    private final SessionState state;
    private final Names names;
    private final Checks checks;
    private final MadeTables tables;
    private final PartitionPrefix partitions;
    private final Functions functions;

    private Writes(SessionState state, String id) {
        this.state = state;
        this.names = new Names(state);
        this.checks = new Checks(state, names, id);
        this.tables = new MadeTables(state, names);
        this.partitions = new PartitionPrefix(state, names);
        this.functions = new Functions(state);
    }

    /** Puts the rule before the other analysis rules of a session, and Casts among its rules of resolution, unless they are already there. */
    static void install(SessionState state, String id) throws Exception {
        install(state.analyzer(), RULES, new Writes(state, id));
        install(state.analyzer(), RESOLUTION, new Casts(state));
    }

    private static void install(Analyzer analyzer, String rules, Rule rule) throws Exception {
        Field field = analyzer.getClass().getDeclaredField(rules);
        field.setAccessible(true);
        ArrayBuffer all = new ArrayBuffer(4);
        all.$plus$eq(rule);
        scala.collection.Iterator there = ((scala.collection.immutable.Seq) field.get(analyzer)).iterator();
        while (there.hasNext()) {
            Object other = there.next();
            if (other.getClass() == rule.getClass()) {
                return;
            }
            all.$plus$eq(other);
        }
        field.set(analyzer, all.toSeq());
        Object head = rules.equals(RULES) ? analyzer.hintResolutionRules().head() : analyzer.extendedResolutionRules().head();
        if (head != rule) {
            throw new IllegalStateException("its analyzer keeps its rules");
        }
    }

    public TreeNode apply(TreeNode given) {
        TreeNode plan = functions.called((LogicalPlan) given);
        if (plan instanceof UnresolvedRelation && !((UnresolvedRelation) plan).options().isEmpty()) {
            checks.refuseView((UnresolvedRelation) plan);
        }
        Object read = plan.children().size() == 1 ? plan.children().head() : plan; // in a stream, a node with the name is above
        if (read instanceof UnresolvedRelation && ((UnresolvedRelation) read).isStreaming()) {
            checks.checkStream((UnresolvedRelation) read);
        }
        if (plan instanceof MergeIntoTable) {
            return merged((MergeIntoTable) plan);
        }
        if (plan instanceof UpdateTable) {
            return names.isOurs(((UpdateTable) plan).table()) ? Casts.marked(plan, Alignment.NAME, "") : plan;
        }
        checks.refuseTaken(plan);
        if (plan instanceof SetTableProperties && ((SetTableProperties) plan).table() instanceof UnresolvedTable) {
            checks.checkProperties((SetTableProperties) plan);
        }
        if (plan instanceof DropPartitions) {
            return partitions.dropped(plan);
        }
        if (plan instanceof InsertIntoStatement || (plan instanceof V2WriteCommand && !(plan instanceof RowLevelWrite))) {
            return written(plan);
        }
        return plan instanceof CreateTableAsSelect || plan instanceof ReplaceTableAsSelect ? tables.made(plan) : plan;
    }

    /** A MERGE whose values are cast by Casts; under write.merge-schema, the table gets new columns first. */
    private TreeNode merged(MergeIntoTable plan) {
        boolean isSaid = plan.withSchemaEvolution();
        Map settings = Questions.settings();
        Target table = isSaid || !settings.isEmpty() ? checks.target(plan.targetTable()) : null;
        if (table != null && isSaid) {
            checks.checkEvolution(table, true);
            return plan;
        }
        if (table != null && !Casts.isMarked(plan) && Boolean.TRUE.equals(asked(table, new HashMap(), settings).get("evolves"))) {
            checks.checkEvolution(table, false);
            return Evolution.merged(state, plan, table, table.writing("evolve"));
        }
        return isSaid || !names.isOurs(plan.targetTable()) ? plan : Casts.marked(plan, Alignment.NAME, "");
    }

    // Rows for an existing table

    private TreeNode written(TreeNode plan) {
        Object[] parts = Plans.parts(plan);
        int at = plan instanceof InsertIntoStatement ? -1 : Plans.options(parts);
        Map given = at < 0 ? new HashMap() : Plans.javaMap(parts[at]);
        Map beside = new HashMap(); // Spark combines these with the options of the write
        if (parts[0] instanceof UnresolvedRelation) {
            beside.putAll(((UnresolvedRelation) parts[0]).clearWritePrivileges().options().asCaseSensitiveMap());
        } else if (parts[0] instanceof DataSourceV2Relation) {
            beside.putAll(((DataSourceV2Relation) parts[0]).options().asCaseSensitiveMap());
        }
        given.putAll(beside);
        Map settings = Questions.settings();
        boolean isAsked = !given.isEmpty() || !settings.isEmpty();
        // Spark 4.0 does not fill in the defaults of columns that a statement leaves out.
        boolean mayLack = !Commands.EVOLVES && plan instanceof InsertIntoStatement && isByName(plan);
        DataSourceV2Relation relation = names.relation(parts[0]);
        Target table = relation == null ? null : (Target) relation.table();
        if (table == null || table.takes() != null || table.isUncast()) {
            return plan;
        }
        Map told = isAsked ? asked(table, given, settings) : new HashMap();
        boolean isReplacing = told.get(WHERE) != null && plan instanceof OverwriteByExpression && parts[1].equals(Literal.TrueLiteral());
        if (isReplacing) {
            parts[1] = Plans.condition(state, told.get(WHERE));
            parts[at] = Plans.scalaMap(Plans.without(Plans.javaMap(parts[at]), WHERE));
        }
        boolean isEvolving = Boolean.TRUE.equals(told.get("evolves")) || (mayLack && table.hasDefaults());
        boolean isCast = !Boolean.TRUE.equals(told.get("retypes"));
        Target other = table.taking(!isEvolving ? null : isByName(plan) ? "name" : "position", isCast);
        parts[0] = relation(other, relation, isReplacing ? Plans.without(beside, WHERE) : beside);
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

    /** The same relation of another state of the table. */
    static Object relation(Target table, DataSourceV2Relation before) {
        Object[] parts = Plans.parts(before);
        parts[0] = table;
        return ((TreeNode) before).makeCopy(parts);
    }

    /** The relation of a table, with options. */
    private static Object relation(Target table, DataSourceV2Relation before, Map options) {
        TreeNode made = DataSourceV2Relation.create(table, before.catalog(), before.identifier());
        Object[] parts = Plans.parts(made);
        for (int i = 0; i < parts.length; i++) {
            if (parts[i] instanceof CaseInsensitiveStringMap) {
                parts[i] = new CaseInsensitiveStringMap(options);
            }
        }
        return made.makeCopy(parts);
    }
}
