import org.apache.paimon.data.*;
import org.apache.paimon.fileindex.*;
import org.apache.paimon.fileindex.bitmap.BitmapIndexResult;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.*;
import org.apache.paimon.types.*;

import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.util.*;

/** Writes java_indexes.json: data file indexes made by Java Paimon, and what it answers about every value in them. */
public class JavaIndexes {
    static final List<String> LINES = new ArrayList<>();

    public static void main(String[] a) throws Exception {
        all("BOOLEAN", DataTypes.BOOLEAN(), new String[] {"bitmap", "range-bitmap"}, true, false, null, true);
        String[] numbers = {"bloom-filter", "bitmap", "bsi", "range-bitmap"};
        all("TINYINT", DataTypes.TINYINT(), numbers, (byte) 3, (byte) -128, null, (byte) 127, (byte) 0, (byte) 3);
        all("SMALLINT", DataTypes.SMALLINT(), numbers, (short) 300, (short) -32768, null, (short) 32767, (short) 300);
        all("INT", DataTypes.INT(), numbers, 7, -7, null, 2147483647, -2147483648, 0, 7, 1000000, null);
        all("BIGINT", DataTypes.BIGINT(), numbers, 7L, -7L, null, Long.MAX_VALUE, -Long.MAX_VALUE, 0L, 7L, 1L << 40);
        all("DATE", DataTypes.DATE(), numbers, 0, -1, null, 20000, -141427, 20000);
        all("TIME(3)", DataTypes.TIME(3), numbers, 0, 1, null, 86399999, 1);
        all("TIMESTAMP(3)", DataTypes.TIMESTAMP(3), numbers, ts(0, 0), ts(-1, 0), null, ts(1700000000123L, 0), ts(-1, 0));
        all("TIMESTAMP(6)", DataTypes.TIMESTAMP(6), numbers, ts(0, 1000), ts(-1, 999000), null, ts(1700000000123L, 456000), ts(0, 1000));
        all("TIMESTAMP(6) WITH LOCAL TIME ZONE", DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(6), numbers, ts(0, 1000), null, ts(-1, 0));
        all("FLOAT", DataTypes.FLOAT(), new String[] {"bloom-filter", "bitmap", "range-bitmap"}, 1.5f, -1.5f, null, 0f, -0f, Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY, 1.5f, Float.MIN_VALUE);
        all("DOUBLE", DataTypes.DOUBLE(), new String[] {"bloom-filter", "bitmap", "range-bitmap"}, 1.5, -1.5, null, 0d, -0d, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, 0.1, 0d);
        all("DECIMAL(10, 2)", DataTypes.DECIMAL(10, 2), new String[] {"bsi", "range-bitmap"}, dec("1.50"), dec("-1.50"), null, dec("99999999.99"), dec("-99999999.99"), dec("0.00"), dec("1.50"));
        Object[] texts = new Object[40];
        String[] words = {"", "a", "ab", "b", "zebra", "日本語", "é", "\uD83D\uDE00", "the quick brown fox jumps over the lazy dog", "thirty-two bytes of text, exactly"};
        for (int i = 0; i < texts.length; i++) texts[i] = i % 11 == 5 ? null : BinaryString.fromString(i < 20 ? words[i % words.length] : words[i % words.length] + i);
        all("STRING", DataTypes.STRING(), new String[] {"bloom-filter", "bitmap", "range-bitmap"}, texts);
        all("BYTES", DataTypes.BYTES(), new String[] {"bloom-filter"}, new byte[] {}, new byte[] {0, -1}, null, new byte[33]);
        all("INT", DataTypes.INT(), new String[] {"bitmap", "bsi", "range-bitmap"}, null, null, null);
        Object[] many = new Object[60];
        for (int i = 0; i < many.length; i++) many[i] = i % 7 == 6 ? null : (Object) ((i * 37) % 101 - 50);
        all("INT", DataTypes.INT(), new String[] {"bitmap", "bsi", "range-bitmap"}, many);
        System.out.println("[\n" + String.join(",\n", LINES) + "\n]");
    }

    static Timestamp ts(long millis, int nanos) { return Timestamp.fromEpochMillis(millis, nanos); }
    static Decimal dec(String s) { return Decimal.fromBigDecimal(new BigDecimal(s), 10, 2); }

    static void all(String name, DataType type, String[] kinds, Object... values) throws Exception {
        for (String kind : kinds) {
            if (kind.equals("bitmap")) { index(name, type, kind, "1", values); index(name, type, kind, "2", values); }
            else index(name, type, kind, null, values);
        }
    }

    static void index(String name, DataType type, String kind, String version, Object[] values) throws Exception {
        Options o = new Options();
        o.setString("items", "20"); o.setString("fpp", "0.01");
        o.setString("chunk-size", "40b"); o.setString("index-block-size", "100b");
        if (version != null) o.setString("version", version);
        FileIndexWriter w = FileIndexer.create(kind, type, o).createWriter();
        for (Object v : values) w.writeRecord(v);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        Map<String, byte[]> body = new LinkedHashMap<>();
        body.put(kind, w.serializedBytes());
        Map<String, Map<String, byte[]>> columns = new LinkedHashMap<>();
        columns.put("c", body);
        try (FileIndexFormat.Writer f = FileIndexFormat.createWriter(bytes)) { f.writeColumnIndexes(columns); }
        RowType row = RowType.of(new DataType[] {type}, new String[] {"c"});
        PredicateBuilder pb = new PredicateBuilder(row);
        List<String> probes = new ArrayList<>();
        Map<String, Object> distinct = new LinkedHashMap<>();
        for (Object v : values) if (v != null) distinct.put(json(type, v), v);
        List<Object> lits = new ArrayList<>(distinct.values());
        if (lits.size() > 10) lits = lits.subList(0, 10);
        for (Object v : lits) {
            probes.add(probe(bytes, row, type, "=", v, pb.equal(0, v)));
            if (kind.equals("bloom-filter")) continue;
            probes.add(probe(bytes, row, type, "!=", v, pb.notEqual(0, v)));
            probes.add(probe(bytes, row, type, "<", v, pb.lessThan(0, v)));
            probes.add(probe(bytes, row, type, "<=", v, pb.lessOrEqual(0, v)));
            probes.add(probe(bytes, row, type, ">", v, pb.greaterThan(0, v)));
            probes.add(probe(bytes, row, type, ">=", v, pb.greaterOrEqual(0, v)));
        }
        probes.add(probe(bytes, row, type, "IS NULL", null, pb.isNull(0)));
        probes.add(probe(bytes, row, type, "IS NOT NULL", null, pb.isNotNull(0)));
        List<String> vs = new ArrayList<>();
        for (Object v : values) vs.add(json(type, v));
        LINES.add("{\"type\": \"" + name + "\", \"index\": \"" + kind + (version == null ? "" : " " + version) + "\", \"values\": " + vs + ",\n \"bytes\": \"" + hex(bytes.toByteArray()) + "\",\n \"probes\": " + probes + "}");
    }

    static String probe(ByteArrayOutputStream b, RowType row, DataType type, String op, Object v, Predicate p) throws Exception {
        try (FileIndexPredicate fp = new FileIndexPredicate(b.toByteArray(), row)) {
            FileIndexResult r = fp.evaluate(p);
            String rows = r.remain() ? "\"all\"" : "\"none\"";
            if (r instanceof BitmapIndexResult) { rows = "\"0x" + bits(((BitmapIndexResult) r).get().iterator()) + "\""; }
            return "[\"" + op + "\", " + json(type, v) + ", " + rows + "]";
        }
    }

    static String bits(Iterator<Integer> rows) { java.math.BigInteger b = java.math.BigInteger.ZERO; while (rows.hasNext()) b = b.setBit(rows.next()); return b.toString(16); }

    static String json(DataType type, Object v) {
        if (v == null) return "null";
        if (v instanceof Timestamp) return "" + ((Timestamp) v).toMicros();
        if (v instanceof Float || v instanceof Double || v instanceof Decimal) return "\"" + v + "\"";
        if (v instanceof BinaryString) { StringBuilder s = new StringBuilder("\""); for (char c : v.toString().toCharArray()) s.append(c < 128 ? "" + c : String.format("\\u%04x", (int) c)); return s + "\""; }
        if (v instanceof byte[]) return "\"" + hex((byte[]) v) + "\"";
        return v.toString();
    }

    static String hex(byte[] b) { StringBuilder s = new StringBuilder(); for (byte x : b) s.append(String.format("%02x", x)); return s.toString(); }
}
