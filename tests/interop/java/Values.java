import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.LocalZonedTimestampType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;
import org.apache.paimon.types.TimestampType;

import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Canonical values (see tests/support/canonical.py) from and to Paimon's. */
class Values {
    static final int MICROS = 6;

    static DataType type(String text) {
        return DataTypeJsonParser.parseAtomicTypeSQLString(text);
    }

    // ---- from Paimon ----

    static List<Object> row(InternalRow row, RowType type) {
        List<Object> values = new ArrayList<>();
        for (int i = 0; i < type.getFieldCount(); i++) {
            values.add(shown(InternalRow.createFieldGetter(type.getTypeAt(i), i).getFieldOrNull(row), type.getTypeAt(i)));
        }
        return values;
    }

    static Object shown(Object value, DataType type) {
        if (value == null) return null;
        switch (type.getTypeRoot()) {
            case CHAR: case VARCHAR: return value.toString();
            case FLOAT: case DOUBLE: return Double.isFinite(((Number) value).doubleValue()) ? number(value) : value.toString();
            case BINARY: case VARBINARY: return hex((byte[]) value);
            case DECIMAL: return ((Decimal) value).toBigDecimal().toPlainString();
            case DATE: return LocalDate.ofEpochDay((Integer) value).toString();
            case TIME_WITHOUT_TIME_ZONE: {
                int millis = (Integer) value;
                return String.format("%02d:%02d:%02d.%03d", millis / 3600000, millis / 60000 % 60, millis / 1000 % 60, millis % 1000);
            }
            case TIMESTAMP_WITHOUT_TIME_ZONE: return time((Timestamp) value, ((TimestampType) type).getPrecision());
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE: return time((Timestamp) value, ((LocalZonedTimestampType) type).getPrecision()) + "Z";
            case ARRAY: return array((InternalArray) value, ((ArrayType) type).getElementType());
            case MAP: return map((InternalMap) value, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET: return map((InternalMap) value, ((MultisetType) type).getElementType(), DataTypes.INT());
            case ROW: return row((InternalRow) value, (RowType) type);
            default: return value;
        }
    }

    /** FLOAT by its own shortest text, which a double would not have. */
    static Object number(Object value) {
        return value instanceof Float ? new BigDecimal(value.toString()).signum() == 0 ? value : Double.valueOf(value.toString()) : value;
    }

    static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte b : bytes) text.append(String.format("%02x", b));
        return text.toString();
    }

    static String time(Timestamp value, int precision) {
        LocalDateTime t = value.toLocalDateTime();
        String seconds = String.format("%04d-%02d-%02dT%02d:%02d:%02d", t.getYear(), t.getMonthValue(), t.getDayOfMonth(), t.getHour(), t.getMinute(), t.getSecond());
        return seconds + (precision <= MICROS ? String.format(".%06d", t.getNano() / 1000) : String.format(".%09d", t.getNano()));
    }

    static List<Object> array(InternalArray array, DataType element) {
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(element);
        List<Object> values = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) values.add(shown(getter.getElementOrNull(array, i), element));
        return values;
    }

    static Object map(InternalMap map, DataType key, DataType value) {
        List<Object> keys = array(map.keyArray(), key), values = array(map.valueArray(), value);
        List<List<Object>> entries = new ArrayList<>();
        for (int i = 0; i < keys.size(); i++) {
            List<Object> entry = new ArrayList<>();
            entry.add(keys.get(i));
            entry.add(values.get(i));
            entries.add(entry);
        }
        entries.sort(Comparator.comparing(Object::toString));
        return entries;
    }

    // ---- to Paimon ----

    /** Rows with their kind in front. */
    static List<InternalRow> rows(JsonNode rows, RowType type) {
        List<InternalRow> found = new ArrayList<>();
        for (JsonNode node : rows) {
            GenericRow row = new GenericRow(kind(node.get(0).asText()), type.getFieldCount());
            for (int i = 0; i < type.getFieldCount(); i++) row.setField(i, parsed(node.get(i + 1), type.getTypeAt(i)));
            found.add(row);
        }
        return found;
    }

    static RowKind kind(String text) {
        for (RowKind kind : RowKind.values()) if (kind.shortString().equals(text)) return kind;
        throw new IllegalArgumentException(text);
    }

    static Object parsed(JsonNode node, DataType type) {
        if (node.isNull()) return null;
        String text = node.asText();
        switch (type.getTypeRoot()) {
            case BOOLEAN: return node.asBoolean();
            case TINYINT: return (byte) node.asInt();
            case SMALLINT: return (short) node.asInt();
            case INTEGER: return node.asInt();
            case BIGINT: return node.asLong();
            case FLOAT: return Float.valueOf(text);
            case DOUBLE: return Double.valueOf(text);
            case CHAR: case VARCHAR: return BinaryString.fromString(text);
            case BINARY: case VARBINARY: return bytes(text);
            case DECIMAL: {
                DecimalType decimal = (DecimalType) type;
                return Decimal.fromBigDecimal(new BigDecimal(text), decimal.getPrecision(), decimal.getScale());
            }
            case DATE: return (int) LocalDate.parse(text).toEpochDay();
            case TIME_WITHOUT_TIME_ZONE: return (int) (LocalTime.parse(text).toNanoOfDay() / 1000000);
            case TIMESTAMP_WITHOUT_TIME_ZONE: return Timestamp.fromLocalDateTime(LocalDateTime.parse(text));
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE: return Timestamp.fromLocalDateTime(LocalDateTime.parse(text.substring(0, text.length() - 1)));
            case ARRAY: {
                List<Object> values = new ArrayList<>();
                for (JsonNode element : node) values.add(parsed(element, ((ArrayType) type).getElementType()));
                return new GenericArray(values.toArray());
            }
            case MAP: return map(node, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET: return map(node, ((MultisetType) type).getElementType(), DataTypes.INT());
            case ROW: {
                RowType row = (RowType) type;
                GenericRow values = new GenericRow(row.getFieldCount());
                for (int i = 0; i < row.getFieldCount(); i++) values.setField(i, parsed(node.get(i), row.getTypeAt(i)));
                return values;
            }
            default: throw new IllegalArgumentException(type.toString());
        }
    }

    static GenericMap map(JsonNode node, DataType key, DataType value) {
        Map<Object, Object> entries = new LinkedHashMap<>();
        for (JsonNode entry : node) entries.put(parsed(entry.get(0), key), parsed(entry.get(1), value));
        return new GenericMap(entries);
    }

    static byte[] bytes(String hex) {
        byte[] found = new byte[hex.length() / 2];
        for (int i = 0; i < found.length; i++) found[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        return found;
    }
}
