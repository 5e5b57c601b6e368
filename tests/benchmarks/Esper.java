import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/**
 * Runs a query of Esper over a file several times, and prints the CPU seconds and the results of each run.
 * Arguments: the query, the file (tab-separated, with names and types in the first line), the column of times in
 * milliseconds, the number of runs.
 */
public final class Esper {
    private static final Map<String, Class<?>> TYPES =
        Map.of("long", Long.class, "double", Double.class, "string", String.class);

    public static void main(String[] arguments) throws Exception {
        List<String> lines = Files.readAllLines(Path.of(arguments[1]));
        String[] head = lines.get(0).split("\t");
        String[] names = new String[head.length];
        Object[] types = new Object[head.length];
        int clock = -1;
        for (int i = 0; i < head.length; i++) {
            names[i] = head[i].split(":")[0];
            types[i] = TYPES.get(head[i].split(":")[1]);
            if (names[i].equals(arguments[2])) clock = i;
        }
        Object[][] events = new Object[lines.size() - 1][];
        for (int row = 0; row < events.length; row++) {
            String[] cells = lines.get(row + 1).split("\t");
            events[row] = new Object[cells.length];
            for (int i = 0; i < cells.length; i++)
                events[row][i] = types[i] == Long.class ? (Object) Long.valueOf(cells[i])
                    : types[i] == Double.class ? (Object) Double.valueOf(cells[i]) : cells[i].intern();
        }
        Configuration configuration = new Configuration();
        configuration.getCommon().addEventType("Event", names, types);
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        var compiled = EPCompilerProvider.getCompiler().compile(
            "@name('query') " + arguments[0], new CompilerArguments(configuration));
        for (int run = 0; run < Integer.parseInt(arguments[3]); run++) {
            EPRuntime runtime = EPRuntimeProvider.getRuntime("run" + run, configuration);
            EPEventService service = runtime.getEventService();
            service.advanceTime((Long) events[0][clock]);
            var deployed = runtime.getDeploymentService().deploy(compiled);
            long[] found = {0};
            runtime.getDeploymentService().getStatement(deployed.getDeploymentId(), "query")
                .addListener((made, gone, statement, own) -> found[0] += made == null ? 0 : made.length);
            long began = system.getProcessCpuTime();
            long now = (Long) events[0][clock];
            for (Object[] event : events) {
                long time = (Long) event[clock];
                if (time > now) service.advanceTime(now = time);
                service.sendEventObjectArray(event, "Event");
            }
            System.out.println((system.getProcessCpuTime() - began) / 1e9 + " " + found[0]);
            runtime.destroy();
        }
    }
}
