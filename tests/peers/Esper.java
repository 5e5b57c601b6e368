import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPDeployment;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;

/** Answers cases of Esper over events of one type, with a clock that they advance. `peers.py` describes the lines. */
public final class Esper {
    private static final String[] NAMES = {"t", "kind", "k", "x"};
    private static final Object[] TYPES = {Long.class, String.class, String.class, Integer.class};

    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.getCommon().addEventType("Event", NAMES, TYPES);
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        EPRuntime runtime = EPRuntimeProvider.getRuntime("peer", configuration);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        String last = "";
        EPCompiled compiled = null;
        long began = 0;
        for (String text = input.readLine(); text != null; text = input.readLine()) {
            List<String> events = new ArrayList<>();
            for (String line = input.readLine(); !line.isEmpty(); line = input.readLine()) events.add(line);
            StringBuilder answer = new StringBuilder();
            try {
                if (!text.equals(last)) {
                    CompilerArguments options = new CompilerArguments(configuration);
                    compiled = EPCompilerProvider.getCompiler().compile("@name('query') " + text, options);
                    last = text;
                }
                began = run(runtime, compiled, events, answer, began);
                System.out.print(answer.append(".\n"));
            } catch (Exception error) {
                last = "";
                System.out.println("!" + error.toString().replaceAll("\\s+", " "));
            }
            System.out.flush();
        }
        System.exit(0);
    }

    /** Each case begins after the one before, as the clock of the runtime never goes back. */
    private static long run(EPRuntime runtime, EPCompiled compiled, List<String> events, StringBuilder answer,
            long began) throws Exception {
        runtime.getEventService().advanceTime(began);
        EPDeployment deployed = runtime.getDeploymentService().deploy(compiled);
        long now = began;
        deployed.getStatements()[0].addListener((rows, gone, statement, of) -> {
            if (rows == null) return;
            for (EventBean row : rows) {
                String separator = "";
                for (String name : statement.getEventType().getPropertyNames()) {
                    Object value = row.get(name);
                    answer.append(separator).append(value == null ? "\\N" : value);
                    separator = "\t";
                }
                answer.append('\n');
            }
        });
        for (String line : events) {
            String[] cells = line.split("\t", -1);
            long time = Long.parseLong(cells[1]);
            runtime.getEventService().advanceTime(now = began + time);
            Object[] event = {time, text(cells[2]), text(cells[3]), null};
            if (text(cells[4]) != null) event[3] = Integer.valueOf(cells[4]);
            runtime.getEventService().sendEventObjectArray(event, "Event");
        }
        runtime.getDeploymentService().undeploy(deployed.getDeploymentId());
        return now + 1;
    }

    private static String text(String cell) {
        return cell.equals("\\N") ? null : cell;
    }
}
