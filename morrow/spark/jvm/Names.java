package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SessionState;
import scala.collection.immutable.Seq;

/** Resolves a name in a statement before Spark does. */
final class Names {
    private final SessionState state;

    Names(SessionState state) {
        this.state = state;
    }

    /** The relation of a Morrow table that accepts writes; null for all others. */
    DataSourceV2Relation relation(Object table) {
        if (table instanceof DataSourceV2Relation) {
            Table known = ((DataSourceV2Relation) table).table();
            return known instanceof Target && !(known instanceof LocatedTarget) ? (DataSourceV2Relation) table : null;
        }
        Place place = table instanceof UnresolvedRelation ? place(((UnresolvedRelation) table).multipartIdentifier()) : null;
        Table found = place == null ? null : place.table();
        return found instanceof Target ? DataSourceV2Relation.create(found, scala.Option.apply(place.plugin), scala.Option.apply(place.name)) : null;
    }

    /** Whether a statement changes a table of a Morrow catalog. */
    boolean isOurs(LogicalPlan target) {
        Object leaf = target.collectLeaves().head();
        if (leaf instanceof DataSourceV2Relation) {
            return ((DataSourceV2Relation) leaf).table() instanceof Target;
        }
        return leaf instanceof UnresolvedRelation && place(((UnresolvedRelation) leaf).multipartIdentifier()) != null;
    }

    /** The place of a name; null if it is not in a Morrow catalog. */
    Place place(Seq parts) {
        List names = new ArrayList();
        scala.collection.Iterator all = parts.iterator();
        while (all.hasNext()) {
            names.add(all.next());
        }
        CatalogManager manager = state.catalogManager();
        boolean isWhole = names.size() > 1 && manager.isCatalogRegistered((String) names.get(0));
        CatalogPlugin catalog = isWhole ? manager.catalog((String) names.get(0)) : manager.currentCatalog();
        boolean isGeneric = catalog instanceof GenericCatalog;
        if (!(isGeneric || catalog instanceof MorrowCatalog) || (names.size() == 1 && state.catalog().getTempView((String) names.get(0)).isDefined())) {
            return null;
        }
        List namespace = new ArrayList(names.subList(isWhole ? 1 : 0, names.size() - 1));
        String[] database = names.size() == 1 ? manager.currentNamespace() : (String[]) namespace.toArray(new String[0]);
        Identifier name = Identifier.of(database, (String) names.get(names.size() - 1));
        if (!isGeneric) {
            return new Place((MorrowCatalog) catalog, catalog, name);
        }
        boolean isOwned = database.length == 1 && ((GenericCatalog) catalog).owns(database[0], name.name());
        return isOwned ? new Place(((GenericCatalog) catalog).own(), catalog, name) : null;
    }

    static final class Place {
        final MorrowCatalog catalog;
        final CatalogPlugin plugin;
        final Identifier name;

        /** catalog: whose table it is; plugin: the catalog by which Spark knows it. */
        Place(MorrowCatalog catalog, CatalogPlugin plugin, Identifier name) {
            this.catalog = catalog;
            this.plugin = plugin;
            this.name = name;
        }

        /** The table; null if it does not exist, which Spark itself reports. */
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

    /** The table in Spark's own catalog; null if it does not exist or is a view. */
    Table ofSpark(Seq parts) {
        CatalogManager manager = state.catalogManager();
        boolean isOwn = parts.size() < 3 ? manager.currentCatalog() == manager.v2SessionCatalog() : parts.head().equals("spark_catalog");
        if (!isOwn || state.catalog().isTempView(parts)) {
            return null;
        }
        String[] namespace = parts.size() == 1 ? manager.currentNamespace() : new String[] {(String) parts.apply(parts.size() - 2)};
        try {
            return ((TableCatalog) manager.v2SessionCatalog()).loadTable(Identifier.of(namespace, (String) parts.last()));
        } catch (Exception error) {
            return null; // Spark itself reports this
        }
    }
}
