import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * Answers cases of Flink's SQL in a cluster within this process. `peers.py` describes the lines.
 *
 * <p>A query is a MATCH_RECOGNIZE without PARTITION BY. The cases that wait are one job: those of one query are
 * partitions of a table, and the queries are united. The values of an event are k, x, y and its number.
 */
public final class FlinkSql {
    record Case(String text, List<String[]> events, List<String> rows) {}

    private static final String[] COLUMNS = {"g", "u", "t", "k", "x", "y", "i"};
    private static final TypeInformation<?>[] TYPES = {
        Types.INT, Types.INT, Types.INSTANT, Types.STRING, Types.LONG, Types.DOUBLE, Types.INT
    };

    public static void main(String[] arguments) throws Exception {
        PrintStream output = System.out;
        System.setOut(System.err);  // Flink prints code that it cannot compile
        LinkedBlockingQueue<Case> waiting = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(waiting));
        reader.setDaemon(true);
        reader.start();
        while (true) {
            List<Case> cases = new ArrayList<>(List.of(waiting.take()));
            for (Case next = cases.get(0); next != null; next = waiting.poll(100, TimeUnit.MILLISECONDS)) {
                if (next != cases.get(0)) cases.add(next);
            }
            answer(cases);
            StringBuilder answers = new StringBuilder();
            for (Case one : cases) {
                boolean failed = one.rows.size() == 1 && one.rows.get(0).startsWith("!");
                one.rows.forEach(row -> answers.append(row).append("\n"));
                answers.append(failed ? "" : ".\n");
            }
            output.print(answers);
            output.flush();
        }
    }

    private static void read(LinkedBlockingQueue<Case> waiting) {
        try {
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
            for (String text = input.readLine(); text != null; text = input.readLine()) {
                List<String[]> events = new ArrayList<>();
                for (String line = input.readLine(); !line.isEmpty(); line = input.readLine()) {
                    events.add(line.split("\t", -1));
                }
                waiting.add(new Case(text, events, new ArrayList<>()));
            }
        } catch (Exception error) {
            error.printStackTrace();
        }
        System.exit(0);
    }

    /** Run the cases as one job; if it fails, run half of them at a time. */
    private static void answer(List<Case> cases) {
        cases.forEach(one -> one.rows.clear());
        try {
            run(cases);
        } catch (Exception error) {
            if (cases.size() > 1) {
                answer(cases.subList(0, cases.size() / 2));
                answer(cases.subList(cases.size() / 2, cases.size()));
                return;
            }
            Throwable cause = error;
            while (cause.getCause() != null) cause = cause.getCause();
            cases.get(0).rows.clear();
            cases.get(0).rows.add("!" + cause.toString().replaceAll("\\s+", " "));
        }
    }

    private static void run(List<Case> cases) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(1);
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        Map<String, Integer> numberOfText = new LinkedHashMap<>();
        List<Row> rows = new ArrayList<>();
        for (int u = 0; u < cases.size(); u++) {
            int g = numberOfText.computeIfAbsent(cases.get(u).text, text -> numberOfText.size());
            for (String[] cells : cases.get(u).events) {
                rows.add(Row.of(g, u, Instant.ofEpochMilli(Long.parseLong(cells[1])), text(cells[2]),
                        text(cells[3]) == null ? null : Long.valueOf(cells[3]),
                        text(cells[4]) == null ? null : Double.valueOf(cells[4]), Integer.valueOf(cells[5])));
            }
        }
        rows.sort(Comparator.comparing(row -> (Instant) row.getField(2)));  // with the watermark a second behind, no row is late
        Schema schema = Schema.newBuilder()
                .column("g", "INT").column("u", "INT").column("t", "TIMESTAMP_LTZ(3)").column("k", "STRING")
                .column("x", "BIGINT").column("y", "DOUBLE").column("i", "INT")
                .watermark("t", "t - INTERVAL '1' SECOND").build();
        tables.createTemporaryView(
                "S", environment.fromData(rows, new RowTypeInfo(TYPES, COLUMNS)), schema);
        List<String> parts = new ArrayList<>();
        numberOfText.forEach((text, g) -> {
            tables.createTemporaryView("S" + g, tables.sqlQuery("SELECT * FROM S WHERE g = " + g));
            String clause = text.replaceFirst("ORDER BY", "PARTITION BY u ORDER BY");
            Table matches = tables.sqlQuery("SELECT * FROM S" + g + " " + clause);
            tables.createTemporaryView("M" + g, matches);
            List<String> cells = new ArrayList<>();
            for (String name : matches.getResolvedSchema().getColumnNames()) {
                if (!name.equals("u")) cells.add("COALESCE(CAST(`" + name + "` AS STRING), '\\N')");
            }
            parts.add("SELECT u, CONCAT_WS('\t', " + String.join(", ", cells) + ") AS c FROM M" + g);
        });
        try (CloseableIterator<Row> found =
                tables.executeSql(String.join(" UNION ALL ", parts)).collect()) {
            while (found.hasNext()) {
                Row row = found.next();
                cases.get((Integer) row.getField(0)).rows.add((String) row.getField(1));
            }
        }
    }

    private static String text(String cell) {
        return cell.equals("\\N") ? null : cell;
    }
}
