import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import io.siddhi.query.api.definition.Attribute;
import io.siddhi.query.api.definition.StreamDefinition;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.log4j.AppenderSkeleton;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.apache.log4j.spi.LoggingEvent;

/** Answers cases of siddhi-core, with a clock that the events advance. `engines.py` describes the lines. */
public final class Siddhi {
    private static final long STEP = 100;  // milliseconds; all times of a case are multiples
    private static String failure;

    public static void main(String[] arguments) throws Exception {
        Logger.getRootLogger().setLevel(Level.ERROR);
        Logger.getRootLogger().addAppender(new AppenderSkeleton() {
            protected void append(LoggingEvent event) { failure = String.valueOf(event.getMessage()); }
            public void close() {}
            public boolean requiresLayout() { return false; }
        });
        SiddhiManager manager = new SiddhiManager();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String text = input.readLine(); text != null; text = input.readLine()) {
            List<String> events = new ArrayList<>();
            for (String line = input.readLine(); !line.isEmpty(); line = input.readLine()) events.add(line);
            failure = null;
            StringBuilder answer = new StringBuilder();
            try {
                run(manager, text, events, answer);
            } catch (Exception error) {
                failure = error.toString();
            }
            if (failure == null) System.out.print(answer.append(".\n"));
            else System.out.println("!" + failure.replaceAll("\\s+", " "));
            System.out.flush();
        }
        System.exit(0);
    }

    private static void run(SiddhiManager manager, String text, List<String> events, StringBuilder answer)
            throws Exception {
        SiddhiAppRuntime app = manager.createSiddhiAppRuntime("@app:playback define stream Clock (t long);" + text);
        try {
            app.addCallback("Out", new StreamCallback() {
                @Override public void receive(Event[] rows) {
                    for (Event row : rows) {
                        answer.append(row.getTimestamp());
                        for (Object value : row.getData()) answer.append('\t').append(value == null ? "\\N" : value);
                        answer.append('\n');
                    }
                }
            });
            app.start();
            InputHandler clock = app.getInputHandler("Clock");
            long now = 0;
            clock.send(0L, new Object[] {0L});
            for (String line : events) {
                String[] cells = line.split("\t", -1);
                // Timers fire at their own time only if the clock makes small steps.
                while (now < Long.parseLong(cells[1])) clock.send(now += STEP, new Object[] {now});
                StreamDefinition stream = app.getStreamDefinitionMap().get(cells[0]);
                List<Attribute> attributes = stream.getAttributeList();
                Object[] values = new Object[attributes.size()];
                for (int i = 0; i < values.length; i++) values[i] = value(attributes.get(i).getType(), cells[i + 2]);
                app.getInputHandler(cells[0]).send(Long.parseLong(cells[1]), values);
            }
        } finally {
            app.shutdown();
        }
    }

    private static Object value(Attribute.Type type, String text) {
        if (text.equals("\\N")) return null;
        switch (type) {
            case INT: return Integer.valueOf(text);
            case LONG: return Long.valueOf(text);
            case FLOAT: return Float.valueOf(text);
            case DOUBLE: return Double.valueOf(text);
            case BOOL: return Boolean.valueOf(text);
            default: return text;
        }
    }
}
