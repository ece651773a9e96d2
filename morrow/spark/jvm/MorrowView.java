package morrow.spark.jvm;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat$;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTable$;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType$;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** A view as Spark's own catalog describes one: Spark parses its text, and resolves names in the view's database. */
public final class MorrowView extends V1Table {
    private static final int PROPERTIES = 11; // of the parameters of CatalogTable, which are more in later versions
    private static final int TEXT = 13;
    private static final String PLACE = "view.catalogAndNamespace.";
    private static final String COLUMN = "view.query.out.";
    final String catalog;
    final String fullName;

    private MorrowView(CatalogTable described, String catalog, String fullName) {
        super(described);
        this.catalog = catalog;
        this.fullName = fullName;
    }

    static MorrowView of(String catalogName, String catalog, Identifier view, Map described) {
        StructType schema = (StructType) DataType.fromJson((String) described.get("schema"));
        Map properties = new HashMap();
        properties.put(PLACE + "numParts", "2");
        properties.put(PLACE + "part.0", catalogName);
        properties.put(PLACE + "part.1", view.namespace()[0]);
        properties.put("view.schemaMode", "COMPENSATION");
        List columns = (List) described.get("columns");
        properties.put(COLUMN + "numCols", String.valueOf(columns.size()));
        for (int i = 0; i < columns.size(); i++) {
            properties.put(COLUMN + "col." + i, columns.get(i));
        }
        Object[] first = {
            new TableIdentifier(view.name(), Option.apply(view.namespace()[0]), Option.apply(catalogName)),
            CatalogTableType$.MODULE$.VIEW(),
            CatalogStorageFormat$.MODULE$.empty(),
            CharVarcharUtils.replaceCharVarcharWithStringInSchema(schema),
        };
        CatalogTable table = table(first, Plans.scalaMap(properties), Option.apply(described.get("view")));
        return new MorrowView(table, catalog, (String) described.get("name"));
    }

    /** Calls CatalogTable.apply with defaults for all parameters that are not given: their number differs between versions. */
    private static CatalogTable table(Object[] first, Object properties, Object text) {
        Object companion = CatalogTable$.MODULE$;
        try {
            Method[] methods = companion.getClass().getMethods();
            for (int i = 0; i < methods.length; i++) {
                if (methods[i].getName().equals("apply") && methods[i].getParameterTypes().length > TEXT) {
                    Object[] given = new Object[methods[i].getParameterTypes().length];
                    System.arraycopy(first, 0, given, 0, first.length);
                    for (int j = first.length; j < given.length; j++) {
                        given[j] = companion.getClass().getMethod("apply$default$" + (j + 1), new Class[0]).invoke(companion, new Object[0]);
                    }
                    given[PROPERTIES] = properties;
                    given[TEXT] = text;
                    return (CatalogTable) methods[i].invoke(companion, given);
                }
            }
        } catch (InvocationTargetException error) {
            throw new IllegalStateException(error.getCause());
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
        throw new IllegalStateException("CatalogTable has no constructor that is known");
    }

    /** A question about the view. */
    Map question(String verb) {
        return Questions.of(verb, "view", fullName);
    }
}
