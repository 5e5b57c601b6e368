import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.wso2.extension.siddhi.execution.reorder.KSlackExtension;
import org.wso2.siddhi.core.SiddhiAppRuntime;
import org.wso2.siddhi.core.SiddhiManager;
import org.wso2.siddhi.core.event.Event;
import org.wso2.siddhi.core.stream.input.InputHandler;
import org.wso2.siddhi.core.stream.output.StreamCallback;
import org.wso2.siddhi.core.util.config.InMemoryConfigManager;

/**
 * A node of the thesis: one Siddhi manager, which listens on the loopback and runs apps until its input ends.
 *
 * Arguments: the port, and a file with an app. A node with two files publishes by the first app and consumes
 * by the second one. Its input has a line with the events per second (0: as fast as it can), a line for each
 * event, with its stream and its values, and an empty line, which starts it. It adds the microsecond of sending
 * as the last value. A further line ends the run. Then the node writes a line with these microseconds, and a
 * line for each result: the microsecond of arrival and the values.
 */
public final class Node {
    private static final StringBuilder RESULTS = new StringBuilder();
    private static final StringBuffer SENT = new StringBuffer();

    public static void main(String[] arguments) throws Exception {
        Logger.getRootLogger().setLevel(Level.OFF);
        SiddhiManager manager = new SiddhiManager();
        manager.setExtension("reorder:kslack", KSlackExtension.class);  // its jar does not register it
        manager.setConfigManager(new InMemoryConfigManager(
            Map.of("source.tcp.host", "127.0.0.1", "source.tcp.port", arguments[0]), Map.of()));
        List<SiddhiAppRuntime> apps = new ArrayList<>();
        for (String file : Arrays.asList(arguments).subList(1, arguments.length)) {
            apps.add(manager.createSiddhiAppRuntime(Files.readString(Path.of(file))));
        }
        apps.get(apps.size() - 1).start();
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        String rate = input.readLine();
        if (rate != null) publish(apps, Double.parseDouble(rate), input);
        Runtime.getRuntime().halt(0);
    }

    private static void publish(List<SiddhiAppRuntime> apps, double rate, BufferedReader input) throws Exception {
        listen(apps.get(apps.size() - 1));
        List<InputHandler> handlers = new ArrayList<>();
        List<Object[]> events = new ArrayList<>();
        for (String line = input.readLine(); !line.isEmpty(); line = input.readLine()) {
            String[] cells = line.split("\t");
            Object[] values = new Object[cells.length];
            for (int i = 1; i < cells.length; i++) values[i - 1] = value(cells[i]);
            handlers.add(apps.get(0).getInputHandler(cells[0]));
            events.add(values);
        }
        apps.get(0).start();  // only now, because it connects to nodes that connect to its consumer
        Thread sender = new Thread(() -> send(handlers, events, rate));
        sender.start();
        input.readLine();
        synchronized (RESULTS) {
            System.out.print(SENT + "\n" + RESULTS);
            System.out.flush();
        }
    }

    private static void send(List<InputHandler> handlers, List<Object[]> events, double rate) {
        long start = System.nanoTime(), last = 0;
        for (int i = 0; i < events.size(); i++) {
            long due = rate > 0 ? start + (long) (i * 1e9 / rate) : 0;
            while (rate > 0 && System.nanoTime() < due) LockSupport.parkNanos(due - System.nanoTime());
            Object[] values = events.get(i);
            last = Math.max(last + 1, micros());
            values[values.length - 1] = last;
            try {
                handlers.get(i).send(last / 1000, values);
            } catch (InterruptedException error) {
                return;
            }
            SENT.append(last).append('\t');
        }
    }

    private static void listen(SiddhiAppRuntime consumer) {
        for (String stream : consumer.getStreamDefinitionMap().keySet()) {
            consumer.addCallback(stream, new StreamCallback() {
                @Override public void receive(Event[] rows) {
                    long now = micros();
                    synchronized (RESULTS) {
                        for (Event row : rows) {
                            RESULTS.append(now);
                            for (Object cell : row.getData()) RESULTS.append('\t').append(cell);
                            RESULTS.append('\n');
                        }
                    }
                }
            });
        }
    }

    private static long micros() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }

    private static Object value(String cell) {
        if (cell.endsWith("f")) return Float.valueOf(cell);
        return Character.isDigit(cell.charAt(0)) ? (Object) Long.valueOf(cell) : cell;
    }
}
